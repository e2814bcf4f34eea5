"""`liftlog config`: read a configuration as `liftlog serve` would, and say what is wrong with it."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import msgspec

from liftlog.commands.configrights import add_parsers, summary
from liftlog.commands.tlsview import tls_lines
from liftlog.config import METRICS_KEY, METRICS_TELL, ServerConfig, load, secrets_of
from liftlog.diskkey import encryption_key
from liftlog.rights.book import read_book
from liftlog.rights.clientsfile import read_clients
from liftlog.tls.files import TlsFiles


def add_parser(subparsers: Any) -> None:
    config = subparsers.add_parser("config", help="check a node's configuration, and what its clients may do")
    kinds = config.add_subparsers(dest="kind", required=True)
    check = kinds.add_parser(
        "check",
        help="read FILE and the environment as 'liftlog serve' does",
        description="Prints the settings in force. Exit code 2 and one line for the first one that is wrong.",
    )
    check.add_argument("file", type=Path, metavar="FILE")
    check.add_argument("--json", action="store_true", help="print the settings as JSON")
    check.set_defaults(run=run_check)
    add_parsers(kinds)


def run_check(options: argparse.Namespace) -> int:
    config = load(options.file, os.environ)
    encrypted = encryption_key(config.encryption_key_file, os.environ) is not None
    secrets = secrets_of(config)
    read_book(config.clients_file, secrets.clients, secrets.peers)
    tls_told = tls_lines(config)
    for other in config.clusters:
        other.secrets()
        if other.tls is not None:
            other.tls.calling()
    config.nats_login.check(config.nats_url)
    if options.json:
        peers = {str(peer): address for peer, address in sorted(config.peers.items())}
        settings = {name: getattr(config, name) for name in config.__struct_fields__}
        paths = {name: str(value) for name, value in settings.items() if isinstance(value, Path)}
        network = msgspec.structs.asdict(config.network)
        files = msgspec.structs.asdict(config.nats_login).items()
        login = {key: str(path) for key, path in files if path is not None}
        shown: dict[str, object] = {"peers": peers, "network": network, "nats_login": login}
        shown["clusters"] = [
            _texts(one) | {"client_secret_file": str(one.client_secret_file or "")} for one in config.clusters
        ]
        shown |= {"encrypted": encrypted, "open_to": config.open_to, "rights": rights_lines(config)}
        shown |= {"tls": None if config.tls is None else _texts(config.tls), "tls_told": tls_told}
        print(json.dumps(settings | paths | shown))
    else:
        print(f"# {options.file} is good; with the environment it means:\n{config.to_toml()}", end="")
        if config.metrics_open:
            print(f"# {METRICS_KEY}: whoever reaches it may read {METRICS_TELL}")
        if config.jetstream:
            print(f"# JetStream's door: {door_text(config)}")
        print("".join(f"# {line}\n" for line in [*tls_told, *rights_lines(config)]), end="")
        if config.open_to:
            print(f"# INSECURE: whoever can connect may {config.open_to}; see docs/security.md")
    return 0


def _texts(settings: msgspec.Struct) -> dict[str, Any]:
    """By their names, paths as texts, those of a table within too."""
    found = msgspec.structs.asdict(settings)
    for name, value in found.items():
        if isinstance(value, TlsFiles):
            found[name] = {key: one for key, one in _texts(value).items() if key != "names"}
        elif isinstance(value, Path):
            found[name] = str(value)
    return found


def rights_lines(config: ServerConfig) -> list[str]:
    """Who may do what over TCP, where clients have names."""
    if config.clients_file is None:
        return []
    lines = [f"client {one.rights.name}: {summary(one.rights)}" for one in read_clients(config.clients_file)]
    if config.client_secret_file is not None:
        lines.append(f"whoever has a secret of {config.client_secret_file} may do everything")
    block = f"liftlog config permissions {config.clients_file} --cluster {config.cluster}"
    lines.append(f"over NATS these rights bind nobody: give its users what '{block}' prints")
    return lines


def door_text(config: ServerConfig) -> str:
    """What programs written for JetStream are answered, and what they are not."""
    url = config.nats_url.rsplit("@", 1)[-1]
    text = (
        f"domain '{config.jetstream_domain}' always; without a domain if NATS has no JetStream of its own, "
        f"which 'liftlog jetstream check --domain {config.jetstream_domain} --nats {url}' finds out"
    )
    return text if config.jetstream_leaf else f"{text}; no consumers: [jetstream] leaf is not set"
