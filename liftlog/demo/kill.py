"""Kills the partition's leader in mid-stream, and starts it again once another node leads."""

from __future__ import annotations

import time

from liftlog.demo.account import Kill
from liftlog.local import stream_info
from liftlog.real.local_cluster import LocalCluster


class LeaderKill:
    """Call `watch` with the publisher's progress. The kill happens when `at` messages are acknowledged."""

    def __init__(self, cluster: LocalCluster, stream: str, at: int) -> None:
        self._cluster = cluster
        self._stream = stream
        self._at = at
        self._epoch_before = -1
        self.victim = 0
        self.killed_ns = 0
        self.acked_before = 0
        self.failover_ms = 0.0
        """From the SIGKILL to the first ack of a later epoch; 0 until then."""
        self.restarted_ns = 0

    @property
    def done(self) -> bool:
        return self.restarted_ns > 0

    def watch(self, acked: int, epoch: int, now_ns: int) -> None:
        if not self.victim:
            if acked >= self._at:
                self._kill(acked)
        elif not self.failover_ms and epoch > self._epoch_before:
            self.failover_ms = (now_ns - self.killed_ns) / 1e6
            self.restart()

    def restart(self) -> None:
        """Start the killed node again, unless that was done."""
        if self.victim and not self.restarted_ns:
            self._cluster.nodes[self.victim].launch()
            self.restarted_ns = time.monotonic_ns()

    def _kill(self, acked: int) -> None:
        partition = stream_info(self._cluster, self._stream).partitions[0]
        self.acked_before = acked
        self._epoch_before = partition.epoch
        self.victim = partition.leader
        self.killed_ns = time.monotonic_ns()
        self._cluster.nodes[self.victim].kill()

    def record(self) -> list[Kill]:
        """For the history's fault bands."""
        return [Kill(self.victim, self.killed_ns, self.restarted_ns)] if self.done else []
