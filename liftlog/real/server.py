"""One node as a process: ports of the real world around the driver, from start to orderly stop.

    listen -> recover -> run -> (signal) hand over -> last sync, clean-stop marker

The TCP port is taken first, so that a second process on the same port does not even look at the disk. NATS is
sought beside: without it a node votes, replicates and serves reads, and takes no messages (N5).
"""

from __future__ import annotations

import gc
import logging
import os
import re
import resource
import signal
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol

import trio

from liftlog.api.clients import ClientRegistry
from liftlog.api.nats_api import QUEUE, NatsApi
from liftlog.config import METRICS_KEY, METRICS_TELL, Secrets, ServerConfig, secrets_of
from liftlog.driver.driver import NodeDriver
from liftlog.driver.interpreter import NodeStopped, Observer, Ports, StepNode
from liftlog.eventlog import say
from liftlog.messages import AskOrigin, Event, OriginAnswered, StopRequested, TellAdvisory
from liftlog.ports import StorageGroups
from liftlog.real.breakdown import Breakdown, GroupTimes
from liftlog.real.bus import NatsBus
from liftlog.real.certificates import Certificates
from liftlog.real.clock import RealClock, RealRandom
from liftlog.real.gate import Gate
from liftlog.real.nats_wire import NatsAddress, parse_url
from liftlog.real.network import TcpNetwork, listen, split_address
from liftlog.real.storage_runner import GroupRunner
from liftlog.rights.book import RightsBook, read_book
from liftlog.rights.needs import KnownStreams
from liftlog.types import ClientRef, ClusterEpoch, LiftlogError, PartitionId

log = logging.getLogger("liftlog.server")

HANDOVER_S = 3.0
"""How long an orderly stop lets the core hand over before the process ends."""


class ServedNode(StepNode, Protocol):
    """A node that can say what nothing of its effects says."""

    @property
    def cluster_epoch(self) -> ClusterEpoch:
        """Of which cluster it is (M5)."""
        ...

    @property
    def handed_over(self) -> bool:
        """Whether an orderly stop has nothing left to do."""
        ...

    @property
    def lowest_protocol(self) -> int:
        """U2: which version of the protocol peers have to speak at least."""
        ...

    @property
    def metadata(self) -> KnownStreams:
        """Which streams there are, as far as it has applied that."""
        ...

    def awaits_followers(self, partitions: Collection[PartitionId]) -> bool:
        """Whether nothing that came now for one of these would leave for all its followers at once."""
        ...


class Parts(NamedTuple):
    """What has to be run."""

    driver: NodeDriver
    storage: GroupRunner
    network: TcpNetwork
    bus: NatsBus
    gate: Gate


class Onlooker(Protocol):
    """Who tells operators about a node, on `[metrics] listen`. It observes, is told, and changes nothing."""

    def attach(self, parts: Parts) -> None:
        """These are the ports of the node, which does not run yet."""

    def group_ended(self, times: GroupTimes) -> None:
        """A group of storage jobs is over."""

    def request_ended(self, client: ClientRef, answered: bool) -> None:
        """Nobody waits for this answer any more."""

    async def run(self, listeners: list[trio.SocketListener]) -> None:
        """Answer, until cancelled."""


class Companion(Protocol):
    """What runs beside the node, in its process: it may fail, and the node goes on."""

    async def run(self) -> None:
        """Until cancelled."""

    def words(self, advisory: TellAdvisory) -> tuple[bytes, bytes]:
        """The subject of an advisory, and its text."""
        ...


class OtherClusters(Protocol):
    """Who asks other clusters for what mirrors here copy (R28)."""

    def attach(self, post: Callable[[Event], None]) -> None:
        """Where answers go."""

    def ask(self, question: AskOrigin) -> None:
        """Never waits; the answer may be late, or never come."""

    async def run(self) -> None:
        """Until cancelled."""


class Built(NamedTuple):
    """A node on its recovered data folder, and who observes its steps."""

    node: ServedNode
    engine: StorageGroups
    observers: Sequence[Observer]
    onlooker: Onlooker | None = None
    beside: Companion | None = None
    links: OtherClusters | None = None


Build = Callable[[], Built]
"""Opens the data folder, recovers it and makes the node; blocking. Raises LiftlogError."""
Announce = Callable[[dict[str, object]], None]
"""Told once, when the node serves."""


def run_server(
    config: ServerConfig, build: Build, announce: Announce, version: str, with_parent: bool
) -> None:
    """Run a node until SIGTERM or SIGINT, or, if `with_parent`, until stdin ends. Raises LiftlogError.

    Whatever no contract foresees comes out as the exception it is: the node stops rather than guess.
    """
    addresses = parse_url(config.nats_url)
    config.nats_login.check(config.nats_url)
    # Files, connections, and the files that answers to readers hold open: as many as the system lets us have.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = Server(config, announce, with_parent)
    # Batches of messages come and go by reference counting; the cycle collector finds nothing among them.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        trio.run(server.main, build, addresses, version)
    except* NodeStopped as group:
        say(logging.ERROR, "stop", f"the node ends: {_first_text(group)}", reason=_first_text(group))
        raise LiftlogError(f"node {config.node} stopped: {_first_text(group)}") from None


