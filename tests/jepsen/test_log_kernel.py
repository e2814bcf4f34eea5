"""The log checks themselves: planted anomalies, near misses, and a brute-force checker that must agree."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.generate import PLANTABLE, fill, large_history, near_miss, plant, random_history
from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Mop
from liftlog_jepsen.log import EVIDENCE, Rules, check_table, check_whole
from liftlog_jepsen.log.summary import summarize
from liftlog_jepsen.log.table import as_rows
from liftlog_jepsen.result import MEANINGS
from tests.jepsen.brute_force import Row, brute_force
from tests.jepsen.kernel_input import kernel_input


def as_row(found: dict[str, Any]) -> Row:
    evidence = tuple(found["evidence"][name] for name in EVIDENCE)
    return found["anomaly"], found["key"], tuple(found["ops"]), evidence


def anomalies(history: History, gaps: Any = "known") -> list[Row]:
    return [as_row(found) for found in check_table(kernel_input([history]), Rules(gaps)).to_pylist()]


def names(history: History, gaps: Any = "known") -> list[str]:
    return sorted(row[0] for row in anomalies(history, gaps))


class Story:
    """A history told in a few words; every operation ends before the next begins, unless told otherwise."""

    def __init__(self) -> None:
        self.writer = HistoryWriter("story", clock_ns=iter(range(10**6)).__next__)

    def send(self, value: str, offset: int | None = None, outcome: str = "ok") -> None:
        self.end(self.writer.invoke(1, "send", "k", value), offset, outcome)

    def end(self, op_id: int, offset: int | None = None, outcome: str = "ok") -> None:
        if outcome == "ok":
            self.writer.ok(op_id, offset=offset)
        elif outcome == "fail":
            self.writer.fail(op_id)
        elif outcome == "info":
            self.writer.info(op_id)

    def poll(self, process: int, *records: tuple[int, str], f: str = "poll", outcome: str = "ok") -> None:
        op_id = self.writer.invoke(process, f, "k")
        if records:
            self.writer.mops(op_id, [Mop("poll", "k", offset, value) for offset, value in records])
        self.end(op_id, None, outcome)

    def assign(self, process: int, *keys: str) -> None:
        self.writer.ok(self.writer.invoke(process, "assign"), mops=[Mop("assign", key) for key in keys])

    def abc(self) -> None:
        for offset, letter in enumerate("abc"):
            self.send(letter, offset)


# -- found, and nothing else ---------------------------------------------------------------------------------


def test_every_anomaly_has_a_meaning_and_a_plant() -> None:
    assert set(MEANINGS) == set(PLANTABLE)


@pytest.mark.parametrize("anomaly", PLANTABLE)
def test_a_planted_anomaly_is_found_alone(anomaly: str) -> None:
    writer = HistoryWriter("planted")
    fill(writer, ["other"], 20, readers=2, batch=5)
    expected = plant(writer, anomaly, "planted")
    found = anomalies(writer.close())
    assert sorted(row[0] for row in found) == sorted(each.anomaly for each in expected)
    assert {row[1] for row in found} == {"planted"}


@pytest.mark.parametrize("anomaly", PLANTABLE)
def test_what_only_just_avoids_an_anomaly_is_none(anomaly: str) -> None:
    writer = HistoryWriter("near")
    near_miss(writer, anomaly, "near")
    assert anomalies(writer.close()) == []


def test_all_plants_together_are_found_exactly() -> None:
    writer = HistoryWriter("planted")
    expected: Counter[str] = Counter()
    for copies, anomaly in enumerate(PLANTABLE, 1):
        for copy in range(copies):
            expected.update(each.anomaly for each in plant(writer, anomaly, f"{anomaly} {copy}"))
    assert Counter(names(writer.close())) == expected


def test_an_empty_table_has_no_anomalies() -> None:
    assert check_table(kernel_input([])).num_rows == 0


# -- near misses ---------------------------------------------------------------------------------------------


def unknown_send_that_never_shows(story: Story) -> None:
    story.send("a", 0)
    story.send("x", None, "info")
    story.send("b", 1)
    story.poll(2, (0, "a"), (1, "b"), f=FINAL_POLL)


def unknown_send_that_was_kept(story: Story) -> None:
    story.send("a", 0)
    story.send("x", None, "info")
    story.send("b", 2)
    story.poll(2, (0, "a"), (1, "x"), (2, "b"), f=FINAL_POLL)


def unread_value_above_all_reads(story: Story) -> None:
    story.abc()
    story.poll(2, (0, "a"), (1, "b"))


def failed_send_that_nobody_reads(story: Story) -> None:
    story.send("x", None, "fail")
    story.abc()
    story.poll(2, (0, "a"), (1, "b"), (2, "c"), f=FINAL_POLL)


def acknowledgement_during_the_final_read(story: Story) -> None:
    story.send("a", 0)
    late = story.writer.invoke(1, "send", "k", "b")
    reading = story.writer.invoke(2, FINAL_POLL, "k")
    story.end(late, 1)
    story.writer.ok_poll(reading, "k", 0, ["a"])


def final_read_that_failed(story: Story) -> None:
    story.abc()
    story.poll(2, (0, "a"), (1, "b"), (2, "c"), f=FINAL_POLL)
    story.poll(3, (0, "a"), f=FINAL_POLL)
    story.poll(3, f=FINAL_POLL, outcome="info")


def overlapping_sends_in_either_order(story: Story) -> None:
    first = story.writer.invoke(1, "send", "k", "first")
    second = story.writer.invoke(2, "send", "k", "second")
    story.end(first, 1)
    story.end(second, 0)
    story.poll(3, (0, "second"), (1, "first"))


def unknown_send_that_lands_late(story: Story) -> None:
    story.send("slow", None, "info")
    story.send("a", 0)
    story.poll(2, (0, "a"), (1, "slow"))


def gap_that_nobody_ever_filled(story: Story) -> None:
    story.send("a", 0)
    story.send("b", 2)
    story.poll(2, (0, "a"))
    story.poll(2, (2, "b"))
    story.poll(3, (0, "a"), (2, "b"))


def aborted_poll_that_is_repeated(story: Story) -> None:
    story.abc()
    story.poll(2, (0, "a"))
    story.poll(2, (1, "b"), (2, "c"), outcome="info")
    story.poll(2, (1, "b"), (2, "c"))


def rewind_by_assignment(story: Story) -> None:
    story.abc()
    story.poll(2, (0, "a"), (1, "b"))
    story.assign(2)
    story.assign(2, "k")
    story.poll(2, (0, "a"), (1, "b"), (2, "c"))


def read_that_overlaps_its_send(story: Story) -> None:
    op_id = story.writer.invoke(1, "send", "k", "a")
    story.poll(2, (0, "a"))
    story.end(op_id, 0)


def same_offset_in_two_logs(story: Story) -> None:
    story.send("a", 0)
    story.writer.ok(story.writer.invoke(1, "send", "other", "a"), offset=0)
    story.poll(2, (0, "a"))


def two_readers_at_different_speeds(story: Story) -> None:
    story.abc()
    story.poll(2, (0, "a"), (1, "b"), (2, "c"))
    story.poll(3, (0, "a"))
    story.poll(3, (1, "b"), (2, "c"))


NEAR_MISSES = [
    unknown_send_that_never_shows,
    unknown_send_that_was_kept,
    unread_value_above_all_reads,
    failed_send_that_nobody_reads,
    acknowledgement_during_the_final_read,
    final_read_that_failed,
    overlapping_sends_in_either_order,
    unknown_send_that_lands_late,
    gap_that_nobody_ever_filled,
    aborted_poll_that_is_repeated,
    rewind_by_assignment,
    read_that_overlaps_its_send,
    same_offset_in_two_logs,
    two_readers_at_different_speeds,
]


@pytest.mark.parametrize("tell", NEAR_MISSES, ids=lambda tell: tell.__name__)
def test_a_near_miss_is_no_anomaly(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert anomalies(story.writer.close()) == []


# -- the same, one step over the line ------------------------------------------------------------------------


def test_a_gap_counts_when_offsets_promise_to_have_none() -> None:
    story = Story()
    gap_that_nobody_ever_filled(story)
    assert names(story.writer.close(), "any") == ["int-poll-skip", "poll-skip"]


def test_an_assignment_that_keeps_the_key_keeps_the_position() -> None:
    story = Story()
    story.abc()
    story.poll(2, (0, "a"), (1, "b"))
    story.assign(2, "k")
    story.poll(2, (0, "a"), (1, "b"), (2, "c"))
    assert names(story.writer.close()) == ["nonmonotonic-poll"]


def test_a_log_that_a_final_read_finds_empty_has_lost_what_was_acknowledged() -> None:
    story = Story()
    story.abc()
    story.poll(2, f=FINAL_POLL)
    assert names(story.writer.close()) == ["unseen"] * 3


def test_a_transaction_of_which_one_value_was_read_must_have_kept_the_others() -> None:
    story = Story()
    op_id = story.writer.invoke(1, "txn")
    story.writer.mops(op_id, [Mop("send", "k", 0, "x"), Mop("send", "k", None, "y")])
    story.end(op_id, None, "info")
    story.send("z", 1)
    story.poll(2, (1, "z"), (2, "y"))
    found = anomalies(story.writer.close())
    assert [(row[0], row[3][0]) for row in found] == [("lost-write", "x"), ("int-send-skip", None)]


def test_an_unknown_send_that_was_read_takes_part_in_the_real_time_order() -> None:
    story = Story()
    story.send("early", 1)
    story.send("late", None, "info")
    story.poll(2, (0, "late"), (1, "early"))
    assert names(story.writer.close()) == ["nonmonotonic-send", "realtime-order"]


def test_more_final_readers_than_bits_in_a_word_are_all_held_to_account() -> None:
    story = Story()
    story.abc()
    for reader in range(100, 300):
        everything = ((0, "a"), (1, "b"), (2, "c"))
        story.poll(reader, *(everything[:2] if reader in (101, 250) else everything), f=FINAL_POLL)
    found = anomalies(story.writer.close())
    assert [(row[0], row[3][EVIDENCE.index("process")]) for row in found] == [
        ("missing-in-final-read", 101),
        ("missing-in-final-read", 250),
    ]


def test_integers_and_strings_that_look_alike_are_different_values() -> None:
    writer = HistoryWriter("mixed")
    for offset, value in enumerate((1, "1", '"1"')):
        writer.ok(writer.invoke(1, "send", "k", value), offset=offset)
    writer.ok_poll(writer.invoke(2, "poll", "k"), "k", 0, [1, "1", '"1"'])
    assert anomalies(writer.close()) == []


# -- against the definitions ---------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), mischief=st.sampled_from((0.0, 0.02, 0.1, 0.4)), strings=st.booleans())
def test_the_kernel_agrees_with_brute_force(seed: int, mischief: float, strings: bool) -> None:
    rng = random.Random(seed)
    histories = [random_history(rng, f"h{n}", mischief=mischief, strings=strings) for n in range(3)]
    for gaps in ("known", "any"):
        table = check_table(kernel_input(histories), Rules(gaps))
        rows = table.to_pylist()
        for history in histories:
            found = [as_row(one) for one in rows if one["history_id"] == history.name]
            assert len(found) == len(set(found))
            assert set(found) == brute_force(history, gaps)


def test_a_correct_log_is_valid_whatever_its_clients_suffer() -> None:
    for seed in range(60):
        assert anomalies(random_history(random.Random(seed), "h", steps=60, mischief=0.0)) == []


def test_the_order_of_the_rows_changes_nothing() -> None:
    history = random_history(random.Random(5), "h", steps=80, mischief=0.2)
    table = kernel_input([history])
    shuffled = list(range(len(table)))
    random.Random(1).shuffle(shuffled)
    assert check_table(table).num_rows > 5
    again = [str(row) for row in check_table(table.take(pa.array(shuffled))).to_pylist()]
    assert sorted(again) == sorted(str(row) for row in check_table(table).to_pylist())


def test_a_summary_counts_everything_and_keeps_the_first_examples() -> None:
    rows, _ = as_rows(kernel_input([random_history(random.Random(5), "h", steps=80, mischief=0.3)]))
    found = check_whole(rows, Rules())
    counts = Counter(found["anomaly"].tolist())
    for parts in (False, True):
        summary = summarize(found, 2, parts=parts)
        counted: Counter[int] = Counter()
        for anomaly, count in zip(summary["anomaly"].tolist(), summary["count"].tolist(), strict=True):
            counted[anomaly] += count
        assert counted == counts
    shown = Counter(summarize(found, 2)["anomaly"].tolist())
    assert shown == {anomaly: min(count, 2) for anomaly, count in counts.items()}


def test_a_large_history_without_plants_is_clean() -> None:
    history = large_history("large", 5000, keys=7, readers=2, batch=100)
    assert anomalies(history) == []


# -- epochs --------------------------------------------------------------------------------------------------


def epochs_of(*acks: tuple[int, int | None, int | None], outcome: str = "ok") -> list[str]:
    """What is found in a log with these acknowledgements: (offset, epoch, leader) in order of time."""
    writer = HistoryWriter("h", clock_ns=itertools.count().__next__)
    for number, (offset, epoch, leader) in enumerate(acks):
        op_id = writer.invoke(number, "send", "k", number)
        writer.mops(op_id, [Mop("send", "k", offset, number, epoch, leader)])
        {"ok": writer.ok, "info": writer.info}[outcome](op_id)
    found = check_table(kernel_input([writer.close()])).to_pylist()
    return [f"{one['anomaly']} {one['ops']}" for one in found]


def test_an_epoch_below_an_earlier_one_is_found_once_for_each_such_epoch() -> None:
    assert epochs_of((0, 9, None), (1, 0, None), (2, 0, None)) == ["nonmonotonic-epoch [2, 0]"]
    first, second = [(place, 5, None) for place in range(50)], [(place, 3, None) for place in range(50, 99)]
    assert epochs_of(*first, *second) == ["nonmonotonic-epoch [98, 0]"]
    assert epochs_of((0, 9, None), (1, 2, None), (2, 5, None), (3, 1, None)) == [
        "nonmonotonic-epoch [3, 0]",
        "nonmonotonic-epoch [1, 0]",
        "nonmonotonic-epoch [2, 0]",
    ]


def test_epochs_that_grow_or_are_unknown_are_no_fault() -> None:
    assert epochs_of((0, 1, 7), (1, 1, 7), (2, None, None), (3, 4, 8), (4, 4, None), (5, 2**62, 9)) == []
    assert epochs_of((0, 9, 1), (1, 0, 1), (2, 0, 2), outcome="info") == []


def test_an_epoch_with_two_leaders_is_found_once() -> None:
    assert epochs_of((0, 1, 7), (1, 1, 7), (2, 1, 8), (3, 1, 9), (4, 2, 8)) == ["two-leaders [0, 2]"]
