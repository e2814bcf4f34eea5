"""The contracts of Raft's state: a write that breaks one ends the node."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from liftlog.core.guards import Guards
from liftlog.core.raft.log import RaftLog
from liftlog.core.raft.state import CANDIDATE, FOLLOWER, LEADER, RaftState
from liftlog.messages import Effect
from liftlog.nodeconfig import NodeConfig
from liftlog.types import Entry, HardState, InvariantViolation, Ticket


def state(term: int = 3, terms: tuple[int, ...] = (1, 2, 3)) -> RaftState:
    entries = [Entry(index, term, b"") for index, term in enumerate(terms, 1)]
    tickets = count(1)
    effects: list[Effect] = []
    config = NodeConfig(1, voters=(1, 2, 3))
    hard_state, guards = HardState(term, 0), Guards()

    def new_ticket() -> Ticket:
        return Ticket(next(tickets))

    return RaftState(config, hard_state, entries, effects, new_ticket, guards, "disk-1")


def committed() -> RaftState:
    one = state()
    one.commit_to(2)
    return one


def voted() -> RaftState:
    one = state()
    one.vote_for(2, "disk-2")
    return one


def standing() -> RaftState:
    one = state()
    one.take_role(CANDIDATE)
    one.enter_term(4, votes=True)
    return one


def leading() -> RaftState:
    one = standing()
    one.take_role(LEADER)
    one.follow(1)
    return one


WRONG: list[tuple[str, Callable[[], RaftState], Callable[[RaftState], object], str]] = [
    ("M1n: the term never falls", state, lambda one: one.enter_term(2), "term 3, then 2"),
    ("M1a: a term is entered once", state, lambda one: one.enter_term(3, votes=True), "term 3, then 3"),
    ("M1a: one vote a term", voted, lambda one: one.vote_for(3, "disk-3"), "votes in term 3: 2, then 3"),
    (
        "M2: another disk is another candidate",
        voted,
        lambda one: one.vote_for(2, "another"),
        "votes in term 3: 2, then 2",
    ),
    ("M1a: a candidate has voted", standing, lambda one: one.vote_for(2, "d"), "votes in term 4: 1, then 2"),
    ("a candidate becomes leader", state, lambda one: one.take_role(LEADER), "a follower becomes leader"),
    ("a leader follows nobody", leading, lambda one: one.follow(2), "a leader follows node 2"),
    ("M1h: the commit never falls", committed, lambda one: one.commit_to(1), "commit 2, then 1"),
    ("M1h: only entries are committed", state, lambda one: one.commit_to(4), "commit 0, then 4 of 3"),
    ("M1f: what is committed stays", committed, lambda one: one.truncate(1), "committed up to 2"),
    ("M1f: a leader's log grows", leading, lambda one: one.truncate(2), "the leader of term 4 cuts"),
    ("M1f: entries follow", state, lambda one: one.append([Entry(5, 3, b"")]), "is 5 of term 3"),
    ("M1f: terms never fall", state, lambda one: one.append([Entry(4, 2, b"")]), "is 4 of term 2"),
    ("M1n: no later term", state, lambda one: one.append([Entry(4, 4, b"")]), "term 4 in term 3"),
]


@pytest.mark.parametrize(("rule", "make", "write", "said"), WRONG)
def test_a_wrong_write_is_not_done(
    rule: str, make: Callable[[], RaftState], write: Callable[[RaftState], object], said: str
) -> None:
    with pytest.raises(InvariantViolation, match=said):
        write(make())


def test_a_leader_has_voted_for_itself() -> None:
    one = state()
    one.take_role(CANDIDATE)
    one.enter_term(4)
    one.vote_for(2, "disk-2")
    with pytest.raises(InvariantViolation, match="with the votes of others"):
        one.take_role(LEADER)


def test_what_was_never_written_is_not_durable() -> None:
    tickets = count(1)
    log = RaftLog([], [], lambda: Ticket(next(tickets)))
    log.append([Entry(1, 1, b""), Entry(2, 1, b"")])
    del log.entries[1:]
    with pytest.raises(InvariantViolation, match="entry 2 is durable of 1"):
        log.on_durable(Ticket(1))


def test_moves_that_are_right_are_done() -> None:
    one = leading()
    one.append([Entry(4, 4, b"")])
    one.commit_to(4)
    one.take_role(FOLLOWER)
    one.enter_term(6)
    one.follow(2)
    one.vote_for(2, "disk-2")
    one.vote_for(2, "disk-2")
    assert (one.term, one.voted_for, one.leader, one.commit, one.unsaved) == (6, 2, 2, 4, True)