class Server:
    """The parts of one node and how they are started and stopped."""

    def __init__(self, config: ServerConfig, announce: Announce, with_parent: bool) -> None:
        self._config = config
        self._announce = announce
        self._with_parent = with_parent
        self._stop = trio.Event()
        self._stopped_by = ""

    async def main(self, build: Build, addresses: list[NatsAddress], version: str) -> None:
        config = self._config
        secrets = secrets_of(config)
        book = rights_of(config)
        certificates = certificates_of(config)
        clients_at = await listen(config.listen)
        peers_at = await listen(config.peer_listen, "[node] peer_listen") if config.peer_listen else []
        metrics_at = await listen(config.metrics_listen, METRICS_KEY) if config.metrics_listen else []
        node, engine, observers, onlooker, beside, links = build()
        parts = assemble(
            config,
            secrets,
            addresses,
            gate=Gate(book, lambda: node.metadata, lambda: rights_of(config)),
            version=version,
            node=node,
            engine=engine,
            observers=observers,
            onlooker=onlooker,
            beside=beside,
            links=links,
            certificates=certificates,
        )
        driver, storage, network, bus = parts.driver, parts.storage, parts.network, parts.bus
        clean = False
        before = self._heed_signals(parts.gate)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(bus.run)
                nursery.start_soon(driver.run)
                nursery.start_soon(storage.run)
                nursery.start_soon(network.run, peers_at, clients_at)
                nursery.start_soon(parts.gate.run)
                if onlooker is not None:
                    nursery.start_soon(onlooker.run, metrics_at)
                if beside is not None:
                    nursery.start_soon(beside.run)
                if links is not None:
                    nursery.start_soon(links.run)
                if self._with_parent:
                    nursery.start_soon(self._watch_parent)
                if config.open_to:
                    log.warning("insecure: whoever can connect may %s; see [security]", config.open_to)
                self._announce(self._ready_line())
                where = f"clients at {config.listen}, peers at {config.peer_listen or '-'}"
                if config.metrics_listen:
                    where += f", metrics at {config.metrics_listen}"
                    if config.metrics_open:
                        log.warning("%s: whoever reaches it may read %s", METRICS_KEY, METRICS_TELL)
                say(logging.INFO, "start", f"serves {where}", listen=config.listen)
                await self._stop.wait()
                by = self._stopped_by
                say(logging.INFO, "stop", f"asked to stop by {by}: hands over", by=by)
                driver.take(StopRequested())
                with trio.move_on_after(HANDOVER_S):
                    while not node.handed_over:
                        await trio.sleep(0.005)
                    await bus.flushed()
                self._tell_handover(node.handed_over)
                nursery.cancel_scope.cancel()
            clean = True
        finally:
            driver.interpreter.end()
            await storage.close(clean)
            for number, handler in before.items():
                signal.signal(number, handler)

    @staticmethod
    def _tell_handover(done: bool) -> None:
        if done:
            say(logging.INFO, "stop", "everything is handed over, the process ends", handed_over=True)
        else:
            text = f"not everything could be handed over within {HANDOVER_S:g} s: others wait for the session"
            say(logging.WARNING, "stop", text, handed_over=False)

    def _heed_signals(self, gate: Gate) -> dict[signal.Signals, Any]:
        """From now on SIGTERM and SIGINT ask for an orderly stop, and SIGHUP, if clients prove secrets, for
        reading who they are again (certificates are read again by themselves, `Certificates`); returns who
        heeded them before.

        A task that waited for them would begin to after whoever reads the ready line may send one, and
        would have ended when another one comes, during the last sync.
        """
        token = trio.lowlevel.current_trio_token()

        def stop(by: str) -> None:
            self._stopped_by = self._stopped_by or by
            self._stop.set()

        def came(number: int, _frame: object) -> None:
            token.run_sync_soon(stop, signal.Signals(number).name)

        def reread(_number: int, _frame: object) -> None:
            token.run_sync_soon(gate.read_again)

        heeds: dict[signal.Signals, Callable[[int, object], None]]
        heeds = {signal.SIGTERM: came, signal.SIGINT: came}
        config = self._config
        if config.client_secret_file is not None or config.clients_file is not None or config.tls is not None:
            heeds[signal.SIGHUP] = reread
        return {number: signal.signal(number, heed) for number, heed in heeds.items()}

    async def _watch_parent(self) -> None:
        """Stop when the parent's end of our stdin closes: children of a killed `liftlog dev` do not
        linger."""
        async with trio.lowlevel.FdStream(os.dup(0)) as stdin:
            while await stdin.receive_some(64):
                pass
        self._stopped_by = "the end of its parent"
        self._stop.set()

    def _ready_line(self) -> dict[str, object]:
        config = self._config
        return {
            "event": "ready",
            "node": config.node,
            "pid": os.getpid(),
            "listen": config.listen,
            "metrics": config.metrics_listen,
            "nats": config.nats_url.rsplit("@", 1)[-1],
            "data": str(config.data),
        }


