"""A cluster on this machine: a nats-server and some nodes, each a process of its own.

`liftlog dev`, the demo and the integration tests all start clusters through this module, so that what a test
kills is exactly what a user runs. Everything lies in one folder:

    <folder>/nats/…            nats-server's log
    <folder>/node-1/liftlog.toml, node.log, data/
    <folder>/cluster.secret    what the nodes prove to each other
    <folder>/tls/              with TLS: a CA and a certificate for each node

The clients' secret lies where clients of this user look for it (`liftlog.security`), so that commands in
another terminal need no option. It is made at the first start and kept.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO

from liftlog.config import DEFAULT_CLUSTER, ServerConfig
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.real import interrupts
from liftlog.real.authority import Authority
from liftlog.real.nats_server import NatsServer, accepts_connections, free_port, give_back
from liftlog.security import ensure_secret_file, own_client_secret_file
from liftlog.tls.settings import NodeTls
from liftlog.types import LiftlogError

HOST = "127.0.0.1"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0


class LocalNode:
    """One node process: start, kill, start again on the same data."""

    def __init__(self, folder: Path, config: ServerConfig) -> None:
        self.config = config
        self.folder = folder
        self.log_path = folder / "node.log"
        self.config_path = folder / "liftlog.toml"
        self.program: tuple[str, ...] = ("liftlog", "serve")
        """The module that is run, and what stands before the options of `liftlog serve`."""
        self.packages = str(Path(__file__).resolve().parents[2])
        """Where Python finds that, as in PYTHONPATH: here, unless another release is to run."""
        self.process: subprocess.Popen[bytes] | None = None
        self._log_offset = 0

    @property
    def pid(self) -> int:
        return self.process.pid if self.process is not None else 0

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process; `wait_ready` tells when it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # The NATS URL may hold a password.
        self.config_path.touch(mode=0o600)
        self.config_path.write_text(self.config.to_toml(), encoding="utf-8")
        command = [
            sys.executable,
            "-m",
            *self.program,
            "--config",
            str(self.config_path),
            "--json",
            "--with-parent",
        ]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LIFTLOG_")}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [self.packages, environment.get("PYTHONPATH", "")])
        )
        # Not from the folder in which we happen to be.
        environment["PYTHONSAFEPATH"] = "1"
        with open(self.log_path, "ab", opener=_private) as output:
            self._log_offset = output.tell()
            # stdin is a pipe that we hold open: when we are gone, however, it ends, and the node stops by
            # itself.
            with interrupts.held():
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=environment,
                    start_new_session=True,
                )

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the node serves. Raises LiftlogError with its last words if it ends instead."""
        deadline = time.monotonic() + timeout_s
        while '"event":"ready"' not in self._output():
            if not self.running:
                raise LiftlogError(f"node {self.config.node} ended at start: {self.last_words()}")
            if time.monotonic() > deadline:
                raise LiftlogError(
                    f"node {self.config.node} was not ready within {timeout_s:.0f} s; see {self.log_path}"
                )
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.send(signal.SIGKILL)
        self.wait()

    def terminate(self) -> None:
        """Ask for an orderly stop; `wait` for it."""
        self.send(signal.SIGTERM)

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int | None:
        """Wait for the end; kill when it takes too long. Returns the exit status, None if it never ran."""
        if self.process is None:
            return None
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        stdin: IO[bytes] | None = self.process.stdin
        if stdin is not None:
            stdin.close()
        return status

    def last_words(self) -> str:
        """The last line that this run wrote."""
        lines = self._output().strip().splitlines()
        return lines[-1].removeprefix("liftlog: ") if lines else f"it said nothing; see {self.log_path}"

    def _output(self) -> str:
        try:
            with open(self.log_path, "rb") as log:
                log.seek(self._log_offset)
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""


def _shown(authority: Authority, node: int) -> NodeTls:
    files = authority.files(f"node-{node}")
    assert files.cert_file is not None and files.key_file is not None
    return NodeTls(files.ca_file, files.cert_file, files.key_file)


def _private(path: str, flags: int) -> int:
    """Opens a log: other users need not read what a node says about its streams and clients."""
    descriptor = os.open(path, flags, 0o640)
    os.fchmod(descriptor, 0o640)
    return descriptor


