"""SIGTERM of real processes: offices are handed over, in this order, and nothing waits for an expiry."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.trace.replica_lines import GroupStep
from liftlog.types import StreamConfig
from liftlog_sim.page.from_nodes import chart_of_nodes
from liftlog_sim.page.writing import PAGE_BYTES_MAX, write_page
from liftlog_spec.refine.traces import read_lines
from tests.integration.cluster import Harness, Writer, until, with_cluster

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("s", "s", replication_factor=3)


async def make_controller(cluster: Harness, node: int) -> None:
    async def moved() -> bool:
        if await cluster.controller() == node:
            return True
        await cluster.client.transfer_controller(node, timeout_ms=1000)
        return False

    await until(moved, f"node {node} as controller")


def commands(folder: Path) -> list[GroupStep]:
    """Every command of the metadata group that the nodes have told of, each once, in the group's order."""
    found: dict[tuple[int, object], GroupStep] = {}
    for path in folder.iterdir():
        for line in read_lines(path):
            if isinstance(line, GroupStep):
                found[line.index, line.partition] = line
    return [found[key] for key in sorted(found, key=lambda key: key[0])]


def require_page(folder: Path) -> None:
    """What real nodes have written makes a page: all of it, in causal order."""
    chart = chart_of_nodes(sorted((folder / "traces").iterdir()))
    assert chart.nodes == [1, 2, 3] and chart.disagreement is None and not chart.notes
    assert sum(step.words == "starts" for step in chart.steps) == 4
    linked = [step for step in chart.steps if step.arrival is not None and step.arrival.sent >= 0]
    assert len(linked) > 100
    for step in linked:
        assert step.arrival is not None
        assert chart.steps[step.arrival.sent].node == step.arrival.sender
        assert step.arrival.sent < step.number
    assert write_page(chart, folder / "cluster.html") < PAGE_BYTES_MAX


@pytest.mark.parametrize("office", ["leader", "controller", "both"])
def test_a_stopped_node_s_successors_are_chosen_by_its_leaving(tmp_path: Path, office: str) -> None:
    victim = successor = 0

    async def story(cluster: Harness) -> None:
        nonlocal victim, successor
        await cluster.client.create_stream(STREAM)
        leader = await cluster.leader("s")
        other = leader % 3 + 1
        await make_controller(cluster, leader if office == "both" else other)
        victim = other if office == "controller" else leader
        async with Writer(cluster.client, "s", office, ack_timeout_ms=20_000) as writer:
            await writer.more_acks(100)
            cluster.cluster.nodes[victim].terminate()
            await writer.more_acks(100)
            assert cluster.cluster.nodes[victim].wait(20) == 0
            await writer.more_acks(100)
            successor = await cluster.leader("s")
            assert successor != victim
            assert await cluster.controller() != victim
            await cluster.start(victim)
            await cluster.in_sync("s", 3)
        # What was under way was answered: the only ones without an ack had found nobody, and know it.
        assert {result.outcome for result in writer.others} <= {"fail"}
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)
    require_page(tmp_path)
    told = commands(tmp_path / "traces")
    names = [step.command for step in told]
    assert "ExpireNode" not in names
    leaving = next(step for step in told if step.command == "LeaveNode")
    assert leaving.about == victim
    before = next(step for step in reversed(told[: told.index(leaving)]) if step.after is not None)
    assert before.after is not None and leaving.after is not None
    assert victim in before.after.isr and victim not in leaving.after.isr
    if office == "controller":
        assert leaving.after.epoch == before.after.epoch
    else:
        assert before.after.leader == victim
        assert (leaving.after.leader, leaving.after.epoch) == (successor, before.after.epoch + 1)


def test_nodes_that_stop_one_after_the_other_never_stop_the_writes(tmp_path: Path) -> None:
    """An upgrade: each is back in sync before the next one goes."""

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        async with Writer(cluster.client, "s", "rolling", ack_timeout_ms=20_000) as writer:
            await writer.more_acks(50)
            for node in (1, 2, 3):
                cluster.cluster.nodes[node].terminate()
                assert cluster.cluster.nodes[node].wait(20) == 0
                await writer.more_acks(50)
                await cluster.start(node)
                await cluster.in_sync("s", 3)
        assert {result.outcome for result in writer.others} <= {"fail"}
        await cluster.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)
    assert "ExpireNode" not in [step.command for step in commands(tmp_path / "traces")]
