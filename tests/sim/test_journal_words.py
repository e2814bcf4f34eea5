"""What a journal's entries say, in a trace, and in stories: which entry hid what a violation speaks of."""

from __future__ import annotations

import re
from copy import deepcopy
from functools import cache
from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    Altered,
    ConsumerDeleted,
    Created,
    Dead,
    Delivered,
    Done,
    Rewound,
    SaidAgain,
    encode_entry,
)
from liftlog.core.replica.removal.entries import (
    Outlived,
    RolledUp,
    encode_come_to,
    encode_removed,
    encode_restated,
)
from liftlog.format import encode_values
from liftlog.messages import (
    FETCH_OK,
    AppendLog,
    ConsumerConfig,
    DeleteMessageRequest,
    FetchReply,
    LogRead,
    MessageDeleted,
    PurgeSubjectsRequest,
    ReadRequest,
    SubjectsPurged,
)
from liftlog.types import Batch, EpochStart, OffsetRange, PartitionId, Ticket
from liftlog_sim.explain import recording
from liftlog_sim.explain.again import run_again
from liftlog_sim.explain.bundle import Bundle
from liftlog_sim.explain.journal_words import InQuestion, Journals, asked, entries_in, entry_words, told
from liftlog_sim.explain.story import LINES, WIDTH, focus_of, why
from liftlog_sim.explain.words import Narrator
from liftlog_sim.page.chart import log_key
from liftlog_sim.page.words import effect_words
from liftlog_sim.runs.trace import ENTRIES_SHOWN, ITEMS_SHOWN, plain, read_batch
from tests.sim.test_explain import world_of

WHERE = PartitionId(11, 0)
CONFIG = ConsumerConfig(filter="a.*", filters=("b",))
LINE = [EpochStart(1, 0)]
NOTHING = InQuestion()


def removed(*runs: tuple[int, int], epoch: int = 1) -> bytes:
    return encode_removed(epoch, [OffsetRange(*run) for run in runs])


def batch(*entries: bytes, base: int = 7, log: PartitionId = WHERE.journal) -> Batch:
    return encode_values(log, base, 2, 1000, list(entries))


def shown(*batches: Batch) -> list[Any]:
    fields: dict[str, Any] = plain(AppendLog(WHERE.journal, list(batches), Ticket(1)))[1]
    found: list[Any] = fields["batches"]
    return found


# -- in a trace ----------------------------------------------------------------------------------------------


def test_a_trace_says_what_a_journals_entries_say() -> None:
    two = batch(removed((3, 4), (9, 12)), encode_entry(Done(5, "acked", [(4, 1), (6, 2)])))
    text = (
        "batch 7+2 of epoch 2: RemovedRuns(epoch 1, runs 3 9..11); Done(consumer 5, how acked, runs 4 6..7)"
    )
    assert shown(two) == [text]
    assert plain(LogRead(WHERE.journal, 1, [two]))[1]["batches"] == [text]
    reply = FetchReply(WHERE.journal, 1, 1, 1, FETCH_OK, 0, 0, 9, 0, 0, [two.data])
    assert plain(reply)[1]["batches"] == [text]
    assert read_batch(text) == (7, 9, 2)


def test_batches_of_the_data_are_told_as_before() -> None:
    one = batch(removed((3, 4)), log=WHERE)
    assert plain(AppendLog(WHERE, [one], Ticket(1)))[1]["batches"] == ["batch 7+1 of epoch 2"]
    reply = plain(FetchReply(WHERE, 1, 1, 1, FETCH_OK, 0, 0, 9, 0, 0, [one.data]))[1]["batches"]
    assert len(reply) == 1 and reply[0].startswith("0x")


def test_what_is_no_batch_of_a_journal_is_told_as_bytes() -> None:
    """A broken peer sends it."""
    frame = bytearray(batch(removed((3, 4))).data)
    frame[-1] ^= 1
    reply = FetchReply(WHERE.journal, 1, 1, 1, FETCH_OK, 0, 0, 9, 0, 0, [bytes(frame), b"x"])
    broken, short = plain(reply)[1]["batches"]
    assert broken.startswith("0x") and short == "x" and entries_in([broken, short]) == []


