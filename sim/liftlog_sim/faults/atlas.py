"""What is damaged where, and what may be damaged next: the atlas (D3).

Liftlog promises to survive damage to fewer than `min_insync_replicas` copies of a log and to a minority of
the voters' metadata. A simulator that damages more would find losses that are nobody's fault; one that
damages less finds too little. So every piece of damage is known here: node, file, bytes, and the offsets of
the log that they hold. Before anything is damaged the atlas is asked, and says yes only if

- the log has a minimum of two in-sync replicas, its ISR is at that minimum, and nobody waits to be elected
  (R13, R14): then the members of the ISR are the copies that hold what is committed;
- with the new damage, fewer copies than the minimum, or than what it may be lowered to (R19), are damaged in
  any of these offsets; different offsets may be damaged on different nodes at once;
- one other member of the ISR is whole: it runs, is registered, and has the committed prefix durable and
  nothing damaged.

The last good copy of anything is therefore never destroyed, and any loss is a bug of liftlog. Damage counts
until its bytes are overwritten, cut or gone with their file *and* the copy is again what the metadata group
takes it for: its node has registered since, or the copy was repaired and is back in the ISR. What was cut or
left out has to be fetched again before it counts as repaired. Until then a copy may be less than its place in
the ISR promises, with one exception: a log that is gone altogether no start can overlook, so that its copy
must not be counted on once its node is registered (M4).

In the last segment of a log damage reaches from its first byte to the end of the log, since recovery cuts
there. Damage to files that are derived (an index, a checkpoint, the clean-stop marker) is no damage to a copy
(D3). A file that is still written under another name is struck as what it will be once it is renamed. Damage
to metadata makes a node refuse to start (M4); the simulated operator then replaces its disk, so it is treated
like a wipe. Of these a cluster survives a minority at once, and any number one after the other, once the node
has become a voter again (M2).
"""

from __future__ import annotations

import msgspec

from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import PartitionState
from liftlog.storage.layout import DERIVED_SUFFIXES, TEMPORARY_SUFFIX, WRITER_SUFFIX, log_named
from liftlog.types import RAFT_LOG, GroupMember, OffsetRange, PartitionId
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.copies import SEGMENT_SUFFIX, places, segment_paths, spans_of
from liftlog_sim.devices.machine import Machine
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.removals import logs_of

FOREVER = 1 << 62
STREAMS = "streams/"
METADATA = ("identity", "logs", "vote")
RAFT = "raft/"
WHOLE = OffsetRange(0, FOREVER)


class Harm(msgspec.Struct, frozen=True):
    """One piece of damage. `path` empty: the whole disk. `range`: the offsets of `log` that are in doubt."""

    node: int
    path: str
    start: int
    end: int
    log: PartitionId
    range: OffsetRange
    held_below: int = FOREVER
    """End of the offsets that lay there when it was damaged: harmless once the log starts behind them, unless
    that is in the last segment, all of which a start cuts off from there.
    """


def log_of(path: str) -> PartitionId | None:
    """The partition that a file below streams/ belongs to."""
    parts = path.split("/")
    return log_named(parts[1], parts[2]) if len(parts) == 4 and path.startswith(STREAMS) else None


def final_path(path: str) -> str:
    """Where a file goes when it is finished: it takes its damage along."""
    return path.removesuffix(WRITER_SUFFIX).removesuffix(TEMPORARY_SUFFIX)


def is_metadata(path: str) -> bool:
    """Whether a node must not start without this file (M4)."""
    return path in METADATA or path.startswith(RAFT)


def overlap(one: OffsetRange, other: OffsetRange) -> bool:
    return one.start < other.end and other.start < one.end


def is_promise(path: str) -> bool:
    """Whether a node whose file this was comes back as another voter (M4)."""
    return path == "vote" or (path.startswith(RAFT) and not path.endswith(".index"))


