"""Judging while a history grows: the fold over batches agrees with the definitions, forgets what it may, and
reads files that are being written.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import random_history
from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Op
from liftlog_jepsen.jsonl import JsonlStream, write_jsonl
from liftlog_jepsen.online.files import ASSIGN, is_complete, plan, read_part, sizes
from liftlog_jepsen.online.fold import DECIDED, FOUND, SCHEMA, fold_batches
from liftlog_jepsen.parquet import write_parquet
from tests.jepsen.brute_force import brute_force

FOREVER = 10**9


class Watcher:
    """What a streaming query does, without Spark: one state, batch after batch."""

    def __init__(self, late: int = FOREVER, gaps: str = "known") -> None:
        self.late, self.gaps = late, gaps
        self.state: list[dict[str, Any]] = []
        self.assignments: dict[str, dict[int, list[tuple[int, list[str]]]]] = {}
        self.found: list[dict[str, Any]] = []

    def batch(self, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            if row["what"] == ASSIGN:
                process, position = row["numbers"]
                told = self.assignments.setdefault(row["history_id"], {}).setdefault(process, [])
                told.append((position, json.loads(row["text"])))
        fresh = [row for row in rows if row["what"] != ASSIGN]
        batch = pa.RecordBatch.from_pylist([*self.state, *fresh], schema=SCHEMA)
        out = [
            row
            for part in fold_batches(iter([batch]), self.late, self.gaps, self.assignments)
            for row in part.to_pylist()
        ]
        self.state = [row for row in out if row["what"] != FOUND]
        self.found += [row for row in out if row["what"] == FOUND]


def lines_of(history: History) -> list[Op]:
    """The operations as a recorder writes them: when they complete, and what never did at the end."""
    return sorted(history.ops(), key=lambda op: (op.idx_ret is None, op.idx_ret or op.idx_inv))


def rows_of(history: History, folder: Path) -> list[list[dict[str, Any]]]:
    """The rows of each operation, in the order of lines."""
    path = folder / f"{history.name}.jsonl"
    stream = JsonlStream(path)
    stream.header(history.name, {})
    ends = []
    for op in lines_of(history):
        stream.op(op)
        stream.flush()
        ends.append(path.stat().st_size)
    stream.close()
    begin, found = 0, []
    for end in ends:
        found.append([row for part in read_part((str(path), begin, end)) for row in part.to_pylist()])
        begin = end
    return found


BY_VALUE = ("duplicate", "G1a", "phantom", "future-read", "realtime-order", "reused-value")


def identity(name: str, key: str, ops: Sequence[int], value: Any, offset: Any) -> tuple[Any, ...]:
    """What makes an anomaly the same one, in whatever order its parts were noticed."""
    if name in BY_VALUE:
        return name, key, value
    return (name, key, offset) if name == "inconsistent-offsets" else (name, key, offset, tuple(ops))


def of_batch_check(history: History, gaps: str) -> set[tuple[Any, ...]]:
    return {
        identity(name, key, ops, evidence[0], evidence[2])
        for name, key, ops, evidence in brute_force(history, gaps)
    }


def online(watcher: Watcher) -> set[tuple[Any, ...]]:
    """What was found; twice only what had been forgotten meanwhile."""
    rows = watcher.found
    found = [
        identity(row["name"], row["key"], [op for op in row["numbers"][:2] if op is not None], row["text"],
                 row["numbers"][2])
        for row in rows
    ]  # fmt: skip
    assert watcher.late < FOREVER or len(found) == len(set(found)), "an anomaly was reported twice"
    return set(found)


def cut(rng: random.Random, lines: list[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """Lines in batches of any size."""
    place = 0
    while place < len(lines):
        end = place + rng.randint(1, max(1, len(lines) // 3))
        yield [row for line in lines[place:end] for row in line]
        place = end


def crosses_logs(history: History) -> bool:
    """Whether one log's reads may show that an unknown transaction took place in another: not seen online."""
    return any(op.outcome == "info" and len({mop.key for mop in op.mops}) > 1 for op in history.ops())