def test_an_entry_of_a_newer_liftlog_is_told_by_its_kind() -> None:
    (text,) = shown(batch(bytes([99, 1]), b"", removed((3, 4))))
    assert text == (
        "batch 7+3 of epoch 2: Unreadable(kind 99); Unreadable(kind none); RemovedRuns(epoch 1, runs 3)"
    )
    assert [entry_words(each) for each in entries_in([text])] == [
        "an entry that cannot be read",
        "an entry that cannot be read",
        "offset 3 of epoch 1 is gone",
    ]


def test_long_entries_and_batches_are_cut_and_that_is_said() -> None:
    many = removed(*((2 * at, 2 * at + 1) for at in range(ITEMS_SHOWN + 12)))
    (text,) = shown(batch(*[many] * (ENTRIES_SHOWN + 3)))
    assert f" 78 and 12 more to {2 * (ITEMS_SHOWN + 11)})" in text and text.endswith("; and 3 more")
    assert read_batch(text) == (7, 18, 2)
    entries = entries_in([text])
    assert len(entries) == ENTRIES_SHOWN
    # What is left out may be meant.
    assert entries[0].names(NOTHING)[-1] == (79, 103)
    assert entry_words(entries[0]) == (
        "offsets 0, 2, 4, 6 and 48 more, the last one 102, of epoch 1 are gone"
    )


def test_words_with_brackets_are_quoted() -> None:
    config = ConsumerConfig(filter='a.("x)')
    (entry,) = entries_in(shown(batch(encode_entry(Created("bill", config, 4, LINE)))))
    assert entry_words(entry) == 'consumer 8 (\'bill\') is created, filtered by a.("x), from offset 4'


# -- in words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "text", "who"),
    [
        (removed((3, 4), (9, 12)), "offsets 3, 9..11 of epoch 1 are gone", ()),
        (encode_removed(1, [OffsetRange(3, 4)], done_with=True), "offset 3 of epoch 1 is done with", ()),
        (encode_restated(4, 2), "a restatement begun at 4 ends, of what is gone from offset 2 on", ()),
        (encode_come_to(RolledUp(1, 9)), "all roll-ups below 9 are acted on", ()),
        (encode_come_to(Outlived(1, 9)), "below 9 none is left that is to go after a time", ()),
        (
            encode_entry(Created("bill", CONFIG, 4, LINE)),
            "consumer 8 ('bill') is created, filtered by a.*, b, from offset 4",
            ("8", "bill"),
        ),
        (
            encode_entry(Created("bill", ConsumerConfig(), 4, LINE, instead=3)),
            "consumer 8 ('bill') begins in place of consumer 3, not filtered, from offset 4",
            ("8", "bill", "3"),
        ),
        (encode_entry(Altered(3, CONFIG)), "consumer 3 is altered, filtered by a.*, b", ("3",)),
        (
            encode_entry(Delivered(3, 9, LINE, [(4, 1, 1), (6, 2, 3)])),
            "consumer 3 goes on to 9: offsets 4, 6..7 are delivered up to 3 times by now",
            ("3",),
        ),
        (encode_entry(Delivered(3, 9, LINE, [])), "consumer 3 goes on to 9", ("3",)),
        (encode_entry(Done(3, "acked", [(4, 1)])), "consumer 3: offset 4 is acked", ("3",)),
        (
            encode_entry(Done(3, "gone", [(4, 2)])),
            "consumer 3: offsets 4..5 are gone, and written off",
            ("3",),
        ),
        (
            encode_entry(Dead(3, "limit", [(4, 1)])),
            "consumer 3: offset 4 is dead, as delivered as often as may be",
            ("3",),
        ),
        (
            encode_entry(Rewound(3, 5)),
            "consumer 3 goes back to 5, from where on the data are other ones",
            ("3",),
        ),
        (encode_entry(ConsumerDeleted(3)), "consumer 3 is deleted", ("3",)),
        (
            encode_entry(SaidAgain(3, "bill", CONFIG, 9, LINE, [(4, 1, 2), (6, 2, 1)])),
            "consumer 3 ('bill') stands at 9, offsets 4, 6..7 are pending",
            ("3", "bill"),
        ),
        (
            encode_entry(SaidAgain(3, "bill", CONFIG, 9, LINE, [])),
            "consumer 3 ('bill') stands at 9, nothing is pending",
            ("3", "bill"),
        ),
    ],
)
def test_what_an_entry_says_in_words(entry: bytes, text: str, who: tuple[str, ...]) -> None:
    (found,) = entries_in(shown(batch(entry)))
    assert (entry_words(found), found.who) == (text, who)


