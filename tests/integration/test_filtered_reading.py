"""A reading with a filter from real nodes: all that matches, and nothing of the rest (S1, S2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from liftlog.client import PublishResult
from liftlog.messages import ReadReply
from liftlog.subjects.grammar import PatternRefused
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

RECORDS, EVERY = 20_000, 4000


def test_S2_what_a_filter_matches_is_read_and_nothing_of_the_rest_is_sent(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("orders", "orders.*", replication_factor=3))
        results: list[PublishResult] = []
        async with client.publisher(results.append) as publisher:
            for tag in range(RECORDS):
                subject = "orders.paid" if tag % EVERY == EVERY - 1 else "orders.new"
                headers = {"Liftlog-Key": "rare"} if tag % EVERY == 7 else None
                await publisher.send(tag, subject, b"%d " % tag + bytes(200), headers)
        wanted = sorted(one.offset for one in results if one.tag % EVERY == EVERY - 1)
        sent = [0]
        call = client.call

        async def counted(*arguments: Any) -> Any:
            reply = await call(*arguments)
            if isinstance(reply, ReadReply):
                sent[0] += sum(map(len, reply.batches))
            return reply

        client.call = counted  # type: ignore[method-assign]

        async def read(**how: Any) -> tuple[list[int], int]:
            sent[0] = 0
            found = []
            async with await client.read("orders", buffer_bytes=1 << 18, **how) as reading:
                async for _, record in reading:
                    found.append(record.offset)
            return found, sent[0]

        everything, whole = await read()
        assert len(everything) == RECORDS
        found, first = await read(filter="*.paid")
        assert found == wanted and first < 500 * len(wanted), (first, whole)
        rare = sorted(one.offset for one in results if one.tag % EVERY == 7)
        for node in (1, 2, 3):
            found, sent_by = await read(filter="*.paid", replica=node)
            assert found == wanted and sent_by < 500 * len(wanted)
            found, sent_by = await read(keys=["rare"], replica=node)
            assert found == rare and sent_by < 500 * len(rare)
        assert await read(filter="*.paid", keys=["rare"]) == ([], 0)
        assert await read(filter="*.lost") == ([], 0)
        told = await cluster.run("sub", "orders", "--key", "rare")
        assert len(told.splitlines()) == len(rare)
        told = await cluster.run("sub", "orders", "--filter", "orders.paid", "--count", "2")
        assert len(told.splitlines()) == 2
        with pytest.raises(PatternRefused):
            await client.read("orders", filter="orders..")

    with_cluster(tmp_path, 3, story)
