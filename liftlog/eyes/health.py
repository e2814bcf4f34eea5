"""Whether a node is alive, and what it lacks to take part: in words, for people and for who restarts nodes.

*Alive* is a process that steps: its clock ticks. Whoever is not should be restarted. *Ready* is a node that
does all that is asked of nodes: what it lacks is mostly mended elsewhere (NATS, a quorum, a disk), and a
restart of this process would only make it worse.
"""

from __future__ import annotations

from liftlog.core.node import Node
from liftlog.core.replica.state.log import FAILED
from liftlog.real.server import Parts
from liftlog.types import PartitionId

TICK_OVERDUE_MS = 2000.0
"""A node that has not looked at its clock for so long, and for ten ticks, does not step."""
DISK_SILENT_MS = 5000.0
NAMED_MAX = 5


def overdue_ms(node: Node, now_ms: float) -> float:
    """For how long this node has not stepped, if that is too long; else 0."""
    silent_ms = now_ms - node.ctx.now_ms
    return silent_ms if silent_ms > max(TICK_OVERDUE_MS, 10 * node.config.tick_ms) else 0.0


def missing(node: Node, parts: Parts) -> list[str]:
    """What a node lacks to be ready, a sentence each."""
    contact, lacks = node.standing.contact(), []
    if contact.leaving:
        lacks.append("stop: an orderly stop is under way")
    if not node.incarnation:
        lacks.append(
            "session: not registered with the controller yet in this run" + _heard(contact.controller_ms)
        )
    elif contact.fenced:
        told = f"the controller answered {contact.session_ms / 1000:.1f} s ago"
        lacks.append(f"session: not valid, {told}: this node takes no messages")
    if not parts.bus.connected:
        why = f": {parts.bus.last_error}" if parts.bus.last_error else ""
        lacks.append(f"nats: not connected{why}")
    if contact.metadata_refused:
        lacks.append(f"disk: it takes no metadata ({contact.metadata_refused}): make room on it")
    failed = [copy.id for copy in node.replicas.values() if copy.state == FAILED]
    if failed:
        named = ", ".join(_name(node, partition) for partition in failed[:NAMED_MAX])
        more = f" and {len(failed) - NAMED_MAX} more" if len(failed) > NAMED_MAX else ""
        lacks.append(f"disk: {len(failed)} copies could not be written: {named}{more}; see this node's log")
    if parts.storage.working_ms > DISK_SILENT_MS:
        lacks.append(f"disk: it has not answered for {parts.storage.working_ms / 1000:.0f} s")
    return lacks


def out_of_sync(node: Node) -> list[str]:
    """Copies of this node that are not in sync, a sentence for all; empty if there are none."""
    behind = [
        copy.id
        for copy in node.replicas.values()
        if not copy.id.is_journal and copy.record is not None and node.config.node not in copy.record.isr
    ]
    if not behind:
        return []
    named = ", ".join(_name(node, partition) for partition in behind[:NAMED_MAX])
    more = f" and {len(behind) - NAMED_MAX} more" if len(behind) > NAMED_MAX else ""
    return [f"in-sync: {len(behind)} of {len(node.replicas)} copies are not: {named}{more}"]


def _heard(controller_ms: int) -> str:
    if controller_ms < 0:
        return "; none was heard: do most voters run, and reach each other?"
    return f"; one was heard {controller_ms / 1000:.1f} s ago"


def _name(node: Node, log: PartitionId) -> str:
    known = node.metadata.by_id.get(log.stream)
    return f"'{known.config.name}' partition {log.label}" if known is not None else f"stream id {log}"