def test_what_is_in_question_is_not_left_out() -> None:
    many = removed(*((2 * at, 2 * at + 1) for at in range(20)))
    (entry,) = entries_in(shown(batch(many)))
    assert entry_words(entry, InQuestion([(30, 31)])) == (
        "offsets 0, 2, 4, 30 and 16 more, the last one 38, of epoch 1 are gone"
    )
    journals = Journals(InQuestion([(5, 6)]))
    entries = entries_in(shown(batch(*(removed((at, at + 1)) for at in range(6)))))
    words, names = journals.words(1, "11/0.journal", entries, 6)
    assert "at 12: offset 5 of epoch 1 is gone; and 3 more" in words and (5, 6) in names


@pytest.mark.parametrize(
    ("request_", "text", "names"),
    [
        (DeleteMessageRequest(WHERE, 3), "delete offset 3 of 11/0", [(3, 4)]),
        (PurgeSubjectsRequest(WHERE, "a.*", 5), "purge 'a.*' below 5 of 11/0", [(0, 5)]),
        (
            PurgeSubjectsRequest(WHERE, "a.*", 5, 2),
            "purge 'a.*' below 5 of 11/0, but for the newest 2",
            [(0, 5)],
        ),
    ],
)
def test_what_is_asked_of_a_journal_in_words(request_: Any, text: str, names: list[Any]) -> None:
    assert asked(*plain(request_)) == (text, names)
    assert asked(*plain(ReadRequest(WHERE, 0))) is None


def test_what_is_told_of_it_and_whether_that_is_committed() -> None:
    good = {"11/0 HW": 9, "11/0.journal HW": 8}
    name, deleted = plain(MessageDeleted(WHERE, 3, 8))
    text = "that offset 3 of 11/0 is deleted, by the journal below 8"
    assert told(name, deleted, None, good) == (f" {text}", [(3, 4)], False)
    early = f", with only what lies below 7 of 11/0.journal committed, {text}"
    assert told(name, deleted, None, {**good, "11/0.journal HW": 7}) == (early, [(3, 4)], True)
    purge = plain(PurgeSubjectsRequest(WHERE, "a.*", 5))[1]
    name, purged = plain(SubjectsPurged(WHERE, 1, 8))
    text = "that its purge of 'a.*' below 5 of 11/0 is done, by the journal below 8: 1 message went"
    assert told(name, purged, purge, good) == (f" {text}", [(0, 5)], False)
    early = f", with only what lies below 4 of 11/0 committed, {text}"
    assert told(name, purged, purge, {**good, "11/0 HW": 4}) == (early, [(0, 5)], True)
    assert told("ReadReply", {}, None, good) is None


# -- what nodes know -----------------------------------------------------------------------------------------


def test_who_heeds_what_it_has_not_read_is_told() -> None:
    journals = Journals(InQuestion([(3, 4)]))
    journals.learn(1, "11/0.journal", shown(batch(removed((3, 4)), base=0)))
    said = "heeds 11/0.journal up to 1: offset 3 of epoch 1 is gone"
    assert journals.heeds(1, "11/0.journal", 0, 1, 0) == (said, [(3, 4)])
    journals.started(1)
    unread = "heeds 11/0.journal up to 1 without having read it: offset 3 of epoch 1 is gone"
    assert journals.heeds(1, "11/0.journal", 0, 1, 0) == (unread, [(3, 4)])
    begins = "begins to heed 11/0.journal at 1, where it starts"
    assert journals.heeds(2, "11/0.journal", 0, 1, 1) == (begins, [(3, 4)])


