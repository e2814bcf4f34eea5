"""The trace that a real node writes: whole lines, and nothing behind a hole."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from liftlog.trace.file import TraceFile
from liftlog.types import LiftlogError


class Line(msgspec.Struct):
    text: str


def test_a_torn_line_of_an_earlier_process_stays_alone(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "node.jsonl"
    file = TraceFile(path)
    file.add([Line("one"), Line("two")])
    file.add([])
    file.close()
    with path.open("r+b") as whole:
        whole.truncate(path.stat().st_size - 4)
    TraceFile(path).add([Line("three")])
    assert path.read_bytes() == b'{"text":"one"}\n{"text":"tw\n{"text":"three"}\n'


def test_a_file_that_cannot_be_written_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=r"--trace .*: Is a directory; choose another file"):
        TraceFile(tmp_path)


def test_a_write_that_fails_later_ends_the_trace_and_not_the_node(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "node.jsonl"
    file = TraceFile(path)
    file.add([Line("one")])

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        file.add([Line("two")])
    file.add([Line("three")])
    assert path.read_bytes() == b'{"text":"one"}\n', "no line behind the hole"
    assert "the trace in" in caplog.text and "No space left" in caplog.text
