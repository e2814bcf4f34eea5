"""R29: sources are taken away, given, and given again: each record still comes once."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.core.metadata.elsewhere import place_key
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ErrorReply,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.options.copied import positions_in
from liftlog.types import PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_mirrors import made, put
from tests.core.test_origins_elsewhere import Afar, a_world
from tests.core.test_sources import BOTH, all_config, has, there, three, values


def alter(world: World, *sources: tuple[str, str]) -> str:
    """Empty, or why not."""
    reply = world.answer(1, AlterStreamRequest("all", StreamChanges(sources=sources)))
    world.run(1)
    return reply.description if isinstance(reply, ErrorReply) else ""


def config(world: World, copy: PartitionId) -> StreamConfig:
    return world.nodes[1].metadata.by_id[copy.stream].config


def another_leader(world: World, copy: PartitionId) -> None:
    victim = world.leader(copy)
    world.kill(victim)
    world.run(8)
    world.restart(victim)
    world.run(2)


@pytest.mark.parametrize("mutant", [False, True])
def test_r29_given_again_it_goes_on_where_it_was(mutant: bool) -> None:
    world, left, right, copy = three(mutants=Mutants(source_taken_away_forgotten=mutant))
    assert world.run_until(lambda: has(world, copy, 6))
    assert not alter(world, ("t", ""))
    put(world, left, b"s3")
    put(world, right, b"t3")
    assert world.run_until(lambda: has(world, copy, 7))
    assert positions_in(there(world, copy)[-1].headers) == (
        {right.stream: 4} | ({} if mutant else {left.stream: 3})
    )
    another_leader(world, copy)
    world.run(3)
    assert values(world, copy, b"s") == [b"s0", b"s1", b"s2"]
    assert not alter(world, ("t", ""), ("s", ""))
    world.run(6)
    again = [b"s0", b"s1", b"s2"] if mutant else []
    assert values(world, copy, b"s") == [b"s0", b"s1", b"s2", *again, b"s3"]
    assert values(world, copy, b"t") == [b"t0", b"t1", b"t2", b"t3"]
    roles = world.replica(world.leader(copy), copy).roles
    assert roles is not None and roles.sourcing.lags() == {"s": 0, "t": 0}


def test_r29_a_younger_stream_is_given_and_means_that_one() -> None:
    world, _, _, copy = three()
    young = world.create("young")
    put(world, young, b"y0")
    assert world.run_until(lambda: has(world, copy, 6))
    assert not alter(world, *BOTH, ("young", ""))
    assert config(world, copy).origins == (("young", f"/{young.stream}"),)
    assert world.run_until(lambda: has(world, copy, 7))
    world.answer(1, DeleteStreamRequest("young"))
    world.run(1)
    put(world, world.create("young"), b"z0", b"z1")
    world.run(5)
    assert values(world, copy, b"z") == []
    assert not alter(world, *BOTH)
    assert config(world, copy).origins is msgspec.UNSET
    assert not alter(world, *BOTH, ("young", ""))
    assert world.run_until(lambda: values(world, copy, b"z") == [b"z0", b"z1"])
    assert len(positions_in(there(world, copy)[-1].headers) or ()) == 3


def test_r29_another_filter_goes_on_where_the_source_was() -> None:
    world, left, _, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    assert not alter(world, ("s", "nothing.*"), ("t", ""))
    put(world, left, b"s3")
    world.run(4)
    assert not alter(world, *BOTH)
    put(world, left, b"s4")
    assert world.run_until(lambda: has(world, copy, 7))
    assert values(world, copy, b"s") == [b"s0", b"s1", b"s2", b"s4"]


def test_r29_nothing_goes_round() -> None:
    world, _, _, copy = three()
    made(world, StreamConfig("onward", "onward", replication_factor=3, sources=(("all", ""),)))
    made(world, StreamConfig("image", "image", replication_factor=3, mirror="onward"))
    assert "go round for ever" in alter(world, *BOTH, ("image", ""))
    assert "is the stream itself" in alter(world, ("all", ""))
    assert "no such stream" in alter(world, *BOTH, ("nobody", ""))
    assert config(world, copy).sources == BOTH


def test_r29_what_sources_mean_is_not_said_by_others() -> None:
    world, _, _, copy = three()
    said = (("s", "/1"),)
    refused = world.answer(1, CreateStreamRequest(StreamConfig("more", "more", sources=BOTH, origins=said)))
    assert isinstance(refused, ErrorReply) and "origins says" in refused.description
    refused = world.answer(1, AlterStreamRequest("all", StreamChanges(sources=BOTH[:1], origins=())))
    assert isinstance(refused, ErrorReply) and "not altered at once" in refused.description
    refused = world.answer(1, AlterStreamRequest("s", StreamChanges(sources=(("t", ""),))))
    assert isinstance(refused, ErrorReply) and "create another stream" in refused.description
    assert config(world, copy).origins is msgspec.UNSET


def test_r29_no_more_are_remembered_than_a_record_can_name() -> None:
    world, _, _, copy = three(1)
    many = [world.create(f"m{number}", replicas=1) for number in range(64)]
    assert len(many) == 64
    assert not alter(world, *((f"m{number}", "") for number in range(62)))
    assert "64 sources at most" in alter(world, *((f"m{number}", "") for number in range(63)))
    assert isinstance(world.answer(1, DeleteStreamRequest("s")), DoneReply)
    world.run(1)
    assert not alter(world, *((f"m{number}", "") for number in range(63)))
    assert len(config(world, copy).origins or ()) == 64


def test_r29_those_of_other_clusters_keep_their_numbers() -> None:
    world = a_world()
    world.afar = afar = Afar()
    afar.values += [b"f0", b"f1"]
    near = world.create("s")
    put(world, near, b"s0")
    copy = made(world, all_config((("orders@east", ""), ("s", ""))))
    assert world.run_until(lambda: has(world, copy, 3))
    assert not alter(world, ("s", ""))
    assert config(world, copy).origins == (("orders@east", "1-east/7"),)
    assert not alter(world, ("s", ""), ("orders@west", "nothing.*"))
    world.run(4)
    assert not alter(world, ("s", ""), ("orders@west", "nothing.*"), ("orders@east", ""))
    assert [place_key(config(world, copy), name) for name in ("orders@east", "orders@west")] == [-1, -2]
    afar.values.append(b"f2")
    assert world.run_until(lambda: has(world, copy, 4))
    assert values(world, copy, b"f") == [b"f0", b"f1", b"f2"]
