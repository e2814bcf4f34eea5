"""What `stream get` and `stream subjects` print are others' bytes: no terminal takes them for commands."""

from __future__ import annotations

from types import TracebackType

import pytest

from liftlog.cli import main
from liftlog.client.reading import PartitionRecord
from liftlog.commands import streamsubjects
from liftlog.types import Record

EVIL = b"orders.\x1b]0;renamed\x07"


class Asked:
    """A client whose stream has one message."""

    async def __aenter__(self) -> Asked:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def last(self, stream: str, subject: str) -> PartitionRecord:
        return PartitionRecord(0, Record(3, 1000, EVIL, b"", b"", None, b"\x1b[2Jx"))

    async def subjects(self, stream: str, filter: str, partition: int | None) -> dict[bytes, int]:
        return {EVIL: 1}


@pytest.mark.parametrize("command", [["get", "orders", "--last-by-subject", "a"], ["subjects", "orders"]])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_escape_sequences_of_subjects_and_values_do_not_reach_the_terminal(
    command: list[str], form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def connect(args: object) -> Asked:
        return Asked()

    monkeypatch.setattr(streamsubjects, "connect", connect)
    assert main(["stream", *command, *form]) == 0
    shown = capsys.readouterr().out
    assert "orders." in shown and "\x1b" not in shown and "\x07" not in shown
