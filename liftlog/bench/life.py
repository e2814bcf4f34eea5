"""What happens to a cluster in years, done to one in minutes under a steady load: how long do writes stop?

Three real nodes found a cluster. They are killed, paused, restarted, robbed of their disks one after the
other; two more are added, vote, get the copies and give them back, and are removed; with the code of an older
release to begin with, all of them are upgraded first. After each episode everybody has a session, every copy
is in sync and everybody votes who is to, before the next one begins.

Lines become due at a fixed rate, whatever the cluster does, and each is sent until it is acknowledged
(`liftlog/demo/publisher.py`). The *longest stop* of an episode is the longest time between two acks from the
moment in which it begins until all is whole again. At the end each copy is read back, and the history is
checked on Spark.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import statistics
import threading
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import overload

import msgspec

from liftlog.client.client import Client
from liftlog.demo.account import Kill, write_history
from liftlog.demo.lines import Line
from liftlog.demo.publisher import FAIL, INFO, OK, Attempts, Publisher
from liftlog.demo.readback import count_lost, read_replica
from liftlog.local import create_stream, stream_info, wait_in_sync
from liftlog.real.local_cluster import LocalCluster, LocalNode
from liftlog.types import LiftlogError, StreamConfig

FOUNDERS = (1, 2, 3)
JOINERS = (4, 5)
STREAM = SUBJECT = "life"
WHOLE_TIMEOUT_S = 120.0
LOOK_S = 0.05
SETTLE_S = 1.0
"""At rest between two episodes."""
PAUSE_S = 3.0
"""How long a process is stopped: longer than a session."""
ASK_MS = 30_000
SHUTDOWN_S = 90.0

EPISODES = ("rest", "upgrade", "kill", "pause", "restart", "replace", "grow", "shrink")


class Occasion(msgspec.Struct, frozen=True):
    """One thing that was done, to one node."""

    name: str
    node: int
    """0: to none."""
    offices: str
    """What the node had: "leader", "controller", both, or nothing."""
    began_ns: int
    whole_ns: int


class Interruption(msgspec.Struct, frozen=True):
    """An episode, and what publishers had of it."""

    episode: str
    node: int
    offices: str
    longest_stop_ms: float
    whole_s: float
    """From its begin until everybody had a session, every copy was in sync, and voted who was to."""


class Lived(msgspec.Struct, frozen=True):
    """What came of it all."""

    stops: list[Interruption]
    rate: float
    acked: int
    refused: int
    """Attempts that certainly were not stored, and were made again."""
    unknown: int
    """Attempts without an answer, or whose leader did not know; made again."""
    lost: int
    """Acknowledged messages that a copy does not have where its ack said."""
    copies: int
    seconds: float


class EndlessLines(Sequence[Line]):
    """As many lines as anybody may want."""

    def __len__(self) -> int:
        return 1 << 40

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        if isinstance(index, slice):
            raise TypeError("lines are asked for one by one")
        return Line("life", index, "x" * 64)


def longest_stop_ms(acks_ns: Sequence[int], began_ns: int, whole_ns: int) -> float:
    """The longest time between two acks, of those from the last before `began_ns` to the first behind
    `whole_ns`. `acks_ns` is sorted. Raises LiftlogError if there is none before, or none behind.
    """
    first = bisect_right(acks_ns, began_ns) - 1
    last = bisect_right(acks_ns, whole_ns)
    if first < 0 or last >= len(acks_ns):
        raise LiftlogError("no message was acknowledged before, or none after; see the nodes' logs")
    times = acks_ns[first : last + 1]
    return max(later - earlier for earlier, later in pairwise(times)) / 1e6


class Life:
    """Made of a cluster that is not started yet: call `run` once, when the founders have been."""

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        rate: float,
        rounds: int,
        only: Sequence[str],
        newer: str = "",
        show: Callable[[str], None],
    ) -> None:
        """`newer`: the folder of the code to which nodes are upgraded; empty: they run it already. `show`
        hears what is being done.
        """
        self.cluster = cluster
        self.episodes: list[Occasion] = []
        self.kills: list[Kill] = []
        self._rate = rate
        self._rounds = rounds
        self._wanted = only
        self._newer = newer
        self._show = show
        self._later = {number: cluster.nodes.pop(number) for number in JOINERS}
        founding = {number: cluster.peer_addresses[number] for number in FOUNDERS}
        for node in cluster.nodes.values():
            node.config = msgspec.structs.replace(node.config, peers=founding)
        self._voters = list(FOUNDERS)

    def run(self, history: Path) -> Lived:
        """Live, read everything back, and leave the history in the folder `history`. Raises LiftlogError."""
        cluster = self.cluster
        create_stream(cluster, StreamConfig(STREAM, f"{SUBJECT}.>", replication_factor=3))
        wait_in_sync(cluster, STREAM)
        port = int(cluster.nats_url.rpartition(":")[2])
        publisher = Publisher(
            port, SUBJECT, STREAM, EndlessLines(), lambda acked, epoch, now_ns: None, self._rate
        )
        failures: list[BaseException] = []

        def publish() -> None:
            try:
                publisher.run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=publish, name="publisher", daemon=True)
        started_ns = time.monotonic_ns()
        thread.start()
        try:
            asyncio.run(self._live())
        except LiftlogError:
            if failures:
                raise failures[0] from None
            raise
        finally:
            publisher.stop()
            thread.join(SHUTDOWN_S)
        if failures:
            raise failures[0]
        if thread.is_alive():
            raise LiftlogError(
                f"messages were not acknowledged within {SHUTDOWN_S:.0f} s after all was whole"
            )
        self._show("reading every copy back")
        return self._account(publisher.attempts, (time.monotonic_ns() - started_ns) / 1e9, history)

    def _account(self, attempts: Attempts, seconds: float, history: Path) -> Lived:
        replicas = stream_info(self.cluster, STREAM).partitions[0].replicas
        reads = [read_replica(self.cluster, STREAM, node, lambda count: None) for node in replicas]
        write_history(
            folder=history,
            name="life",
            key=f"{STREAM}/0",
            attempts=attempts,
            reads=reads,
            kills=self.kills,
            meta={"nodes": str(len(FOUNDERS) + len(JOINERS)), "replicas": str(len(replicas))},
        )
        acks_ns = sorted(
            came for came, outcome in zip(attempts.t_ret_ns, attempts.outcome, strict=True) if outcome == OK
        )
        stops = [
            Interruption(
                episode=episode.name,
                node=episode.node,
                offices=episode.offices,
                longest_stop_ms=longest_stop_ms(acks_ns, episode.began_ns, episode.whole_ns),
                whole_s=(episode.whole_ns - episode.began_ns) / 1e9,
            )
            for episode in self.episodes
        ]
        outcomes = attempts.outcome
        return Lived(
            stops=stops,
            rate=self._rate,
            acked=len(acks_ns),
            refused=outcomes.count(FAIL),
            unknown=outcomes.count(INFO),
            lost=count_lost(attempts, reads),
            copies=len(reads),
            seconds=seconds,
        )

    # -- the episodes --------------------------------------------------------------------------------------

    async def _live(self) -> None:
        cluster = self.cluster
        secret = cluster.client_secret_file
        async with await Client.connect(
            cluster.nats_url, cluster=cluster.cluster, secret_file=secret
        ) as client:
            await self._whole(client)
            for name in EPISODES:
                if name in self._wanted:
                    for _ in range(self._rounds if name not in ("upgrade", "grow", "shrink") else 1):
                        await getattr(self, f"_{name}")(client)

    async def _rest(self, client: Client) -> None:
        await self._episode(client, "rest", 0, lambda: asyncio.sleep(SETTLE_S))

    async def _upgrade(self, client: Client) -> None:
        """Each node stops in an orderly way and starts with the newer code; then the level rises."""
        if not self._newer:
            return
        for number in FOUNDERS:
            node = self.cluster.nodes[number]

            async def upgraded(node: LocalNode = node) -> None:
                await self._stop(node)
                node.packages = self._newer
                await self._start(node)

            await self._episode(client, "upgrade", number, upgraded)

        async def raised() -> None:
            await client.raise_level(timeout_ms=ASK_MS)

        await self._episode(client, "level raised", 0, raised)

    async def _kill(self, client: Client) -> None:
        """The leader gets SIGKILL, and is started again once another one leads."""
        number = await self._leader(client)
        node = self.cluster.nodes[number]

        async def killed() -> None:
            killed_ns = time.monotonic_ns()
            await asyncio.to_thread(node.kill)
            await self._leader(client, other_than=number)
            self.kills.append(Kill(number, killed_ns, time.monotonic_ns()))
            await self._start(node)

        await self._episode(client, "kill", number, killed)

    async def _pause(self, client: Client) -> None:
        """The leader's process is stopped for longer than a session, and goes on."""
        number = await self._leader(client)
        node = self.cluster.nodes[number]

        async def paused() -> None:
            node.send(signal.SIGSTOP)
            try:
                await asyncio.sleep(PAUSE_S)
            finally:
                node.send(signal.SIGCONT)

        await self._episode(client, f"pause of {PAUSE_S:g} s", number, paused)

    async def _restart(self, client: Client) -> None:
        """A rolling restart: each node is asked to stop, and started again."""
        for number in FOUNDERS:
            node = self.cluster.nodes[number]

            async def restarted(node: LocalNode = node) -> None:
                await self._stop(node)
                await self._start(node)

            await self._episode(client, "rolling restart", number, restarted)

    async def _replace(self, client: Client) -> None:
        """Each disk is lost in turn: the process is killed, and comes back with an empty folder."""
        for number in FOUNDERS:
            node = self.cluster.nodes[number]

            async def replaced(number: int = number, node: LocalNode = node) -> None:
                killed_ns = time.monotonic_ns()
                await asyncio.to_thread(node.kill)
                await asyncio.to_thread(shutil.rmtree, node.config.data)
                self.kills.append(Kill(number, killed_ns, time.monotonic_ns()))
                await self._start(node)

            await self._episode(client, "disk replaced", number, replaced)

    async def _grow(self, client: Client) -> None:
        """Two more nodes are added, vote, and get copies."""
        for number in JOINERS:
            node = self.cluster.nodes[number] = self._later[number]
            known = FOUNDERS[number % len(FOUNDERS)]
            peers = {each: self.cluster.peer_addresses[each] for each in (known, number)}
            node.config = msgspec.structs.replace(node.config, peers=peers, join=True)

            async def added(number: int = number, node: LocalNode = node) -> None:
                await client.add_node(number, self.cluster.peer_addresses[number], timeout_ms=ASK_MS)
                await self._start(node)

                async def registered() -> bool:
                    status = await client.status(timeout_ms=1000)
                    return any(each.node == number and each.live for each in status.nodes)

                await self._until(registered, f"a session of node {number}")
                await self._voting(client, number, True)

            await self._episode(client, "node added", number, added)

        async def moved() -> None:
            await client.move_replicas(STREAM, 0, [*JOINERS, FOUNDERS[0]], timeout_ms=ASK_MS)

        await self._episode(client, "copies moved", 0, moved)
        await self._kill(client)

    async def _shrink(self, client: Client) -> None:
        """The two are drained, vote no more, and are removed."""
        for number in JOINERS:
            if number not in self.cluster.nodes:
                continue

            async def drained(number: int = number) -> None:
                await client.drain_node(number, True, timeout_ms=ASK_MS)

                async def empty() -> bool:
                    partitions = (await client.stream(STREAM, timeout_ms=ASK_MS)).partitions
                    return all(number not in (*each.replicas, *each.dropping) for each in partitions)

                await self._until(empty, f"node {number} to have no copy")
                await self._voting(client, number, False)

            await self._episode(client, "node drained", number, drained)

            async def removed(number: int = number) -> None:
                await client.remove_node(number, timeout_ms=ASK_MS)
                node = self.cluster.nodes.pop(number)
                await asyncio.to_thread(node.wait)

            await self._episode(client, "node removed", number, removed)

    # -- one episode ----------------------------------------------------------------------------------------

    async def _episode(
        self, client: Client, name: str, node: int, act: Callable[[], Awaitable[None]]
    ) -> None:
        await asyncio.sleep(SETTLE_S)
        offices = await self._offices(client, node) if node in self.cluster.nodes else ""
        self._show(f"{name}{f', node {node}' if node else ''}{f' ({offices})' if offices else ''}")
        began_ns = time.monotonic_ns()
        await act()
        await self._whole(client)
        self.episodes.append(Occasion(name, node, offices, began_ns, time.monotonic_ns()))

    async def _stop(self, node: LocalNode) -> None:
        node.terminate()
        await asyncio.to_thread(node.wait)

    async def _start(self, node: LocalNode) -> None:
        node.launch()
        await asyncio.to_thread(node.wait_ready)

    async def _voting(self, client: Client, node: int, votes: bool) -> None:
        await client.set_voter(node, votes, timeout_ms=ASK_MS)
        self._voters = sorted({*self._voters, node} if votes else {*self._voters} - {node})

    # -- looking -------------------------------------------------------------------------------------------

    async def _offices(self, client: Client, node: int) -> str:
        leader = (await client.stream(STREAM, timeout_ms=ASK_MS)).partitions[0].leader
        controller = (await client.status(timeout_ms=ASK_MS)).controller
        return " and ".join(
            name for name, holder in (("leader", leader), ("controller", controller)) if holder == node
        )

    async def _leader(self, client: Client, other_than: int = 0) -> int:
        """Wait for a leader of the stream that takes messages."""
        found = 0

        async def ready() -> bool:
            nonlocal found
            partition = (await client.stream(STREAM, timeout_ms=1000)).partitions[0]
            found = partition.leader if partition.ready else 0
            return found not in (0, other_than)

        await self._until(ready, "a leader")
        return found

    async def _whole(self, client: Client) -> None:
        """Wait until everybody has a session, votes who is to, and each copy is in sync where it is to be."""

        async def whole() -> bool:
            partition = (await client.stream(STREAM, timeout_ms=1000)).partitions[0]
            in_sync = sorted(partition.isr) == sorted(partition.replicas)
            if not (partition.ready and in_sync) or partition.target or partition.dropping:
                return False
            for number in self.cluster.nodes:
                status = await client.status(number, timeout_ms=1000)
                contact, live = status.contact, sorted(each.node for each in status.nodes if each.live)
                if list(contact.voters) != self._voters or contact.learners or contact.fenced:
                    return False
                if live != sorted(self.cluster.nodes) or (number in self._voters) != (contact.vote == "born"):
                    return False
            return True

        await self._until(whole, "the cluster to be whole")

    async def _until(self, reached: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline_s = time.monotonic() + WHOLE_TIMEOUT_S
        last = ""
        while True:
            try:
                if await reached():
                    return
            except LiftlogError as error:
                last = f" ({error})"
            for number, node in self.cluster.nodes.items():
                if not node.running and node.process is not None and node.process.returncode not in (0, -9):
                    raise LiftlogError(f"node {number} has ended: {node.last_words()}")
            if time.monotonic() > deadline_s:
                raise LiftlogError(f"waited {WHOLE_TIMEOUT_S:.0f} s for {what}{last}; {self._words()}")
            await asyncio.sleep(LOOK_S)

    def _words(self) -> str:
        said = (f"node {number}: {node.last_words()}" for number, node in self.cluster.nodes.items())
        return "the last words of " + "; ".join(said)


def medians(stops: Sequence[Interruption]) -> list[tuple[str, int, float, float, float]]:
    """For each kind of episode, in order: name, how often, median and maximum of the longest stops in ms, and
    the median time until all was whole, in s.
    """
    kinds = dict.fromkeys(stop.episode for stop in stops)
    rows = []
    for kind in kinds:
        found = [stop for stop in stops if stop.episode == kind]
        times = [stop.longest_stop_ms for stop in found]
        whole = statistics.median(stop.whole_s for stop in found)
        rows.append((kind, len(found), statistics.median(times), max(times), whole))
    return rows
