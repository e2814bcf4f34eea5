"""How far readers were behind: the same numbers as a second, slow way to count them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.history import FINAL_POLL, HistoryWriter
from liftlog_jepsen.report.freshness import PARTS, FreshnessClock, every_nth, freshness
from tests.jepsen.test_html_report import result_of

STEPS = 8


class Row(NamedTuple):
    key: str
    offset: int
    f: str
    op_f: str
    op_id: int
    idx_ret: int


def exact_clock() -> FreshnessClock:
    """A run of STEPS seconds in which position n is part n: every position has a time of its own."""
    clock = FreshnessClock(0, 10**9, STEPS)
    positions = np.arange(STEPS * PARTS, dtype=np.int64)
    clock.learn(positions, (positions * 10**9) // PARTS + 1000)
    return clock


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    made = []
    for op_id in range(draw(st.integers(0, 14))):
        position = draw(st.integers(0, STEPS * PARTS - 1))
        f = draw(st.sampled_from(("send", "poll", "poll")))
        op_f = draw(st.sampled_from((f, f, "txn", FINAL_POLL if f == "poll" else f)))
        for _ in range(draw(st.integers(1, 4))):
            key = draw(st.sampled_from("ab"))
            made.append(Row(key, draw(st.integers(0, 6)), f, op_f, op_id, position))
    return made


def slowly(listed: list[Row]) -> tuple[list[int], list[list[int]]]:
    """(unseen at the end of each step, lags of each step's polls in parts of a step)."""
    slots = {(row.key, row.offset) for row in listed}
    acked = {slot: [row.idx_ret for row in listed if row[:2] == slot and row.f == "send"] for slot in slots}
    seen = {slot: [row.idx_ret for row in listed if row[:2] == slot and row.f == "poll"] for slot in slots}
    unseen = []
    for step in range(STEPS):
        over = (step + 1) * PARTS
        unseen.append(
            sum(
                bool(acked[slot])
                and min(acked[slot]) < over
                and not any(position < over for position in seen[slot])
                for slot in slots
            )
        )
    lags: list[list[int]] = [[] for _ in range(STEPS)]
    polls = {(row.op_id, row.key) for row in listed if row.f == "poll" and row.op_f != FINAL_POLL}
    for op_id, key in sorted(polls):
        mine = [row for row in listed if (row.op_id, row.key, row.f) == (op_id, key, "poll")]
        now, highest = mine[0].idx_ret, max(row.offset for row in mine)
        higher = [row.idx_ret for row in listed if row.key == key and row.offset > highest]
        lags[now // PARTS].append(max(0, now - min(higher, default=now)))
    return unseen, lags


@pytest.mark.slow
@given(rows(), st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_the_same_as_counting_slowly(listed: list[Row], size: int) -> None:
    batches = [
        pa.RecordBatch.from_pylist([row._asdict() for row in listed[begin : begin + size]])
        for begin in range(0, len(listed), size)
    ]
    found = freshness(batches, exact_clock(), STEPS)
    unseen, lags = slowly(listed)
    assert found.unseen.tolist() == unseen
    for step, mine in enumerate(lags):
        part = 10**9 / PARTS
        if mine:
            assert found.lag_worst[step] == pytest.approx(max(mine) * part, abs=1)
            assert found.lag_p50[step] == pytest.approx(sorted(mine)[(len(mine) - 1) // 2] * part, abs=1)
        else:
            assert found.lag_worst[step] == found.lag_p50[step] == -1


def test_a_reader_that_pauses_falls_behind_and_catches_up(tmp_path: Path) -> None:
    """100 sends in 10 s; the reader reads at once until 3 s, then nothing until 7 s, then everything."""
    now = [0]
    writer = HistoryWriter("pause", clock_ns=lambda: now[0])
    read = 0
    for number in range(100):
        now[0] = number * 100_000_000
        send = writer.invoke(1, "send", "log/0", number)
        now[0] += 10_000_000
        writer.ok(send, offset=number)
        if number < 30 or number >= 70:
            offsets = list(range(read, number + 1))
            poll = writer.invoke(2, "poll", "log/0")
            now[0] += 10_000_000
            writer.ok_poll(poll, "log/0", offsets, offsets)
            read = number + 1
    picture = result_of(writer.close(), tmp_path / "h").picture
    assert picture is not None and picture.every == 1
    unseen = [moment.unseen for moment in picture.moments]
    assert max(one for one in unseen if one is not None) == 40
    assert unseen[0] in (0, 1) and unseen[-1] == 0
    middle = unseen[len(unseen) // 2]
    assert middle is not None and 15 <= middle <= 25
    lags = [moment.lag_worst_ns for moment in picture.moments if moment.lag_worst_ns is not None]
    assert lags and max(lags) == 0, "a poll that reads to the end lags by nothing"


def test_a_reader_that_stays_behind_lags_by_the_time(tmp_path: Path) -> None:
    """Values are sent every 100 ms, and each is read 2 s after it was sent: what followed it is 1.9 s old."""
    events: list[tuple[int, str, int]] = []
    for number in range(100):
        events += [(number * 100, "send", number), (number * 100 + 2000, "poll", number)]
    now = [0]
    writer = HistoryWriter("behind", clock_ns=lambda: now[0])
    for at, f, number in sorted(events):
        now[0] = at * 1_000_000
        if f == "send":
            writer.ok(writer.invoke(1, "send", "log/0", number), offset=number)
        else:
            writer.ok_poll(writer.invoke(2, "poll", "log/0"), "log/0", [number], [number])
    picture = result_of(writer.close(), tmp_path / "h").picture
    assert picture is not None
    for moment in picture.moments[30:95]:
        if moment.lag_p50_ns is not None:
            assert moment.lag_p50_ns == pytest.approx(1.9e9, abs=2e7)
        assert moment.unseen == pytest.approx(20, abs=1)


def test_large_histories_are_sampled_by_a_power_of_two() -> None:
    assert [every_nth(count) for count in (0, 4_000_000, 4_000_001, 8_000_001, 100_000_000)] == [
        1,
        1,
        2,
        4,
        32,
    ]
