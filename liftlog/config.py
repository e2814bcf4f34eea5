"""One node's configuration: a `liftlog.toml`, the environment, and flags.

    cluster = "liftlog"

    [node]
    id = 1
    data = "/var/lib/liftlog"
    listen = "0.0.0.0:4701"          # for clients
    address = "10.0.0.1:4701"        # what clients are told; the default is `listen`
    peer_listen = "0.0.0.0:4801"     # for the other nodes; the default is this node's line in [peers]
    join = false                     # true: a node that was admitted at run time, see docs/operating.md
    trace = "/tmp/node-1.jsonl"      # optional: the protocol trace, see liftlog/trace/file.py
    log_format = "text"              # or "json": one object a line, see docs/operating.md

    [nats]
    url = "nats://127.0.0.1:4222"    # or tls://…; user and password, or a token, may stand in it
    credentials_file = "/etc/liftlog/node.creds"     # optional, as are all of these: docs/security.md
    nkey_file = "/etc/liftlog/node.nk"               # not both
    ca_file = "/etc/liftlog/nats-ca.pem"
    cert_file = "/etc/liftlog/node-cert.pem"
    key_file = "/etc/liftlog/node-key.pem"

    [peers]                          # where nodes call each other: every voter, this node too
    1 = "10.0.0.1:4801"
    2 = "10.0.0.2:4801"
    3 = "10.0.0.3:4801"

    [security]                       # docs/security.md; several nodes do not start without
    secret_file = "/etc/liftlog/cluster.secret"          # the same on every node
    client_secret_file = "/etc/liftlog/client.secret"    # the same on every node and for every client
    clients_file = "/etc/liftlog/clients.toml"           # beside it or instead: clients with rights
    insecure = false                 # true instead of these files: whoever can connect may do everything

    [tls]                            # optional: TLS at both ports, see `liftlog/tls/settings.py`
    ca_file = "/etc/liftlog/ca.pem"
    cert_file = "/etc/liftlog/node-1.pem"
    key_file = "/etc/liftlog/node-1.key"

    [storage]                        # optional: encryption at rest, see `liftlog/diskkey.py`
    encryption_key_file = "/etc/liftlog/key"
    take_over_open_logs = false      # true for one start: a key for a folder that was not encrypted so far

    [metrics]                        # optional: metrics, health and readiness, see docs/operating/metrics.md
    listen = "127.0.0.1:4901"        # without it there is no such port; whoever reaches it may read it
    partitions_max = 2000            # so many copies have series of their own; 0: none

    [jetstream]                      # optional: programs written for NATS JetStream, see docs/jetstream.md
    enabled = true
    domain = "liftlog"
    leaf = "nats-leaf://10.0.0.9:7422"                   # NATS's leaf node port: without it no consumers

    [clusters.east]                  # optional: other clusters, whose streams mirrors copy, docs/mirrors.md
    nodes = ["10.1.0.1:4701"]        # where its clients reach some of its nodes
    cluster = "liftlog"              # what it is called there; the default is "east"
    client_secret_file = "/etc/liftlog/east.secret"      # or insecure = true
    tls_ca_file = "/etc/liftlog/east-ca.pem"             # if it speaks TLS there

    [network]                        # memory and number of connections, see NETWORK_RANGES
    client_connections_max = 256

    [protocol]                       # times and bounds of the core, see PROTOCOL_RANGES
    session_timeout_ms = 1500

What is said twice is decided by: flag > ``LIFTLOG_SERVE_<TABLE>_<KEY>`` in the environment > file > default.
An unknown key or a value out of range is refused with the key's name and what is accepted: a setting that is
silently ignored is worse than none.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from liftlog import eventlog
from liftlog.addresses import is_address
from liftlog.api.handshake import NO_SECRET
from liftlog.nats_login import NO_LOGIN, NatsLogin
from liftlog.nodeconfig import NodeConfig
from liftlog.otherclusters import OtherCluster, read_clusters
from liftlog.protocolranges import PROTOCOL_RANGES, check_protocol
from liftlog.security import how_to_make, read_secrets
from liftlog.tls.settings import KEYS as TLS_KEYS
from liftlog.tls.settings import NodeTls, read_tls
from liftlog.types import LiftlogError

DEFAULT_NATS_URL = "nats://127.0.0.1:4222"
DEFAULT_CLUSTER = "liftlog"
DEFAULT_DOMAIN = "liftlog"
"""Of JetStream's door."""
NO_DOMAINS = ("API", "ACK", "FC", "EVENT", "CONSUMER", "STREAM")
"""What JetStream itself has behind "$JS."."""
CLUSTER_NAME = re.compile(r"[A-Za-z0-9_\-]{1,64}")
MIB = 1024 * 1024