def test_a_restatement_that_leaves_out_what_is_in_question_is_told() -> None:
    journals = Journals(InQuestion([(3, 6)]))
    gone, again = batch(removed((3, 5), (8, 9)), base=0), batch(removed((3, 4), (8, 9)), base=1)
    ends = batch(encode_restated(1, 0), base=2)
    journals.learn(1, "11/0.journal", shown(gone, again, ends))
    words, names = journals.said(1, "11/0.journal", 2, 3)
    assert words == ": a restatement begun at 1 ends, and does not name 4, which went before"
    assert names == [(3, 5)]
    known = Journals(InQuestion([(3, 4)]))
    known.learn(1, "11/0.journal", shown(gone, again, ends))
    assert "of what is gone from offset 0 on" in known.said(1, "11/0.journal", 2, 3)[0]


def test_a_restatement_of_which_a_trace_has_not_all_is_not_blamed() -> None:
    journals = Journals(InQuestion([(3, 4)]))
    others = [removed((20 + at, 21 + at)) for at in range(ENTRIES_SHOWN)]
    long = batch(*others, removed((3, 4)), base=1)
    ends = batch(encode_restated(1, 0), base=1 + len(others) + 1)
    journals.learn(1, "11/0.journal", shown(batch(removed((3, 4)), base=0), long, ends))
    end = ends.end_offset
    assert "does not name" not in journals.said(1, "11/0.journal", end - 1, end)[0]


# -- what findings speak of ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finding", "offsets", "entries"),
    [
        (
            "partition 19/0: the entry below journal offset 4 names offset 20, which nobody has asked for",
            [(20, 21)],
            [(3, 4)],
        ),
        (
            "partition 11/0: node 2, with its journal heeded up to 40 of 40, hides [(3, 1)], which nothing "
            "names, and shows [(30, 2), (31, 4), (32, 4)]",
            [(3, 4), (30, 33)],
            [],
        ),
        (
            "partition 9/0: what matches 'a.*' below 5 is said to be gone but for 0, by the journal below "
            "3 of 3; left are [1, 4]",
            [(1, 2), (4, 5)],
            [(2, 3)],
        ),
        (
            "partition 9/0: what matches 'a.*' below 5 is said to be gone but for 5, by the journal below "
            "3 of 3; left are []",
            [(4, 5)],
            [(2, 3)],
        ),
        ("partition 9/0: below 7 of the journal offsets [3, 4] are done with", [(3, 5)], [(6, 7)]),
        ("node 1 serves offsets 3..5 of epoch 1", [(3, 6)], []),
    ],
)
def test_offsets_of_the_data_and_of_its_journal_are_told_apart(
    finding: str, offsets: list[Any], entries: list[Any]
) -> None:
    focus = focus_of(finding)
    assert (focus.offsets, focus.entries) == (offsets, entries)


def test_a_consumer_may_be_named_by_where_it_stands() -> None:
    finding = "partition 9/0: the entry at 48 says that a consumer stands at (41, 'work-0', 25, (), 2, ())"
    focus = focus_of(finding)
    assert (focus.consumers, focus.entries) == (["41", "work-0"], [(47, 48)])


# -- stories -------------------------------------------------------------------------------------------------

WRONG = {
    "deletion_answered_at_append": (
        r"writes offset 0 of 5/0.journal, epoch 1: offset 0 of epoch 1 is gone .*"
        r"tells a client, with only what lies below 0 of 5/0.journal committed, that offset 0 of 5/0 is del"
    ),
    "limit_looks_from_last": (
        r"stores 0-x1-0 at offset 2 of 5/0 .*writes offset 0 of 5/0.journal, epoch 1, as its subject index "
        r"tells it: offset 2 of epoch 1 is gone .*commits 5/0.journal up to 1 .*names offset 2, "
    ),
    "marker_beside_entry": (
        r"writes offset 1 of 5/0.journal, epoch 1, .*: offset 100 of epoch 1 is gone .*"
        r"commits 5/0.journal up to 2 with the ISR \[1\]: offset 100 of epoch 1 is gone .*no marker is there"
    ),
    "purge_takes_uncommitted": (
        r"is asked by a client to purge 's0.in.\*' below 1 of 5/0, but for the newest 20 .*"
        r"tells a client, with only what lies below 0 of 5/0 committed, that its purge of 's0.in.\*' below 1"
    ),
    "removed_read_to_nothing": (
        r"writes offset 0 of 6/0.journal, epoch 1, .*: offsets 0..68 of epoch 1 are gone .*node 1 loses "
        r"power .*heeds 6/0.journal up to 1 without having read it: offsets 0..68 of epoch 1 are gone"
    ),
    "roll_up_takes_newer": (
        r"1-2-1 asks for Nats- ?Rollup: all .*writes offset 0 of 5/0.journal, epoch 1, .*: offsets 0..1 of "
        r"epoch 1 are gone"
    ),
}
"""By mutant: how the story names the entry that hid, or failed to hide, what is in question."""


