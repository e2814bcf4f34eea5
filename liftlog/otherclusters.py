"""The other clusters that a node's configuration names, whose streams mirrors here copy (R28).

    [clusters.east]
    nodes = ["10.1.0.1:4701", "10.1.0.2:4701"]     # where its clients reach some of its nodes
    cluster = "liftlog"                            # what it is called there; the default is "east"
    client_secret_file = "/etc/liftlog/east.secret"     # its clients' secret
    insecure = false                               # true in place of the file: it asks its clients for none
    tls_ca_file = "/etc/liftlog/east-ca.pem"       # optional: TLS, with nodes that show a certificate of it
    tls_cert_file = "/etc/liftlog/at-east.pem"     # if it wants certificates of its clients: ours there,
    tls_key_file = "/etc/liftlog/at-east.key"      # and the key of that

A node is a client there, as any other: it reads, and asks which streams there are.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from liftlog.addresses import is_address
from liftlog.api.handshake import NO_SECRET
from liftlog.namedtables import NAME, NAME_WORDS, check_table, named_tables
from liftlog.security import read_secrets
from liftlog.tls.files import TlsFiles, tls_files
from liftlog.types import LiftlogError

CLUSTERS_MAX = 16
NODES_MAX = 64
KINDS: dict[str, type] = {"nodes": list, "cluster": str, "client_secret_file": str, "insecure": bool}
TLS_KEYS = ("tls_ca_file", "tls_cert_file", "tls_key_file")
KINDS |= dict.fromkeys(TLS_KEYS, str)


class OtherCluster(msgspec.Struct, frozen=True):
    """`name`: what it is called here; `cluster`: there. `nodes`: host:port of some of its nodes."""

    name: str
    nodes: tuple[str, ...]
    cluster: str
    client_secret_file: Path | None = None
    """None: it asks its clients for no secret."""
    tls: TlsFiles | None = None
    """None: it is called without TLS."""

    def secrets(self) -> tuple[bytes, ...]:
        """What its clients prove to know, read now. Raises LiftlogError."""
        if self.client_secret_file is None:
            return (NO_SECRET,)
        return read_secrets(self.client_secret_file, f"[clusters.{self.name}] client_secret_file")

    def to_toml(self) -> list[str]:
        """Its lines in a configuration file."""
        lines = [f"[clusters.{self.name}]", f"nodes = {_json(list(self.nodes))}"]
        if self.cluster != self.name:
            lines += [f"cluster = {_json(self.cluster)}"]
        if self.tls is not None:
            paths = (self.tls.ca_file, self.tls.cert_file, self.tls.key_file)
            both = zip(TLS_KEYS, paths, strict=True)
            lines += [f"{key} = {_json(str(path))}" for key, path in both if path is not None]
        if self.client_secret_file is None:
            return [*lines, "insecure = true"]
        return [*lines, f"client_secret_file = {_json(str(self.client_secret_file))}"]


def read_clusters(table: object, source: str) -> tuple[OtherCluster, ...]:
    """What [clusters] of a configuration file says. Raises LiftlogError."""
    tables = named_tables(table, "clusters", "other cluster", source)
    if len(tables) > CLUSTERS_MAX:
        raise LiftlogError(f"{source}: [clusters] has {len(tables)} tables; accepted: up to {CLUSTERS_MAX}")
    return tuple([_read(name, one, source) for name, one in tables.items()])


def _read(name: str, table: dict[str, object], source: str) -> OtherCluster:
    where = f"{source}: [clusters.{name}]"
    check_table(where, name, table, KINDS)
    nodes, cluster = table.get("nodes", []), table.get("cluster", name)
    assert isinstance(nodes, list)
    good = all(isinstance(node, str) and is_address(node) for node in nodes)
    if not 1 <= len(nodes) <= NODES_MAX or not good:
        raise LiftlogError(
            f'{where} nodes = {nodes!r}; name 1 to {NODES_MAX} of its nodes, each as "host:port", where '
            "clients reach it"
        )
    if not isinstance(cluster, str) or not NAME.fullmatch(cluster):
        raise LiftlogError(f"{where} cluster = {cluster!r}; use {NAME_WORDS}")
    file, insecure = table.get("client_secret_file"), table.get("insecure", False)
    if (file is None) == (insecure is False):
        remedy = "keep one of them" if file is not None else "name the file that holds its clients' secret"
        raise LiftlogError(f"{where} needs client_secret_file or insecure = true: {remedy}")
    paths = [Path(str(table[key])) if key in table else None for key in TLS_KEYS]
    first, second, third = (f"[clusters.{name}] {key}" for key in TLS_KEYS)
    tls = tls_files(paths, (first, second, third))
    return OtherCluster(name, tuple(nodes), cluster, None if file is None else Path(str(file)), tls)


def _json(value: object) -> str:
    """JSON's texts and lists are TOML's."""
    return msgspec.json.encode(value).decode()