NETWORK_RANGES: dict[str, tuple[int, int]] = {
    "client_connections_max": (1, 100_000),
    "client_idle_ms": (1000, 86_400_000),
    "handshake_ms": (100, 60_000),
    "connection_bytes": (64 * 1024, 1024 * MIB),
    "clients_bytes": (32 * MIB, 1024 * 1024 * MIB),
    "peers_bytes": (128 * MIB, 1024 * 1024 * MIB),
    "all_bytes": (128 * MIB, 1024 * 1024 * MIB),
}
"""Accepted range of every key of [network], both ends included; the defaults are those of `NetworkLimits`."""

METRICS_RANGES: dict[str, tuple[int, int]] = {"partitions_max": (0, 100_000)}
"""Accepted range of the numbers of [metrics], both ends included."""
METRICS_PARTITIONS_MAX = 2000
METRICS_KEY = "[metrics] listen"
METRICS_TELL = "names of streams, addresses of nodes, and how they are; no message and no secret"

NATS_FILES = NatsLogin.__struct_fields__
"""Keys of [nats] that name files to log in with."""

SECURITY_FILES = ("secret_file", "client_secret_file", "clients_file")
"""Keys of [security] that name files."""

KEYS: dict[str, dict[str, type]] = {
    "": {"cluster": str},
    "node": {"id": int, "join": bool}
    | dict.fromkeys(("data", "listen", "address", "peer_listen", "trace", "log_format"), str),
    "nats": dict.fromkeys(("url", *NATS_FILES), str),
    "security": {**dict.fromkeys(SECURITY_FILES, str), "insecure": bool},
    "tls": TLS_KEYS,
    "storage": {"encryption_key_file": str, "take_over_open_logs": bool},
    "metrics": {"listen": str, **dict.fromkeys(METRICS_RANGES, int)},
    "jetstream": {"enabled": bool, "domain": str, "leaf": str},
    "network": dict.fromkeys(NETWORK_RANGES, int),
    "protocol": dict.fromkeys(PROTOCOL_RANGES, int),
}
"""Every key there is, by table; [peers] has node ids for keys."""

CLIENT_VARIABLES = ("LIFTLOG_CLUSTER", "LIFTLOG_NATS")
PREFIX = "LIFTLOG_SERVE"
"""Of a server's settings in the environment. LIFTLOG_NATS and LIFTLOG_CLUSTER are the clients': what somebody
exports to look at one cluster must not move the nodes that are started in the same shell to it."""


class NetworkLimits(msgspec.Struct, frozen=True):
    """What connections may cost a node. What goes beyond it is cut or refused and counted."""

    client_connections_max: int = 256
    client_idle_ms: int = 600_000
    """A client that asks nothing for so long, and waits for nothing, is hung up on."""
    handshake_ms: int = 5_000
    """Whoever has not proved to know a secret by then is hung up on."""
    connection_bytes: int = 32 * MIB
    """What may wait to be sent on one connection."""
    clients_bytes: int = 256 * MIB
    """What all clients together may occupy: requests half received or in work, answers not yet sent."""
    peers_bytes: int = 384 * MIB
    """The same for the connections from and to the other nodes."""
    all_bytes: int = 512 * MIB


