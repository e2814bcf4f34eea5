"""Of a partition so many bytes stay, of the newest messages (R25)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import (
    AlterStreamRequest,
    MessageDeleted,
    StreamChanges,
    SubjectsFolded,
    SubjectsTold,
)
from liftlog.mutants import Mutants
from liftlog.types import NO_OFFSET, PartitionId
from tests.core.node_harness import World
from tests.core.test_front_limits import front_of, limited, put, send
from tests.core.test_journal import delete, marks, others
from tests.core.test_subject_limits import entries, shows

ONE = 30 + len("orders.a") + 1
"""What a message of these tests counts for."""


def holding(size: int, **kwargs: Any) -> tuple[World, PartitionId]:
    return limited(0, retention_bytes=size, **kwargs)


def test_R25_as_many_of_the_newest_stay_as_have_room() -> None:
    world, partition = holding(3 * ONE + 1)
    put(world, partition, "abc")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2) and entries(world, partition) == 0
    put(world, partition, "de")
    assert shows(world, partition, 2, 3, 4)
    assert marks(world, partition)["R25.too-large"] == 1 == entries(world, partition)


def test_R25_a_message_larger_than_all_its_room_goes_too() -> None:
    world, partition = holding(ONE - 1)
    put(world, partition, "a")
    assert shows(world, partition)


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_is_deleted_takes_no_room(mutant: bool) -> None:
    world, partition = holding(3 * ONE, mutants=Mutants(bytes_count_deleted=mutant))
    put(world, partition, "abc")
    world.run(0.5)
    assert isinstance(delete(world, partition, 1), MessageDeleted)
    put(world, partition, "d")
    world.run(0.5)
    assert shows(world, partition, 0, 2, 3) != mutant


def test_R25_a_limit_by_bytes_that_is_lowered_holds_for_what_is_there() -> None:
    world, partition = holding(0)
    put(world, partition, "abcde")
    world.run(0.5)
    assert shows(world, partition, 0, 1, 2, 3, 4) and entries(world, partition) == 0
    for most, there in ((2 * ONE, (3, 4)), (9 * ONE, (3, 4))):
        world.answer(1, AlterStreamRequest("orders", StreamChanges(retention_bytes=most)))
        world.run(0.5)
        assert shows(world, partition, *there)


def test_R25_bytes_that_are_not_committed_push_nothing_out() -> None:
    world, partition = holding(3 * ONE)
    put(world, partition, "abc")
    for node in others(world, partition):
        world.hold_storage(node)
    send(world, partition, "d")
    world.run(0.4)
    assert entries(world, partition) == 0


@pytest.mark.parametrize("mutant", [False, True])
def test_R25_what_is_written_to_be_gone_while_bytes_are_counted_is_not_counted(mutant: bool) -> None:
    """The answer lies behind the deletion."""
    world, partition = holding(3 * ONE, mutants=Mutants(without="R25.meanwhile" if mutant else ""))
    put(world, partition, "abc")
    world.run(0.5)
    front = front_of(world, partition)
    told, late = front.told, list[SubjectsTold | SubjectsFolded]()

    def hold(event: SubjectsTold | SubjectsFolded) -> bool:
        late.append(event)
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(front), "told", lambda _, event: hold(event))
        put(world, partition, "d")
        assert world.run_until(lambda: bool(late))
        assert isinstance(delete(world, partition, 1), MessageDeleted)
        told(late[0])
    world.run(0.5)
    assert shows(world, partition, 0, 2, 3) != mutant
    assert mutant or marks(world, partition)["R25.meanwhile"] == 1


def test_R25_bytes_that_cannot_be_counted_are_tried_again_after_a_while() -> None:
    world, partition = holding(2 * ONE)
    put(world, partition, "ab")
    world.run(0.5)
    front = front_of(world, partition)
    front.told(SubjectsTold(partition, 0, 0, 0, NO_OFFSET, [], 0, NO_OFFSET, 0, error="no such thing"))
    put(world, partition, "c")
    world.run(2.0)
    assert shows(world, partition, 0, 1, 2)
    world.run(10.0)
    assert shows(world, partition, 1, 2) and marks(world, partition)["R25.bytes-paused"] == 1
    front.sizes.folded(SubjectsFolded(partition, 0, False, error="damage"))
    assert marks(world, partition)["R25.bytes-paused"] == 2


def test_R25_number_and_bytes_hold_at_once() -> None:
    world, partition = limited(4, retention_bytes=2 * ONE)
    put(world, partition, "abcdefgh")
    assert shows(world, partition, 6, 7)
