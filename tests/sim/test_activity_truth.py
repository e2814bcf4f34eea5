"""ActivityInOrder, TrimmedIsTold: what an activity stream tells is held against the commands (N12)."""

from __future__ import annotations

import json

import pytest

from liftlog.core.metadata.commands import TrimActivity
from liftlog.core.metadata.outbox import ActivityEvent
from liftlog.types import EpochStart, PartitionId, Record, StreamConfig
from liftlog_sim.truth.activity import ActivityTruth
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from tests.core.metadata_harness import Cluster

STREAM = 7


def known(cluster: Cluster, streams: int) -> tuple[ActivityTruth, list[ActivityEvent]]:
    """The truth of an activity stream beside which so many others were made; and what is to be told in it."""
    cluster.apply(cluster.creation(StreamConfig("a", "a", 1, 3, activity=True)))
    truth = ActivityTruth(cluster.metadata.outbox.stream, {})
    truth.happened(cluster.metadata)
    for number in range(streams):
        cluster.create(f"s{number}")
        truth.happened(cluster.metadata)
    return truth, list(cluster.metadata.outbox.events)


def committed(bodies: list[bytes], epochs: list[tuple[int, int]]) -> PartitionTruth:
    """A partition with these records; `epochs`: each with the offset at which it begins."""
    found = PartitionTruth(PartitionId(STREAM, 0), Checks())
    found.history = [EpochStart(epoch, start) for epoch, start in epochs]
    ends = [start for _, start in epochs[1:]] + [len(bodies)]
    for (epoch, start), end in zip(epochs, ends, strict=True):
        records = [Record(at, 1000, b"s", b"", b"", None, bodies[at]) for at in range(start, end)]
        found.contents.appended(epoch, start, end - start, epoch, records)
    found.hw = len(bodies)
    found.contents.commit(found.history, found.hw)
    return found


def body(event: ActivityEvent, kind: str = "") -> bytes:
    return json.dumps({"id": event.id, "event": kind or event.event}).encode()


def test_n12_events_in_order_and_again_where_an_epoch_begins_are_right() -> None:
    truth, events = known(Cluster(), 4)
    told = [body(event) for event in (*events[:3], *events[1:])]
    assert truth.lacks()
    truth.grown(committed(told, [(1, 0), (2, 3)]), 0)
    assert not truth.lacks()


def test_n12_what_had_no_room_may_be_told_to_be_missing() -> None:
    truth, events = known(Cluster(), 4)
    truth.grown(committed([body(events[2], "events.missing"), body(events[3])], [(1, 0)]), 0)
    assert "tells what has happened up to" in truth.lacks()


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ((0, 2), "before it is not told"),
        ((0, 1, 1), "in one epoch"),
        ((1,), "before it is not told"),
    ],
)
def test_n12_another_order_is_a_violation(places: tuple[int, ...], says: str) -> None:
    truth, events = known(Cluster(), 4)
    with pytest.raises(Violation, match=says) as raised:
        truth.grown(committed([body(events[place]) for place in places], [(1, 0)]), 0)
    assert raised.value.invariant == "ActivityInOrder"


@pytest.mark.parametrize("value", [b"stray", b"[]", b'{"id": 9999, "event": "stream.created"}'])
def test_n12_what_the_group_has_not_done_is_a_violation(value: bytes) -> None:
    truth, _ = known(Cluster(), 1)
    with pytest.raises(Violation, match=r"no event|has not done") as raised:
        truth.grown(committed([value], [(1, 0)]), 0)
    assert raised.value.invariant == "ActivityInOrder"


def test_n12_what_is_trimmed_and_not_told_is_a_violation() -> None:
    cluster = Cluster()
    truth, events = known(cluster, 3)
    truth.grown(committed([body(event) for event in events[:2]], [(1, 0)]), 0)
    cluster.apply(TrimActivity(cluster.request(), cluster.metadata.outbox.stream, events[1].id))
    truth.happened(cluster.metadata)
    cluster.apply(TrimActivity(cluster.request(), cluster.metadata.outbox.stream, events[2].id))
    with pytest.raises(Violation, match="has left the outbox") as raised:
        truth.happened(cluster.metadata)
    assert raised.value.invariant == "TrimmedIsTold"
