"""The file that says which clients there are and what each may do: `[security] clients_file`.

    [clients.billing]
    secret_file = "billing.secret"       # beside this file, or with its whole path
    read = ["orders", "audit_*"]         # patterns of streams' names: * stands for any characters
    consume = ["orders"]
    administer = ["billing_*"]
    groups = ["billing"]                 # its groups and cursors
    subjects = ["billing.>"]             # patterns of NATS
    operate = false                      # nodes, votes, the controller

A client is who knows a secret of its own. What is not given is not allowed; a client that is given nothing is
let in, and told where the nodes are.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from liftlog.messages.copying import AT
from liftlog.namedtables import check_table, named_tables
from liftlog.rights.client import BY_STREAM, OPERATE, ClientRights
from liftlog.rights.names import is_reserved, pattern_problem
from liftlog.security import read_secrets
from liftlog.subjects.grammar import subject_problem
from liftlog.types import LiftlogError

CLIENTS_MAX = 256
PATTERNS_MAX = 256
"""In one list."""
FILE_BYTES_MAX = 1024 * 1024
SECRET_FILE, GROUPS_KEY, SUBJECTS = "secret_file", "groups", "subjects"
LISTS = (*BY_STREAM, GROUPS_KEY, SUBJECTS)
KINDS: Mapping[str, type] = {SECRET_FILE: str, **dict.fromkeys(LISTS, list), OPERATE: bool}


class NamedClient(NamedTuple):
    """A table of the file. `secret_file` is not read yet."""

    rights: ClientRights
    secret_file: Path


def read_clients(path: Path) -> tuple[NamedClient, ...]:
    """The clients of a file, in its order. Raises LiftlogError, which names file, client and key."""
    document = _document(path)
    for key in document:
        if key != "clients":
            raise LiftlogError(
                f"{path}: unknown key or table '{key}'; there is: [clients.NAME] for each client"
            )
    tables = named_tables(document.get("clients", {}), "clients", "client", str(path))
    if not 1 <= len(tables) <= CLIENTS_MAX:
        raise LiftlogError(f"{path} has {len(tables)} clients; accepted: 1 to {CLIENTS_MAX}")
    return tuple([_client(name, table, path) for name, table in tables.items()])


def _document(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LiftlogError(
            f"cannot read {path}: {error.strerror}; name the file of clients in [security] clients_file"
        ) from None
    if stat.S_ISREG(mode) and mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise LiftlogError(
            f"other users may change {path}, and so give themselves rights; run: chmod go-w {path}"
        )
    if len(content) > FILE_BYTES_MAX:
        raise LiftlogError(f"{path} is too long for a file of clients; accepted: {FILE_BYTES_MAX} bytes")
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LiftlogError(f"{path} is not valid TOML: {error}; correct that line") from None


def _client(name: str, table: dict[str, object], path: Path) -> NamedClient:
    where = f"{path}: [clients.{name}]"
    check_table(where, name, table, KINDS, "a client's name")
    secret = table.get(SECRET_FILE)
    if not isinstance(secret, str) or not secret:
        raise LiftlogError(
            f"{where} lacks {SECRET_FILE}, the file with what this client proves to know: {SECRET_FILE} = "
            f'"{name}.secret", made with: openssl rand -hex 32 > {name}.secret && chmod 600 {name}.secret'
        )
    rights = ClientRights(name, operate=table.get(OPERATE) is True)
    lists = {key: _patterns(key, table.get(key, []), where) for key in LISTS}
    return NamedClient(msgspec.structs.replace(rights, **lists), path.parent / secret)


def _patterns(key: str, listed: object, where: str) -> tuple[str, ...]:
    assert isinstance(listed, list)
    if len(listed) > PATTERNS_MAX:
        raise LiftlogError(f"{where} {key} has {len(listed)} patterns; accepted: up to {PATTERNS_MAX}")
    for pattern in listed:
        if not isinstance(pattern, str):
            raise LiftlogError(f"{where} {key}: {pattern!r} is no pattern; it must be a text in quotes")
        if problem := _problem(key, pattern):
            raise LiftlogError(f"{where} {key}: {pattern!r} is no pattern: {problem}")
    return tuple(dict.fromkeys(listed))


def _problem(key: str, pattern: str) -> str:
    if key == SUBJECTS:
        if is_reserved(pattern):
            return "it is of NATS or of liftlog itself; what groups and cursors write, groups = [...] gives"
        return subject_problem(pattern)
    if key != "read" and AT in pattern:
        return f"what is in another cluster can be read only, not be in {key}"
    return pattern_problem(pattern)


def secrets_by_client(clients: tuple[NamedClient, ...]) -> dict[bytes, ClientRights]:
    """The rights by the secrets that are to be proved, read now. Raises LiftlogError: a file cannot be used,
    or two clients have the same secret.
    """
    found: dict[bytes, ClientRights] = {}
    for rights, secret_file in clients:
        for secret in read_secrets(secret_file, f"[clients.{rights.name}] {SECRET_FILE}"):
            other = found.setdefault(secret, rights)
            if other is not rights:
                raise LiftlogError(
                    f"clients '{other.name}' and '{rights.name}' have the same secret, so nobody could tell "
                    f"them apart; make one of them anew: openssl rand -hex 32 > {secret_file}"
                )
    return found
