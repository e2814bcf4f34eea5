"""Who gets this node's vote (M1a, M1b), and which guard says no."""

from __future__ import annotations

from typing import TYPE_CHECKING

from liftlog.messages import VoteRequest
from liftlog.types import NO_NODE

if TYPE_CHECKING:
    from liftlog.core.raft import Raft


def grants(raft: Raft, candidate: int, request: VoteRequest) -> bool:
    """M1a, M1b: whether this node votes for the candidate."""
    may, up_to_date = may_grant(raft, candidate, request), is_up_to_date(raft, request)
    if may != up_to_date:
        raft.mark("M1.up-to-date" if may else _why_not(raft, request))
    return may and up_to_date


def _why_not(raft: Raft, request: VoteRequest) -> str:
    """The guard of `may_grant` that says no."""
    if not raft.may_vote:
        return "I2.vote-withheld"
    if request.pre_vote:
        return "M1.pre-vote-term"
    return "M1.vote-term" if request.term < raft.term else "M1.voted"


def may_grant(raft: Raft, candidate: int, request: VoteRequest) -> bool:
    """M1a: one vote per term; a pre-vote is no vote, but only a greater term can win one."""
    if not raft.may_vote:
        return False
    if request.pre_vote:
        return request.term > raft.term
    if request.term < raft.term:
        return False
    if raft.mutants.raft_vote_forgotten:
        return True
    free = raft.voted_for == NO_NODE and raft.leader == NO_NODE
    return raft.voted_for == candidate or free


def is_up_to_date(raft: Raft, request: VoteRequest) -> bool:
    """M1b: whether the candidate's log is at least as up to date as this one."""
    log = raft.raft_log
    if raft.mutants.raft_length_before_term:
        return (request.last_index, request.last_term) >= (log.last_index, log.last_term)
    return (request.last_term, request.last_index) >= (log.last_term, log.last_index)
