"""What one step of a node did to its replicas, as plain data: the protocol trace.

A trace is what refinement checking reads (docs/spec-refinement.md): each of its lines has to be explained by
actions of the model in `liftlog_spec/models/isr.py`. The simulator hands the lines over in memory; a real
node started with ``--trace`` writes them as JSON, one line each, in the order in which they are made.

A trace contains two kinds of lines, told apart by the field `type`.

`GroupStep` ("group"): this node has applied one command of the metadata group that touched a partition.
    Which command, about whom, with which outcome, and the partition's whole record after it. Commands of one
    Raft index are equal on all nodes; a checker takes the first and compares the others. A process applies
    the whole metadata log anew when it starts, so most of its first lines repeat what others wrote before.

`ReplicaStep` ("replica"): a step of this node has changed one of its replicas, or took in or sent one of the
    replica's messages. `cause`: the event of the step, with the message that came, if it is about this
    replica. `sent`: the messages of the replica that the step sends, in order. `after`: the replica after
    the step, `None` if this node has it no more. Of a step that changes nothing and sends nothing there is no
    line.

Order. The lines of one process (`node`, `start`) are numbered from 1 on without gaps. The group's lines of a
step stand before its replicas' lines. Lines of different processes have no order of their own: a message is
sent before it is received, and a command that was applied first at a lower index was applied earlier.
`at_us` may carry a clock; this module leaves it 0.

What is not in a trace: contents of records (an epoch and an offset name one), Raft itself, acks, readers.
What a process finds on its disk stands in the command by which it registers (`GroupStep.found`).

Offsets: `leo` and `durable` are exclusive ends, `hw` is the first offset that is not committed. Node 0 is
nobody. Times in microseconds.
"""

from __future__ import annotations

import msgspec

from liftlog.types import PartitionId


class Letter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A replication message. `kind`: fetch, progress or answer. The unnamed fields are those of the message.

    `incarnation` is the follower's, whoever sends. `first` and `end`: offsets [first, end) of the records in
    an answer, as far as its batches can be read; equal if there are none.
    """

    kind: str
    sender: int
    receiver: int
    epoch: int
    incarnation: int
    request: int = 0
    offset: int = 0
    durable: int = 0
    last_epoch: int = 0
    status: int = 0
    hw: int = 0
    log_start: int = 0
    end_epoch: int = 0
    end_offset: int = 0
    first: int = 0
    end: int = 0


class Cause(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The event of a step: its class's name ("Start" for a process's first), and the message that came."""

    event: str
    letter: Letter | None = None


class Copy(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the group remembers of a copy that may have lost something (R14)."""

    epoch: int
    leo: int
    lost: bool = False


class Report(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a replica says of itself to the group when its log has failed or is damaged (R5, D2)."""

    epoch: int
    leo: int
    shortfall: bool = False


class Member(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A node that has a replica. `incarnation` 0: it has never registered."""

    incarnation: int
    live: bool = False


class Group(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A partition's record in the metadata, and the state of the nodes that have a replica of it."""

    leader: int
    leader_incarnation: int
    epoch: int
    version: int
    isr: tuple[int, ...]
    eligible: tuple[int, ...]
    known: dict[int, Copy]
    members: dict[int, Member]
    unclean: int = 0
    """How many elections lost data with an operator's consent."""


class Found(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a process found of this partition on its disk. `state`: a `TailState`; "none": no folder."""

    state: str
    epoch: int = 0
    leo: int = 0
    reset: bool = False
    """The disk was wiped, replaced or rolled back: whatever was found is thrown away (I2)."""


class GroupStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="group", tag_field="type", gc=False):
    """See the module. `code`: outcome of the command, empty = done. `about`: the node it is about, or 0.

    `after` None: the partition exists no more. `isr`, `joiner`: of a ChangeIsr. `found`: of a RegisterNode.
    `told`, `shortfall`: what a ReplicaFailed says. `replicas`, `minimum`, `durability`, and where the log
    begins (`first`): at a creation; `minimum` at an alteration too.
    """

    node: int
    start: int
    number: int
    partition: PartitionId
    index: int
    command: str
    after: Group | None
    code: str = ""
    about: int = 0
    incarnation: int = 0
    version: int = 0
    isr: tuple[int, ...] = ()
    joiner: int = 0
    found: Found | None = None
    told: Copy | None = None
    shortfall: bool = False
    unclean: bool = False
    replicas: tuple[int, ...] = ()
    minimum: int = 0
    durability: str = ""
    first: int = 0
    at_us: int = 0


class Pending(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A change of the ISR that a leader has proposed. `who` joins or goes."""

    version: int
    who: int
    joins: bool
    incarnation: int = 0


class Office(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a replica knows as a leader. `progress`: durable LEO by follower, with its incarnation."""

    epoch: int
    began: int
    """The LEO at which the epoch began."""
    pending: Pending | None
    progress: dict[int, tuple[int, int]]


class View(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The partition's record as this node has applied it, with the Raft index of the last applied entry."""

    applied: int
    leader: int
    epoch: int
    version: int
    isr: tuple[int, ...]


class ReplicaState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A replica after a step. `state`: opening, ready or failed. `role`: leader, follower or idle.

    `history`: (epoch, first offset) of each epoch in the log. `waiting`: storage jobs of the log that are not
    durable yet. `damage`: ranges that cannot be read. `question`: number of the fetch whose answer counts, 0
    if none is awaited.
    """

    state: str
    role: str
    epoch: int
    leo: int
    durable: int
    hw: int
    log_start: int
    history: tuple[tuple[int, int], ...]
    view: View
    waiting: int = 0
    damage: tuple[tuple[int, int], ...] = ()
    question: int = 0
    office: Office | None = None


class ReplicaStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="replica", tag_field="type", gc=False):
    """See the module. `incarnation` 0: the process is not registered yet. `start`: its nonce."""

    node: int
    start: int
    number: int
    incarnation: int
    partition: PartitionId
    cause: Cause
    sent: tuple[Letter, ...]
    after: ReplicaState | None
    appended: tuple[tuple[int, int], ...] = ()
    """(epoch, end offset) of each batch that the step appends, in order."""
    reports: tuple[Report, ...] = ()
    """Reports of a failure that the step submits to the group, in order."""
    at_us: int = 0


Step = GroupStep | ReplicaStep
"""One line of a trace."""
