"""Bytes that lie in a file, for whoever sends them without looking at them."""

from __future__ import annotations

from typing import Protocol

import msgspec


class SpanFile(Protocol):
    """What a `FileSpan` needs of an open file; `liftlog.ports.DiskFile` has it and says what it does."""

    def read_at(self, position: int, length: int) -> bytes: ...

    def send_to(self, descriptor: int, position: int, length: int) -> int: ...

    def close(self) -> None: ...


class FileSpan(msgspec.Struct, frozen=True):
    """Whole batches of one log, [base_offset, end_offset), where they lie in a file, not verified.

    `file` is a handle of its own, which whoever sends the span closes, and which closes itself when it is
    dropped; it stays readable when the file's name is gone.
    """

    file: SpanFile
    position: int
    length: int
    base_offset: int
    end_offset: int