def assemble(
    config: ServerConfig,
    secrets: Secrets,
    addresses: list[NatsAddress],
    gate: Gate,
    version: str,
    node: ServedNode,
    engine: StorageGroups,
    observers: Sequence[Observer],
    onlooker: Onlooker | None = None,
    beside: Companion | None = None,
    links: OtherClusters | None = None,
    certificates: Certificates | None = None,
) -> Parts:
    """A node's ports, and who tells whom; nothing runs yet."""
    clock = RealClock()
    clients = ClientRegistry() if onlooker is None else ClientRegistry(onlooker.request_ended)
    driver: NodeDriver

    def take(event: Event) -> None:
        driver.take(event)

    def deliver(events: list[Event]) -> None:
        breakdown.stored(storage.times)
        driver.take_all(events)

    def flush() -> None:
        # Acks first: whoever is woken by what is sent may get this processor before we go on.
        bus.flush()
        breakdown.flushed()
        network.flush()
        storage.flush()
        # What has come from NATS meanwhile joins the next group.
        bus.read_now()

    def must_wait(partitions: Collection[PartitionId], plenty: bool) -> bool:
        # Where messages crowd, the next of them are looked at while the disk is busy.
        return (storage.busy and not plenty) or node.awaits_followers(partitions)

    if onlooker is None:
        storage = GroupRunner(engine, deliver)
    else:
        storage = GroupRunner(engine, deliver, ended=onlooker.group_ended)
    network = TcpNetwork(
        cluster=config.cluster,
        node=config.node,
        peers=config.peers,
        take=take,
        take_all=lambda events: driver.take_all(events),
        reading=lambda: breakdown.reading(),
        clients=clients,
        secrets=secrets,
        gate=gate,
        limits=config.network,
        lowest=lambda: node.lowest_protocol,
        belongs_to=lambda: node.cluster_epoch,
        certificates=certificates,
    )
    name = f"liftlog-{config.cluster}-{config.node}"
    bus = NatsBus(
        *(addresses, name, version, take, clock),
        login=config.nats_login,
        must_wait=must_wait,
        reading=lambda: breakdown.reading(),
    )
    ports = Ports(network, bus, storage, clients, clock, RealRandom(), flush=flush, tell=_teller(beside, bus))
    ports = ports._replace(ask_origin=_asker(config, links, lambda event: driver.post(event)))
    breakdown = Breakdown(clock.monotonic_ms, lambda: driver.interpreter.now_ms)
    driver = NodeDriver(node, ports, [*observers, breakdown.observe])
    api = NatsApi(config.cluster, config.node, clients, take, bus.answer)
    bus.serve_api(api.shared_subject, QUEUE, api.handle)
    bus.serve_api(api.own_subject, "", api.handle)
    for part in (storage, network, bus, api, breakdown, gate):
        clients.add_counters(lambda part=part: part.counters)  # type: ignore[misc]
    clients.add_counters(lambda: {"release.number": release_number(version)})
    parts = Parts(driver, storage, network, bus, gate)
    if onlooker is not None:
        onlooker.attach(parts)
    return parts


def rights_of(config: ServerConfig) -> RightsBook:
    """What clients may do, by the files that the configuration names, as they are. Raises LiftlogError."""
    secrets = secrets_of(config)
    return read_book(config.clients_file, secrets.clients, secrets.peers)


def certificates_of(config: ServerConfig) -> Certificates | None:
    """What the node shows at its ports, if it speaks TLS. Raises LiftlogError."""
    return None if config.tls is None else Certificates(config.tls, *called_hosts(config))


def called_hosts(config: ServerConfig) -> tuple[str, str]:
    """By which the other nodes call this one, empty if there are none, and by which clients do."""
    peer_host = split_address(config.peers[config.node])[0] if config.peer_listen else ""
    return peer_host, split_address(config.address)[0]


def _teller(beside: Companion | None, bus: NatsBus) -> Callable[[TellAdvisory], None]:
    """Publishes advisories, as the door beside words them. Where none is, nobody asked for its words here."""

    def tell(advisory: TellAdvisory) -> None:
        if beside is not None and bus.connected:
            bus.answer(*beside.words(advisory))

    return tell


def _asker(
    config: ServerConfig, links: OtherClusters | None, post: Callable[[Event], None]
) -> Callable[[AskOrigin], None]:
    """Asks the other clusters that the configuration names; of one that it does not name, it says so."""
    if links is not None:
        links.attach(post)

    def ask(question: AskOrigin) -> None:
        name = question.cluster
        if links is not None and any(name == other.name for other in config.clusters):
            links.ask(question)
            return
        problem = (
            f"the configuration of node {config.node} names no cluster '{name}': write [clusters.{name}] "
            "into that of every node, and start it again"
        )
        post(OriginAnswered(question.partition, question.origin, problem=problem))

    return ask


def release_number(version: str) -> int:
    """1.2.3 as 1002003, for who asks a node which release it is; what follows the three is left out."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", version)
    return (int(found[1]) * 1000 + int(found[2])) * 1000 + int(found[3]) if found else 0


def _first_text(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
