"""Parts of the worlds that profiles draw: what all start from, streams, limits that are small everywhere."""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog.options.marking import marker_ms
from liftlog.protocolranges import SPANS_OF_UNCOMMITTED
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import BusOptions, NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND

SEVERAL_SHARE = 0.3
"""Share of such worlds of a profile that has them."""


def draw_streams(draws: Draws, nodes: int, count: int) -> tuple[StreamConfig, ...]:
    """Streams of the usual shape, now and then with fewer replicas or several partitions."""
    streams = []
    for number in range(count):
        factor = min(nodes, 3)
        if number and draws.random() < 0.25:
            factor = draws.randrange(1, factor + 1)
        partitions = 2 if draws.random() < 0.15 else 1
        streams.append(StreamConfig(f"s{number}", f"s{number}.in", partitions, factor))
    return tuple(streams)


def small_stream(draws: Draws, name: str, *, compact: bool, retention: bool) -> StreamConfig:
    """A stream whose segments are so small that rolls, compaction and retention happen within seconds."""
    limits: dict[str, Any] = {}
    if retention:
        kind = draws.choice(("retention_ms", "retention_bytes", "retention_messages"))
        limits[kind] = {
            "retention_ms": draws.choice((4000, 12_000)),
            "retention_bytes": draws.choice((2000, 8000)),
            "retention_messages": draws.choice((20, 100)),
        }[kind]
    return StreamConfig(
        name,
        f"{name}.in",
        1,
        3,
        compact=compact,
        min_compaction_lag_ms=draws.choice((0, 0, 1500)),
        dirty_ratio_percent=draws.choice((1, 20, 50)),
        tombstone_retention_ms=draws.choice((500, 2000, 8000)),
        segment_records=draws.choice((0, 10, 30)),
        segment_bytes=draws.choice((1024, 3000, 8000)),
        segment_ms=draws.choice((0, 0, 4000)),
        codec=draws.choice(("none", "none", "zstd", "lz4")),
        **limits,
    )


def squeezed(seed: int, knobs: Knobs) -> Knobs:
    """In one world of six every limit of a node is small, so that somebody always waits for room."""
    draws = Draws(seed, "limits")
    if draws.random() * 6 >= 1:
        return knobs
    return msgspec.structs.replace(
        knobs,
        proposals_max=draws.choice((2, 3, 5)),
        proposal_span=draws.choice((32, 256)),
        inflight_max_bytes=draws.choice((500, 3000)),
        parked_reads_max=draws.choice((1, 2)),
        tail_cache_bytes=draws.choice((1, 300)),
        fetch_max_bytes=draws.choice((1, 600)),
        raft_append_max_bytes=draws.choice((1, 400)),
        read_bytes=200,
    )


def with_snapshots(seed: int, knobs: Knobs) -> Knobs:
    """In two worlds of five snapshots of the metadata are taken all the time, in small chunks (M1p), so that
    whoever was away for a moment has to install one. Drawn apart, as above.
    """
    draws = Draws(seed, "snapshots")
    if draws.random() * 5 >= 2:
        return knobs
    return msgspec.structs.replace(
        knobs,
        snapshot_entries=draws.choice((2, 4, 8, 20, 60)),
        chunk_records=draws.choice((1, 1, 2, 5, 256)),
    )


def answers_of(seed: int) -> dict[str, float]:
    """In two worlds of five publishers want other answers than JetStream's, or publish in envelopes (R4, L1).
    Drawn apart, as above.
    """
    draws = Draws(seed, "answers")
    if draws.random() * 5 >= 2:
        return {}
    return {"policies": draws.choice((0.0, 0.3, 0.6)), "envelopes": draws.choice((0.0, 0.3, 0.6))}


def expecting_of(seed: int) -> float:
    """In one world of four publishers compare and set (L6). Drawn apart, as above."""
    draws = Draws(seed, "expecting")
    return draws.choice((0.2, 0.5, 0.9)) if draws.random() < 0.25 else 0.0


