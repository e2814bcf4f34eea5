"""R28, R29: where copies begin, and what of a stream a mirror has."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import AlterStreamRequest, CreateStreamRequest, ErrorReply, StreamChanges
from liftlog.messages.copying import Start, start_of
from liftlog.mutants import Mutants
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import publish
from tests.core.test_mirrors import a_world, made, mirror_config, put, records
from tests.core.test_origins_elsewhere import Afar
from tests.core.test_origins_elsewhere import a_world as two_clusters
from tests.core.test_origins_elsewhere import config as far_config
from tests.core.test_sources import all_config, has, values
from tests.core.test_sources_altered import alter, another_leader


def with_messages(mutants: Mutants | None = None, **settings: Any) -> tuple[World, PartitionId]:
    world = a_world(3, mutants)
    origin = world.create("s", **settings)
    put(world, origin, *(b"s%d" % number for number in range(6)))
    return world, origin


def test_a_start_is_an_offset_or_a_time() -> None:
    assert start_of("17") == Start(offset=17) and str(Start(offset=17)) == "17"
    assert start_of("1764300000000ms") == Start(time_ms=1764300000000)
    assert str(Start(time_ms=1764300000000)) == "1764300000000ms"
    for text in ("", "ms", "-1", "1 ms", "x", "1.5", "\u0661", "9" * 17):
        assert start_of(text) is None, text


@pytest.mark.parametrize("bug", ["", "source_starts_over"])
def test_r29_a_source_begins_at_an_offset_and_goes_on_where_it_was(bug: str) -> None:
    world, origin = with_messages(Mutants(**{bug: True}) if bug else None)
    copy = made(world, all_config((("s", ""),), starts=(("s", "4"),)))
    assert world.run_until(lambda: has(world, copy, 2))
    assert world.run_until(lambda: values(world, copy) == [b"s4", b"s5"])
    roles = world.replica(world.leader(copy), copy).roles
    assert roles is not None and roles.sourcing.lags() == {"s": 0}
    put(world, origin, b"s6")
    another_leader(world, copy)
    world.run(4)
    assert (values(world, copy) == [b"s4", b"s5", b"s6"]) is not bool(bug)


def test_r29_a_start_that_is_not_there_yet_is_waited_for() -> None:
    world, origin = with_messages()
    copy = made(world, all_config((("s", ""),), starts=(("s", "7"),)))
    world.run(3)
    put(world, origin, b"s6", b"s7", b"s8")
    assert world.run_until(lambda: values(world, copy) == [b"s7", b"s8"])


def test_r29_a_source_begins_at_a_time() -> None:
    world = two_clusters()
    world.afar = Afar()
    world.afar.values += [b"0", b"1", b"2", b"3"]
    copy = made(world, all_config((("orders@east", ""),), starts=(("orders@east", "1002ms"),)))
    assert world.run_until(lambda: values(world, copy) == [b"2", b"3"])
    another_leader(world, copy)
    world.afar.values.append(b"4")
    assert world.run_until(lambda: values(world, copy) == [b"2", b"3", b"4"])


def test_r29_a_source_is_given_with_a_start_and_its_start_goes_with_it() -> None:
    world, _ = with_messages()
    put(world, world.create("t"), b"t0", b"t1")
    copy = made(world, all_config((("s", ""),), starts=(("s", "4"),)))
    assert world.run_until(lambda: has(world, copy, 2))
    both = (("s", ""), ("t", ""))
    changes = StreamChanges(sources=both, starts=(("s", "4"), ("t", "1")))
    assert not isinstance(world.answer(1, AlterStreamRequest("all", changes)), ErrorReply)
    assert world.run_until(lambda: sorted(values(world, copy)) == [b"s4", b"s5", b"t1"])
    assert not alter(world, ("t", ""))
    assert world.nodes[1].metadata.by_id[copy.stream].config.starts == (("t", "1"),)
    assert not alter(world, *both)
    world.run(3)
    assert sorted(values(world, copy)) == [b"s4", b"s5", b"t1"]


@pytest.mark.parametrize("removal", [False, True])
def test_r28_a_mirror_begins_at_an_offset(removal: bool) -> None:
    world, origin = with_messages(removal=True)
    settings = {"removal": True} if removal else {}
    mirror = made(world, mirror_config(starts=(("s", "4"),), **settings))
    assert world.run_until(lambda: records(world, mirror) == [(4, b"s4"), (5, b"s5")])
    put(world, origin, b"s6")
    another_leader(world, mirror)
    assert world.run_until(lambda: records(world, mirror)[-1] == (6, b"s6"))


@pytest.mark.parametrize("bug", ["", "mirror_filter_ignored", "copy_start_ignored"])
@pytest.mark.parametrize("removal", [False, True])
def test_r28_a_mirror_has_some_subjects_at_their_offsets(removal: bool, bug: str) -> None:
    world = a_world(3, Mutants(**{bug: True}) if bug else None)
    origin = world.create("s", removal=True)
    assert world.run_until(lambda: origin in world.subscriptions)
    for number in range(6):
        subject = b"s.even" if number % 2 == 0 else b"s.odd"
        publish(world, origin, Message(subject, b"", b"", b"s%d" % number))
        world.run(0.1)
    settings = {"removal": True} if removal else {}
    mirror = made(world, mirror_config(mirror_filter="s.odd", starts=(("s", "2"),), **settings))
    assert world.run_until(lambda: has(world, mirror, 6))
    found = {
        "": [3, 5],
        "mirror_filter_ignored": [2, 3, 4, 5],
        "copy_start_ignored": [1, 3, 5],
    }[bug]
    assert world.run_until(lambda: records(world, mirror) == [(at, b"s%d" % at) for at in found])
    world.answer(1, AlterStreamRequest("copy", StreamChanges(mirror="")))
    world.run(1)
    config = world.nodes[1].metadata.by_id[mirror.stream].config
    assert not config.mirror_filter and not config.starts


def test_r28_a_mirror_of_another_cluster_begins_and_is_filtered_too() -> None:
    world = two_clusters()
    world.afar = Afar()
    world.afar.values += [b"0", b"1", b"2", b"3"]
    mirror = made(world, far_config(starts=(("orders@east", "2"),)))
    assert world.run_until(lambda: records(world, mirror) == [(2, b"2"), (3, b"3")])


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"starts": (("t", "4"),)}, "name what is copied"),
        ({"starts": (("s", "4"), ("s", "5"))}, "each once"),
        ({"starts": (("s", "yesterday"),)}, "say an offset"),
        ({"starts": (("s", "9007199254740993"),)}, "say an offset"),
        ({"mirror_filter": "s.>"}, "mirror_filter is of a mirror"),
    ],
)
def test_what_can_be_no_beginning_is_refused(settings: dict[str, Any], word: str) -> None:
    world, _ = with_messages()
    refused = world.answer(1, CreateStreamRequest(all_config((("s", ""),), **settings)))
    assert isinstance(refused, ErrorReply) and word in refused.description


def test_a_filter_of_a_mirror_is_a_pattern_and_its_start_is_not_altered() -> None:
    world, _ = with_messages()
    refused = world.answer(1, CreateStreamRequest(mirror_config(mirror_filter="s..x")))
    assert isinstance(refused, ErrorReply) and "mirror_filter" in refused.description
    mirror = made(world, mirror_config())
    changes = StreamChanges(starts=(("s", "4"),))
    refused = world.answer(1, AlterStreamRequest("copy", changes))
    assert isinstance(refused, ErrorReply) and "when it is created" in refused.description and mirror
