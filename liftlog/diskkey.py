"""The key of encryption at rest: from a file, or the environment."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

from liftlog.exposure import is_exposed
from liftlog.types import LiftlogError

ENCRYPTION_KEY_VARIABLE = "LIFTLOG_ENCRYPTION_KEY"
ENCRYPTION_KEY_BYTES = 32


def encryption_key(path: Path | None, environment: Mapping[str, str]) -> bytes | None:
    """The key of encryption at rest, from the file or the environment; None = not encrypted.

    In a file: 32 raw bytes, or as text, which is also what the environment holds: 64 hexadecimal digits or
    base64. The file must be kept from other users; its group may read it, as secrets mounted into containers
    need. Raises LiftlogError that names where the key came from and how to make a good one, never the key.
    """
    text = environment.get(ENCRYPTION_KEY_VARIABLE)
    if text is not None:
        if path is not None:
            raise LiftlogError(
                f"{ENCRYPTION_KEY_VARIABLE} and [storage] encryption_key_file = {path} are both set; keep one"
            )
        return _key_from_text(text, ENCRYPTION_KEY_VARIABLE)
    return None if path is None else _key_from_file(path)


def _key_from_file(path: Path) -> bytes:
    source = f"[storage] encryption_key_file = {path}"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(4096)
    except OSError as error:
        raise LiftlogError(
            f"{source}: cannot read it: {error.strerror}; {_how_to_make_a_key(path)}"
        ) from None
    if is_exposed(mode):
        raise LiftlogError(f"{source}: other users may read or change it; run: chmod 600 {path}")
    if len(content) == ENCRYPTION_KEY_BYTES:
        if content.isascii() and content.decode().isprintable():
            raise LiftlogError(
                f"{source}: 32 characters of text are no random key; {_how_to_make_a_key(path)}"
            )
        return content
    return _key_from_text(content.decode("latin-1"), source, path)


def _key_from_text(text: str, source: str, path: Path | None = None) -> bytes:
    text = text.strip()
    key = b""
    try:
        if re.fullmatch(r"[0-9a-fA-F]{64}", text):
            key = bytes.fromhex(text)
        else:
            key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != ENCRYPTION_KEY_BYTES:
        raise LiftlogError(
            f"{source}: not a key of 32 bytes (64 hexadecimal digits, base64, or 32 raw bytes in a file); "
            + _how_to_make_a_key(path)
        )
    return key


def _how_to_make_a_key(path: Path | None) -> str:
    return "make one with: openssl rand -hex 32" + (f" > {path} && chmod 600 {path}" if path else "")
