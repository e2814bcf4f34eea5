"""What one step of a node did to its part of the metadata group, as plain data: lines of the protocol trace.

Refinement checking (docs/spec-refinement.md) reads these beside the lines of `replica_lines.py`: each has to
be explained by actions of the model in `spec/liftlog_spec/models/raft.py`. The field `type` of a line is
"raft".

A line is made for each step that changes the node's Raft state, submits a write of it, completes one, takes
in a vote or append message (request or reply), or sends one. It says

`cause`   the event of the step, with the message that came or the ticket that became durable;
`jobs`    the writes that the step submits, in order, with what they write;
`sent`    the vote and append messages that the step sends, in order. `after` of a message is the ticket of
          the write that has to be durable before it may leave; 0: it leaves with the step. What is held back
          leaves when its ticket is durable, with the step of that `Durable`;
`state`   what the node remembers after the step.

The first line of a process has the cause "Start" and says what was found on the disk and which disk it is.

Order. The lines of one process (`node`, `start`) are numbered from 1 on without gaps. Lines of different
processes are ordered by their messages: one that leaves with a step is received after it; one that is held
back is received after the line in which its ticket becomes durable, or, where clocks cannot tell, at most
shortly before.

What is not in a trace: what entries contain ((index, term) names an entry) unless they change the members,
pre-votes beyond their terms, reads, births. Indexes are from 1 on, 0 is before the first. Node 0 is nobody.
"""

from __future__ import annotations

import msgspec

Runs = tuple[tuple[int, int], ...]


class RaftLetter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message. `kind`: ask and vote (request and reply), append and ack (request and reply), install.

    `index`, `index_term`: the candidate's last entry, the entry before those that are carried, or the index
    that an ack names. `terms`: (term, number) of each run of carried entries. `yes`: granted, or accepted.
    "install" is a chunk of a snapshot that ends at `index`, with an entry of `index_term`: it says of
    everything up to there what an append from 0 on would say.

    `pre`: a pre-vote. `counts`: false from a disk that must not vote (I2). `after`: see the module.
    """

    kind: str
    term: int
    sender: int
    receiver: int
    index: int = 0
    index_term: int = 0
    terms: Runs = ()
    commit: int = 0
    yes: bool = False
    pre: bool = False
    counts: bool = True
    after: int = 0


class RaftCause(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The event's class by name, "Start" for a process's first; the message that came; the ticket."""

    event: str
    letter: RaftLetter | None = None
    ticket: int = 0


class RaftJob(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A write. `kind`: "state" writes term, vote and whether the vote is withheld; "cut" leaves the first
    `index` entries; "append" adds entries behind the first `index`: (term, number) of each run in `terms`.
    "install" puts a snapshot that ends at `index`, with an entry of `term`, in the place of the log;
    "snapshot" is one that the log goes on behind.
    """

    ticket: int
    kind: str
    term: int = 0
    vote: int = 0
    withheld: bool = False
    index: int = 0
    terms: Runs = ()


class RaftState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a node remembers. `role`: that of `liftlog.core.raft.raft.Role`.

    `history`: (term, first index) of each run of terms in the log; `last`: its last index; `durable`: the
    last index that the node knows to be synced. `start`, `start_term`: the entry behind which the log begins;
    what it stands for is in a snapshot.
    """

    term: int
    vote: int
    role: str
    history: Runs
    last: int
    durable: int
    commit: int
    may_vote: bool
    withheld: bool = False
    """It was told to keep its vote for good (I2)."""
    start: int = 0
    start_term: int = 0
    changes: Runs = ()
    """(index, term) of each entry of the log that changes the group's members (M2)."""


class RaftMembers(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an entry says of the group's members: the node and the disk of each (M2)."""

    index: int
    term: int
    voters: tuple[tuple[int, str], ...]
    learners: tuple[tuple[int, str], ...] = ()


class RaftStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="raft", tag_field="type", gc=False):
    """See the module. `start`: the process's nonce.

    `disk`, `found`: the disk's id and what was found on it, in the first line of a process. `members`: what
    those entries say that change them and that the process had not told yet.
    """

    node: int
    start: int
    number: int
    cause: RaftCause
    state: RaftState
    jobs: tuple[RaftJob, ...] = ()
    sent: tuple[RaftLetter, ...] = ()
    disk: str = ""
    found: RaftState | None = None
    members: tuple[RaftMembers, ...] = ()
    at_us: int = 0