class LocalCluster:
    """`nodes` node processes with ids from 1, over a nats-server of our own or the one at `nats_url`."""

    def __init__(
        self,
        folder: Path,
        nodes: int = 3,
        *,
        nats_url: str = "",
        nats_port: int = 0,
        base_port: int = 0,
        cluster: str = DEFAULT_CLUSTER,
        protocol: dict[str, int] | None = None,
        traces: Path | None = None,
        nats_login: NatsLogin = NO_LOGIN,
        metrics: bool = False,
        jetstream: bool = False,
        clients_file: Path | None = None,
        tls: bool = False,
    ) -> None:
        """`traces`: folder of the nodes' protocol traces; by default there are none. `metrics`: whether each
        node tells its metrics, on a port of its own. `jetstream`: whether each has JetStream's door.
        `clients_file`: clients with names and rights, beside the one who may do everything (V9). `tls`:
        whether nodes and clients speak TLS, with certificates of a CA of this cluster's own.
        """
        self.folder = folder
        self.nats = None if nats_url else NatsServer(
            folder / "nats", nats_port, leaf_port=free_port(HOST) if jetstream else 0
        )
        self.nats_url = nats_url or (self.nats.url if self.nats else "")
        self.nats_login = nats_login
        self.cluster = cluster
        # Clients' ports first, then as many for the nodes among themselves, and as many for metrics.
        ports = [base_port + index if base_port else free_port(HOST) for index in range(3 * nodes)]
        self._ports = ports if self.nats is None else [*ports, self.nats.port, self.nats.leaf_port]
        self.addresses = {index + 1: f"{HOST}:{port}" for index, port in enumerate(ports[:nodes])}
        """Where clients find the nodes."""
        self.peer_addresses = {
            index + 1: f"{HOST}:{port}" for index, port in enumerate(ports[nodes : 2 * nodes])
        }
        told = ports[2 * nodes :] if metrics else []
        self.metrics_addresses = {index + 1: f"{HOST}:{port}" for index, port in enumerate(told)}
        """Where each node tells its metrics, if it does."""
        self.secret_file = (folder / "cluster.secret").resolve()
        self.client_secret_file = own_client_secret_file(cluster, os.environ).resolve()
        self.authority = Authority((folder / "tls").resolve()) if tls else None
        """Of what certificates the nodes show; None: they speak without TLS."""
        self.nodes: dict[int, LocalNode] = {}
        for node, address in self.addresses.items():
            config = ServerConfig(
                cluster=cluster,
                node=node,
                data=(folder / f"node-{node}" / "data").resolve(),
                listen=address,
                address=address,
                nats_url=self.nats_url,
                peers=self.peer_addresses,
                protocol=protocol or {},
                peer_listen=self.peer_addresses[node] if nodes > 1 else "",
                secret_file=self.secret_file,
                client_secret_file=self.client_secret_file,
                clients_file=None if clients_file is None else clients_file.resolve(),
                trace=(traces / f"node-{node}.jsonl").resolve() if traces is not None else None,
                nats_login=nats_login,
                metrics_listen=self.metrics_addresses.get(node, ""),
                jetstream=jetstream,
                jetstream_leaf=self.nats.leaf_url if self.nats else "",
                tls=None if self.authority is None else _shown(self.authority, node),
            )
            self.nodes[node] = LocalNode(folder / f"node-{node}", config)

    def start(self) -> None:
        """Start everything; returns when every node serves. Raises LiftlogError, having stopped what ran."""
        try:
            ensure_secret_file(self.secret_file)
            ensure_secret_file(self.client_secret_file)
            if self.authority is not None:
                self.authority.ensure()
                for number in self.nodes:
                    self.authority.issue(f"node-{number}", HOST, time.time())
            taken = (self.addresses, self.peer_addresses, self.metrics_addresses)
            for address in (address for each in taken for address in each.values()):
                host, _, port = address.rpartition(":")
                if accepts_connections(host, int(port)):
                    raise LiftlogError(f"port {address} is taken; stop who uses it or choose another --port")
            if self.nats is not None:
                self.nats.start()
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():
                node.wait_ready()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all nodes in an orderly way, then nats-server."""
        for node in self.nodes.values():
            node.terminate()
        for node in self.nodes.values():
            node.wait()
        if self.nats is not None:
            self.nats.stop()

    def describe(self) -> str:
        """The ready line of `liftlog dev` as JSON."""
        nodes = [
            {
                "node": number,
                "pid": node.pid,
                "address": self.addresses[number],
                "metrics": self.metrics_addresses.get(number, ""),
                "config": str(node.config_path),
            }
            for number, node in self.nodes.items()
        ]
        shown_url = self.nats_url if "@" not in self.nats_url else "nats://" + self.nats_url.rsplit("@", 1)[1]
        secret = str(self.client_secret_file)
        ready = {"event": "ready", "nats": shown_url, "data": str(self.folder), "client_secret_file": secret}
        if self.authority is not None:
            ready["tls_ca"] = str(self.authority.ca_file)
        return json.dumps(ready | {"nodes": nodes})

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        give_back(self._ports)
