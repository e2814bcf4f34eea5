"""`liftlog serve`: one node. `liftlog dev`: a whole cluster on this machine, with its own nats-server."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from liftlog import config as configuration
from liftlog import eventlog
from liftlog.commands.common import (
    add_json_option,
    add_nats_login_options,
    nats_login,
    positive_count,
    print_json,
)
from liftlog.core.node import Node
from liftlog.diskkey import encryption_key
from liftlog.driver.interpreter import Observer
from liftlog.nats_login import NatsLogin
from liftlog.real.disk import RealDisk
from liftlog.real.local_cluster import LocalCluster, LocalNode
from liftlog.real.server import Built, Companion, OtherClusters, run_server
from liftlog.rights.book import read_book
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import ENCRYPTION
from liftlog.storage.ownership import claim
from liftlog.storage.sealing import NONCE_BYTES, Sealer
from liftlog.tls.files import NONE, VARIABLES
from liftlog.trace.file import TraceFile, TraceWriter
from liftlog.types import LiftlogError, Recovered, TailState
from liftlog.version import VERSION
from liftlog.watching import Watcher

log = logging.getLogger("liftlog.server")

DEFAULT_PORT = 4701
DEFAULT_NATS_PORT = 4222
TWIN_MS = 500
"""How long another cluster of the same name has to answer."""
WATCH_S = 0.2


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    serve = subparsers.add_parser("serve", help="run one node")
    serve.add_argument(
        "--config", metavar="FILE", help="liftlog.toml (flags and LIFTLOG_SERVE_* go before it)"
    )
    serve.add_argument("--id", type=int, metavar="N", help="node id")
    serve.add_argument("--data", metavar="DIR", help="data folder")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where clients connect")
    serve.add_argument("--nats", metavar="URL")
    serve.add_argument("--cluster", metavar="NAME")
    serve.add_argument("--metrics", metavar="HOST:PORT", help="tell metrics, health and readiness there")
    serve.add_argument(
        "--jetstream", action="store_true", default=None, help="answer programs written for NATS JetStream"
    )
    serve.add_argument("--jetstream-leaf", metavar="URL", help="leaf node port of NATS, for its consumers")
    serve.add_argument("--trace", metavar="FILE", help="write what the protocol does, for 'spec refine'")
    serve.add_argument("--log-format", choices=eventlog.FORMATS, help="of the log on standard error")
    serve.add_argument("--with-parent", action="store_true", help="stop when standard input ends")
    add_json_option(serve)
    serve.set_defaults(run=_serve)
    dev = subparsers.add_parser("dev", help="run a local cluster with an embedded nats-server")
    dev.add_argument("--nodes", type=positive_count, default=3, metavar="N")
    dev.add_argument("--data", metavar="DIR", help="keep the data here (default: a temporary folder)")
    dev.add_argument("--nats", metavar="URL", help="use this NATS instead of starting one")
    add_nats_login_options(dev)
    dev.add_argument(
        "--port",
        type=int,
        default=DEFAULT_PORT,
        metavar="BASE",
        help="first node's port for clients; the nodes' own ports follow the last, then those for metrics; "
        "0 = any",
    )
    dev.add_argument(
        "--nats-port", type=int, default=DEFAULT_NATS_PORT, metavar="PORT", help="0 = any free one"
    )
    dev.add_argument("--jetstream", action="store_true", help="answer programs written for NATS JetStream")
    dev.add_argument("--clients", metavar="FILE", help="clients with names and rights, see docs/security.md")
    dev.add_argument(
        "--tls", action="store_true", help="speak TLS: makes a CA and certificates, with the program openssl"
    )
    dev.add_argument("--trace", metavar="DIR", help="write the nodes' protocol traces there")
    dev.add_argument("--cluster", metavar="NAME", default=configuration.DEFAULT_CLUSTER)
    add_json_option(dev)
    dev.set_defaults(run=_dev)


# -- serve -------------------------------------------------------------------------------------------------


def _serve(args: argparse.Namespace) -> int:
    return serve(args, RealDisk)


def serve(args: argparse.Namespace, disk_type: type[RealDisk]) -> int:
    """Run a node until it ends. Raises LiftlogError if it cannot start."""
    flags = {
        ("", "cluster"): args.cluster,
        ("node", "id"): args.id,
        ("node", "data"): args.data,
        ("node", "listen"): args.listen,
        ("node", "trace"): args.trace,
        ("node", "log_format"): args.log_format,
        ("nats", "url"): args.nats,
        ("metrics", "listen"): args.metrics,
        ("jetstream", "enabled"): args.jetstream,
        ("jetstream", "leaf"): args.jetstream_leaf,
    }
    config = configuration.load(Path(args.config) if args.config else None, os.environ, flags)
    sparing = eventlog.set_up(config.log_format, config.node)
    key = encryption_key(config.encryption_key_file, os.environ)
    sealer = None if key is None else Sealer(key, lambda: os.urandom(NONCE_BYTES))

    def build() -> Built:
        disk = disk_type(str(config.data))
        if config.take_over_open_logs and disk.exists(ENCRYPTION):
            log.warning("[storage] take_over_open_logs has done its work; remove it, it only opens a way in")
        engine = StorageEngine(disk, sealer=sealer, take_over_open_logs=config.take_over_open_logs)
        recovered = engine.recover(
            config.node, new_disk_id=os.urandom(16).hex(), nonce=int.from_bytes(os.urandom(7), "big")
        )
        claim(disk, config.cluster)
        tell_start(config, recovered)
        observers: list[Observer] = []
        if config.trace is None:
            node = Node(config.node_config(), recovered, contains=True)
        else:
            node = Node(
                config.node_config(),
                recovered,
                applied=lambda *what: trace.applied(*what),
                contains=True,
                installed=lambda index: trace.installed(index),
            )
            disk_id = recovered.identity.votes_as
            trace = TraceWriter(node, config.cluster, disk_id, TraceFile(config.trace))
            observers.append(trace.stepped)
        observers.append(Watcher(node, sparing).stepped)
        beside = None if not config.jetstream else door_beside(config)
        links = None if not config.clusters else links_beside(config)
        if not config.metrics_listen:
            return Built(node, engine, observers, beside=beside, links=links)
        # Imported here: a node that tells nothing needs neither h11 nor prometheus-client.
        from liftlog.eyes.onlooker import MetricsOnlooker

        onlooker = MetricsOnlooker(node, config, engine.log_bytes)
        return Built(node, engine, [onlooker.measures.stepped, *observers], onlooker, beside, links)

    def announce(line: dict[str, object]) -> None:
        if args.json:
            print_json(line)
        else:
            metrics = f"metrics on {line['metrics']}, " if line["metrics"] else ""
            where = f"on {line['listen']}, {metrics}NATS {line['nats']}, data in {line['data']}"
            print(f"node {line['node']} serves {where}")
        sys.stdout.flush()

    try:
        run_server(config, build, announce, VERSION, args.with_parent)
    finally:
        sparing.tell(time.time(), everything=True)
    return 0


def door_beside(config: configuration.ServerConfig) -> Companion:
    """JetStream's door, which is a client of the cluster with the node's own secret and login."""
    # Imported here: a node without a door needs no client, and starts sooner without one.
    from liftlog.client import Client
    from liftlog.jetstream.beside import DoorBeside
    from liftlog.jetstream.door import DoorPlace

    tls = None if config.tls is None else config.tls.as_client

    async def connect() -> Client:
        return await Client.connect(
            config.nats_url,
            cluster=config.cluster,
            secret_file=config.client_secret_file or "none",
            login=config.nats_login,
            tls_ca=NONE if tls is None else tls.ca_file,
            tls_cert=None if tls is None else tls.cert_file,
            tls_key=None if tls is None else tls.key_file,
        )

    known = tuple(one.name for one in config.clusters)
    place = DoorPlace(
        config.jetstream_domain, config.node, config.jetstream_leaf, config.nats_login, known
    )
    return DoorBeside(connect, place)


def links_beside(config: configuration.ServerConfig) -> OtherClusters:
    """Clients of the other clusters that the configuration names."""
    # Imported here: a node without them needs no client, and starts sooner without one.
    from liftlog.links.beside import LinksBeside

    return LinksBeside(config.clusters)


def tell_start(config: configuration.ServerConfig, recovered: Recovered) -> None:
    """What was found on the disk."""
    identity = recovered.identity
    before = f"incarnation {identity.incarnation}" if identity.incarnation else "no earlier run"
    how = "after a clean stop" if recovered.clean else "not after a clean stop"
    text = f"node {config.node} starts: liftlog {VERSION}, {before} on this disk, {how}, {config.data}"
    logs = len(recovered.logs)
    if recovered.renewed:
        why = recovered.renewed.partition("; move this node")[0]
        say = "it takes part in the metadata group as a new member, and votes once the others have let it in"
        eventlog.say(logging.ERROR, "renewed", f"{why}: {say}", vote_id=identity.vote_id)
    fields = {"version": VERSION, "incarnation": identity.incarnation, "clean": recovered.clean, "logs": logs}
    eventlog.say(logging.INFO, "start", f"{text}, {logs} logs", **fields)
    for summary in recovered.logs:
        place = {"log": str(summary.log), "leo": summary.leo, "tail": summary.tail.value}
        if summary.tail in (TailState.SUSPECT, TailState.DAMAGED):
            text = f"log {summary.log} (stream id/partition) is good up to {summary.leo}; what followed is"
            what = "damaged" if summary.tail is TailState.DAMAGED else "perhaps incomplete"
            eventlog.say(logging.WARNING, "damage", f"{text} {what}, a copy of it in quarantine/", **place)
        for found in summary.damage:
            text = f"log {summary.log} (stream id/partition): offsets {found} cannot be read"
            eventlog.say(logging.WARNING, "damage", text, **place)


# -- dev ---------------------------------------------------------------------------------------------------


def _dev(args: argparse.Namespace) -> int:
    if args.nodes > 9:
        raise LiftlogError(f"--nodes {args.nodes}: a local cluster has 1 to 9 nodes")
    for name, port, last in (
        ("--port", args.port, 65536 - 3 * args.nodes),
        ("--nats-port", args.nats_port, 65535),
    ):
        if not 0 <= port <= last:
            raise LiftlogError(f"{name} {port}: use a port from 1 to {last}, or 0 for any free one")
    if not configuration.CLUSTER_NAME.fullmatch(args.cluster):
        raise LiftlogError(f"--cluster {args.cluster!r}: use 1 to 64 letters, digits, '_' or '-'")
    if args.nats:
        asyncio.run(_refuse_a_twin(args.nats, args.cluster, nats_login(args)))
    folder = Path(args.data) if args.data else Path(tempfile.mkdtemp(prefix="liftlog-dev-"))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LiftlogError(f"cannot use --data {folder}: {error.strerror}; choose another folder") from None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cluster = LocalCluster(
        folder,
        args.nodes,
        nats_url=args.nats or "",
        nats_port=args.nats_port,
        base_port=args.port,
        cluster=args.cluster,
        traces=Path(args.trace) if args.trace else None,
        nats_login=nats_login(args),
        metrics=True,
        jetstream=args.jetstream,
        clients_file=Path(args.clients) if args.clients else None,
        tls=args.tls,
    )
    try:
        if args.clients:
            # Better now than from each node.
            read_book(Path(args.clients), (), ())
        # Imported here: a node needs no client, and starts sooner without one.
        from liftlog.local import wait_until_live

        cluster.start()
        wait_until_live(cluster)
        _announce(args, cluster)
        _watch(args, cluster)
    except KeyboardInterrupt:
        if not args.json:
            print("stopping")
    finally:
        # A second Ctrl-C must not leave children behind.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        cluster.stop()
        if not args.data:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


async def _refuse_a_twin(nats_url: str, cluster: str, login: NatsLogin) -> None:
    """Two clusters of one name on one NATS: clients would be answered by either. Raises LiftlogError."""
    # Imported here, as above.
    from liftlog.client import Client, Unreachable

    async with await Client.connect(nats_url, cluster=cluster, login=login) as client:
        try:
            await client.status(timeout_ms=TWIN_MS)
        except Unreachable:
            return
    raise LiftlogError(
        f"a cluster '{cluster}' answers on {nats_url.rsplit('@', 1)[-1]} already: stop it, or give this one "
        "another name with --cluster"
    )


def _announce(args: argparse.Namespace, cluster: LocalCluster) -> None:
    if args.json:
        print(cluster.describe(), flush=True)
        return
    option = "" if cluster.nats_url == configuration.DEFAULT_NATS_URL else f" --nats {cluster.nats_url}"
    option += "" if args.cluster == configuration.DEFAULT_CLUSTER else f" --cluster {args.cluster}"
    print(f"ready: {len(cluster.nodes)} nodes, NATS at {cluster.nats_url}, data in {cluster.folder}")
    for number, node in cluster.nodes.items():
        metrics = f"http://{cluster.metrics_addresses[number]}/metrics"
        print(f"  node {number}  pid {node.pid}  {cluster.addresses[number]}  {metrics}")
    print(f"clients find their secret in {cluster.client_secret_file}; other users' need --secret-file")
    if cluster.authority is not None:
        print("nodes speak TLS: readers need the CA, with --tls-ca as below, or with")
        print(f"  export {VARIABLES[0]}={cluster.authority.ca_file}")
    print("try, in another terminal:")
    print(f"  liftlog stream create orders 'orders.>'{option}")
    print(f"  liftlog pub orders.new hello{option}")
    ca = "" if cluster.authority is None else f" --tls-ca {cluster.authority.ca_file}"
    print(f"  liftlog sub orders{option}{ca}")
    print("Ctrl-C stops everything", flush=True)


def _watch(args: argparse.Namespace, cluster: LocalCluster) -> None:
    """Until interrupted: tell when a process ends. A killed node stays down: one kills it to see that."""
    gone: set[int] = set()
    while True:
        time.sleep(WATCH_S)
        for number, node in cluster.nodes.items():
            if not node.running and number not in gone:
                gone.add(number)
                _tell_gone(args, number, node)
        if cluster.nats is not None and not cluster.nats.running:
            raise LiftlogError(f"nats-server ended; see {cluster.nats.log_path}")


def _tell_gone(args: argparse.Namespace, number: int, node: LocalNode) -> None:
    status = node.wait()
    if args.json:
        print_json({"event": "ended", "node": number, "status": status})
        return
    print(f"node {number} ended with status {status}; start it again with:")
    print(f"  liftlog serve --config {node.config_path}", flush=True)
