"""What a creation looks at when there are many partitions: the same as by looking at every one of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.metadata.commands import AlterStream, Resign
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.placement import Loads
from liftlog.core.metadata.records import StreamState, replaced
from liftlog.core.metadata.subjects import collision, config_problem, partition_subjects, rivalry
from liftlog.messages import StreamChanges
from liftlog.messages.intake import InputRefused
from liftlog.subjects.grammar import overlap
from liftlog.types import PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster, picture

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


def kept(*others: StreamConfig) -> Cluster:
    """A cluster that has created these streams, those that it takes."""
    cluster = Cluster()
    for number, config in enumerate(others):
        cluster.apply(cluster.creation(replaced(config, name=f"s{number}")))
    return cluster


def verdicts(config: StreamConfig, others: list[StreamState]) -> list[str]:
    found = [(collision(config, other.config), rivalry(config, other.config)) for other in others]
    return [problem for pair in found for problem in pair if problem]


@given(st.lists(configs("old"), max_size=12), st.lists(st.integers(0, 11), max_size=6), configs("new"))
def test_N7_a_creation_hears_of_the_same_streams_as_by_looking_at_all_of_them(
    others: list[StreamConfig], removed: list[int], new: StreamConfig
) -> None:
    """After streams were created, altered and removed, and on a node that has it all from a snapshot."""
    cluster, other = kept(*others), Cluster(nodes=0)
    metadata = cluster.metadata
    for number in removed:
        name = f"s{number}"
        if name not in metadata.streams:
            continue
        if number % 2:
            cluster.apply(cluster.deletion(name))
        else:
            stream = metadata.streams[name]
            changes = StreamChanges(partitions=stream.config.partitions + 1)
            cluster.apply(AlterStream(cluster.request(), stream.id, name, stream.revision, changes))
    reader = ImageReader()
    for chunk in picture(metadata).chunks:
        reader.take(chunk)
    other.metadata.adopt(reader)
    every = list(metadata.streams.values())
    for one in (metadata, other.metadata):
        near = one.near(new)
        assert [stream for stream in every if stream in near] == near
        assert verdicts(new, near) == verdicts(new, every)
    assert len(metadata.near(StreamConfig("all", ">", 1, 1))) == len(every)


def test_2000_streams_beside_each_other_look_at_none_but_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every creation looked at all of them before, which took it 10 ms of a step."""
    looked: list[str] = []
    cluster = Cluster(streams_max=3000)

    def seen(config: StreamConfig, other: StreamConfig) -> str:
        looked.append(other.name)
        return collision(config, other)

    monkeypatch.setattr("liftlog.core.metadata.metadata.collision", seen)
    for number in range(2000):
        config = StreamConfig(f"s{number}", f"app.{number % 50}.s{number}", 1, 1)
        assert not cluster.apply(cluster.creation(config)).code
    assert looked == []
    refused = cluster.apply(cluster.creation(StreamConfig("late", "app.7.*", 1, 1)))
    assert "overlaps 'app.7.s7' of stream 's7'" in refused.detail
    assert looked == ["s7"], "the first one is reason enough"


def test_N7_a_subject_that_is_none_is_refused_before_it_is_compared() -> None:
    cluster = Cluster()
    cluster.create("orders")
    for subject in ("a..b", "a.>.b", ""):
        result = cluster.apply(cluster.creation(StreamConfig("wrong", subject, 1, 1)))
        assert result.code == "invalid" and f"subject {subject!r} is invalid" in result.detail


def test_V1_a_snapshot_with_a_stream_on_what_is_no_subject_is_refused() -> None:
    cluster = Cluster()
    cluster.create("orders")
    (chunk,) = picture(cluster.metadata).chunks
    with pytest.raises(InputRefused, match=r"a snapshot's stream on '\.rders': it has an empty token"):
        ImageReader().take(chunk.replace(b"orders", b".rders"))


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
