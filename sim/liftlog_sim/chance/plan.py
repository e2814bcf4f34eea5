"""A plan: all that chance decides in a run and that can be taken away, written down one by one.

A run draws its faults, its clients' operations, its hunts and the fates of its messages from the seed. A plan
states them instead; a run can also give back what it drew. Whoever looks for the cause of a violation takes
entries away and runs the rest: each entry has a name of its own, which stays when others are removed, and
all that is drawn besides (`chance/draws.py`) is drawn by name, so that it stays as well.

    faults      what strikes when and whom (`chance/fault_plan.py`)
    operations  what clients do when: the second publisher's seventh burst is `publisher/1/7`
    hunts       the occasions at which the hunters strike, by what happened to whom for the how-manieth time
    fates       messages that are lost, late or come twice; all others arrive once, after the usual time

Each list is None where the seed decides. A plan is JSON, one object; `encode` and `read` are its two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.chance.fault_plan import KINDS, TARGETS, Fault
from liftlog_sim.kernel import SECOND

VERSION = 1
LATEST_US = 1_000_000 * SECOND
OCCASIONS = (
    "controller",
    "alternate",
    "leader",
    "voter",
    "cut",
    "failed",
    "compaction",
    "joiner",
    "contact",
    "damage",
    "boundary",
    "tail",
)
"""When the hunters strike (`faults/hunter.py`, `faults/copyhunter.py`)."""
CLIENTS = (
    *("publisher", "reader", "admin", "alterer", "mover", "inspector"),
    *("mirrorer", "sourcer", "recounter", "contest", "afar"),
    *("subjects", "filtered", "fast", "consumer", "grouped", "processor", "member"),
    *("door", "bucket", "puller"),
)
"""Kinds of clients; a client's name is its kind and its number, as in ``reader/0``."""
RAISER = "admin/raise"
"""The operator again, who asks for the feature level in turns of their own."""

Entry = TypeVar("Entry")


class PlannedOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One operation of one client. What is not stated is drawn by the operation's name."""

    client: str
    number: int
    at_us: int
    """A client that is busy then does it as soon as it can."""
    target: str = ""
    """Stream and partition, as in ``orders/0``; empty = drawn. Without that stream it is left out."""
    count: int = 0
    """How many messages a publisher publishes; 0 = drawn."""

    @property
    def name(self) -> str:
        return f"{self.client}/{self.number}"


class Hunt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One occasion at which a hunter strikes: the `number`-th time that this happened to this node."""

    occasion: str
    node: int
    number: int

    @property
    def name(self) -> str:
        return f"hunt/{self.occasion}/{self.node}/{self.number}"


class Fate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What befalls one message: the `number`-th of its kind on its link in this second of simulated time.

    Counting begins anew with each second, so that one message more or less does not give all later ones the
    fates of their neighbours.
    """

    link: str
    """From and to: ``1>2`` between nodes, ``2>nats`` for acks, ``2>disk`` for syncs."""
    kind: str
    second: int
    number: int
    lost: bool = False
    late_us: int = 0
    twice: bool = False
    twice_late_us: int = 0
    echo_us: int = -1
    """It comes once more to the node's next process, so long after its start; -1 = it does not."""

    @property
    def name(self) -> str:
        return f"{self.link}/{self.kind}/{self.second}/{self.number}"


class OwnNames(msgspec.Struct, frozen=True):
    """What plans may name beside what comes with liftlog: faults and clients of a study (`study/own.py`)."""

    kinds: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()


NOTHING_OWN = OwnNames()


