"""A publisher that speaks JetStream cannot tell our answers from JetStream's, but for what we do not do."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats
import nats.js.errors
import pytest
from nats.aio.client import Client as NatsConnection

from liftlog.messages import ERR_HEADER
from liftlog.options.headers import NOT_HONOURED
from liftlog.real.nats_server import NatsServer
from liftlog.types import StreamConfig
from tests.integration.cluster import Harness, with_cluster

pytestmark = pytest.mark.real

REFUSED_BY_BOTH = (
    {"Nats-Expected-Stream": "other"},
    {"Nats-TTL": "1h"},
    {"Nats-Rollup": "all"},
    {"Nats-Incr": "+1"},
    {"Nats-Schedule": "@every 5m", "Nats-Schedule-Target": "orders.a"},
    {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": "1"},
    {"Nats-Stream-Source": "other"},
)
STORED_BY_BOTH = (
    {},
    {"Nats-Expected-Stream": "orders"},
    {"nats-msg-id": "1"},
    {"Nats-Msg-Id": ""},
    {"Nats-Stream": "elsewhere"},
    {"Kind": "x"},
)


async def answers(connection: NatsConnection) -> list[dict[str, object]]:
    found = []
    for headers in (*REFUSED_BY_BOTH, *STORED_BY_BOTH):
        reply = await connection.request("orders.a", b"x", timeout=5, headers=dict(headers))
        found.append(json.loads(reply.data))
    return found


def test_L4_answers_have_the_keys_and_the_error_codes_of_jetstream_s_own(tmp_path: Path) -> None:
    async def of_jetstream(url: str) -> list[dict[str, object]]:
        connection = await nats.connect(url)
        try:
            await connection.jetstream().add_stream(name="orders", subjects=["orders.>"])
            return await answers(connection)
        finally:
            await connection.close()

    server = NatsServer(tmp_path / "nats", extra=("--jetstream", "--store_dir", str(tmp_path / "store")))
    server.start()
    try:
        theirs = asyncio.run(of_jetstream(server.url))
    finally:
        server.stop()
    ours: list[dict[str, object]] = []

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("orders", "orders.>"))
        ours.extend(await answers(cluster.client.nats))
        assert set(await cluster.read("orders")) == set(range(len(STORED_BY_BOTH)))

    with_cluster(tmp_path / "nodes", 1, story)
    for headers, mine, other in zip((*REFUSED_BY_BOTH, *STORED_BY_BOTH), ours, theirs, strict=True):
        assert set(mine) == set(other), headers
        assert (mine["stream"], mine["seq"]) == (other["stream"], other["seq"]), headers
        if "error" in mine:
            error, their_error = mine["error"], other["error"]
            assert isinstance(error, dict) and isinstance(their_error, dict)
            assert error | {"description": ""} == their_error | {"description": ""}, headers


def test_L4_whoever_relies_on_a_header_that_does_not_work_is_told(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("orders", "orders.>"))
        jetstream = client.nats.jetstream()
        for beginning, code, why in NOT_HONOURED:
            name = beginning.decode() + ("Id" if beginning.endswith(b"-") else "")
            with pytest.raises(nats.js.errors.APIError) as caught:
                await jetstream.publish("orders.a", b"x", headers={name: "1"})
            assert caught.value.description is not None
            assert name in caught.value.description and why in caught.value.description
            if code == ERR_HEADER:
                assert caught.value.err_code == 10003
            await client.nats.publish("orders.a", b"x", headers={name: "1"})
        result = await client.publish("orders.a", b"stored")
        assert (result.outcome, result.offset) == ("ok", 0), "nothing before it was stored"
        assert result.incarnation > 0
        status = await client.status()
        assert status.counters["nats.refused_headers"] == 2 * len(NOT_HONOURED)

    stopped = with_cluster(tmp_path, 1, story)
    log = stopped.nodes[1].log_path.read_text()
    assert log.count("stream 'orders' refused") == 1, "the log is spared whatever publishers do"
