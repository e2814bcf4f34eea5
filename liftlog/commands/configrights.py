"""`liftlog config rights` and `config permissions`: what a file of clients means, without a cluster."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from liftlog.commands.common import add_json_option, print_json
from liftlog.config import CLUSTER_NAME, DEFAULT_CLUSTER
from liftlog.groups.streams import CURSORS, GROUPS
from liftlog.rights.client import BY_STREAM, OPERATE, READ, ClientRights
from liftlog.rights.clientsfile import GROUPS_KEY, SUBJECTS, read_clients
from liftlog.rights.natsblock import permissions
from liftlog.types import LiftlogError

LISTS = (*BY_STREAM, GROUPS_KEY, SUBJECTS)


def add_parsers(kinds: Any) -> None:
    """The two beside `config check`."""
    rights = kinds.add_parser(
        "rights",
        help="say what a client may do, by a file of clients",
        description="Reads the file alone: no secret, no cluster. With --right, exit code 1 means no.",
    )
    rights.add_argument("file", type=Path, metavar="CLIENTS.toml", help="see [security] clients_file")
    rights.add_argument("--client", metavar="NAME", help="this one alone")
    rights.add_argument("--stream", metavar="NAME", help="what it may do with this stream")
    rights.add_argument("--right", choices=(*BY_STREAM, OPERATE), help="this one alone, of one client")
    add_json_option(rights)
    rights.set_defaults(run=run_rights)
    block = kinds.add_parser(
        "permissions", help="print what clients need in NATS, as permissions that nats-server reads"
    )
    block.add_argument("file", type=Path, metavar="CLIENTS.toml")
    block.add_argument("--client", metavar="NAME", help="this one alone")
    block.add_argument("--cluster", metavar="NAME", default=DEFAULT_CLUSTER)
    block.set_defaults(run=run_permissions)


def run_rights(options: argparse.Namespace) -> int:
    clients = _chosen(options.file, options.client)
    if options.right is not None:
        return _one(options, clients)
    if options.json:
        print_json([_plain(client, options.stream) for client in clients])
        return 0
    for client in clients:
        print(f"client {client.name}: {summary(client)}")
        for right in BY_STREAM if options.stream else ():
            print(f"  {right:<11}{options.stream}: {_answer(options.file, client, right, options.stream)}")
    return 0


def _one(options: argparse.Namespace, clients: Sequence[ClientRights]) -> int:
    if options.client is None or (options.stream is None) != (options.right == OPERATE):
        raise LiftlogError(
            "--right asks for one client's, so say --client, and --stream for all rights but 'operate'"
        )
    (client,) = clients
    may = client.operate if options.right == OPERATE else client.may(options.right, options.stream)
    if options.json:
        print_json({"client": client.name, "right": options.right, "stream": options.stream, "may": may})
    else:
        print(_answer(options.file, client, options.right, options.stream or ""))
    return 0 if may else 1


def run_permissions(options: argparse.Namespace) -> int:
    if not CLUSTER_NAME.fullmatch(options.cluster):
        raise LiftlogError(f"--cluster {options.cluster!r}: use 1 to 64 letters, digits, '_' or '-'")
    block = permissions(_chosen(options.file, options.client), options.cluster)
    print("# For nats-server: name a block in a user, as in  { user: NAME, ..., permissions: $client_NAME }")
    print("# What a client may do with streams its nodes decide, by the same file: docs/security.md, Rights.")
    print(block, end="")
    return 0


def _chosen(file: Path, name: str | None) -> list[ClientRights]:
    clients = [client.rights for client in read_clients(file)]
    found = [client for client in clients if name in (None, client.name)]
    if not found:
        there = ", ".join(client.name for client in clients)
        raise LiftlogError(f"{file} has no client '{name}'; there are: {there}")
    return found


def summary(client: ClientRights) -> str:
    """All that a client may do, in one line."""
    told = [f"{key} {', '.join(getattr(client, key))}" for key in LISTS if getattr(client, key)]
    told += [OPERATE] * client.operate
    return "; ".join(told) or "nothing, but to see where the nodes are"


def _plain(client: ClientRights, stream: str | None) -> dict[str, object]:
    told: dict[str, object] = {"client": client.name, OPERATE: client.operate}
    told |= {key: list(getattr(client, key)) for key in LISTS}
    if stream:
        told["stream"] = stream
        told["may"] = {right: client.may(right, stream) for right in BY_STREAM}
    return told


def _answer(file: Path, client: ClientRights, right: str, stream: str) -> str:
    """Yes, with the line that says so, or no."""
    if right == OPERATE:
        pattern, said = ("true", "operate = true") if client.operate else (None, "")
    else:
        pattern = client.allowing(right, stream)
        said = f"{right} has {pattern!r}"
    if pattern is None:
        if right == READ and client.groups and stream in (CURSORS, GROUPS):
            kept = ", ".join(client.groups)
            return f"in part: that of {kept}, by groups of [clients.{client.name}]"
        return f"no: {right} of [clients.{client.name}] does not give it"
    line = line_of(file.read_text(), client.name, right, pattern)
    return f"yes: {file}{f', line {line}' if line else ''}: [clients.{client.name}] {said}"


def line_of(text: str, client: str, key: str, pattern: str) -> int:
    """Where a file written as most are, a key and its list below a table's head, has a pattern; 0: nobody
    knows.
    """
    head = re.compile(rf"\s*\[\s*clients\s*\.\s*[\"']?{re.escape(client)}[\"']?\s*\]")
    any_head = re.compile(r"\s*\[\s*clients\b")
    inside, current = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if any_head.match(line):
            inside = head.match(line) is not None
        if found := re.match(r"\s*(\w+)\s*=", line):
            current = found[1]
        if inside and current == key and re.search(rf"(?<![\w*@-]){re.escape(pattern)}(?![\w*@-])", line):
            return number
    return 0
