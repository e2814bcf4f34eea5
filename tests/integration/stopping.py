"""Processes that stand still, and go on."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.integration.cluster import Harness, until


async def stop(cluster: Harness, *nodes: int) -> None:
    """SIGSTOP, and wait until the processes stand still."""
    for number in nodes:
        node = cluster.cluster.nodes[number]
        node.send(signal.SIGSTOP)

        async def stands(pid: int = node.pid) -> bool:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        await until(stands, f"node {number} stopped")


def wake(cluster: Harness, *nodes: int) -> None:
    for number in nodes:
        cluster.cluster.nodes[number].send(signal.SIGCONT)
