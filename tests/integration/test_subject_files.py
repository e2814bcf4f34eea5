"""Real nodes answer about subjects after SIGKILL, out of the files that the one before had written (S1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.bench.subjects_node import measure_node
from liftlog.client import Client
from liftlog.scratch import Scratch
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, liftlog, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

COUNT = 60
EXPECTED = {b"orders.%d" % number: COUNT // 7 + (number < COUNT % 7) for number in range(7)}


def subject_files(folder: Path) -> dict[str, int]:
    """Each with the time of its last change."""
    found = sorted(folder.rglob("*.subjects"))
    return {path.name: path.stat().st_mtime_ns for path in found}


async def lasts(client: Client) -> list[int]:
    found = [await client.last("orders", f"orders.{number}", timeout_ms=60_000) for number in range(7)]
    return [one.record.offset for one in found if one is not None]


def test_S1_a_killed_node_answers_out_of_subject_files_and_is_right_without_them(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, node = harness.client, harness.cluster.nodes[1]
        await client.create_stream(StreamConfig("orders", "orders.*", 1, 1, segment_records=8))
        for number in range(COUNT):
            assert (await client.publish(f"orders.{number % 7}", b"%d" % number)).outcome == "ok"
        newest = sorted(range(COUNT - 7, COUNT), key=lambda offset: offset % 7)
        assert await client.subjects("orders", timeout_ms=60_000) == EXPECTED
        assert await lasts(client) == newest
        written = subject_files(node.config.data)
        assert len(written) == (COUNT - 1) // 8

        for damage in (None, b"\xff" * 9):
            node.kill()
            if damage is not None:
                path = next(node.config.data.rglob("*.subjects"))
                path.write_bytes(path.read_bytes()[:50] + damage + path.read_bytes()[59:])
            node.launch()
            node.wait_ready()
            assert await client.subjects("orders", timeout_ms=60_000) == EXPECTED
            assert await lasts(client) == newest
            if damage is None:
                assert subject_files(node.config.data) == written, "they were read, and not written again"
        node.kill()

    stopped = with_cluster(tmp_path, 1, story)
    code, said, error = liftlog("log", "verify", str(stopped.nodes[1].config.data))
    assert code == 0, said + error


@pytest.mark.nightly
def test_S1_ten_million_messages_over_a_million_subjects(tmp_path: Path) -> None:
    """The figures of docs/subject-index.md; how long it took is the machine's affair."""
    with Scratch("bench", tmp_path) as scratch:
        steps = measure_node(scratch, 10_000_000, 1_000_000, lambda text: None)
    assert steps.keys() == {"first", "again", "read"}
    assert steps["again"]["files_mb"] > 100
    assert max(step["peak_mb"] for step in steps.values()) < 300