def settled(found: set[tuple[Any, ...]], reference: set[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
    """Without what may have been reported before a value turned up again, sent twice or at a lower offset."""
    reused = {one[1:3] for one in reference if one[0] == "reused-value"}
    keys = {key for key, _ in reused}
    twice = {one[1:3] for one in reference if one[0] == "duplicate"}
    return {
        one
        for one in found
        if not (one[0] in BY_VALUE and one[1:3] in reused)
        and not (one[0] == "realtime-order" and (one[1] in keys or one[1:3] in twice))
    }


@pytest.mark.parametrize("gaps", ["known", "any"])
def test_batches_add_up_to_the_definitions(gaps: str, tmp_path: Path) -> None:
    kinds: set[str] = set()
    for seed in range(48):
        rng = random.Random(seed)
        history = random_history(rng, f"h{seed}", mischief=(0.0, 0.05, 0.2)[seed % 3], strings=seed % 2 == 0)
        watcher = Watcher(gaps=gaps)
        for batch in cut(rng, rows_of(history, tmp_path)):
            watcher.batch(batch)
        reference = of_batch_check(history, gaps)
        # Phantoms wait for the late bound.
        due = settled({one for one in reference if one[0] in DECIDED and one[0] != "phantom"}, reference)
        found = settled(online(watcher), reference)
        assert found <= due, seed
        if not crosses_logs(history):
            assert found == due, seed
        kinds |= {one[0] for one in found}
    assert kinds == set(DECIDED) - {"phantom"}


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), late=st.sampled_from([1, 3, 10, 30]))
def test_a_short_memory_finds_less_but_nothing_else(seed: int, late: int, tmp_path_factory: Any) -> None:
    rng = random.Random(seed)
    history = random_history(rng, f"h{seed}", mischief=0.1, strings=False)
    watcher = Watcher(late)
    for batch in cut(rng, rows_of(history, tmp_path_factory.mktemp("h"))):
        watcher.batch(batch)
    reference = of_batch_check(history, "known")
    found = online(watcher)
    # What is told after the late bound looks as if nobody had sent it.
    late_sends = {one[2] for one in found if one[0] == "phantom"}
    assert {one for one in settled(found, reference) if one[2] not in late_sends} <= reference


def told(*ops: tuple[str, int, str, int | None, str], late: int) -> Watcher:
    """One operation after the other: f, process, outcome, offset, value; a batch each."""
    writer = HistoryWriter("told", clock_ns=iter(range(10**6)).__next__)
    for f, process, outcome, offset, value in ops:
        if f == "send":
            sent = writer.invoke(process, "send", "k", value)
            if outcome == "ok":
                writer.ok(sent, offset=offset)
            else:
                writer.info(sent)
        else:
            writer.ok_poll(writer.invoke(process, f, "k"), "k", offset or 0, [value])
    watcher = Watcher(late)
    for one in writer.close().ops():
        how = ("ok", "fail", "info").index(one.outcome)
        record = [0 if one.f == "send" else 1, one.op_id, 0, one.mops[0].offset, one.process]
        row = {"history_id": "told", "key": "k", "what": "row", "name": None, "text": one.mops[0].value}
        watcher.batch([{**row, "numbers": [*record, how, one.idx_inv, one.idx_ret]}])
    return watcher


def sends(first: int, count: int) -> list[tuple[str, int, str, int | None, str]]:
    return [("send", 1, "ok", offset, f"v{offset}") for offset in range(first, first + count)]


def test_a_phantom_is_reported_once_and_only_after_the_late_bound() -> None:
    read = ("poll", 2, "ok", 0, "nobody's")
    assert online(told(read, *sends(1, 4), late=5)) == set()
    assert online(told(read, *sends(1, 9), late=5)) == {("phantom", "k", "nobody's")}


def test_a_send_that_is_told_within_the_late_bound_is_no_phantom() -> None:
    read, send = ("poll", 2, "ok", 0, "v0"), ("send", 1, "ok", 0, "v0")
    assert not any(
        one[0] == "phantom" for one in online(told(read, *sends(1, 3), send, *sends(4, 20), late=5))
    )


