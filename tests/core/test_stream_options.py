"""The options of `liftlog stream create`: units, and what `stream info` says of them."""

from __future__ import annotations

import argparse

import pytest

from liftlog.commands.common import duration_ms, size_bytes
from liftlog.commands.pubsub import time_to_live
from liftlog.commands.stream import add_parser
from liftlog.commands.streamoptions import LOG_OPTIONS
from liftlog.commands.streamview import describe_log
from liftlog.core.metadata.limits import with_defaults
from liftlog.messages import CreateStreamRequest
from liftlog.types import StreamConfig
from tests.core.node_harness import World


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["stream", "create", "s", "s.>", *arguments])


def test_without_options_a_stream_has_the_defaults() -> None:
    arguments = parsed()
    default = StreamConfig("s", "s.>")
    assert {name: getattr(arguments, name) for name in LOG_OPTIONS} == {
        name: getattr(default, name) for name in LOG_OPTIONS
    }
    assert describe_log(default) == "log: kept for ever, not compacted, synced"


def test_every_option_of_the_log_can_be_given() -> None:
    arguments = parsed(
        *("--retention-ms", "7d", "--retention-bytes", "10GiB", "--retention-messages", "5", "--compact"),
        *("--min-compaction-lag-ms", "1m", "--dirty-ratio-percent", "20", "--tombstone-retention-ms", "2h"),
        *("--segment-bytes", "1MiB", "--segment-ms", "60s", "--segment-records", "9", "--codec", "lz4"),
        *("--durability", "os"),
    )
    config = StreamConfig("s", "s.>", **{name: getattr(arguments, name) for name in LOG_OPTIONS})
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert describe_log(config) == (
        "log: retention_ms 604800000, retention_bytes 10737418240, retention_messages 5, compact, "
        "min_compaction_lag_ms 60000, dirty_ratio_percent 20, tombstone_retention_ms 7200000, "
        "segment_bytes 1048576, segment_ms 60000, segment_records 9, codec lz4, durability os"
    )


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("12ms", 12), ("3s", 3000), ("2m", 120_000), ("1h", 3_600_000)]
)
def test_durations(text: str, value: int) -> None:
    assert duration_ms(text) == value


@pytest.mark.parametrize(("text", "value"), [("12", 12), ("2KiB", 2048), ("1TiB", 1 << 40)])
def test_sizes(text: str, value: int) -> None:
    assert size_bytes(text) == value


@pytest.mark.parametrize("text", ["", "-1", "1.5h", "3 s", "s", "1kb", "0x10"])
def test_anything_else_names_the_units(text: str) -> None:
    for parse, unit in ((duration_ms, "ms, s, m, h, d"), (size_bytes, "KiB, MiB, GiB, TiB")):
        with pytest.raises(argparse.ArgumentTypeError, match=unit):
            parse(text)


def test_a_time_to_live_is_a_second_at_least_in_the_options_own_words() -> None:
    assert [time_to_live(text) for text in ("0", "1s", "90s")] == [0, 1000, 90_000]
    for text in ("10ms", "999", "200000d"):
        with pytest.raises(argparse.ArgumentTypeError, match=rf"{text}: a message lives 1s to 106751d, or 0"):
            time_to_live(text)


@pytest.mark.parametrize(
    ("asked", "nodes", "factor", "minimum"),
    [
        ((0, 0), 1, 1, 1),
        ((0, 0), 2, 2, 1),
        ((0, 0), 3, 3, 2),
        ((0, 0), 5, 3, 2),
        ((0, 3), 5, 3, 3),
        ((2, 0), 5, 2, 1),
    ],
)
def test_what_is_not_asked_for_is_safe(asked: tuple[int, int], nodes: int, factor: int, minimum: int) -> None:
    config = with_defaults(StreamConfig("s", "s", 1, *asked), nodes)
    assert (config.replication_factor, config.min_insync_replicas) == (factor, minimum)


def test_a_stream_is_made_and_told_with_the_numbers_that_hold() -> None:
    """Also while only some of the cluster's nodes have registered: the default does not shrink."""
    world = World(3)
    reply = world.answer(1, CreateStreamRequest(StreamConfig("s", "s")))
    config = reply.streams[0].config
    assert (config.replication_factor, config.min_insync_replicas) == (3, 2)
    assert len(reply.streams[0].partitions[0].replicas) == 3
    again = world.answer(2, CreateStreamRequest(StreamConfig("s", "s")))
    assert again.streams[0].id == reply.streams[0].id