class Atlas:
    """Knows all damage, and judges what may be damaged."""

    def __init__(self, cluster: Cluster, account: Account) -> None:
        self._cluster = cluster
        self._account = account
        self._harms: dict[int, list[Harm]] = {}
        self._lost_voters: dict[int, str] = {}
        """Machines whose vote was lost, with the id under which they voted then."""
        self._struck: dict[int, list[PartitionId]] = {}
        """Per machine what was damaged, in order; `RAFT_LOG` for a whole disk."""

    # -- what is damaged -----------------------------------------------------------------------------------

    def harm_of(self, machine: Machine, path: str, start: int, end: int) -> Harm | None:
        """What damage to bytes [start, end) of a file means; None if it is no damage to a copy."""
        log = log_of(path)
        if log is None:
            return None
        final = final_path(path)
        if not final.endswith(SEGMENT_SUFFIX):
            derived = final.endswith((*DERIVED_SUFFIXES, "/clean"))
            return None if derived else Harm(machine.number, path, start, end, log, WHOLE)
        first = last = -1
        reached = 0
        for place in places(path, machine.disk.content(path)):
            if place.position < end and start < place.end:
                first = place.base if first < 0 else first
                last = place.base + place.span
            reached = place.base + place.span
        if first < 0:
            first = reached or int(path.rpartition("/")[2].partition(".")[0])
            last = FOREVER
        held_below = last
        if segment_paths(machine.disk, log)[-1:] == [final]:
            last = FOREVER
        return Harm(machine.number, path, start, end, log, OffsetRange(first, last), held_below)

    def note(self, machine: Machine, harm: Harm) -> None:
        """This has been damaged."""
        self._harms.setdefault(machine.number, []).append(harm)
        self._struck.setdefault(machine.number, []).append(harm.log)
        machine.damaged_run = machine.restarts

    def note_disk(self, machine: Machine) -> None:
        """This disk has been replaced, set back, or is to be: none of its copies counts."""
        if machine.number not in self._lost_voters:
            self._lost_voters[machine.number] = self._votes_as(machine)
        machine.disk_losses += 1
        self._harms.pop(machine.number, None)
        self.note(machine, Harm(machine.number, "", 0, 0, RAFT_LOG, WHOLE))

    def harms(self, machine: Machine) -> list[Harm]:
        """What is damaged on this disk at present."""
        known = self._harms.get(machine.number)
        if not known:
            return []
        present = machine.disk.harmed()
        left = [harm for harm in known if self._is_left(machine, harm, present)]
        self._harms[machine.number] = left
        return left

    def _is_left(self, machine: Machine, harm: Harm, present: list[tuple[str, int, int]]) -> bool:
        """Whether the damaged bytes are still there, or nothing good is in their place yet."""
        if not harm.path:
            return True
        log_start = self._account.log_starts.get((machine.number, harm.log), 0)
        final = final_path(harm.path)
        if harm.held_below <= log_start and segment_paths(machine.disk, harm.log)[-1:] != [final]:
            return False
        if any(
            final_path(path) == final and low < harm.end and harm.start < high for path, low, high in present
        ):
            return True
        newest = self._cluster.newest_metadata()
        if newest is None or harm.log.partition not in newest.partitions:
            return False
        start = max(harm.range.start, log_start)
        end = min(harm.range.end, self._account.truth(harm.log).hw)
        return not spans_of(machine.disk, harm.log, self._cluster.sealer).covers(start, end)

    def to_mend(self, machine: Machine) -> list[Harm]:
        """What of it somebody reads, so that it has to be mended: nobody does below where a log begins."""
        starts = self._account.log_starts
        return [
            harm
            for harm in self.harms(machine)
            if harm.held_below > starts.get((machine.number, harm.log), 0)
        ]

    def was_struck(self, machine: Machine, log: PartitionId) -> bool:
        """Whether this copy was ever damaged: else it has no reason to be found so."""
        struck = self.struck_logs(machine)
        return log in struck or RAFT_LOG in struck

    def not_struck(self, machine: Machine, log: PartitionId, what: str) -> str:
        """That this is found damaged although nobody has damaged it; empty if somebody has."""
        if self.was_struck(machine, log):
            return ""
        return f"node {machine.number} finds {what} of {log} damaged, but nobody has damaged it"

    def struck_logs(self, machine: Machine) -> list[PartitionId]:
        """Whose copies were damaged on this machine, one after the other, mended or not."""
        return self._struck.get(machine.number, [])

    def metadata_damaged(self, machine: Machine) -> bool:
        """Whether this disk holds damaged metadata, so that its node must refuse to start."""
        return any(is_metadata(path) for path, _, _ in machine.disk.harmed())

    def gone(self, machine: Machine) -> list[PartitionId]:
        """Logs that are gone from this disk altogether and not copied anew. No start overlooks that: other
        damage may lie where nobody has read yet, but this the group knows once the node is registered (M4).
        """
        return [harm.log for harm in self.harms(machine) if harm.path and harm.start == harm.end]

    def registered(self, machine: Machine) -> bool:
        """A process began after the damage and is registered: what it lost at its start is known.

        Returns whether nothing is damaged any more.
        """
        left = [harm for harm in self.harms(machine) if harm.path]
        self._harms[machine.number] = left
        machine.damaged_run = machine.restarts if left else -1
        return not left

    def refresh(self, machine: Machine) -> bool:
        """Whether a damaged copy has just become whole in the running process."""
        if machine.damaged_run < 0 or self.harms(machine) or not self._restored(machine):
            return False
        machine.damaged_run = -1
        return True

    def _restored(self, machine: Machine) -> bool:
        """Every copy of this node is in the ISR of its partition and whole."""
        newest = self._cluster.newest_metadata()
        return newest is not None and all(
            machine.number in state.isr and self._is_current(machine, newest, state)
            for state in newest.partitions.values()
            if machine.number in state.replicas
        )

    def _is_current(self, machine: Machine, newest: Metadata, state: PartitionState) -> bool:
        """The copy runs, knows of no damage, and has the committed prefix of each log durable."""
        node = machine.node
        if node is None or not node.incarnation:
            return False
        logs = logs_of(newest, state.id)
        copies = [node.replicas[log] for log in logs if log in node.replicas]
        return len(copies) == len(logs) and all(
            copy.state == "ready"
            and not copy.repairs.ranges
            and copy.durable_leo >= self._account.truth(copy.id).hw
            for copy in copies
        )

    # -- what may be damaged -------------------------------------------------------------------------------

    def allows(self, machine: Machine, log: PartitionId, range: OffsetRange) -> bool:
        """Whether these offsets of this copy may be damaged now. While no running node knows what is
        committed, nobody can tell which copies count.
        """
        newest = self._cluster.newest_metadata()
        if newest is None or newest.nodes.get(machine.number) is None:
            return False
        if newest.applied < self._account.metadata.committed:
            return False
        state = newest.partitions.get(log.partition)
        if state is None or machine.number not in state.replicas:
            return True
        if state.min_insync < 2 or state.last_known or state.eligible or len(state.isr) < state.min_insync:
            return False
        others = [self._cluster.machines[number] for number in state.replicas if number != machine.number]
        harmed = [other for other in others if self._is_harmed(other, log, range)]
        whole = [
            other
            for other in others
            if other.number in state.isr and other.damaged_run < 0 and self._is_current(other, newest, state)
        ]
        least = min(state.min_insync, self._cluster.knobs.minimum_from or state.min_insync)
        return bool(whole) and len(harmed) + 1 < least

    def _is_harmed(self, machine: Machine, log: PartitionId, range: OffsetRange) -> bool:
        return any(
            not harm.path
            or (harm.log == log and overlap(harm.range, range))
            # One may be left with the longest data and another one with the longest journal (R14).
            or (harm.log != log and harm.log.partition == log.partition)
            for harm in self.harms(machine)
        )

    def allows_disk(self, machine: Machine) -> bool:
        """Whether everything on this disk may be damaged now, as far as its logs go."""
        newest = self._cluster.newest_metadata()
        return (
            newest is not None
            and newest.nodes.get(machine.number) is not None
            and not any(harm for other in self._cluster.machines.values() for harm in self.harms(other))
            and not self._awaits_lone_copies(newest)
            and all(self.allows(machine, log, WHOLE) for log in newest.partitions)
        )

    def _awaits_lone_copies(self, newest: Metadata) -> bool:
        """Whether streams of one copy are to come: it may be placed on a disk whose damage shows later."""
        return any(
            config.replication_factor < 2 and config.name not in newest.streams
            for config in self._cluster.knobs.streams
        )

    def allows_wipe(self, machine: Machine) -> bool:
        """Whether this disk may be replaced: few others have not healed yet, and a controller is there to
        judge it.
        """
        return (
            self.votes_left_without(machine)
            and self.allows_disk(machine)
            and self._quorum_without(machine)
        )

    def votes_left_without(self, machine: Machine) -> bool:
        """Whether a quorum of voters keeps its disks, by each configuration that may be gone by (M2)."""
        lost = {machine.number, *self._unhealed_voters()}
        leaders = [
            other.node.raft
            for other in self._cluster.machines.values()
            if other.node is not None and other.node.raft.is_leader
        ]
        return bool(leaders) and all(
            len(lost.intersection(members.nodes)) < len(members.nodes) - len(members.nodes) // 2
            for raft in leaders
            for members in (raft.members, raft.membership.at(raft.commit))
        )

    def _votes_as(self, machine: Machine) -> str:
        """The id of the voter that this machine's present process is, or that of its last one."""
        return machine.recovered.identity.votes_as if machine.recovered is not None else ""

    def _unhealed_voters(self) -> list[int]:
        """Machines whose vote was lost and that are not back as other voters yet (M2)."""
        committed = [
            machine.node.raft.membership.at(machine.node.raft.commit)
            for machine in self._cluster.machines.values()
            if machine.node is not None and machine.node.raft.is_leader
        ]
        for number, lost in list(self._lost_voters.items()):
            machine = self._cluster.machines[number]
            voter = GroupMember(number, self._votes_as(machine))
            running = machine.node is not None and machine.node.raft.may_vote
            if running and voter.disk != lost and any(voter in members.voters for members in committed):
                del self._lost_voters[number]
        return list(self._lost_voters)

    def _quorum_without(self, machine: Machine) -> bool:
        """All other nodes run, hear each other and have a controller among them."""
        others = [other for other in self._cluster.machines.values() if other is not machine]
        return (
            self._cluster.network.is_whole()
            and all(other.node is not None and not other.paused for other in others)
            and any(other.node is not None and other.node.raft.is_leader for other in others)
        )
