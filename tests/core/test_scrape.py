"""A scrape: made in slices of few samples, with the head of each family once, and a bound for its series."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.parser import text_string_to_metric_families

from liftlog.config import ServerConfig
from liftlog.eyes import names
from liftlog.eyes.health import missing, out_of_sync, overdue_ms
from liftlog.eyes.measures import Measures
from liftlog.eyes.page import write
from liftlog.eyes.readings import LOOKS_PER_SLICE, SLICE_SAMPLES, DiskSpace, LastScrape, Readings, Slice
from liftlog.messages import CreateStreamRequest
from liftlog.real.server import Parts
from liftlog.types import StreamConfig
from tests.core.node_harness import World

COUNTERS = ("storage.groups", "storage.jobs", "storage.slices")
BUS = ("connects", "messages_in", "errors", "answers_dropped", "refused_too_large", "refused_headers")
NETWORK = ("clients", "peers", "sent", "received", "dropped", "refused", "cut")


def ports() -> Any:
    """As far as a scrape looks at them."""
    refused = ("subscriptions_refused", "publishes_refused")
    return SimpleNamespace(
        bus=SimpleNamespace(
            connected=True,
            last_error="",
            outgoing_bytes=0,
            counters=dict.fromkeys((f"nats.{name}" for name in (*BUS, *refused)), 0),
        ),
        gate=SimpleNamespace(counters={}),
        storage=SimpleNamespace(working_ms=0.0, waiting=(0, 0), counters=dict.fromkeys(COUNTERS, 0)),
        network=SimpleNamespace(
            fills={"clients": (1, 2)}, counters=dict.fromkeys((f"network.{name}" for name in NETWORK), 0)
        ),
    )


def readings(world: World, node: int, most: int = 2000, parts: Any = None) -> Readings:
    config = ServerConfig(
        cluster="test",
        node=node,
        data=Path("/nowhere"),
        listen="h:1",
        address="h:1",
        nats_url="",
        peers={},
        protocol={},
        metrics_partitions_max=most,
    )
    there = world.nodes[node]
    told = cast(Parts, parts or ports())
    return Readings(
        there, config, told, Measures(there), log_bytes=lambda log: 4096, now_ms=lambda: world.now * 1000
    )


def slices(world: World, node: int, most: int = 2000) -> list[Slice]:
    found = readings(world, node, most).read(DiskSpace(1, 2), {"200": 3}, 0, LastScrape())
    return list(found)


def with_partitions(count: int, nodes: int = 1) -> World:
    world = World(nodes)
    config = StreamConfig("many", "many", count, nodes)
    world.answer(1, CreateStreamRequest(config), 60.0)
    there = world.nodes[1]
    assert world.run_until(lambda: sum(copy.state == "ready" for copy in there.replicas.values()) == count)
    return world


def test_every_slice_is_small_and_all_of_a_family_comes_in_a_row() -> None:
    count = 3 * SLICE_SAMPLES + 1
    told = slices(with_partitions(count), 1)
    assert max(len(samples) for _, samples in told) == SLICE_SAMPLES
    assert LOOKS_PER_SLICE <= 10 * SLICE_SAMPLES
    order = [family.name for family, samples in told if samples]
    heads = [name for at, name in enumerate(order) if at == 0 or order[at - 1] != name]
    assert len(heads) == len(set(heads)), "none is left and taken up again"
    assert sum(len(samples) for family, samples in told if family is names.LOG_END) == count


def test_a_page_of_many_slices_has_each_head_once_and_can_be_parsed() -> None:
    count = 2 * SLICE_SAMPLES + 5
    told = slices(with_partitions(count), 1)
    text = b"".join(write(told)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for family in names.FAMILIES:
        found = families.get(family.name.removesuffix("_total"))
        if found is None:
            alone = f"{family.name}: one node has no other replica, no mirror and no certificate"
            of_copies = names.MIRROR_LAG, names.MIRROR_STANDS, names.SOURCE_LAG
            of_tls = names.TLS_LEFT, names.TLS_MISTAKEN, names.TLS_PLAIN
            assert family in (names.LAG, *of_copies, *of_tls), alone
            continue
        assert (found.type, found.documentation) == (family.kind, family.text)
        assert len(re.findall(rf"^# HELP {family.name} ", text, re.M)) == 1
    ends = families["liftlog_partition_log_end_offset"].samples
    assert [(sample.labels["stream"], sample.labels["partition"]) for sample in ends] == [
        ("many", str(index)) for index in range(count)
    ]
    assert text.endswith("\n") and "\n\n" not in text


def test_more_copies_than_are_wanted_have_no_series_and_are_counted() -> None:
    world = with_partitions(7)
    told = {family.name: samples for family, samples in slices(world, 1, most=3) if samples}
    assert [labels for labels, _ in told["liftlog_partition_log_end_offset"]] == [
        ("many", "0"),
        ("many", "1"),
        ("many", "2"),
    ]
    assert told["liftlog_copies_without_series"] == [((), 4)]
    assert told["liftlog_partitions"] == [((), 7)] and told["liftlog_copies"][1] == (("ready",), 7)
    none = {family.name for family, samples in slices(world, 1, most=0) if samples}
    assert not any(name.startswith("liftlog_partition_") for name in none)


def test_lag_is_what_a_replica_has_not_on_disk_and_told_by_the_leader() -> None:
    world = World()
    partition = world.create()
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    world.publish(partition, b"a", b"b")
    assert world.run_until(lambda: world.committed(partition, 2))
    world.drop = lambda sender, to, message: others[0] in (sender, to)
    world.publish(partition, b"c", b"d", b"e")
    leo = world.nodes[leader].replicas[partition]
    assert world.run_until(lambda: leo.leo == 5 and leo.durable_leo == 5)
    world.run(0.1)
    lag = {labels[-1]: value for family, samples in slices(world, leader) if family is names.LAG
           for labels, value in samples}  # fmt: skip
    assert lag == {str(others[0]): 3, str(others[1]): 0}
    assert not any(samples for family, samples in slices(world, others[1]) if family is names.LAG)


def test_under_replicated_offline_and_below_the_minimum_are_told_apart() -> None:
    world = World()
    partition = world.create(minimum=2)
    leader = world.leader(partition)
    assert world.run_until(lambda: len(world.nodes[leader].replicas[partition].isr) == 3)

    def told(node: int) -> dict[str, float]:
        found = {family.name: samples for family, samples in slices(world, node) if samples}
        ends = ("under_replicated", "at_minimum", "below_minimum", "offline")
        return {end: cast(float, found[f"liftlog_partitions_{end}"][0][1]) for end in ends}

    assert set(told(leader).values()) == {0}
    others = [node for node in world.nodes if node != leader]
    world.kill(others[0])
    assert world.run_until(lambda: len(world.nodes[leader].replicas[partition].isr) == 2)
    assert told(leader) == {"under_replicated": 1, "at_minimum": 1, "below_minimum": 0, "offline": 0}


def test_what_a_node_lacks_is_said_in_words() -> None:
    world = World()
    there, parts = world.nodes[1], ports()
    assert missing(there, parts) == [
        "session: not registered with the controller yet in this run; none was heard: do most voters run, "
        "and reach each other?"
    ]
    partition = world.create()
    assert world.run_until(lambda: len(world.nodes[world.leader(partition)].replicas[partition].isr) == 3)
    world.run(1)
    assert missing(there, parts) == [] and out_of_sync(there) == []
    parts.bus.connected, parts.bus.last_error = False, "127.0.0.1:4222: refused"
    parts.storage.working_ms = 12_000.0
    there.ctx.stall("No space left on device")
    assert missing(there, parts) == [
        "nats: not connected: 127.0.0.1:4222: refused",
        "disk: it takes no metadata (No space left on device): make room on it",
        "disk: it has not answered for 12 s",
    ]
    there.ctx.stall("")
    world.kill(2)
    world.kill(3)
    world.run(3)
    assert missing(there, ports())[0].startswith("session: not valid, the controller answered")
    assert overdue_ms(there, there.ctx.now_ms + 1999) == 0
    assert overdue_ms(there, there.ctx.now_ms + 2500) == 2500
