"""The table [tls] of a node's configuration: its certificate, and what is spoken at its two ports.

[tls]                                       # optional, see docs/security.md#tls
ca_file = "/etc/liftlog/ca.pem"             # whose certificates the nodes believe
cert_file = "/etc/liftlog/node-1.pem"       # this node's, for the hosts of [peers] and [node] address
key_file = "/etc/liftlog/node-1.key"
client_ca_file = "/etc/liftlog/clients-ca.pem"     # clients must show a certificate of this CA
peers = "require"                           # between nodes: "require", "accept" (plain too) or "off"
clients = "require"                         # the same for clients
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from liftlog.tls.files import Names, TlsFiles
from liftlog.tls.looking import Validity, look
from liftlog.types import LiftlogError

REQUIRE, ACCEPT, OFF = "require", "accept", "off"
MODES = (REQUIRE, ACCEPT, OFF)
FILES = ("ca_file", "cert_file", "key_file")
KEYS: dict[str, type] = dict.fromkeys((*FILES, "client_ca_file", "peers", "clients"), str)
NAMES: Names = ("[tls] ca_file", "[tls] cert_file", "[tls] key_file")
CLIENT_CA = "[tls] client_ca_file"


class NodeTls(msgspec.Struct, frozen=True):
    """What a node's configuration says of TLS."""

    ca_file: Path
    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None
    """None: clients need no certificate."""
    peers: str = REQUIRE
    clients: str = REQUIRE

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.ca_file, self.cert_file, self.key_file, NAMES)

    @property
    def as_client(self) -> TlsFiles | None:
        """How a client beside this node calls the cluster; None: without TLS."""
        return None if self.clients == OFF else self.files

    def look(self, peer_host: str, client_host: str) -> Validity:
        """What others find in the certificate, who call the node by these. Raises LiftlogError."""
        found = None
        if self.peers != OFF and peer_host:
            found = look(self.files, peer_host, self.ca_file)
        if self.clients != OFF:
            if self.client_ca_file is not None:
                self.files.answering(self.client_ca_file, CLIENT_CA)
            found = look(self.files, client_host, None)
        return found if found is not None else look(self.files, peer_host or client_host, None)

    def to_toml(self) -> list[str]:
        """Its lines in a configuration file."""
        said = {key: getattr(self, key) for key in KEYS if getattr(self, key) is not None}
        return ["", "[tls]", *(f"{key} = {_quote(str(value))}" for key, value in said.items())]


def read_tls(settings: Mapping[tuple[str, str], Any], alone: bool, source: str) -> NodeTls | None:
    """What the settings of table "tls" say; None: there are none. `alone`: there are no other nodes.

    Raises LiftlogError.
    """
    said: dict[str, str] = {key: value for (table, key), value in settings.items() if table == "tls"}
    if not said:
        return None
    for key in FILES:
        if key not in said:
            raise LiftlogError(
                f"{source}: [tls] {key} is missing; a node needs the CA's certificate (ca_file), its own "
                "(cert_file) and the key of that (key_file)"
            )
    for key in ("peers", "clients"):
        if said.get(key, REQUIRE) not in MODES:
            raise LiftlogError(
                f'{source}: [tls] {key} = {said[key]!r}; use "{REQUIRE}", "{ACCEPT}" (connections '
                f'without TLS are taken too) or "{OFF}"'
            )
    if said.get("clients") == OFF and (alone or said.get("peers") == OFF):
        raise LiftlogError(
            f"{source}: [tls] names files, and nothing that would use them; say clients or peers = "
            f'"{REQUIRE}", or leave [tls] out'
        )
    if "client_ca_file" in said and said.get("clients") == OFF:
        raise LiftlogError(
            f'{source}: [tls] client_ca_file is set, and clients = "{OFF}": nobody would be asked for a '
            "certificate; leave one of them out"
        )
    paths = {key: Path(value) for key, value in said.items() if key.endswith("_file")}
    modes = {key: said[key] for key in ("peers", "clients") if key in said}
    return NodeTls(**paths, **modes)  # type: ignore[arg-type]


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()
