"""TCP: the other nodes on one port, clients on another.

This module joins the two (`peers.py`, `door.py`), bounds what they occupy together, and once a second lets
them hang up on whoever has fallen silent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import trio

from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import VERSIONS, Party
from liftlog.config import NetworkLimits, Secrets
from liftlog.messages import Event, PeerMessage
from liftlog.messages.tlstold import PLAIN_CLIENTS, PLAIN_PEERS
from liftlog.real.budget import Budget
from liftlog.real.certificates import Certificates
from liftlog.real.door import ClientDoor, TakeAll
from liftlog.real.gate import Gate
from liftlog.real.peers import PeerNetwork
from liftlog.types import FIRST_CLUSTER, ClusterEpoch, LiftlogError

SWEEP_S = 1.0

Take = Callable[[Event], None]


class TcpNetwork:
    """`Network` port over TCP, and the TCP door for clients. All methods belong to the trio thread."""

    def __init__(
        self,
        *,
        cluster: str,
        node: int,
        peers: Mapping[int, str],
        take: Take,
        take_all: TakeAll,
        reading: Callable[[], None] = lambda: None,
        clients: ClientRegistry,
        secrets: Secrets,
        gate: Gate,
        limits: NetworkLimits,
        lowest: Callable[[], int] = lambda: VERSIONS[0],
        belongs_to: Callable[[], ClusterEpoch] = lambda: FIRST_CLUSTER,
        certificates: Certificates | None = None,
    ) -> None:
        """`take_all`: given all requests that one read of a client's connection has brought. `gate`: who
        clients are, and what they may ask. `lowest`: see `PeerNetwork`. `certificates`: None, no TLS.
        """
        self._limits = limits
        self._certificates = certificates
        self._memory = Budget(limits.all_bytes)
        self._clients = Budget(limits.clients_bytes, self._memory)
        self._nodes = Budget(limits.peers_bytes, self._memory)
        self._counters = dict.fromkeys(
            (
                "network.sent",
                "network.dropped",
                "network.connects",
                "network.received",
                "network.client_connections",
                "network.refused",
                "network.refused_by_peers",
                "network.cut",
                "network.spans",
                "network.span_bytes",
            ),
            0,
        )
        others = {peer: split_address(address) for peer, address in peers.items() if peer != node}
        self._peers = PeerNetwork(
            Party(cluster, node, secrets.peers),
            others,
            take,
            limits=limits,
            budget=self._nodes,
            counters=self._counters,
            reading=reading,
            lowest=lowest,
            belongs_to=belongs_to,
            certificates=certificates,
        )
        self._door = ClientDoor(
            me=lambda: Party(cluster, node, gate.book.secrets),
            gate=gate,
            take=take_all,
            clients=clients,
            limits=limits,
            budget=self._clients,
            counters=self._counters,
            certificates=certificates,
        )

    @property
    def counters(self) -> dict[str, int]:
        """What happened so far, and what is occupied now."""
        found = self._counters | {
            "network.clients": self._door.connections,
            "network.peers": self._peers.incoming,
            "network.memory_bytes": self._memory.held,
            "network.memory_peak_bytes": self._memory.peak,
        }
        if self._certificates is not None:
            found |= self._certificates.counters
            found |= {PLAIN_PEERS: self._peers.plain, PLAIN_CLIENTS: self._door.plain}
        return found

    @property
    def fills(self) -> dict[str, tuple[int, int]]:
        """(bytes held, bound) of all connections, clients', nodes', and the fullest queue to a node."""
        return {
            "connections": (self._memory.held, self._memory.limit),
            "clients": (self._clients.held, self._clients.limit),
            "peers": (self._nodes.held, self._nodes.limit),
            "to-one-peer": (self._peers.fullest, self._limits.connection_bytes),
        }

    def send(self, to: int, message: PeerMessage) -> None:
        self._peers.send(to, message)

    def know(self, peers: Mapping[int, str]) -> None:
        self._peers.know({peer: split_address(address) for peer, address in peers.items()})

    def flush(self) -> None:
        """What was sent to peers, and answered to clients, since the last time leaves now."""
        self._peers.flush()
        self._door.flush()

    async def run(
        self, peer_listeners: list[trio.SocketListener], client_listeners: list[trio.SocketListener]
    ) -> None:
        """Serve the listeners and keep a connection to every peer, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._peers.run, peer_listeners)
            nursery.start_soon(self._door.run, client_listeners)
            while True:
                await trio.sleep(SWEEP_S)
                if self._certificates is not None:
                    self._certificates.refresh()
                self._peers.sweep()
                self._door.sweep()


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; an IPv6 host stands in brackets. Raises LiftlogError."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise LiftlogError(f"bad address {address!r}; use host:port with a port from 1 to 65535")
    return host.strip("[]"), int(port)


async def listen(address: str, key: str = "[node] listen") -> list[trio.SocketListener]:
    """Listeners on host:port, which `key` names. Raises LiftlogError if the port is taken or the host is not
    ours."""
    host, port = split_address(address)
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=128)
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = f"stop who uses the port or change {key}"
        raise LiftlogError(f"cannot listen on {address}: {reason}; {remedy}") from None
