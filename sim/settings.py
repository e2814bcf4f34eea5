"""Parts of the worlds that profiles draw: streams, and limits that are small everywhere."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from liftlog.types import StreamConfig
from sim.knobs import Knobs


def draw_streams(draws: random.Random, nodes: int, count: int) -> tuple[StreamConfig, ...]:
    """Streams of the usual shape, now and then with fewer replicas or several partitions."""
    streams = []
    for number in range(count):
        factor = min(nodes, 3)
        if number and draws.random() < 0.25:
            factor = draws.randrange(1, factor + 1)
        partitions = 2 if draws.random() < 0.15 else 1
        streams.append(StreamConfig(f"s{number}", f"s{number}.in", partitions, factor))
    return tuple(streams)


def small_stream(draws: random.Random, name: str, *, compact: bool, retention: bool) -> StreamConfig:
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
    draws = random.Random(f"{seed}/limits")
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