@cache
def failed(mutant: str) -> Bundle:
    """Not to be changed. Which code it was matters to no story, and takes long to say."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recording, "sources_hash", str)
        return world_of(mutant).bundle()


@pytest.mark.parametrize("mutant", sorted(WRONG))
def test_the_story_names_the_entry_that_hid_what_the_violation_names(mutant: str) -> None:
    bundle = failed(mutant)
    assert bundle.violation.invariant == world_of(mutant).invariant
    story = re.sub(r"\s+", " ", " ".join(bundle.story))
    assert re.search(WRONG[mutant], story), "\n".join(bundle.story)
    assert len(bundle.story) <= LINES and max(map(len, bundle.story)) <= WIDTH


def test_what_was_asked_stands_before_what_was_written_and_any_entry_can_be_asked_for() -> None:
    bundle = failed("deletion_answered_at_append")
    place = {key: at for at, line in enumerate(bundle.story) for key in ("asked", "writes") if key in line}
    assert next(line for line in bundle.story if "#38" in line).endswith("to delete offset 0 of 5/0")
    assert place["writes"] < place["asked"]  # It is asked once more, and answered again.
    step = next(fact.at_step for fact in Narrator(bundle).facts if "writes offset 0 of 5/0.j" in fact.text)
    told_of = " ".join(why(bundle, step))
    assert "stores 0-0-0 at offset 0 of 5/0" in told_of and "offset 0 of epoch 1 is gone" in told_of


def test_a_bundle_without_entries_is_told_as_before() -> None:
    """An older liftlog wrote it."""
    bundle = deepcopy(failed("roll_up_takes_newer"))
    for step in bundle.trace:
        for name, fields in step.effects:
            if name == "AppendLog":
                fields["batches"] = [each.partition(": ")[0] for each in fields["batches"]]
    texts = [fact.text for fact in Narrator(bundle).facts]
    assert "node 1 writes offset 0 of 5/0.journal, epoch 1" in texts
    assert not [text for text in texts if "without having read" in text or "is gone" in text]


@pytest.mark.parametrize("mutant", sorted(WRONG))
def test_a_shrunk_world_of_a_journal_is_clean_without_its_mutant(mutant: str) -> None:
    world = world_of(mutant)
    found = run_again(world.seed, world.world, world.stated_plan, refine=world.refine)
    assert found.good, found.finding


def test_the_page_says_what_a_step_writes_into_a_journal() -> None:
    entries = [removed((at, at + 1)) for at in (3, 5)]
    effect = plain(AppendLog(WHERE.journal, [batch(*entries)], Ticket(4)))
    assert effect_words(effect, {log_key(plain(WHERE.journal)): "orders' journal"}) == (
        "appends offsets 7 to 8 of epoch 2 to orders' journal (ticket 4): "
        "offset 3 of epoch 1 is gone; offset 5 of epoch 1 is gone"
    )
    many = plain(AppendLog(WHERE.journal, [batch(*entries, *entries)], Ticket(4)))
    assert "; and 1 more" in effect_words(many, {})
    data = plain(AppendLog(WHERE, [encode_values(WHERE, 7, 2, 5, [b"RemovedRuns(epoch 1)"])], Ticket(4)))
    assert effect_words(data, {}) == "appends offset 7 of epoch 2 to 11/0 (ticket 4)"