def fault_name(fault: Fault) -> str:
    """A fault's name: its number in the plan."""
    return f"fault/{fault.ordinal}"


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """See the module. None where the seed decides."""

    version: int = VERSION
    faults: tuple[Fault, ...] | None = None
    operations: tuple[PlannedOperation, ...] | None = None
    hunts: tuple[Hunt, ...] | None = None
    fates: tuple[Fate, ...] | None = None

    def names(self) -> list[str]:
        """The names of all entries, in the order of the lists."""
        rest: list[PlannedOperation | Hunt | Fate] = [*(self.operations or ())]
        rest += [*(self.hunts or ()), *(self.fates or ())]
        return [*(fault_name(fault) for fault in self.faults or ()), *(entry.name for entry in rest)]

    def only(self, names: Collection[str]) -> Plan:
        """This plan with these entries alone. What the seed decides stays the seed's."""
        kept = frozenset(names)
        return Plan(
            faults=_among(self.faults, kept, fault_name),
            operations=_among(self.operations, kept, _name),
            hunts=_among(self.hunts, kept, _name),
            fates=_among(self.fates, kept, _name),
        )

    def without(self, names: Collection[str]) -> Plan:
        """This plan without these entries."""
        gone = frozenset(names)
        return self.only([name for name in self.names() if name not in gone])

    def check(self, nodes: int = 0, own: OwnNames = NOTHING_OWN) -> Plan:
        """This plan, if it can be carried out; `nodes`: among so many, 0 = unknown. Raises LiftlogError."""
        if self.version != VERSION:
            raise LiftlogError(
                f"a plan of version {self.version} cannot be carried out, only of version {VERSION}; "
                f"draw it anew with this liftlog"
            )
        for place, problem in self._problems(nodes, own):
            raise LiftlogError(f"the plan cannot be carried out: {place}: {problem}")
        return self

    def _problems(self, nodes: int, own: OwnNames) -> Iterator[tuple[str, str]]:
        for number, fault in enumerate(self.faults or ()):
            struck = _of_fault(fault, nodes, own.kinds)
            yield from ((f"faults[{number}].{field}", text) for field, text in struck)
        for number, operation in enumerate(self.operations or ()):
            found = _of_operation(operation, own.clients)
            yield from ((f"operations[{number}].{field}", text) for field, text in found)
        for number, hunt in enumerate(self.hunts or ()):
            yield from ((f"hunts[{number}].{field}", text) for field, text in _of_hunt(hunt, nodes))
        for number, fate in enumerate(self.fates or ()):
            yield from ((f"fates[{number}].{field}", text) for field, text in _of_fate(fate))
        seen: set[str] = set()
        for name in self.names():
            if name in seen:
                yield name, "there are two of that name; number them apart"
            seen.add(name)


DRAWN = Plan()
"""Everything is the seed's."""


def _name(entry: PlannedOperation | Hunt | Fate) -> str:
    return entry.name


def _among(
    entries: tuple[Entry, ...] | None, kept: frozenset[str], name: Callable[[Entry], str]
) -> tuple[Entry, ...] | None:
    return None if entries is None else tuple(entry for entry in entries if name(entry) in kept)


# -- what cannot be carried out ------------------------------------------------------------------------------


