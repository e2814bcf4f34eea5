"""The contracts of the metadata's records: a write that breaks one ends the node."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from liftlog.core.metadata.records import EXPIRED, NodeState, PartitionState, StreamState
from liftlog.types import InvariantViolation, StreamConfig
from tests.core.metadata_harness import Cluster


def led() -> tuple[Cluster, PartitionState]:
    cluster = Cluster()
    record = cluster.metadata.partitions[cluster.create().id]
    cluster.metadata.begin(cluster.metadata.applied + 1)
    return cluster, record


PARTITION_WRITES: list[tuple[str, dict[str, Any], str]] = [
    ("the replicas stay", {"replicas": (1, 2)}, "the replicas"),
    ("the ISR is of the replicas", {"isr": (1, 2, 3, 4)}, "is not of the replicas"),
    ("the ISR has the order of the replicas", {"isr": (3, 2, 1)}, "is not of the replicas"),
    ("the eligible are of the replicas", {"eligible": (9,)}, "are eligible"),
    ("the eligible are not in the ISR", {"eligible": (1,)}, "are eligible"),
    ("R12: the leader is in the ISR", {"isr": (2, 3)}, "is not in the ISR"),
    ("R1: an epoch has one leader", {"leader": 2}, "passes from 1 to 2"),
    ("epochs never fall", {"epoch": 0}, "epoch 1, then 0"),
    ("epochs rise one by one", {"epoch": 3}, "epoch 1, then 3"),
    ("an epoch begins when it is decided", {"epoch": 2, "led_since": 1}, "does not begin now"),
    ("rounds of reports never fall", {"report_round": -1}, "round of reports"),
    ("versions never fall", {"version": 0}, "version 1, then 0"),
    ("R19: it was added once", {"added": 4}, "added at 0, then at 4"),
    ("R9: another ISR is another version", {"version": 1, "isr": (1, 2)}, "changes who leads or is in sync"),
]


@pytest.mark.parametrize(("fields", "said"), [case[1:] for case in PARTITION_WRITES])
def test_a_wrong_record_of_a_partition_is_not_taken(fields: dict[str, Any], said: str) -> None:
    cluster, record = led()
    assert (record.leader, record.epoch, record.version, record.replicas) == (1, 1, 1, (1, 2, 3))
    wrong = replace(record, **{"version": 2, **fields})
    with pytest.raises(InvariantViolation, match=said):
        cluster.metadata.put_partition(wrong)
    assert cluster.metadata.partitions[record.id] is record


NODE_WRITES: list[tuple[str, dict[str, Any], str]] = [
    ("I2: incarnations never fall", {"incarnation": 0}, "an incarnation of node 1 goes back"),
    ("I2: what is confirmed never falls", {"confirmed": 0}, "what node 1 confirmed goes back"),
    ("a state begins when it is decided", {"since": 1}, "does not begin now"),
    ("I2: only what was given is confirmed", {"confirmed": 99}, "ahead of the group"),
    ("I2: an incarnation is an index", {"incarnation": 99}, "ahead of the group"),
]


@pytest.mark.parametrize(("fields", "said"), [case[1:] for case in NODE_WRITES])
def test_a_wrong_record_of_a_node_is_not_taken(fields: dict[str, Any], said: str) -> None:
    cluster, _ = led()
    record = cluster.metadata.nodes[1]
    right: NodeState = replace(record, state=EXPIRED, since=cluster.metadata.applied)
    with pytest.raises(InvariantViolation, match=said):
        cluster.metadata.put_node(replace(right, **fields))
    cluster.metadata.put_node(right)


def test_I1_a_stream_is_known_by_the_index_of_its_creation_and_its_name_is_free() -> None:
    cluster, record = led()
    metadata = cluster.metadata
    with pytest.raises(InvariantViolation, match="is created at"):
        metadata.put_stream(StreamState(metadata.applied - 1, StreamConfig("other", "other"), ()))
    with pytest.raises(InvariantViolation, match="'orders' exists"):
        metadata.put_stream(StreamState(metadata.applied, StreamConfig("orders", "orders"), ()))
    with pytest.raises(InvariantViolation, match="exists"):
        metadata.add_partition(record)


def test_a_partition_is_not_led_before_it_is_there() -> None:
    cluster, record = led()
    with pytest.raises(InvariantViolation, match="is led already"):
        new = replace(record, id=record.id._replace(index=1), added=cluster.metadata.applied)
        cluster.metadata.add_partition(new)


def test_R19_a_partition_is_added_by_the_command_that_was_just_applied_and_none_is_taken_away() -> None:
    cluster, record = led()
    metadata = cluster.metadata
    new = PartitionState(record.id._replace(index=1), (1, 2, 3), 2, isr=(1, 2, 3), added=metadata.applied)
    metadata.begin(metadata.applied + 1)
    for late in (replace(new, added=0), replace(new, added=new.added - 1)):
        with pytest.raises(InvariantViolation, match="is not created now"):
            metadata.add_partition(late)
    metadata.add_partition(replace(new, added=metadata.applied))
    stream = metadata.by_id[record.id.stream]
    with pytest.raises(InvariantViolation, match="becomes another one"):
        metadata.alter_stream(replace(stream, partitions=(), revision=metadata.applied))


def test_a_leader_from_outside_the_ISR_is_not_made() -> None:
    _, record = led()
    with pytest.raises(InvariantViolation, match="is not in the ISR"):
        record.led_by(9, 1, 1)


@pytest.mark.parametrize("index", [0, 2])
def test_commands_are_applied_in_the_order_of_the_log(index: int) -> None:
    cluster, _ = led()
    with pytest.raises(InvariantViolation, match="metadata applied"):
        cluster.metadata.apply(cluster.metadata.applied + index, None)


def test_who_has_looked_at_a_record_keeps_what_he_saw() -> None:
    cluster = Cluster()
    partition = cluster.create()
    seen = cluster.metadata.partitions[partition.id]
    cluster.expire(partition.leader)
    assert (seen.epoch, seen.isr) == (1, (1, 2, 3))
    assert (partition.epoch, partition.isr) == (2, (2, 3))
