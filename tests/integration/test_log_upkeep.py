"""Retention, purge, compaction and codecs from the command line, on real processes and files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import pytest

from liftlog.real.local_cluster import LocalCluster
from tests.integration.cluster import liftlog

pytestmark = pytest.mark.real

DEADLINE_S = 30.0
QUICK = {"retention_check_ms": 200, "compaction_check_ms": 200, "scrub_bytes_per_s": 64 * 1024 * 1024}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), 3, protocol=QUICK) as cluster:
        yield {"LIFTLOG_NATS": cluster.nats_url}


def ask(environment: dict[str, str], *arguments: str, stdin: bytes = b"") -> str:
    code, output, error = liftlog(*arguments, environment=environment, stdin=stdin)
    assert (code, error) == (0, "")
    return output


def until_true(condition: Callable[[], bool]) -> None:
    """Ask again until it is so."""
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "it did not become so in time"


def values(environment: dict[str, str], stream: str, *how: str) -> list[tuple[int, object]]:
    lines = ask(environment, "sub", stream, "--from", "earliest", "--json", *how).splitlines()
    records = [json.loads(line) for line in lines]
    return [(record["offset"], record["value"]) for record in records]


def test_a_purge_removes_records_on_every_replica(environment: dict[str, str]) -> None:
    ask(environment, "stream", "create", "purged", "purged.>", "--replicas", "3", "--codec", "zstd")
    lines = b"".join(b"line %d\n" % number for number in range(300))
    ask(environment, "pub", "purged.a", "--stdin", "--quiet", stdin=lines)
    assert "at or above offset 250" in ask(environment, "stream", "purge", "purged", "--before", "250")
    for node in ("1", "2", "3"):
        found = values(environment, "purged", "--replica", node)
        assert found == [(number, f"line {number}") for number in range(250, 300)]
    code, _, error = liftlog("stream", "purge", "purged", "--before", "301", environment=environment)
    assert (code, "purge up to that" in error) == (2, True)
    code, _, error = liftlog("sub", "purged", "--from", "3", environment=environment)
    assert (code, "'earliest'" in error) == (2, True)


def test_retention_keeps_what_was_asked_for(environment: dict[str, str]) -> None:
    create = ("stream", "create", "short", "short", "--replicas", "3", "--segment-records", "10")
    ask(environment, *create, "--retention-messages", "20")
    for part in range(10):
        text = b"".join(b"%d\n" % number for number in range(part * 10, part * 10 + 10))
        ask(environment, "pub", "short", "--stdin", "--quiet", stdin=text)
    until_true(lambda: len(values(environment, "short")) <= 40)
    assert values(environment, "short")[-1] == (99, "99")
    assert len(values(environment, "short")) >= 20
    assert "retention_messages 20" in ask(environment, "stream", "info", "short")


def test_compaction_keeps_the_last_value_of_every_key(environment: dict[str, str]) -> None:
    create = ("stream", "create", "table", "table", "--replicas", "3", "--compact", "--segment-records", "4")
    ask(environment, *create, "--dirty-ratio-percent", "1", "--tombstone-retention-ms", "0")
    rounds = [b"%d\n" % number for number in range(4)]
    for key in ("a", "b", "gone"):
        for value in rounds:
            ask(environment, "pub", "table", "--stdin", "--key", key, "--quiet", stdin=value)
    ask(environment, "pub", "table", "--key", "gone", "--tombstone", "--quiet")
    for part in range(3):
        lines = b"".join(b"plain %d\n" % number for number in range(part * 4, part * 4 + 4))
        ask(environment, "pub", "table", "--stdin", "--quiet", stdin=lines)
    wanted = [(3, "3"), (7, "3"), *((13 + number, f"plain {number}") for number in range(12))]
    for node in ("1", "2", "3"):
        until_true(lambda node=node: values(environment, "table", "--replica", node) == wanted)  # type: ignore[misc]


def test_what_durability_os_gives_up_is_said(environment: dict[str, str]) -> None:
    create = ("stream", "create", "loose", "loose", "--durability", "os")
    code, output, error = liftlog(*create, environment=environment)
    assert (code, "created stream" in output) == (0, True)
    assert "durability os" in ask(environment, "stream", "info", "loose")
    assert error.count("\n") == 1
    assert "acknowledged before they are synced" in error


def test_a_value_that_is_not_accepted_is_named_with_its_range(environment: dict[str, str]) -> None:
    code, _, error = liftlog(
        "stream", "create", "bad", "bad", "--segment-bytes", "10", environment=environment
    )
    assert (code, "segment_bytes = 10" in error, "1024 to" in error) == (2, True, True)
