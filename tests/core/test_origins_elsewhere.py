"""R28: a mirror of another cluster's stream copies the one that has answered first, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from liftlog.core.metadata import levels
from liftlog.core.replica.copying.sourcing import Sourcing
from liftlog.format import decode_records, encode_sparse
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_OK,
    AlterStreamRequest,
    AskOrigin,
    CreateStreamRequest,
    ErrorReply,
    MirrorReply,
    OriginAnswered,
    StreamChanges,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.options.copied import positions_in
from liftlog.types import PartitionId, Record, StreamConfig
from tests.core.node_harness import World
from tests.core.test_mirrors import made, put, records


class Afar:
    """A stream of another cluster, as its leader would answer for it."""

    def __init__(self, stream: int = 7, cluster: str = "1-east", **settings: Any) -> None:
        self.stream, self.cluster = stream, cluster
        self.config = StreamConfig("orders", "orders", **settings)
        self.values: list[bytes | None] = []
        """By offset; None: it is gone."""
        self.start = 0
        self.spoil: Callable[[MirrorReply], MirrorReply | None] = lambda reply: reply

    def answer(self, question: AskOrigin) -> OriginAnswered:
        index, offset, end = question.partition.index, question.offset, len(self.values)
        log = PartitionId(self.stream, index)
        left = [
            Record(at, 1000 + at, b"orders", b"", b"", None, value)
            for at, value in enumerate(self.values)
            if at >= offset and value is not None
        ]
        below = offset < self.start
        frames = [] if below or offset >= end else [encode_sparse(log, 3, offset, end, left).data]
        reply = MirrorReply(
            partition=question.partition,
            offset=offset,
            status=FETCH_BELOW_START if below else FETCH_OK,
            hw=end,
            log_start=self.start,
            next_offset=offset if below else max(offset, end),
            batches=frames,
            origin=self.stream,
        )
        told = self.cluster, self.stream, self.config
        return OriginAnswered(question.partition, question.origin, *told, self.spoil(reply))


class TwoClusters(World):
    """The nodes of this one, and a stream of another one, or nobody there."""

    afar: Afar | None = None
    asked: list[AskOrigin]

    def asked_origin(self, node: int, question: AskOrigin) -> None:
        self.asked.append(question)
        if self.afar is None:
            answer = OriginAnswered(question.partition, question.origin, problem="nobody answers at east")
        else:
            answer = self.afar.answer(question)
        self.post(node, answer, 0.01)


def a_world(mutants: Mutants = NO_MUTANTS, count: int = 3) -> TwoClusters:
    world = TwoClusters(count, mutants)
    world.asked = []
    assert world.run_until(lambda: world.nodes[1].metadata.level == levels.NEWEST)
    return world


def config(**settings: Any) -> StreamConfig:
    return StreamConfig("copy", "copy", **{"replication_factor": 3, "mirror": "orders@east", **settings})


def with_mirror(
    *values: bytes | None,
    mutants: Mutants = NO_MUTANTS,
    origin: dict[str, Any] | None = None,
    **settings: Any,
) -> tuple[TwoClusters, Afar, PartitionId]:
    world = a_world(mutants)
    world.afar = Afar(**(origin or {}))
    world.afar.values += values
    return world, world.afar, made(world, config(**settings))


def has(world: World, mirror: PartitionId, end: int) -> Callable[[], bool]:
    def check() -> bool:
        leader = world.leader(mirror)
        return leader in world.nodes and world.replica(leader, mirror).hw == end

    return check


def problem(world: World, mirror: PartitionId) -> str:
    roles = world.replica(world.leader(mirror), mirror).roles
    return roles.mirroring.problem if roles is not None else "no leader"


def test_r28_a_mirror_has_what_another_clusters_stream_has_and_names_it() -> None:
    world, afar, mirror = with_mirror(b"0", b"1", None, b"3")
    assert world.run_until(has(world, mirror, 4))
    world.run(1)
    assert records(world, mirror) == [(0, b"0"), (1, b"1"), (3, b"3")]
    afar.values.append(b"4")
    assert world.run_until(has(world, mirror, 5))
    stream = world.nodes[1].metadata.by_id[mirror.stream]
    assert stream.config.origins == (("orders@east", "1-east/7"),)
    assert problem(world, mirror) == ""
    assert {(one.cluster, one.stream) for one in world.asked} == {("east", "orders")}
    roles = world.replica(world.leader(mirror), mirror).roles
    assert roles is not None and roles.mirroring.heard() == [("orders@east", 0)]


def test_r28_nothing_of_an_answer_is_copied_before_it_has_named_the_origin() -> None:
    world, _, mirror = with_mirror(b"0")
    unnamed = 0

    def ends() -> bool:
        nonlocal unnamed
        for node in world.nodes.values():
            replica = node.replicas.get(mirror)
            if replica is not None and node.metadata.by_id[mirror.stream].config.origins is msgspec.UNSET:
                assert replica.leo == 0
                unnamed += 1
        return has(world, mirror, 1)()

    assert world.run_until(ends) and unnamed


def test_r28_leaders_go_and_the_next_one_goes_on_at_the_end_of_the_log() -> None:
    world, afar, mirror = with_mirror(b"0", b"1")
    assert world.run_until(has(world, mirror, 2))
    for number in range(2, 5):
        victim = world.leader(mirror)
        world.kill(victim)
        afar.values.append(b"%d" % number)
        world.restart(victim)
        world.run(8)
        assert world.run_until(has(world, mirror, number + 1), 60)
    assert records(world, mirror) == [(at, b"%d" % at) for at in range(5)]


@pytest.mark.parametrize(
    "other", [{"stream": 9}, {"cluster": "2-east"}, {"stream": 9, "cluster": "1-west"}], ids=str
)
@pytest.mark.parametrize("mutant", [False, True])
def test_r28_an_origin_that_was_made_again_is_not_copied(other: dict[str, Any], mutant: bool) -> None:
    world, _, mirror = with_mirror(b"0", b"1", mutants=Mutants(origin_unnamed=mutant))
    assert world.run_until(has(world, mirror, 2))
    world.afar = Afar(**other)
    world.afar.values += [b"x", b"y", b"z"]
    world.run(4)
    if mutant:
        assert records(world, mirror)[-1] == (2, b"z")
        return
    assert records(world, mirror) == [(0, b"0"), (1, b"1")]
    assert "for ever" not in problem(world, mirror) and "this copies 1-east/7" in problem(world, mirror)
    assert world.nodes[world.leader(mirror)].marks["R28.other-origin"] > 0
    world.answer(1, AlterStreamRequest("copy", StreamChanges(mirror="")))
    world.run(1)
    assert world.nodes[1].metadata.by_id[mirror.stream].config.origins is msgspec.UNSET


@pytest.mark.parametrize("mutant", [False, True])
def test_r28_the_next_leader_goes_by_the_configuration(mutant: bool) -> None:
    world, _, mirror = with_mirror(b"0", b"1", mutants=Mutants(origin_named_in_memory=mutant))
    assert world.run_until(has(world, mirror, 2))
    world.afar = Afar(stream=9)
    world.afar.values += [b"x", b"y", b"z"]
    world.run(3)
    assert len(records(world, mirror)) == 2
    world.kill(world.leader(mirror))
    world.run(12)
    assert len(records(world, mirror)) == (3 if mutant else 2)


def test_r28_it_goes_on_when_the_named_one_answers_again() -> None:
    world, afar, mirror = with_mirror(b"0")
    assert world.run_until(has(world, mirror, 1))
    world.afar = None
    afar.values.append(b"1")
    world.run(4)
    assert problem(world, mirror) == "nobody answers at east"
    world.afar = afar
    assert world.run_until(has(world, mirror, 2))
    assert problem(world, mirror) == ""


def test_r28_an_origin_that_is_not_there_at_creation_is_named_later() -> None:
    world = a_world()
    mirror = made(world, config())
    world.run(4)
    assert problem(world, mirror) == "nobody answers at east"
    assert len(world.asked) < 20
    world.afar = Afar()
    world.afar.values += [b"0"]
    assert world.run_until(has(world, mirror, 1))


@pytest.mark.parametrize("mutant", [False, True])
def test_r28_an_origin_with_other_partitions_is_not_named(mutant: bool) -> None:
    world, _, mirror = with_mirror(b"0", origin={"partitions": 2}, mutants=Mutants(origin_unfit=mutant))
    world.run(4)
    leader = world.leader(mirror)
    assert world.replica(leader, mirror).leo == (1 if mutant else 0)
    if not mutant:
        assert "--partitions 2" in problem(world, mirror) and world.nodes[leader].marks["R28.unfit"]
        world.answer(1, AlterStreamRequest("copy", StreamChanges(partitions=2)))
        assert world.run_until(has(world, mirror, 1))
        assert world.run_until(has(world, PartitionId(mirror.stream, 1), 1))


def test_r28_a_compacted_origin_is_not_copied_any_more() -> None:
    world, afar, mirror = with_mirror(b"0")
    assert world.run_until(has(world, mirror, 1))
    afar.config = msgspec.structs.replace(afar.config, compact=True)
    afar.values.append(b"1")
    world.run(3)
    assert "is compacted" in problem(world, mirror)
    assert world.replica(world.leader(mirror), mirror).leo == 1


def test_r28_what_is_gone_in_the_other_cluster_is_empty_and_said_to_be() -> None:
    world, afar, mirror = with_mirror(None, None, None, b"3", None, b"5", removal=True)
    afar.start = 2
    assert world.run_until(has(world, mirror, 6))
    world.run(1)
    assert records(world, mirror) == [(3, b"3"), (5, b"5")]
    marks = world.nodes[world.leader(mirror)].marks
    assert marks["R28.below-start"] == 1 and marks["R28.said"] == 2


def test_r28_what_is_damaged_or_begins_elsewhere_is_asked_for_again() -> None:
    world, afar, mirror = with_mirror(b"0", b"1", b"2")
    spoilt = list[MirrorReply]()

    def spoil(reply: MirrorReply) -> MirrorReply | None:
        if not reply.batches or len(spoilt) > 3:
            return reply
        spoilt.append(reply)
        frame = reply.batches[0]
        if len(spoilt) == 1:
            return msgspec.structs.replace(reply, batches=[frame[:-1] + bytes([frame[-1] ^ 1])])
        if len(spoilt) == 2:
            return msgspec.structs.replace(reply, offset=2)
        return None

    afar.spoil = spoil
    assert world.run_until(has(world, mirror, 3))
    assert len(spoilt) > 3
    assert records(world, mirror) == [(0, b"0"), (1, b"1"), (2, b"2")]


def test_r28_nodes_of_this_cluster_have_nothing_to_say_about_it() -> None:
    world, _, mirror = with_mirror(b"0")
    assert world.run_until(has(world, mirror, 1))
    leader = world.nodes[world.leader(mirror)]
    leader.replicas[mirror].on_mirror_reply(2, MirrorReply(mirror, 1, 0, 2, 0, 2, [b"x"], 7))
    assert leader.marks["V3.MirrorReply"] == 1 and leader.replicas[mirror].leo == 1


def test_r28_what_was_named_stays_named() -> None:
    world, _, mirror = with_mirror(b"0")
    assert world.run_until(has(world, mirror, 1))
    other = StreamChanges(origins=(("orders@east", "1-east/9"),))
    refused = world.answer(1, AlterStreamRequest("copy", other))
    assert isinstance(refused, ErrorReply) and "for ever" in refused.description
    refused = world.answer(1, AlterStreamRequest("copy", StreamChanges(origins=())))
    assert isinstance(refused, ErrorReply)
    plain = world.create("s")
    refused = world.answer(1, AlterStreamRequest("s", other))
    assert isinstance(refused, ErrorReply) and plain


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"mirror": "orders@"}, "STREAM@CLUSTER"),
        ({"mirror": "or.ders@east"}, "STREAM@CLUSTER"),
        ({"mirror": "a@b@c"}, "STREAM@CLUSTER"),
        ({"first_offset": 5}, "first_offset"),
        ({"compact": True}, "mirror and compact"),
        ({"mirror": msgspec.UNSET, "origins": (("orders@east", "1-x/1"),)}, "origins says"),
        ({"mirror": msgspec.UNSET, "sources": (("orders@", ""),)}, "STREAM@CLUSTER"),
    ],
)
def test_r28_what_can_be_no_mirror_of_another_clusters_stream_is_refused(
    settings: dict[str, Any], word: str
) -> None:
    world = a_world()
    refused = world.answer(1, CreateStreamRequest(config(**settings)))
    assert isinstance(refused, ErrorReply) and word in refused.description


# -- sources (R29) -----------------------------------------------------------------------------------------


def gathered(world: World, *sources: tuple[str, str], **settings: Any) -> PartitionId:
    return made(world, StreamConfig("all", "all", replication_factor=3, sources=sources, **settings))


def values(world: World, copy: PartitionId) -> list[bytes | None]:
    return [value for _, value in records(world, copy)]


def test_r29_a_stream_gathers_one_of_this_cluster_and_one_of_another() -> None:
    world = a_world()
    world.afar = afar = Afar()
    afar.values += [b"far0", None, b"far2"]
    near = world.create("s")
    put(world, near, b"near0")
    copy = gathered(world, ("s", ""), ("orders@east", ""))
    assert world.run_until(has(world, copy, 3))
    put(world, near, b"near1")
    afar.values.append(b"far3")
    for round in range(2):
        victim = world.leader(copy)
        world.kill(victim)
        world.run(6)
        world.restart(victim)
        afar.values.append(b"more%d" % round)
        assert world.run_until(has(world, copy, 6 + round), 60)
    assert sorted(filter(None, values(world, copy))) == sorted(
        [b"near0", b"near1", b"far0", b"far2", b"far3", b"more0", b"more1"]
    )
    config = world.nodes[1].metadata.by_id[copy.stream].config
    assert config.origins == (("orders@east", "1-east/7"),)
    log = world.disks[world.leader(copy)].logs[copy]
    last = [one for batch in log.batches for one in decode_records(batch)][-1]
    assert positions_in(last.headers) == {near.stream: 2, -1: 6}
    assert b"Nats-Stream-Source: orders@east 6 > >" in last.headers
    assert world.run_until(lambda: sources_of_leader(world, copy).lags() == {"s": 0, "orders@east": 0})
    assert sources_of_leader(world, copy).problems() == {}


def sources_of_leader(world: World, copy: PartitionId) -> Sourcing:
    roles = world.replica(world.leader(copy), copy).roles
    assert roles is not None
    return roles.sourcing


@pytest.mark.parametrize("mutant", [False, True])
def test_r29_a_source_that_was_made_again_in_its_cluster_is_not_copied(mutant: bool) -> None:
    world = a_world(Mutants(origin_unnamed=mutant))
    world.afar = Afar()
    world.afar.values += [b"a", b"b"]
    copy = gathered(world, ("orders@east", ""))
    assert world.run_until(has(world, copy, 2))
    world.afar = Afar(stream=9)
    world.afar.values += [b"x", b"y", b"z"]
    world.run(4)
    assert values(world, copy) == ([b"a", b"b", b"z"] if mutant else [b"a", b"b"])
    if not mutant:
        why = sources_of_leader(world, copy).problems()["orders@east"]
        assert "this copies 1-east/7" in why and "--no-sources" in why
        world.answer(1, AlterStreamRequest("all", StreamChanges(sources=())))
        world.run(1)
        assert world.nodes[1].metadata.by_id[copy.stream].config.origins is msgspec.UNSET


def test_r29_two_sources_of_other_clusters_are_named_each_once_and_filtered() -> None:
    world = a_world()
    world.afar = Afar()
    world.afar.values += [b"0", b"1"]
    copy = gathered(world, ("orders@east", "orders"), ("orders@west", "nothing.*"))
    assert world.run_until(has(world, copy, 2))
    world.run(3)
    assert values(world, copy) == [b"0", b"1"]
    origins = world.nodes[1].metadata.by_id[copy.stream].config.origins
    assert origins is not msgspec.UNSET
    assert sorted(origins) == [("orders@east", "1-east/7"), ("orders@west", "1-east/7")]
    assert sources_of_leader(world, copy).lags() == {"orders@east": 0, "orders@west": 0}


def test_r29_an_answer_of_another_place_or_damaged_is_not_taken() -> None:
    world = a_world()
    world.afar = afar = Afar()
    afar.values += [b"0", b"1", b"2"]
    spoilt = list[MirrorReply]()

    def spoil(reply: MirrorReply) -> MirrorReply | None:
        if not reply.batches or len(spoilt) > 3:
            return reply
        spoilt.append(reply)
        if len(spoilt) <= 2:
            return msgspec.structs.replace(reply, offset=1)
        return msgspec.structs.replace(reply, batches=[reply.batches[0][:-1] + b"?"])

    afar.spoil = spoil
    copy = gathered(world, ("orders@east", ""))
    assert world.run_until(has(world, copy, 3))
    assert values(world, copy) == [b"0", b"1", b"2"]
    marks = world.nodes[world.leader(copy)].marks
    assert marks["R29.place"] >= 1 and marks["R28.refused"] >= 1
