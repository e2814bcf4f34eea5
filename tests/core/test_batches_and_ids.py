"""Batches in one message (L8) beside messages with ids (L7): each takes the other's places into account."""

from __future__ import annotations

import pytest

from liftlog.format import last_timestamp_ms
from tests.core.test_message_ids import T0, told, with_id, world_with_ids
from tests.core.test_message_ids import publish as publish_at
from tests.core.test_parcels import batch


def test_a_message_with_an_id_behind_a_batch_is_remembered_where_it_lies() -> None:
    world, partition = world_with_ids()
    base = publish_at(world, partition, batch(b"1", b"2", b"3"), with_id("a", b"_INBOX.first"))
    world.run(300)
    publish_at(world, partition, batch(b"4", b"5"), with_id("a", b"_INBOX.again"))
    world.run(300)
    assert told(world, b"_INBOX.first") == [(base + 3, False)]
    assert told(world, b"_INBOX.again") == [(base + 3, True)]
    assert world.replica(world.leader(partition), partition).leo == base + 6


@pytest.mark.parametrize("late_ms", [0, 5000])
def test_a_batch_has_a_stamp_that_does_not_go_back(late_ms: int) -> None:
    world, partition = world_with_ids()
    publish_at(world, partition, with_id("a", b"_INBOX.a"), at_ms=T0 + late_ms)
    publish_at(world, partition, batch(b"1", b"2"), at_ms=T0)
    log = world.disks[world.leader(partition)].logs[partition]
    times = [last_timestamp_ms(one.data) for one in log.batches]
    assert times == sorted(times) and times[-1] == T0 + late_ms