def test_an_unknown_send_may_turn_up_whenever_it_likes() -> None:
    unknown: tuple[str, int, str, int | None, str] = ("send", 1, "info", None, "x")
    read = ("poll", 2, "ok", 30, "x")
    assert online(told(unknown, *sends(0, 30), read, *sends(31, 20), late=5)) == set()


def test_reads_far_behind_are_left_to_the_check_at_the_end() -> None:
    far_behind = ("poll", 2, "ok", 0, "v0")
    assert online(told(*sends(0, 30), far_behind, *sends(30, 20), late=5)) == set()


def test_the_state_is_bounded_by_the_late_bound() -> None:
    watcher = told(*sends(0, 200), late=10)
    assert len(watcher.state) < 30


# -- files ---------------------------------------------------------------------------------------------------


def small_history(name: str = "small") -> History:
    writer = HistoryWriter(name, clock_ns=iter(range(10**6)).__next__)
    for offset in range(20):
        writer.ok(writer.invoke(1, "send", "k", f"v{offset}"), offset=offset)
    writer.ok_poll(writer.invoke(2, FINAL_POLL, "k"), "k", 0, [f"v{offset}" for offset in range(20)])
    return writer.close()


def everything(folder: Path, start: dict[str, int]) -> tuple[list[dict[str, Any]], dict[str, int]]:
    end = sizes(str(folder))
    return [row for part in plan(start, end) for batch in read_part(part) for row in batch.to_pylist()], end


def test_a_file_that_grows_is_read_by_whole_lines(tmp_path: Path) -> None:
    write_jsonl(small_history(), tmp_path / "whole.jsonl")
    text = (tmp_path / "whole.jsonl").read_bytes()
    whole, _ = everything(tmp_path, {})
    (tmp_path / "whole.jsonl").unlink()
    growing = tmp_path / "growing.jsonl"
    rows: list[dict[str, Any]] = []
    reached: dict[str, int] = {}
    for end in range(0, len(text) + 97, 97):
        growing.write_bytes(text[:end])
        more, reached = everything(tmp_path, reached)
        rows += more
        assert is_complete(tmp_path) == (end >= len(text))
    assert rows == whole
    assert len(rows) == 40


def test_parts_of_a_file_share_no_line_and_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    write_jsonl(small_history(), path)
    whole, _ = everything(tmp_path, {})
    size = path.stat().st_size
    for width in (7, 64, 200, size):
        parts = [(str(path), begin, min(begin + width, size)) for begin in range(0, size, width)]
        assert [row for part in parts for batch in read_part(part) for row in batch.to_pylist()] == whole


def test_parquet_and_jsonl_say_the_same(tmp_path: Path) -> None:
    history = random_history(random.Random(3), "both", mischief=0.1, strings=True)
    (tmp_path / "a").mkdir()
    write_jsonl(history, tmp_path / "a" / "h.jsonl")
    write_parquet(history, tmp_path / "b" / "history")

    def order(row: dict[str, Any]) -> Any:
        return row["what"], row["key"], row["numbers"][:3]

    jsonl, _ = everything(tmp_path / "a", {})
    parquet, reached = everything(tmp_path / "b", {})
    assert sorted(jsonl, key=order) == sorted(parquet, key=order)
    assert everything(tmp_path / "b", reached)[0] == []


def test_a_history_in_the_making_is_not_seen(tmp_path: Path) -> None:
    write_parquet(small_history(), tmp_path / "b" / "history")
    (tmp_path / "b" / "history").rename(tmp_path / "b" / ".history.1")
    assert sizes(str(tmp_path)) == {}


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    write_jsonl(small_history(), path)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b'{"record":"op","op":"four"}\n'
    path.write_bytes(b"".join(lines))
    with pytest.raises(LiftlogError, match=r"broken history .*h\.jsonl:5: "):
        everything(tmp_path, {})


def test_no_folder() -> None:
    with pytest.raises(LiftlogError, match="is no folder"):
        sizes("/nowhere/at/all")
