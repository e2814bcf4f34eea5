"""Who gets this node's vote (M1a, M1b), and which guard says no."""

from __future__ import annotations

from liftlog.core.raft.state import RaftState
from liftlog.messages import VoteRequest
from liftlog.types import NO_NODE


def grants(state: RaftState, candidate: int, request: VoteRequest) -> bool:
    """M1a, M1b: whether this node votes for the candidate."""
    may, up_to_date = may_grant(state, candidate, request), is_up_to_date(state, request)
    if may != up_to_date:
        state.mark("M1.up-to-date" if may else _why_not(state, request))
    return may and up_to_date


def _why_not(state: RaftState, request: VoteRequest) -> str:
    """The guard of `may_grant` that says no."""
    if not state.may_vote:
        return "I2.vote-withheld"
    if request.pre_vote:
        return "M1.pre-vote-term"
    return "M1.vote-term" if request.term < state.term else "M1.voted"


def may_grant(state: RaftState, candidate: int, request: VoteRequest) -> bool:
    """M1a: one vote per term; a pre-vote is no vote, but only a greater term can win one."""
    if not state.may_vote:
        return False
    if request.pre_vote:
        return request.term > state.term
    if request.term < state.term:
        return False
    free = state.voted_for == NO_NODE and state.leader == NO_NODE
    # M2: a node that has come back with another disk is another candidate.
    return (state.voted_for, state.voted_disk) == (candidate, request.disk) or free


def is_up_to_date(state: RaftState, request: VoteRequest) -> bool:
    """M1b: whether the candidate's log is at least as up to date as this one."""
    log = state.raft_log
    if state.mutants.raft_length_before_term:
        return (request.last_index, request.last_term) >= (log.last_index, log.last_term)
    return (request.last_term, request.last_index) >= (log.last_term, log.last_index)