def remembering(draws: Draws, streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
    """These streams, of which those remember message ids that can (L7): for a short time, and in
    some worlds only a few, so that a table is full.
    """
    window_ms = draws.choice((1000, 3000, 8000, 30_000))
    most = draws.choice((3, 20, 10_000, 10_000))
    return tuple(
        stream
        if stream.compact or stream.holds_most or stream.remembers_ms
        else msgspec.structs.replace(stream, dedupe_window_ms=window_ms, dedupe_ids_max=most)
        for stream in streams
    )


def bounded(seed: int, streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
    """In one world of three, streams that lose their front lose it by time, and refuse messages while they
    are full (C6). Drawn apart, as above.
    """
    draws = Draws(seed, "bounds")
    if draws.random() * 3 >= 1:
        return streams
    most = draws.choice((10, 40, 100))
    return tuple(
        stream
        if stream.compact or stream.remembers_ms or marker_ms(stream) or stream.retention.unlimited
        else msgspec.structs.replace(
            stream,
            retention_ms=stream.retention_ms or 4000,
            retention_bytes=0,
            retention_messages=0,
            messages_max=most,
        )
        for stream in streams
    )


def parcels_of(seed: int) -> float:
    """In one world of four publishers send several records in one message (L8). Drawn apart, as above."""
    draws = Draws(seed, "parcels")
    return draws.choice((0.2, 0.5, 0.9)) if draws.random() < 0.25 else 0.0


def questions_of(seed: int, streams: tuple[StreamConfig, ...]) -> dict[str, object]:
    """In one world of five clients ask about subjects, and messages have several (S1). Drawn apart."""
    draws = Draws(seed, "subjects")
    if draws.random() >= 0.2:
        return _filtered(seed, streams)
    return _filtered(
        seed,
        several_subjects(streams),
        ask_subjects_us=draws.choice((200, 500, 1500)) * MILLISECOND,
        fold_bytes=draws.choice((0, 300, 1000)),
        expecting_lasts=draws.choice((0.0, 0.5, 0.95)),
    )


def several_subjects(streams: tuple[StreamConfig, ...]) -> tuple[StreamConfig, ...]:
    """These streams, listening on several where they can."""
    return tuple(
        msgspec.structs.replace(config, subject=f"{config.subject}.*")
        if config.subject == f"{config.name}.in"
        else config
        for config in streams
    )


def _filtered(seed: int, streams: tuple[StreamConfig, ...], **asked: object) -> dict[str, object]:
    """In one world of five somebody reads with filters, and messages have several subjects and keys (S2).
    Drawn apart. `asked`: what else is drawn of questions about subjects.
    """
    draws = Draws(seed, "filtered")
    if draws.random() >= 0.2:
        return {"streams": streams, **asked} if asked else {}
    interval_us = draws.choice((100, 300, 800)) * MILLISECOND
    return {"streams": several_subjects(streams), "filtered_interval_us": interval_us, **asked}


def index_decay_us(seed: int) -> int:
    """How often an index decays where disks do everything wrong: in one such world of three, every second.

    Indexes are small, so of what strikes any file few things strike them, and what a wrong one breaks (D3)
    would hardly be seen. Drawn apart, as above.
    """
    return Draws(seed, "indexes").choice((0, 0, SECOND))


def on_several(draws: Draws, knobs: Knobs) -> Knobs:
    """In some worlds streams listen on several subjects, which are altered all the time, and NATS refuses one
    of them now and then (N10).
    """
    if draws.random() >= SEVERAL_SHARE:
        return knobs
    count = draws.choice((1, 2, 3))
    streams = tuple(
        msgspec.structs.replace(
            config, more_subjects=tuple(f"{config.name}.more{number}" for number in range(count))
        )
        for config in knobs.streams
    )
    return msgspec.structs.replace(
        knobs,
        streams=streams,
        faults=(*knobs.faults, ("deny", 4), ("cut_bus", 2)),
        alter_interval_us=draws.choice((300, 1000)) * MILLISECOND,
    )


def _network(draws: Draws) -> NetworkOptions:
    return NetworkOptions(
        latency_us=draws.choice((100, 500, 2_000, 10_000)),
        jitter_us=draws.choice((100, 1_000, 10_000)),
        loss=draws.choice((0.0, 0.0, 0.01, 0.03)),
        duplicate=draws.choice((0.0, 0.0, 0.01, 0.05)),
        delay=draws.choice((0.0, 0.01, 0.03)),
        delay_max_us=draws.choice((20, 200, 1000)) * MILLISECOND,
    )


def _storage(draws: Draws) -> StorageTimes:
    return StorageTimes(
        write_us=draws.choice((20, 50, 200)),
        sync_us=draws.choice((100, 300, 2_000)),
        sync_jitter_us=draws.choice((100, 1_000, 10_000)),
        completion_us=draws.choice((0, 0, 200, 2_000)),
        stall=draws.choice((0.0, 0.02, 0.05)),
        stall_max_us=draws.choice((20, 100, 400)) * MILLISECOND,
    )


def base_knobs(draws: Draws, **fixed: object) -> Knobs:
    """Knobs that every profile starts from."""
    nodes = 5 if draws.random() < 0.12 else 3
    drawn: dict[str, object] = {
        "nodes": nodes,
        "streams": draw_streams(draws, nodes, 1 if draws.random() < 0.7 else 2),
        "network": _network(draws),
        "bus": BusOptions(
            latency_us=draws.choice((100, 1_000, 5_000)),
            jitter_us=draws.choice((100, 1_000, 5_000)),
            notice_us=draws.choice((50, 200, 1000)) * MILLISECOND,
            ack_loss=draws.choice((0.0, 0.0, 0.05)),
        ),
        "storage_times": _storage(draws),
        "clock_drift": draws.choice((0.0, 0.001, 0.02)),
        "clock_skew_ms": draws.choice((0, 100, 5000)),
        "tick_ms": draws.choice((150, 200, 250)),
        "publish_interval_us": draws.choice((250, 500, 1000)) * MILLISECOND,
        "burst_max": draws.choice((2, 6, 15)),
        "value_filler": draws.choice((0, 0, 40, 700)),
        "read_interval_us": draws.choice((400, 800)) * MILLISECOND,
        "read_bytes": draws.choice((200, 2000, 20000)),
        "fetch_max_bytes": draws.choice((1, 600, 1 << 20)),
        "raft_append_max_bytes": draws.choice((1, 400, 256 * 1024)),
        "tail_cache_bytes": draws.choice((1, 500, 8 << 20)),
        "admin_interval_us": draws.choice((0, 4, 8, 16)) * SECOND,
        "inspect_interval_us": draws.choice((500, 1500)) * MILLISECOND,
        "proposals_max": draws.choice((3, 64, 1024)),
        "proposal_span": draws.choice((32, 256, 4096)),
    }
    drawn.update(fixed)
    return Knobs(**drawn)  # type: ignore[arg-type]


def lets_through(knobs: Knobs) -> Knobs:
    """This world with no more proposals than its span lets through, as the configuration of nodes asks."""
    most = knobs.proposal_span // SPANS_OF_UNCOMMITTED
    return msgspec.structs.replace(knobs, proposals_max=min(knobs.proposals_max, most))


def storing(draws: Draws) -> dict[str, object]:
    """Knobs of what storage does in the background."""
    return {
        "compaction_check_ms": draws.choice((500, 1500)),
        "compaction_bytes_per_s": draws.choice((200_000, 1 << 20, 20 << 20)),
        "map_bytes": draws.choice((0, 0, 1000, 2000)),
        "slice_bytes": draws.choice((0, 8000, 30_000)),
        "retention_check_ms": draws.choice((500, 2000)),
        "scrub_bytes_per_s": draws.choice((200_000, 500_000)),
        "encrypted": draws.random() < 0.1,
    }


OTHER_MINIMA = 0.4
"""In so many of the worlds whose streams are altered their minimum in sync is, too (R19), and more often."""
HARMLESS = (
    *("kill", "kill_all", "stop", "stop_all", "crash_inside", "partition", "isolate", "one_way", "link"),
    *("power", "power_all", "kill_then_power", "stop_then_power", "cut_bus", "cut_both", "deny", "storm"),
    *("pause", "accuse", "flap", "stutter", "slow_node", "slow_disk", "full_disk"),
)
"""Faults after which all that was durable is still there."""


def with_other_minima(draws: Draws, knobs: Knobs) -> Knobs:
    """Worlds in which copies are damaged keep a minimum of two: who lowers it to one while a copy is damaged
    is promised nothing (D3).
    """
    if not knobs.alter_interval_us or draws.random() >= OTHER_MINIMA:
        return knobs
    unsynced = any(stream.durability == "os" for stream in knobs.streams)
    hunted = knobs.hunt_report or knobs.hunt_boundary or knobs.hunt_tail or knobs.hunt_joiner
    damaged = unsynced or hunted or any(kind not in HARMLESS for kind, _ in knobs.faults)
    often_us = min(knobs.alter_interval_us, draws.choice((300, 1000, 3000)) * MILLISECOND)
    return msgspec.structs.replace(knobs, minimum_from=2 if damaged else 1, alter_interval_us=often_us)


def of_size(knobs: Knobs, nodes: int) -> dict[str, object]:
    """What else a world has so many nodes for: who founds it, who joins it later, and who votes. As many as
    are drawn found it, if there are so many: fewer nodes are fewer that join.
    """
    founders = min(nodes, knobs.nodes - knobs.joiners)
    joiners = nodes - founders if knobs.joiners else 0
    return {"nodes": nodes, "joiners": joiners, "voters": min(knobs.voters, nodes)}