class ServerConfig(msgspec.Struct, frozen=True):
    """Everything `liftlog serve` needs to know, checked."""

    cluster: str
    node: int
    data: Path
    listen: str
    address: str
    nats_url: str
    peers: dict[int, str]
    protocol: dict[str, int]
    encryption_key_file: Path | None = None
    trace: Path | None = None
    log_format: str = "text"
    nats_login: NatsLogin = NO_LOGIN
    join: bool = False
    """The node joins a cluster that is there; `peers` names members that it asks, and itself."""
    peer_listen: str = ""
    """Empty: there are no peers."""
    secret_file: Path | None = None
    client_secret_file: Path | None = None
    clients_file: Path | None = None
    """Clients with names, secrets and rights of their own (V9)."""
    insecure: bool = False
    take_over_open_logs: bool = False
    tls: NodeTls | None = None
    """None: no TLS at either port."""
    network: NetworkLimits = NetworkLimits()
    metrics_listen: str = ""
    """Empty: nothing is told there."""
    metrics_partitions_max: int = METRICS_PARTITIONS_MAX
    jetstream: bool = False
    jetstream_domain: str = DEFAULT_DOMAIN
    clusters: tuple[OtherCluster, ...] = ()
    jetstream_leaf: str = ""
    """Where the door connects as a leaf node; empty: it serves no consumers."""

    @property
    def metrics_open(self) -> bool:
        """Whether other machines may reach the metrics."""
        host = self.metrics_listen.rpartition(":")[0].strip("[]")
        return bool(host) and host != "localhost" and host != "::1" and not host.startswith("127.")

    @property
    def open_to(self) -> str:
        """Who need not prove anything, in words; empty if everybody must."""
        peers = "speak for a node" if len(self.peers) > 1 and self.secret_file is None else ""
        named = self.client_secret_file is not None or self.clients_file is not None
        clients = "" if named else "read every record and administer"
        return " and ".join(filter(None, (peers, clients)))

    def node_config(self) -> NodeConfig:
        """The core's part."""
        voters = tuple(sorted(node for node in self.peers if not self.join or node != self.node))
        peers = tuple(sorted(self.peers.items()))
        config = NodeConfig(node=self.node, voters=voters, peers=peers, joins=self.join, address=self.address)
        return msgspec.structs.replace(config, **self.protocol)

    def to_toml(self) -> str:
        """As a file that `load` reads back to the same configuration."""
        lines = [f"cluster = {_quote(self.cluster)}", "", "[node]", f"id = {self.node}"]
        lines += [f"data = {_quote(str(self.data))}", f"listen = {_quote(self.listen)}"]
        lines += [f"address = {_quote(self.address)}"]
        if self.join:
            lines += ["join = true"]
        if self.peer_listen:
            lines += [f"peer_listen = {_quote(self.peer_listen)}"]
        if self.trace is not None:
            lines += [f"trace = {_quote(str(self.trace))}"]
        if self.log_format != "text":
            lines += [f"log_format = {_quote(self.log_format)}"]
        lines += ["", "[nats]", f"url = {_quote(self.nats_url)}"]
        files = msgspec.structs.asdict(self.nats_login)
        lines += [f"{key} = {_quote(str(path))}" for key, path in files.items() if path is not None]
        lines += ["", "[peers]"]
        lines += [f"{peer} = {_quote(address)}" for peer, address in sorted(self.peers.items())]
        lines += ["", "[security]"]
        for name in SECURITY_FILES:
            if getattr(self, name) is not None:
                lines += [f"{name} = {_quote(str(getattr(self, name)))}"]
        lines += [f"insecure = {str(self.insecure).lower()}"]
        lines += [] if self.tls is None else self.tls.to_toml()
        if self.encryption_key_file is not None or self.take_over_open_logs:
            lines += ["", "[storage]"]
        if self.encryption_key_file is not None:
            lines += [f"encryption_key_file = {_quote(str(self.encryption_key_file))}"]
        if self.take_over_open_logs:
            lines += ["take_over_open_logs = true"]
        if self.metrics_listen:
            lines += ["", "[metrics]", f"listen = {_quote(self.metrics_listen)}"]
            lines += [f"partitions_max = {self.metrics_partitions_max}"]
        if self.jetstream or self.jetstream_domain != DEFAULT_DOMAIN or self.jetstream_leaf:
            lines += ["", "[jetstream]", f"enabled = {str(self.jetstream).lower()}"]
            lines += [f"domain = {_quote(self.jetstream_domain)}"]
            if self.jetstream_leaf:
                lines += [f"leaf = {_quote(self.jetstream_leaf)}"]
        for other in self.clusters:
            lines += ["", *other.to_toml()]
        changed = _changed(self.network)
        if changed:
            lines += ["", "[network]", *(f"{key} = {value}" for key, value in changed.items())]
        if self.protocol:
            lines += ["", "[protocol]", *(f"{key} = {value}" for key, value in sorted(self.protocol.items()))]
        return "\n".join(lines) + "\n"


