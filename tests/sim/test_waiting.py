"""ReadsBounded: what a node reads for its followers, counted from what goes to its storage (L3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from liftlog.messages import (
    LAST_OF_SUBJECT,
    AskSubjects,
    Fetch,
    LogRead,
    RangeFetch,
    ReadLog,
    SubjectsFolded,
    SubjectsTold,
)
from liftlog.nodeconfig import NodeConfig
from liftlog.types import NO_OFFSET, PartitionId
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.watching.waiting import WaitingReads

LOG = PartitionId(7, 0)
NEXT = Fetch(LOG, 1, 1, 1, 0, 0, 0, 1000)
DAMAGED = RangeFetch(LOG, 1, 1, 1, 0, 5, 1000)


def machine(reads: dict[int, tuple[int, Any]]) -> Any:
    roles = SimpleNamespace(serving=SimpleNamespace(reads=reads))
    node = SimpleNamespace(config=NodeConfig(1, (1, 2, 3)), replicas={LOG: SimpleNamespace(roles=roles)})
    return SimpleNamespace(number=1, node=node)


def read(request: int) -> ReadLog:
    return ReadLog(LOG, request, 0, 10, 1000)


def question(request: int) -> AskSubjects:
    return AskSubjects(LOG, request, 0, LAST_OF_SUBJECT, "orders", 0, 1)


def test_a_follower_has_one_read_of_what_comes_next_and_one_of_a_damaged_range() -> None:
    reads = {1: (2, NEXT), 2: (3, NEXT), 3: (2, DAMAGED), 4: (2, NEXT)}
    leader, waiting = machine(reads), WaitingReads(Checks())
    for request in (1, 2, 3):
        waiting.asked(leader, read(request))
    with pytest.raises(Violation, match="reads 7/0 for node 2, for which it does already"):
        waiting.asked(leader, read(4))


def test_the_next_read_may_follow_an_answer_or_a_restart() -> None:
    reads = {1: (2, NEXT), 2: (2, NEXT), 3: (2, NEXT)}
    leader, waiting = machine(reads), WaitingReads(Checks())
    waiting.asked(leader, read(1))
    waiting.answered(leader, LogRead(LOG, 1, []))
    waiting.asked(leader, read(2))
    waiting.began(leader)
    waiting.asked(leader, read(3))


def test_questions_about_subjects_are_reads_of_clients() -> None:
    leader, waiting = machine({}), WaitingReads(Checks())
    most = leader.node.config.log_reads_max + 2 * 2 + 1
    for request in range(1, most + 1):
        waiting.asked(leader, question(request))
    waiting.answered(leader, SubjectsFolded(LOG, 3, False))
    with pytest.raises(Violation, match=f"{most + 1} of 7/0"):
        waiting.asked(leader, question(most + 1))
    waiting.answered(leader, SubjectsFolded(LOG, 3, False, request=1))
    told = SubjectsTold(
        log=LOG, request=2, folded=3, first=0, offset=0, subjects=[], messages=0, place=NO_OFFSET, index=1
    )
    waiting.answered(leader, told)
    waiting.answered(leader, SubjectsFolded(LOG, 3, False, request=most + 1))
    waiting.asked(leader, question(most + 2))
