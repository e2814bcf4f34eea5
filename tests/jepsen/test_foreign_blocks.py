"""A large file that is read by blocks of lines has the same operations as when it is read in one piece."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import BadHistory, Event, Operation, pair
from liftlog_jepsen.foreign.blocks import plan_blocks, read_block
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.formats import FORMATS, edn, read_bytes, write_edn
from liftlog_jepsen.formats.edn import Keyword

NOTHING_SAID = Conventions()


def by_blocks(path: Path, format: str, size: int) -> list[Operation]:
    blocks = plan_blocks(str(path), format, size)
    assert blocks is not None
    return [one for block in blocks for one in read_block(block, NOTHING_SAID)]


def whole(path: Path, format: str) -> list[Operation]:
    return pair(read_bytes(path.read_bytes(), str(path), FORMATS[format]), str(path))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Some processes, each with one operation at a time; some never end, some crash; a nemesis in between."""
    events: list[Event] = []
    busy: set[int] = set()
    for value in range(draw(st.integers(4, 60))):
        process = draw(st.integers(0, 4))
        if process == 4:
            events.append(Event(Keyword("nemesis"), "info", Keyword("start"), "cut"))
        elif process in busy:
            busy.discard(process)
            kind = draw(st.sampled_from(["ok", "ok", "fail", "info"]))
            events.append(Event(process, kind, Keyword("write"), value))
        else:
            busy.add(process)
            events.append(Event(process, "invoke", Keyword("write"), value))
    return [Event(0, "invoke", Keyword("read")), *events] if not busy and not events else events


def lines_of(events: list[Event], format: str) -> str:
    if format == "edn-lines":
        return write_edn(events)
    if format == "json":
        return "".join(
            json.dumps(
                {"process": str(one.process) if one.process == "nemesis" else one.process}
                | {"type": one.type, "f": str(one.f), "value": one.value}
            )
            + "\n"
            for one in events
        )
    return "".join(
        f"{edn.write(one.process)}\t:{one.type}\t:{one.f}\t{edn.write(one.value)}\n" for one in events
    )


@pytest.mark.parametrize("format", ["edn-lines", "json", "jepsen-log"])
@settings(max_examples=60, deadline=None)
@given(events=histories(), size=st.integers(1, 400))
def test_blocks_have_the_operations_of_the_whole(
    format: str, events: list[Event], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if not any(one.type == "invoke" for one in events):
        return
    path = tmp_path_factory.mktemp("blocks") / "h"
    path.write_text(lines_of(events, format))
    if path.stat().st_size <= size:
        return
    expected = whole(path, format)
    found = by_blocks(path, format, size)
    ranks = ranks_of(found)
    assert [one._replace(start=0, end=None) for one in found] == [
        one._replace(start=0, end=None) for one in expected
    ]
    assert ranks == ranks_of(expected), "the order of all invocations and completions"


def ranks_of(operations: list[Operation]) -> list[tuple[int, int | None]]:
    """Positions, counted from 0 without gaps: lines of a nemesis have numbers, too, when read by blocks."""
    places = sorted({place for one in operations for place in (one.start, one.end) if place is not None})
    ranks = {place: rank for rank, place in enumerate(places)}
    return [(ranks[one.start], None if one.end is None else ranks[one.end]) for one in operations]


def test_the_line_of_an_error_is_counted_from_the_start_of_the_file(tmp_path: Path) -> None:
    lines = [f"{{:process 0, :type :{kind}, :f :read, :value 1}}" for kind in ["invoke", "ok"] * 20]
    lines[30] = "{:process 0, :type :invoke, :f :read, :value [1}"
    (tmp_path / "h.edn").write_text("\n".join(lines))
    with pytest.raises(BadHistory, match=r"h\.edn line 31, column 48: expected \] for the \[ of line 31"):
        by_blocks(tmp_path / "h.edn", "edn-lines", 200)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "{:process 0, :type :invoke, :f :read}\n{:process 1, :type :invoke, :f :read}"
            " {:process 1, :type :ok, :f :read}\n",
            r"line 2: expected one event a line from here on, found 2 events in 1 lines; read .* \(--whole\)",
        ),
        (
            "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :read, :value :invoke}\n",
            "line 2: expected one event a line from here on, found 0 invocations, but 1 times `invoke`",
        ),
        (
            "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :invoke, :f :read}\n",
            "line 2: process 0 invokes read before its last operation has ended",
        ),
    ],
)
def test_what_cannot_be_cut_is_refused_with_the_remedy(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "h.edn").write_text(text)
    with pytest.raises(BadHistory, match=expected):
        by_blocks(tmp_path / "h.edn", "edn-lines", 30)


def test_small_files_vectors_and_other_formats_are_not_cut(tmp_path: Path) -> None:
    lines = "{:process 0, :type :invoke, :f :read}\n"
    (tmp_path / "h").write_text(lines)
    assert plan_blocks(str(tmp_path / "h"), "edn-lines", 1000) is None
    assert plan_blocks(str(tmp_path / "h"), "auto", 10) is not None
    assert plan_blocks(str(tmp_path / "h"), "limo-txt", 10) is None
    assert plan_blocks(str(tmp_path / "none"), "edn-lines", 10) is None
    (tmp_path / "h").write_text(f"[{lines}]")
    assert plan_blocks(str(tmp_path / "h"), "edn-lines", 10) is None