def load(
    path: Path | None, environment: Mapping[str, str], flags: Mapping[tuple[str, str], object] | None = None
) -> ServerConfig:
    """Read the file (if any), lay environment and flags over it, check. Raises LiftlogError."""
    source = str(path) if path is not None else "the command line and environment"
    settings: dict[tuple[str, str], Any] = {}
    peers: dict[int, str] = {}
    clusters: tuple[OtherCluster, ...] = ()
    if path is not None:
        settings, peers, clusters = _from_file(path)
    settings.update(_from_environment(environment))
    for (table, key), value in (flags or {}).items():
        if value is not None:
            settings[table, key] = _typed(table, key, value, "the command line")
    return msgspec.structs.replace(_check(settings, peers, source), clusters=clusters)


def _from_file(
    path: Path,
) -> tuple[dict[tuple[str, str], Any], dict[int, str], tuple[OtherCluster, ...]]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise LiftlogError(
            f"no configuration file {path}; pass --config FILE, or try 'liftlog dev'"
        ) from None
    except OSError as error:
        raise LiftlogError(f"cannot read configuration file {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise LiftlogError(f"{path} is not valid TOML: {error}; correct that line") from None
    settings: dict[tuple[str, str], Any] = {}
    for name, value in document.items():
        if isinstance(value, dict) and name in ("peers", "clusters"):
            continue
        if isinstance(value, dict) and name in KEYS and name:
            for key, one in value.items():
                settings[name, key] = _typed(name, key, one, str(path))
        else:
            settings["", name] = _typed("", name, value, str(path))
    clusters = read_clusters(document.get("clusters", {}), str(path))
    return settings, _peers(document.get("peers", {}), str(path)), clusters


def _peers(table: object, source: str) -> dict[int, str]:
    if not isinstance(table, dict):
        raise LiftlogError(f'{source}: [peers] must be a table of node id = "host:port"')
    peers = {}
    for key, value in table.items():
        if not key.isascii() or not key.isdigit() or not 1 <= int(key) <= 65535 or not isinstance(value, str):
            raise LiftlogError(
                f'{source}: [peers] {key} = {value!r}; write node id (1 to 65535) = "host:port"'
            )
        peers[int(key)] = value
    return peers


def _from_environment(environment: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """``LIFTLOG_SERVE_<TABLE>_<KEY>``. A name without SERVE that is no client's is an error, not ignored."""
    settings = {}
    places = [(table, key) for table in KEYS for key in KEYS[table]]
    names = {"_".join(filter(None, place)).upper(): place for place in places}
    for variable, text in sorted(environment.items()):
        if variable.startswith(f"{PREFIX}_"):
            name = variable.removeprefix(f"{PREFIX}_")
            if name not in names:
                raise LiftlogError(
                    f"environment variable {variable} names no setting; write {PREFIX}_<TABLE>_<KEY>, "
                    f"for example {PREFIX}_NATS_URL"
                )
            table, key = names[name]
            value: object = text
            if KEYS[table][key] is int and re.fullmatch(r"-?\d+", text):
                value = int(text)
            elif KEYS[table][key] is bool and text in ("true", "false"):
                value = text == "true"
            settings[table, key] = _typed(table, key, value, f"environment variable {variable}")
        elif variable.removeprefix("LIFTLOG_") in names and variable not in CLIENT_VARIABLES:
            raise LiftlogError(
                f"environment variable {variable} is not read by servers: say "
                f"{PREFIX}_{variable.removeprefix('LIFTLOG_')}, or unset it"
            )
    return settings


def _typed(table: str, key: str, value: object, source: str) -> object:
    """`value`, if there is such a key and the value is of its type and in its range."""
    expected = KEYS[table].get(key)
    if expected is None:
        if not table:
            tables = ", ".join(f"[{name}]" for name in [*KEYS, "peers", "clusters"] if name)
            raise LiftlogError(f"{source}: unknown key or table '{key}'; there are: cluster, {tables}")
        raise LiftlogError(f"{source}: unknown key '{key}' in [{table}]; there are: {', '.join(KEYS[table])}")
    if type(value) is not expected:
        wanted = {int: "a whole number", bool: "true or false"}.get(expected, "a text in quotes")
        raise LiftlogError(f"{source}: {_shown(table, key)} = {value!r}; it must be {wanted}")
    if expected is int and isinstance(value, int):
        ranges = PROTOCOL_RANGES | NETWORK_RANGES | METRICS_RANGES | {"id": (1, 65535)}
        low, high = ranges[key]
        if not low <= value <= high:
            raise LiftlogError(f"{source}: {_shown(table, key)} = {value}; accepted: {low} to {high}")
    return value


def _shown(table: str, key: str) -> str:
    return f"[{table}] {key}" if table else key


def _check(settings: dict[tuple[str, str], Any], peers: dict[int, str], source: str) -> ServerConfig:
    def need(table: str, key: str, example: str) -> Any:
        if (table, key) not in settings:
            raise LiftlogError(f"{source}: {_shown(table, key)} is missing; for example {key} = {example}")
        return settings[table, key]

    node = need("node", "id", "1")
    data = need("node", "data", '"/var/lib/liftlog"')
    if not data:
        raise LiftlogError(f'{source}: [node] data is empty; name a folder, such as "/var/lib/liftlog"')
    listen = need("node", "listen", '"127.0.0.1:4701"')
    cluster = settings.get(("", "cluster"), DEFAULT_CLUSTER)
    if not CLUSTER_NAME.fullmatch(cluster):
        raise LiftlogError(f"{source}: cluster = {cluster!r}; use 1 to 64 letters, digits, '_' or '-'")
    log_format = settings.get(("node", "log_format"), "text")
    if log_format not in eventlog.FORMATS:
        raise LiftlogError(f"{source}: [node] log_format = {log_format!r}; use 'text' or 'json'")
    peers = peers or {node: listen}
    if node not in peers:
        raise LiftlogError(f"{source}: [peers] lacks this node ({node}); list every voter, this node too")
    if len(peers) > 9:
        raise LiftlogError(f"{source}: [peers] has {len(peers)} voters; accepted: 1 to 9")
    join = settings.get(("node", "join"), False)
    if join and len(peers) == 1:
        raise LiftlogError(
            f"{source}: [node] join = true, but [peers] names no member to ask; list one or more "
            f"of the cluster's nodes beside this one ({node})"
        )
    address = settings.get(("node", "address"), listen)
    peer_listen = _peer_listen(settings, peers, node, source)
    metrics_listen = settings.get(("metrics", "listen"), "")
    places = [("[node] listen", listen), ("[node] address", address), *_peer_items(peers)]
    places += [("[node] peer_listen", peer_listen)] if peer_listen else []
    places += [(METRICS_KEY, metrics_listen)] if ("metrics", "listen") in settings else []
    for key, value in places:
        if not is_address(value):
            raise LiftlogError(f"{source}: {key} = {value!r}; use host:port with a port from 1 to 65535")
    protocol = {key: value for (table, key), value in sorted(settings.items()) if table == "protocol"}
    check_protocol(protocol, source)
    _check_addresses(listen, address, peer_listen, source)
    _check_metrics(settings, (listen, peer_listen), source)
    limits = {key: value for (table, key), value in settings.items() if table == "network"}
    config = ServerConfig(
        cluster=cluster,
        node=node,
        data=Path(data),
        listen=listen,
        address=address,
        nats_url=settings.get(("nats", "url"), DEFAULT_NATS_URL),
        peers=peers,
        protocol=protocol,
        encryption_key_file=_path_or_none(settings.get(("storage", "encryption_key_file"))),
        trace=_path_or_none(settings.get(("node", "trace"))),
        log_format=log_format,
        nats_login=NatsLogin(**{key: _path_or_none(settings.get(("nats", key))) for key in NATS_FILES}),
        join=join,
        peer_listen=peer_listen,
        secret_file=_path_or_none(settings.get(("security", "secret_file"))),
        client_secret_file=_path_or_none(settings.get(("security", "client_secret_file"))),
        clients_file=_path_or_none(settings.get(("security", "clients_file"))),
        insecure=settings.get(("security", "insecure"), False),
        take_over_open_logs=settings.get(("storage", "take_over_open_logs"), False),
        tls=read_tls(settings, len(peers) == 1, source),
        network=NetworkLimits(**limits),
        metrics_listen=metrics_listen,
        metrics_partitions_max=settings.get(("metrics", "partitions_max"), METRICS_PARTITIONS_MAX),
        jetstream=settings.get(("jetstream", "enabled"), False),
        jetstream_leaf=settings.get(("jetstream", "leaf"), ""),
        jetstream_domain=check_domain(
            settings.get(("jetstream", "domain"), DEFAULT_DOMAIN), f"{source}: [jetstream] domain"
        ),
    )
    _check_security(config, source)
    _check_limits(config.network, source)
    return config


def check_domain(name: str, source: str) -> str:
    """`name`, if it can be a JetStream domain: one token of subjects. Raises LiftlogError."""
    if not CLUSTER_NAME.fullmatch(name) or name in NO_DOMAINS:
        raise LiftlogError(
            f"{source} = {name!r}; use 1 to 64 letters, digits, '_' or '-', and none of "
            + ", ".join(NO_DOMAINS)
        )
    return name


def _peer_listen(settings: dict[tuple[str, str], Any], peers: dict[int, str], node: int, source: str) -> str:
    """Where the other nodes call this one; empty if there are none."""
    said: str | None = settings.get(("node", "peer_listen"))
    if len(peers) > 1:
        return peers[node] if said is None else said
    if said is not None:
        raise LiftlogError(
            f"{source}: [node] peer_listen = {said!r}, but [peers] names no other node; leave it out"
        )
    return ""


def _check_addresses(listen: str, address: str, peer_listen: str, source: str) -> None:
    if listen == peer_listen:
        raise LiftlogError(
            f"{source}: {listen} is named both for clients ([node] listen) and for nodes ([peers], or [node] "
            "peer_listen); they need a port each: change one of them"
        )
    if address.rpartition(":")[0] in ("0.0.0.0", "[::]", "::"):
        raise LiftlogError(
            f"{source}: clients cannot be told to connect to {address}; say [node] address = "
            '"host:port" as clients reach this node'
        )


def _check_metrics(settings: dict[tuple[str, str], Any], taken: tuple[str, ...], source: str) -> None:
    said = settings.get(("metrics", "listen"))
    if said is None and ("metrics", "partitions_max") in settings:
        raise LiftlogError(
            f"{source}: [metrics] partitions_max is set, but nothing is told: say {METRICS_KEY} = "
            '"127.0.0.1:4901" too, or leave it out'
        )
    if said in taken:
        raise LiftlogError(
            f"{source}: {METRICS_KEY} = {said!r} is where clients or nodes connect already; it needs a port "
            "of its own"
        )


def _check_security(config: ServerConfig, source: str) -> None:
    named = [name for name in SECURITY_FILES if getattr(config, name) is not None]
    if config.insecure and named:
        raise LiftlogError(f"{source}: [security] insecure = true and {named[0]} are both set; keep one")
    if config.jetstream and config.client_secret_file is None and config.clients_file is not None:
        raise LiftlogError(
            f"{source}: [jetstream] enabled needs [security] client_secret_file beside clients_file: its "
            "door is a client that may do everything; name one, or leave the door shut"
        )
    if config.insecure or len(config.peers) == 1 or (named[:1] == ["secret_file"] and len(named) > 1):
        return
    missing = "client_secret_file" if named == ["secret_file"] else "secret_file"
    lacks = f"[security] {missing}" if named else "[security] secret_file and client_secret_file"
    remedy = f"{how_to_make('FILE')}, the same on every node, or say insecure = true"
    raise LiftlogError(
        f"{source}: {len(config.peers)} nodes need {lacks}, or whoever can connect may speak for a node, "
        f"and read and delete everything; {remedy}"
    )


def _check_limits(limits: NetworkLimits, source: str) -> None:
    for smaller, larger in (
        ("connection_bytes", "clients_bytes"),
        ("connection_bytes", "peers_bytes"),
        ("clients_bytes", "all_bytes"),
        ("peers_bytes", "all_bytes"),
    ):
        low, high = getattr(limits, smaller), getattr(limits, larger)
        if low > high:
            raise LiftlogError(
                f"{source}: [network] {smaller} = {low} is above {larger} = {high}; change one of them"
            )


def _changed(limits: NetworkLimits) -> dict[str, int]:
    """The limits that are not the defaults."""
    usual = msgspec.structs.asdict(NetworkLimits())
    return {key: value for key, value in msgspec.structs.asdict(limits).items() if value != usual[key]}


class Secrets(msgspec.Struct, frozen=True):
    """The secrets themselves, the present ones first; see `liftlog.security`."""

    peers: tuple[bytes, ...] = (NO_SECRET,)
    clients: tuple[bytes, ...] = (NO_SECRET,)
    """Who has one of these may do everything; none: only clients with names are let in (V9)."""

    def __repr__(self) -> str:
        return "Secrets(...)"


def secrets_of(config: ServerConfig) -> Secrets:
    """Read the files that `config` names. Raises LiftlogError that names what is wrong with one of them."""

    def read(name: str) -> tuple[bytes, ...]:
        path: Path | None = getattr(config, name)
        return (NO_SECRET,) if path is None else read_secrets(path, f"[security] {name}")

    only_named = config.client_secret_file is None and config.clients_file is not None
    found = Secrets(read("secret_file"), () if only_named else read("client_secret_file"))
    if config.secret_file and config.client_secret_file and set(found.peers) & set(found.clients):
        raise LiftlogError(
            f"[security] {config.secret_file} and {config.client_secret_file} hold the same secret: every "
            "client could speak for a node; make one of them anew"
        )
    return found


def _path_or_none(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _peer_items(peers: dict[int, str]) -> list[tuple[str, str]]:
    return [(f"[peers] {peer}", address) for peer, address in sorted(peers.items())]


def _quote(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's."""
    return msgspec.json.encode(text).decode()
