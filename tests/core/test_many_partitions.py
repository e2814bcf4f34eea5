"""What a creation looks at when there are many partitions: the same as by looking at every one of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.metadata.commands import Resign
from liftlog.core.metadata.placement import Loads
from liftlog.core.metadata.subjects import collision, config_problem, overlap, partition_subjects, rivalry
from liftlog.types import PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster

TOKENS = st.sampled_from(["a", "b", "*", "1", "2", "3"])
SUBJECTS = st.builds(
    lambda tokens, rest: ".".join([*tokens, *rest]),
    st.lists(TOKENS, min_size=1, max_size=3),
    st.sampled_from([[], [], [">"]]),
)


def configs(name: str) -> st.SearchStrategy[StreamConfig]:
    built = st.builds(
        lambda subject, partitions, answers: StreamConfig(name, subject, partitions, 1, ack_reply=answers),
        SUBJECTS,
        st.integers(1, 4),
        st.booleans(),
    )
    return built.filter(lambda config: not config_problem(config))


def first_meeting(mine: list[str], theirs: list[str]) -> tuple[str, str] | None:
    pairs = ((left, right) for left in mine for right in theirs if overlap(left, right))
    return next(pairs, None)


@given(configs("new"), configs("old"))
def test_N7_collisions_are_those_of_every_pair_of_subjects(new: StreamConfig, old: StreamConfig) -> None:
    mine, theirs = partition_subjects(new), partition_subjects(old)
    met = first_meeting(mine[1:], theirs) or first_meeting(mine[:1], theirs[1:])
    expected = f"subject {met[0]!r} collides with stream 'old' on {met[1]!r}" if met else ""
    assert collision(new, old) == expected


@given(configs("new"), configs("old"))
def test_N9_rivals_are_those_of_every_pair_of_subjects(new: StreamConfig, old: StreamConfig) -> None:
    met = first_meeting(partition_subjects(new), partition_subjects(old))
    found = rivalry(new, old)
    if met is None or not (new.ack_reply and old.ack_reply):
        assert found == ""
    else:
        assert found.startswith(f"subject {met[0]!r} overlaps {met[1]!r} of stream 'old'")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["create", "delete", "expire", "confirm", "restart", "resign"]), st.integers(1, 4)
    ),
    max_size=30,
)


@given(STEPS)
def test_R16_loads_are_what_a_count_over_all_partitions_gives(steps: list[tuple[str, int]]) -> None:
    cluster = Cluster(nodes=4)
    metadata = cluster.metadata
    for kind, number in steps:
        name = f"s{number}"
        if kind == "create":
            cluster.apply(cluster.creation(StreamConfig(name, name, number, number)))
        elif kind == "delete" and name in metadata.streams:
            cluster.apply(cluster.deletion(name))
        elif kind == "expire":
            cluster.expire(number)
        elif kind == "confirm":
            cluster.confirm(number)
        elif kind == "restart":
            cluster.register(number)
        elif kind == "resign" and name in metadata.streams:
            partition = metadata.partitions[PartitionId(metadata.streams[name].id, 0)]
            cluster.apply(Resign(cluster.request(), partition.id, partition.epoch, partition.version))
        counted = Loads()
        for partition in metadata.partitions.values():
            counted.placed(partition.replicas)
            counted.led(0, partition.leader)
        loads = metadata.loads
        for kept, seen in (
            (loads.replicas, counted.replicas),
            (loads.preferred, counted.preferred),
            (loads.leads, counted.leads),
        ):
            assert {node: count for node, count in kept.items() if count} == seen


def test_ten_streams_of_1024_partitions_look_at_no_pair_of_partitions() -> None:
    """Every creation would cost the square of all partitions otherwise: ten of them took minutes."""
    cluster = Cluster()
    for number in range(10):
        result = cluster.apply(cluster.creation(StreamConfig(f"s{number}", f"s{number}", 1024, 3)))
        assert not result.code, result
    led = [partition.leader for partition in cluster.metadata.partitions.values()]
    assert all(abs(led.count(node) - len(led) / 3) < 2 for node in (1, 2, 3))
