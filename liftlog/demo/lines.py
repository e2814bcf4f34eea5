"""The demo's input: real text that every machine with Python has, and that comes out the same each time."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from liftlog.types import LiftlogError

THIRD_PARTY = ("site-packages", "dist-packages")


class Line(NamedTuple):
    """One line of one source file. `file` is relative to the standard library's folder."""

    file: str
    number: int
    text: str

    def value(self, attempt: int) -> str:
        """What is published. The attempt makes a line that is sent again another value: if the first one was
        stored after all, the history must not show one value at two offsets."""
        return f"{self.file}\t{self.number}\t{attempt}\t{self.text}"


def input_lines(source: Path | None, limit: int) -> list[Line]:
    """The first `limit` lines of the file `source`, or of the standard library's files in sorted order."""
    if source is None:
        root = Path(sysconfig.get_path("stdlib"))
        found = islice(_library_lines(root), limit)
        remedy = f"the standard library in {root} has no sources; pass --input FILE"
    else:
        found = islice(_file_lines(source, source.name), limit)
        remedy = f"--input {source} is empty; name a file with lines"
    try:
        lines = list(found)
    except OSError as error:
        raise LiftlogError(f"cannot read the input {error.filename}: {error.strerror}") from None
    if not lines:
        raise LiftlogError(remedy)
    return lines


def _library_lines(root: Path) -> Iterator[Line]:
    files = (
        p.relative_to(root) for p in root.rglob("*.py") if not any(part in THIRD_PARTY for part in p.parts)
    )
    for file in sorted(files, key=lambda path: path.parts):
        yield from _file_lines(root / file, file.as_posix())


def _file_lines(path: Path, name: str) -> Iterator[Line]:
    # Not every file is UTF-8, some on purpose: foreign bytes become visible escapes.
    for number, raw in enumerate(path.read_bytes().splitlines(), 1):
        yield Line(name, number, raw.decode("utf-8", "backslashreplace"))


def subject_of(prefix: str, file: str) -> str:
    """The NATS subject of a file's lines: ``json/decoder.py`` becomes ``<prefix>.json.decoder_py``."""
    tokens = ("".join(c if c.isalnum() or c in "-_" else "_" for c in part) for part in file.split("/"))
    return ".".join([prefix, *(token or "_" for token in tokens)])
