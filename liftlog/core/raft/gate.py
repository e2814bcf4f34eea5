"""Which messages of the Raft family a node does not believe, whoever sends them (V3, V4).

**V4**, terms. A term rises by one for each candidacy, and a candidacy takes a quorum of pre-votes and at
least an election timeout. So while a node runs, the group's term cannot rise faster than time passes; while
it was down or cut off, nobody knows, but there is a limit to patience: `TERM_ALLOWANCE` elections, one after
the other and each in vain, take 97 days with the default timeouts, and 9 with the shortest that are accepted.
A message with a term beyond that is refused. Should it ever be the truth, a restart of the node gives it the
same allowance again. Without this bound one flipped bit, in one message, would push the term so high that no
candidate could go beyond it, and every voter would remember that for ever.

**V4**, indexes. A log that goes on for more than `INDEX_JUMP_MAX` entries beyond ours is no log. An index
that is believed decides who is up to date (M1b) and what is committed (M1h).

**V3**. A term has one leader, and no leader takes back what is committed (M1a, M1f, M1h). Whoever claims
otherwise is refused: our own state is not in doubt, so that nothing has to end. Whether the leader is a voter
nobody can tell who lags behind: the entry that makes it one may be among those that it sends (M2c).
"""

from __future__ import annotations

from liftlog.core.raft.state import RaftState
from liftlog.messages import AppendRequest, PeerMessage, ReadIndexReply, SnapshotChunk, VoteRequest
from liftlog.types import NO_NODE, NUMBER_MAX, LiftlogError

TERM_ALLOWANCE = 1 << 24
"""By how much the term may rise in one run through what others say, beyond one for each tick."""
INDEX_JUMP_MAX = 1 << 32
"""How far another log may go beyond this one."""


def check_start(node: int, term: int) -> None:
    """Raises LiftlogError if a group can never have come to the term that a run begins with."""
    if term > NUMBER_MAX - TERM_ALLOWANCE:
        raise LiftlogError(
            f"node {node}: its disk holds term {term} of the metadata group, which no group gets to; "
            "if the other voters are whole, empty this node's data folder"
        )


def jump(state: RaftState, message: PeerMessage) -> str:
    """V4: why no honest peer can be so far ahead of this node; empty if one can."""
    if state.mutants.term_jump_believed:
        return ""
    term = getattr(message, "term", 0)
    if term > state.term_at_start + state.ticks + TERM_ALLOWANCE:
        return f"term {term}, when this run began with {state.term_at_start}"
    match message:
        case VoteRequest():
            index = message.last_index
        case AppendRequest():
            index = max(message.prev_index, message.commit)
        case SnapshotChunk():
            index = message.commit
        case ReadIndexReply():
            index = message.index
        case _:
            return ""
    last_index = state.raft_log.last_index
    return f"index {index}, when ours end at {last_index}" if index > last_index + INDEX_JUMP_MAX else ""


def usurpation(state: RaftState, sender: int, request: AppendRequest | SnapshotChunk) -> str:
    """V3: why this is not from the leader of our term or a later one, by what we know; empty if it may be."""
    if request.term == state.term and state.leader not in (NO_NODE, sender):
        return f"node {state.leader} leads term {state.term}"
    if isinstance(request, SnapshotChunk):
        return ""
    log = state.raft_log
    if request.prev_index < log.start or log.term_at(request.prev_index) == request.prev_term:
        for entry in request.entries:
            if entry.index > state.commit:
                break
            if entry.index > log.start and log.term_at(entry.index) != entry.term:
                return f"it would remove the committed entry {entry.index}"
    return ""
