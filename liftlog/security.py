"""Secrets of a cluster: files that hold them, how they are made, where a client finds its own.

There are two. Nodes prove to each other that they know the *cluster's* secret, and who knows it can speak for
any node. Clients prove on TCP that they know the *clients'* secret, which lets them read and administer,
and nothing more. Neither is ever sent, written into a log, or taken from a command line, which other users
of a machine can see: what is passed around is the path of a file that others cannot read.

A file holds one secret a line, at most four: the first is the present one, the others are accepted too, for
the time in which not everybody has the new one yet (docs/security.md). Empty lines and what follows a ``#``
do not count.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from liftlog.api.handshake import NO_SECRET, SECRETS_MAX
from liftlog.exposure import is_exposed
from liftlog.types import LiftlogError

SECRET_BYTES_MIN, SECRET_BYTES_MAX = 32, 64
CLIENT_SECRET_VARIABLE = "LIFTLOG_CLIENT_SECRET_FILE"
"""Path of the clients' secret in a client's environment."""
NONE = "none"
"""In place of a path: this cluster asks its clients for no secret."""

_FILE_BYTES_MAX = 4096


def how_to_make(path: Path | str) -> str:
    return f"make one with: openssl rand -hex 32 > {path} && chmod 600 {path}"


def read_secrets(path: Path, source: str) -> tuple[bytes, ...]:
    """The secrets in a file, the present one first. `source` says who named the file, for the errors.

    Raises LiftlogError with the remedy and never with the secret: the file cannot be read, other users can
    read it (its group may, as secrets that are mounted into containers need), or a line is no good secret.
    """
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise LiftlogError(f"{source}: cannot read {path}: {error.strerror}; {how_to_make(path)}") from None
    if stat.S_ISREG(mode) and is_exposed(mode):
        raise LiftlogError(f"{source}: other users may read or change {path}; run: chmod 600 {path}")
    if len(content) > _FILE_BYTES_MAX:
        raise LiftlogError(f"{source}: {path} is too long for a file of secrets; {how_to_make(path)}")
    lines = [line.partition("#")[0].strip() for line in content.decode("latin-1").splitlines()]
    found: list[bytes] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        secret = _decode(line)
        if secret is None:
            raise LiftlogError(
                f"{source}: line {number} of {path} is no secret of {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} "
                f"random bytes in hexadecimal digits or base64; {how_to_make(path)}"
            )
        if secret not in found:
            found.append(secret)
    if not found:
        raise LiftlogError(f"{source}: {path} holds no secret; {how_to_make(path)}")
    if len(found) > SECRETS_MAX:
        raise LiftlogError(
            f"{source}: {path} holds {len(found)} secrets; keep up to {SECRETS_MAX}, the present one first"
        )
    return tuple(found)


def _decode(line: str) -> bytes | None:
    """The bytes of a line; None if they are too few, too many or clearly not random."""
    try:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})+", line):
            secret = bytes.fromhex(line)
        else:
            secret = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return None
    good = SECRET_BYTES_MIN <= len(secret) <= SECRET_BYTES_MAX and len(set(secret)) >= 8
    return secret if good else None


def ensure_secret_file(path: Path) -> None:
    """See to a secret in this file, readable by its owner alone. One that is there stays.

    Raises LiftlogError if it cannot be written.
    """
    if path.exists():
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32) + "\n")
            # Two that do this at the same time end with one and the same secret.
            with contextlib.suppress(FileExistsError):
                os.link(fresh, path)
        finally:
            fresh.unlink()
    except OSError as error:
        raise LiftlogError(
            f"cannot write a secret to {path}: {error.strerror}; make room for it there, or choose another "
            "folder (XDG_CONFIG_HOME is where a user's own are)"
        ) from None


# -- clients -----------------------------------------------------------------------------------------------


def own_client_secret_file(cluster: str, environment: Mapping[str, str]) -> Path:
    """Where the present user keeps the clients' secret of a cluster; `liftlog dev` puts one there."""
    base = environment.get("XDG_CONFIG_HOME")
    folder = Path(base) if base else Path(environment.get("HOME") or "~").expanduser() / ".config"
    return folder / "liftlog" / f"{cluster}.client-secret"


def client_secrets(
    cluster: str, environment: Mapping[str, str], path: Path | str | None = None
) -> tuple[tuple[bytes, ...], str]:
    """What a client proves to a cluster's nodes, and where that comes from, in words.

    It comes from `path`, else from the file that LIFTLOG_CLIENT_SECRET_FILE names, else from the user's own
    file for this cluster, if there is one. Raises LiftlogError.
    """
    source = "--secret-file"
    if path is None and environment.get(CLIENT_SECRET_VARIABLE):
        path, source = environment[CLIENT_SECRET_VARIABLE], CLIENT_SECRET_VARIABLE
    if path is None:
        own = own_client_secret_file(cluster, environment)
        if not own.exists():
            return (NO_SECRET,), "no secret"
        path, source = own, f"the clients' secret of cluster '{cluster}'"
    if str(path) == NONE:
        return (NO_SECRET,), "no secret"
    return read_secrets(Path(path), source), f"the secret in {path}"
