"""The promises: each one planted and found alone, its near misses, and the sentences about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog_jepsen.history import HistoryWriter, Mop
from liftlog_jepsen.promises import PROMISES, check_table, explain, judge
from liftlog_jepsen.promises.columns import OUTPUT_SCHEMA
from liftlog_jepsen.promises.kernel import summarize
from tests.jepsen import consumer_stories
from tests.jepsen.promise_stories import Story, broken, promise_input

Plant = Callable[[Story], None]


def hw_back(story: Story) -> None:
    story.read(2, (0, "a"), hw=2)
    story.read(3, (0, "a"), hw=1)
    story.read(2, (0, "a"), hw=1)


def read_above_hw(story: Story) -> None:
    story.read(2, (0, "a"), (1, "b"), hw=1)


def read_truncated(story: Story) -> None:
    story.read(2, (0, "a"), (1, "b"))
    story.do(100, "replica", story.fact("truncate", 1, "b", epoch=3))
    story.read(2, (1, "c"))


def numbered(story: Story, offset: int | None, sequence: int, epoch: int = 0, outcome: str = "ok") -> None:
    value = f"{epoch}.{sequence}.{offset}"
    story.sent(offset, value, story.fact("producer", sequence, "p", epoch), outcome=outcome)


def sequence_duplicate(story: Story) -> None:
    numbered(story, 0, 0)
    numbered(story, 1, 1)
    story.sent(2, "again", story.fact("producer", 1, "p", 0))
    numbered(story, 3, 2)


def sequence_reordered(story: Story) -> None:
    numbered(story, 0, 0)
    numbered(story, 2, 2)  # offset 1 is unknown, and so leaves room for number 1
    numbered(story, 3, 1)


def sequence_gap(story: Story) -> None:
    numbered(story, 0, 0)
    story.sent(1, "of another")
    numbered(story, 2, 2)


def fenced_producer(story: Story) -> None:
    numbered(story, 0, 0, epoch=1)
    numbered(story, 1, 0, epoch=0)


def keyed(story: Story, offset: int, value: str | None, record_key: str = "r", f: str = "record-key") -> None:
    story.sent(offset, value, story.fact(f, value=record_key))


def last_value_lost(story: Story) -> None:
    keyed(story, 0, "old")
    keyed(story, 1, "new")
    keyed(story, 2, "other", "s")
    story.final(2, (0, "old"), (2, "other"))


def deleted_value_back(story: Story) -> None:
    keyed(story, 0, "old")
    keyed(story, 1, None, f="tombstone")
    story.final(2, (0, "old"))


def joined(story: Story, process: int, generation: int, *owned: str) -> None:
    mops = [Mop("own", key, None, story.key, generation) for key in owned]
    story.do(process, "join", Mop("join", story.key, None, None, generation), *mops)


def commit(story: Story, process: int, cursor: int, generation: int | None, outcome: str = "ok") -> None:
    story.do(process, "commit", Mop("commit", "in/0", cursor, story.key, generation), outcome=outcome)


def generation_back(story: Story) -> None:
    joined(story, 1, 4)
    joined(story, 2, 3)


def two_owners(story: Story) -> None:
    joined(story, 1, 4, "in/0", "in/1")
    joined(story, 2, 4, "in/2")
    joined(story, 3, 4, "in/0")


def stale_commit(story: Story) -> None:
    joined(story, 1, 3, "in/0")
    joined(story, 2, 4, "in/0")
    commit(story, 1, 5, 3)


def cursor_back(story: Story) -> None:
    commit(story, 1, 5, 1)
    story.do(2, "fetch-commit", Mop("fetch-commit", "in/0", None, story.key))


def phantom_cursor(story: Story) -> None:
    commit(story, 1, 5, 1)
    story.do(2, "fetch-commit", Mop("fetch-commit", "in/0", 6, story.key))


def transformed(
    story: Story, offset: int, *, outcome: str = "ok", cursor: int | None = -1, value: str = ""
) -> None:
    """A transaction of group g takes in one record and commits the cursor behind it."""
    mops = [Mop("poll", story.key, offset, f"v{offset}")]
    mops.append(Mop("send", "out/0", None, value or f"of {offset}, {len(story.writer.history)}"))
    mops.append(Mop("source", story.key, offset, "g"))
    if cursor is not None:
        mops.append(Mop("commit", story.key, offset + 1 if cursor < 0 else cursor, "g"))
    story.do(5, "txn", *mops, outcome=outcome)


def inputs(story: Story, count: int) -> None:
    for offset in range(count):
        story.sent(offset, f"v{offset}")


def output_duplicate(story: Story) -> None:
    inputs(story, 2)
    transformed(story, 0)
    transformed(story, 0, cursor=1)


def output_missing(story: Story) -> None:
    inputs(story, 3)
    transformed(story, 0)
    transformed(story, 2)


def cursor_apart(story: Story) -> None:
    inputs(story, 1)
    transformed(story, 0, cursor=None)


def misplaced(story: Story) -> None:
    story.sent(0, "a")
    story.sent(1, "b", story.fact("expected", 1))
    story.sent(2, "c", story.fact("expected", 1))


def refused_as_expected(story: Story) -> None:
    story.set(0, "a")
    story.refused(1, 1, "b")


def stale_refusal(story: Story) -> None:
    story.set(0, "a")
    story.set(1, "b")
    story.refused(5, 1, "c")


def dirty_refusal(story: Story) -> None:
    story.set(0, "a")
    story.sent(None, "cut", outcome="info")
    story.refused(1, 2, "b")
    story.set(1, "c")


def late_append(story: Story) -> None:
    story.set(0, "a")
    slow = story.writer.invoke(1, "send", story.key, "c", expected=2)
    story.read(2, (2, "c"))
    story.sent(1, "b")
    story.writer.ok(slow, offset=2)


def phantom_offset(story: Story) -> None:
    story.set(0, "a")
    story.sent(None, "failed", outcome="fail")
    story.sent(None, "elsewhere", story.fact("expected", 3), outcome="info")
    story.set(2, "b")


PLANTS: dict[str, tuple[Plant, str]] = {
    "hw-back": (hw_back, "k"),
    "read-above-hw": (read_above_hw, "k"),
    "read-truncated": (read_truncated, "k"),
    "sequence-duplicate": (sequence_duplicate, "k"),
    "sequence-reordered": (sequence_reordered, "k"),
    "sequence-gap": (sequence_gap, "k"),
    "fenced-producer": (fenced_producer, "k"),
    "last-value-lost": (last_value_lost, "k"),
    "deleted-value-back": (deleted_value_back, "k"),
    "generation-back": (generation_back, "k"),
    "two-owners": (two_owners, "in/0"),
    "stale-commit": (stale_commit, "in/0"),
    "cursor-back": (cursor_back, "in/0"),
    "phantom-cursor": (phantom_cursor, "in/0"),
    "output-duplicate": (output_duplicate, "k"),
    "output-missing": (output_missing, "k"),
    "cursor-apart": (cursor_apart, "k"),
    "misplaced": (misplaced, "k"),
    "refused-as-expected": (refused_as_expected, "k"),
    "stale-refusal": (stale_refusal, "k"),
    "dirty-refusal": (dirty_refusal, "k"),
    "late-append": (late_append, "k"),
    "phantom-offset": (phantom_offset, "k"),
    **{anomaly: (plant, "k") for anomaly, plant in consumer_stories.BROKEN.items()},
}


def test_every_promise_has_a_plant() -> None:
    assert list(PLANTS) == list(PROMISES)


@pytest.mark.parametrize("anomaly", PLANTS)
def test_a_planted_anomaly_is_found_alone_and_explained(anomaly: str) -> None:
    plant, key = PLANTS[anomaly]
    story = Story()
    plant(story)
    found = broken(story.history())
    assert [(row["anomaly"], row["key"]) for row in found] == [(anomaly, key)]
    sentence = explain(found[0])
    assert "None" not in sentence
    assert all(f"#{op}" in sentence for op in found[0]["ops"])


def test_all_plants_together_are_found_exactly() -> None:
    writer = HistoryWriter("story", clock_ns=iter(range(10**6)).__next__)
    for place, (anomaly, (plant, _)) in enumerate(PLANTS.items()):
        plant(Story(f"{anomaly} {place}", writer))
    found = broken(writer.close())
    # Groups have their own names here, but share partitions; inputs and outputs do not mix.
    assert sorted(row["anomaly"] for row in found) == sorted(PLANTS)


# -- near misses ---------------------------------------------------------------------------------------------


def hw_of_two_readers(story: Story) -> None:
    story.read(2, hw=5)
    story.read(3, hw=4)
    story.read(2, hw=5)


def hw_of_a_replica_in_a_new_epoch(story: Story) -> None:
    story.do(100, "replica", story.fact("hw", 5, epoch=1))
    story.do(100, "replica", story.fact("hw", 3, epoch=2))


def hw_of_a_failed_poll(story: Story) -> None:
    story.read(2, hw=5)
    story.do(2, "poll", story.fact("hw", 3), outcome="fail")


def read_just_below_the_hw(story: Story) -> None:
    story.read(2, (0, "a"), (1, "b"), hw=2)


def truncated_but_read_again(story: Story) -> None:
    story.read(2, (0, "a"), (1, "b"))
    story.do(100, "replica", story.fact("truncate", 1, "b"))
    story.read(2, (0, "a"), (1, "b"), (2, "c"))


def truncated_and_nobody_looked_there(story: Story) -> None:
    story.read(2, (0, "a"), (1, "b"))
    story.do(100, "replica", story.fact("truncate", 1, "b"))
    story.read(2, (0, "a"))


def truncated_but_never_read(story: Story) -> None:
    story.do(100, "replica", story.fact("truncate", 1, "b"))
    story.read(2, (0, "a"), (1, "c"))


def read_while_it_is_cut_off(story: Story) -> None:
    cut = story.writer.invoke(100, "replica")
    story.read(2, (0, "a"), (1, "b"))
    story.end(cut, story.fact("truncate", 1, "b"))


def numbers_in_order_with_a_retry_that_is_known(story: Story) -> None:
    numbered(story, 0, 0)
    numbered(story, None, 1, outcome="info")
    numbered(story, 2, 2)
    story.final(2, (0, "0.0.0"), (1, "0.1.None"), (2, "0.2.2"))


def a_gap_with_room(story: Story) -> None:
    numbered(story, 0, 0)
    numbered(story, None, 1, outcome="info")
    numbered(story, 2, 2)


def a_failed_number_stored_under_the_next_epoch(story: Story) -> None:
    numbered(story, 0, 0)
    numbered(story, None, 1, outcome="fail")
    numbered(story, 1, 0, epoch=1)


def two_producers_interleave(story: Story) -> None:
    for offset in range(4):
        story.sent(offset, f"v{offset}", story.fact("producer", offset // 2, f"p{offset % 2}", 0))


def compacted_as_it_should_be(story: Story) -> None:
    keyed(story, 0, "old")
    keyed(story, 1, "gone", "s")
    keyed(story, 2, "new")
    keyed(story, 3, None, "s", "tombstone")
    story.final(2, (2, "new"))
    story.final(3, (0, "old"), (1, "gone"), (2, "new"), (3, None))


def overwritten_during_the_final_read(story: Story) -> None:
    keyed(story, 0, "old")
    reading = story.writer.invoke(2, "final-poll")
    keyed(story, 1, "new")
    story.end(reading, Mop("poll", "k", 0, "old"))


def a_final_read_that_failed(story: Story) -> None:
    last_value_lost_without_read(story)
    story.final(2, (0, "old"))
    story.do(2, "final-poll", outcome="info")


def last_value_lost_without_read(story: Story) -> None:
    keyed(story, 0, "old")
    keyed(story, 1, "new")


def joins_that_overlap(story: Story) -> None:
    slow = story.writer.invoke(1, "join")
    joined(story, 2, 4)
    story.end(slow, Mop("join", "k", None, None, 3))


def partitions_change_hands(story: Story) -> None:
    joined(story, 1, 3, "in/0", "in/1")
    joined(story, 2, 4, "in/0")
    joined(story, 1, 4, "in/1")
    commit(story, 2, 5, 4)


def a_stale_commit_that_is_refused(story: Story) -> None:
    joined(story, 1, 3, "in/0")
    joined(story, 2, 4, "in/0")
    commit(story, 1, 5, 3, "fail")
    commit(story, 2, 4, 4)


def a_commit_while_the_generation_changes(story: Story) -> None:
    joined(story, 1, 3, "in/0")
    slow = story.writer.invoke(1, "commit")
    joined(story, 2, 4, "in/0")
    story.end(slow, Mop("commit", "in/0", 5, "k", 3))


def cursors_of_an_unknown_commit(story: Story) -> None:
    commit(story, 1, 5, 1)
    commit(story, 1, 7, 1, "info")
    story.do(2, "fetch-commit", Mop("fetch-commit", "in/0", 7, "k"))
    story.do(2, "fetch-commit", Mop("fetch-commit", "in/0", 5, "k"))


def cursors_of_two_groups(story: Story) -> None:
    commit(story, 1, 5, 1)
    story.do(1, "commit", Mop("commit", "in/0", 3, "another", 1))
    story.do(1, "commit", Mop("commit", "in/1", 3, "k", 1))


def a_transformation_that_was_retried(story: Story) -> None:
    inputs(story, 2)
    transformed(story, 0, outcome="fail")
    transformed(story, 0, outcome="info")
    transformed(story, 0)
    transformed(story, 1)


def a_cursor_below_what_was_not_transformed(story: Story) -> None:
    inputs(story, 3)
    transformed(story, 0)
    transformed(story, 1, outcome="info")
    transformed(story, 2, outcome="fail")


def refusals_among_others(story: Story) -> None:
    story.set(0, "a")
    story.refused(0, 1, "late")
    story.sent(1, "b")
    story.refused(5, 2, "early")
    story.refused(0, 2, "late again")
    story.final(2, (0, "a"), (1, "b"))


def a_refusal_while_others_append(story: Story) -> None:
    story.set(0, "a")
    slow = story.writer.invoke(2, "send", "k", "slow", expected=0)
    story.set(1, "b")
    story.set(2, "c")
    story.writer.refused(slow, 1)
    slow = story.writer.invoke(2, "send", "k", "slow again", expected=0)
    story.set(3, "d")
    story.writer.refused(slow, 4)


def a_refusal_that_rests_on_what_nobody_heard_of(story: Story) -> None:
    story.set(0, "a")
    story.sent(None, "b", outcome="info")
    story.sent(None, "c", story.fact("expected", 2), outcome="info")
    story.refused(1, 3, "d")
    story.sent(3, "e")


def what_was_refused_is_what_an_earlier_attempt_stored(story: Story) -> None:
    story.set(0, "a")
    story.refused(1, 2, "b")
    story.read(2, (0, "a"), (1, "b"))


def a_log_that_was_there_before(story: Story) -> None:
    story.refused(0, 7, "a")
    story.set(7, "b")


def a_refusal_that_was_never_told(story: Story) -> None:
    story.set(0, "a")
    story.set(1, "b")
    story.writer.mops(
        story.writer.invoke(3, "send"),
        [Mop("send", "k", None, "c"), story.fact("expected", 0), story.fact("refused", 1)],
    )


def the_last_record_was_compacted_away(story: Story) -> None:
    keyed(story, 0, "a")
    story.sent(None, "b", story.fact("tombstone", value="r"), outcome="info")
    story.refused(0, 2, "c")
    story.final(2, (0, "a"))


NEAR_MISSES: tuple[Plant, ...] = (
    hw_of_two_readers,
    hw_of_a_replica_in_a_new_epoch,
    hw_of_a_failed_poll,
    read_just_below_the_hw,
    truncated_but_read_again,
    truncated_and_nobody_looked_there,
    truncated_but_never_read,
    read_while_it_is_cut_off,
    numbers_in_order_with_a_retry_that_is_known,
    a_gap_with_room,
    a_failed_number_stored_under_the_next_epoch,
    two_producers_interleave,
    compacted_as_it_should_be,
    overwritten_during_the_final_read,
    a_final_read_that_failed,
    joins_that_overlap,
    partitions_change_hands,
    a_stale_commit_that_is_refused,
    a_commit_while_the_generation_changes,
    cursors_of_an_unknown_commit,
    cursors_of_two_groups,
    a_transformation_that_was_retried,
    a_cursor_below_what_was_not_transformed,
    refusals_among_others,
    a_refusal_while_others_append,
    a_refusal_that_rests_on_what_nobody_heard_of,
    what_was_refused_is_what_an_earlier_attempt_stored,
    a_log_that_was_there_before,
    a_refusal_that_was_never_told,
    the_last_record_was_compacted_away,
    *consumer_stories.NEAR,
)


@pytest.mark.parametrize("plant", NEAR_MISSES)
def test_near_misses(plant: Plant) -> None:
    story = Story()
    plant(story)
    assert broken(story.history()) == []


# -- other variants that must be found -----------------------------------------------------------------------


def test_an_unknown_transaction_whose_output_was_read_took_place() -> None:
    story = Story()
    inputs(story, 1)
    transformed(story, 0, outcome="info", value="first try")
    transformed(story, 0)
    story.do(9, "poll", Mop("poll", "out/0", 0, "first try"))
    assert [row["anomaly"] for row in broken(story.history())] == ["output-duplicate"]


def test_a_retry_that_readers_find_twice() -> None:
    story = Story()
    story.sent(0, "a", story.fact("producer", 0, "p", 0))
    story.read(2, (0, "a"), (1, "a"))
    found = broken(story.history())
    assert [(row["anomaly"], row["evidence"]["sequence"]) for row in found] == [("sequence-duplicate", 0)]


def test_a_replica_within_one_epoch() -> None:
    story = Story()
    story.do(100, "replica", story.fact("hw", 5, epoch=1))
    story.do(100, "replica", story.fact("hw", 3, epoch=1))
    assert [row["anomaly"] for row in broken(story.history())] == ["hw-back"]


def test_a_record_that_is_read_where_it_was_not_to_lie() -> None:
    story = Story()
    story.sent(None, "a", story.fact("expected", 4), outcome="info")
    story.read(2, (3, "a"))
    (row,) = broken(story.history())
    assert (row["anomaly"], row["evidence"]["offset"], row["ops"]) == ("misplaced", 3, [0, 1])
    assert "was read by operation #1 at offset 3" in explain(row)


def test_a_refusal_that_rests_on_what_no_final_read_has() -> None:
    story = Story()
    story.set(0, "a")
    story.sent(None, "cut", outcome="info")
    story.refused(1, 2, "b")
    story.final(2, (0, "a"))
    (row,) = broken(story.history())
    assert (row["anomaly"], row["ops"]) == ("dirty-refusal", [2])
    assert "an offset above 0" in explain(row)


def test_two_refusals_of_which_the_later_one_tells_of_less() -> None:
    story = Story()
    for offset in range(3):
        story.sent(None, f"v{offset}", outcome="info")
    story.refused(0, 3, "a")
    story.refused(0, 2, "b")
    (row,) = broken(story.history())
    assert (row["anomaly"], row["ops"]) == ("stale-refusal", [3, 4])


# -- the whole -----------------------------------------------------------------------------------------------


def test_a_history_without_facts_breaks_no_promise() -> None:
    story = Story()
    story.sent(0, "a")
    story.final(2, (0, "a"))
    assert broken(story.history()) == []
    assert check_table(promise_input([])).schema == OUTPUT_SCHEMA


def test_a_summary_counts_all_and_keeps_the_first() -> None:
    story = Story()
    for hw in (5, 4, 3, 2):
        story.read(2, hw=hw)
    anomalies = check_table(promise_input([story.history()]))
    summary = summarize(anomalies, 2).to_pylist()
    assert [(row["evidence"]["offset"], row["count"]) for row in summary] == [(2, 3), (3, 0)]


def test_a_judgement_names_the_worst_in_order() -> None:
    story = Story()
    read_above_hw(story)
    output_duplicate(Story("j", story.writer))
    judgement = judge(broken(story.history()))
    assert judgement.valid is False
    assert [problem.anomaly for problem in judgement.problems] == ["read-above-hw", "output-duplicate"]
    assert judge([]).valid is True