def _of_fault(fault: Fault, nodes: int, own: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if fault.kind not in (*KINDS, *own):
        yield "kind", f"there is no fault '{fault.kind}'; choose from {', '.join((*KINDS, *own))}"
    named = [name for name, _ in TARGETS]
    if fault.target.isdigit():
        yield from _of_node("target", int(fault.target), nodes)
    elif fault.target not in named:
        yield "target", f"'{fault.target}' is nobody; choose from {', '.join(named)}, or a node's number"
    for field, value in (("at_us", fault.at_us), ("duration_us", fault.duration_us)):
        yield from _of_time(field, value)
    for link in fault.links:
        for end in link:
            yield from _of_node("links", end, nodes)


def _of_operation(operation: PlannedOperation, own: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    kind, slash, number = operation.client.partition("/")
    known = kind in (*CLIENTS, *own) and slash and number.isdigit()
    if not known and operation.client != RAISER:
        choice = ", ".join([*(f"{kind}/0" for kind in (*CLIENTS, *own)), RAISER])
        yield "client", f"'{operation.client}' is no client; write it as in {choice}"
    yield from _of_number("number", operation.number)
    yield from _of_time("at_us", operation.at_us)
    if operation.target and not operation.target.rpartition("/")[2].isdigit():
        yield "target", f"'{operation.target}' is no partition of a stream; write it as in orders/0"
    yield from _of_number("count", operation.count)


def _of_hunt(hunt: Hunt, nodes: int) -> Iterator[tuple[str, str]]:
    if hunt.occasion not in OCCASIONS:
        yield "occasion", f"nobody hunts at '{hunt.occasion}'; choose from {', '.join(OCCASIONS)}"
    yield from _of_node("node", hunt.node, nodes)
    yield from _of_number("number", hunt.number)


def _of_fate(fate: Fate) -> Iterator[tuple[str, str]]:
    if fate.link.count(">") != 1:
        yield "link", f"'{fate.link}' leads from nobody to nobody; write it as in 1>2, 2>nats or 2>disk"
    yield from _of_number("second", fate.second)
    yield from _of_number("number", fate.number)
    for field in ("late_us", "twice_late_us"):
        yield from _of_time(field, getattr(fate, field))
    if fate == Fate(fate.link, fate.kind, fate.second, fate.number):
        yield "lost", "nothing befalls this message; say what does (lost, late_us, twice, echo_us)"
    between_nodes = fate.link.replace(">", "").isdigit() and fate.kind != "PeerLost"
    if not between_nodes and (fate.twice or fate.echo_us >= 0):
        yield "twice", "only messages between nodes come twice; leave that out"
    if fate.lost and fate.link.endswith(">disk"):
        yield "lost", "no sync is lost; plan the fault sync_failure instead"
    if fate.twice_late_us and not fate.twice:
        yield "twice_late_us", "the message comes once; set twice"


def _of_node(field: str, node: int, nodes: int) -> Iterator[tuple[str, str]]:
    if node < 1 or (nodes and node > nodes):
        yield field, f"there is no node {node}; choose from 1 to {nodes or 9}"


def _of_number(field: str, number: int) -> Iterator[tuple[str, str]]:
    if number < 0:
        yield field, f"{number} is negative; counting begins with 0"


def _of_time(field: str, time_us: int) -> Iterator[tuple[str, str]]:
    if not 0 <= time_us <= LATEST_US:
        yield field, f"{time_us} is out of range; choose 0 to {LATEST_US} (microseconds)"


# -- JSON ----------------------------------------------------------------------------------------------------


def encode(plan: Plan) -> bytes:
    """A plan as JSON, an entry a line."""
    parts = [f'"version": {plan.version}']
    for name in ("faults", "operations", "hunts", "fates"):
        entries = getattr(plan, name)
        if entries is not None:
            lines = ",\n  ".join(msgspec.json.encode(entry).decode() for entry in entries)
            parts.append(f'"{name}": [\n  {lines}\n]' if entries else f'"{name}": []')
    return ("{" + ",\n".join(parts) + "}\n").encode()


def decode(data: bytes, source: str = "the plan", own: OwnNames = NOTHING_OWN) -> Plan:
    """A plan from JSON; `source` names it in errors. Raises LiftlogError."""
    try:
        return msgspec.json.decode(data, type=Plan).check(own=own)
    except msgspec.MsgspecError as error:
        raise LiftlogError(
            f"{source} cannot be read: {error}; what a plan holds is told in docs/simulator.md"
        ) from error
    except LiftlogError as error:
        raise LiftlogError(f"{source}: {error}") from error


def read(path: Path) -> Plan:
    """The plan in a file. Raises LiftlogError."""
    try:
        return decode(path.read_bytes(), str(path))
    except OSError as error:
        raise LiftlogError(f"cannot read the plan {path}: {error.strerror}; choose another file") from error
