"""What a log says of its producers, against the definition: the records of each, read in order (L2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.replica.publishing.producer_table import PLACES, Fenced, Lies, NotDue, ProducerTable, TooOld
from liftlog.options.numbered import Numbered, StoredNumber, lines_of, stored_number
from liftlog.parcel import ParcelRecord, seal_parcel, with_lines
from tests.core.test_headers import block

WINDOW_MS = 50
Sent = st.tuples(
    st.sampled_from([b"a", b"b"]), st.integers(1, 3), st.integers(0, 4), st.integers(0, 30), st.integers(1, 3)
)


@given(st.lists(Sent, max_size=60))
def test_L2_a_leader_takes_what_is_due_and_nothing_else(sent: list[tuple[bytes, int, int, int, int]]) -> None:
    table = ProducerTable(WINDOW_MS)
    log: list[tuple[Numbered, int, int, int]] = []
    now_ms = offset = 0
    for producer, run, sequence, later_ms, span in sent:
        now_ms += later_ms
        table.pass_to(now_ms)
        numbered = Numbered(producer, run, sequence)
        own = [one for one in log if one[0].producer == producer]
        known = own if own and now_ms < own[-1][3] + WINDOW_MS else []
        newest = known[-1][0].run if known else 0
        of_run = [one for one in known if one[0].run == run] if run == newest else []
        due = of_run[-1][0].sequence + 1 if of_run else 0
        verdict = table.verdict(numbered)
        if run < newest:
            assert verdict == Fenced(newest)
        elif sequence > due:
            assert verdict == NotDue(due, known=run == newest)
        elif sequence < due:
            place = [one for one in of_run if one[0].sequence == sequence][-1]
            assert verdict == Lies(place[1], place[2])
        else:
            assert verdict is None
            table.add(numbered, offset, span, now_ms)
            log.append((numbered, offset, span, now_ms))
            offset += span
    assert_read_anew(table, log, now_ms)


def assert_read_anew(table: ProducerTable, log: list[tuple[Numbered, int, int, int]], now_ms: int) -> None:
    """Who reads the log from a window before its end says the same of what may be stored."""
    anew = ProducerTable(WINDOW_MS)
    for numbered, offset, span, at_ms in log:
        if now_ms < at_ms + WINDOW_MS:
            anew.add(numbered, offset, span, at_ms)
    table.pass_to(now_ms)
    for producer in (b"a", b"b"):
        for run in range(1, 4):
            for sequence in range(5):
                verdicts = [one.verdict(Numbered(producer, run, sequence)) for one in (table, anew)]
                if isinstance(verdicts[1], TooOld):
                    assert isinstance(verdicts[0], Lies), "older than the window: the first one knows more"
                else:
                    assert verdicts[0] == verdicts[1]


def test_L2_the_places_of_so_many_are_remembered_and_what_is_before_is_not_new() -> None:
    table = ProducerTable(WINDOW_MS)
    for number in range(3 * PLACES):
        table.add(Numbered(b"a", 1, number), 2 * number, 2, 0)
    last = 3 * PLACES - PLACES
    assert table.verdict(Numbered(b"a", 1, last)) == Lies(2 * last, 2)
    assert table.verdict(Numbered(b"a", 1, last - 1)) == TooOld(last)
    assert table.verdict(Numbered(b"a", 1, 3 * PLACES)) is None


def test_L2_the_one_that_was_silent_for_longest_is_dropped_on_demand() -> None:
    table = ProducerTable(WINDOW_MS)
    for place, producer in enumerate((b"a", b"b", b"a")):
        table.add(Numbered(producer, place, 0), place, 1, place)
    table.drop_oldest()
    assert (len(table), table.knows(b"a"), table.knows(b"b")) == (1, True, False)
    table.drop_oldest()
    table.drop_oldest()
    assert len(table) == 0


def stored(producer: bytes) -> StoredNumber:
    return StoredNumber(Numbered(producer, 7, 0), 1)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (["Liftlog-Producer: p", "Liftlog-Run: 7", "Liftlog-Sequence: 0"], stored(b"p")),
        (["liftlog-run:7", "LIFTLOG-SEQUENCE:00", "liftlog-producer: p q "], stored(b"p q")),
        (["Liftlog-Producer: p", "Liftlog-Run: 7"], None),
        (["Liftlog-Producer: p", "Liftlog-Run: x", "Liftlog-Sequence: 0"], None),
        (["Other: liftlog-sequence"], None),
    ],
)
def test_L2_numbers_are_found_again_in_what_is_stored(
    lines: list[str], found: StoredNumber | None
) -> None:
    assert stored_number(block(*lines)) == found


@given(st.binary(max_size=20), st.booleans(), st.integers(1, 5))
def test_L2_the_first_record_of_a_parcel_says_which_one_it_is(
    value: bytes, has_headers: bool, records: int
) -> None:
    headers = block("Other: x") if has_headers else b""
    sent = [ParcelRecord(value, b"key" if has_headers else None, headers, b"orders")] * records
    plain = seal_parcel(sent)[12:]
    numbered = Numbered(b"p", 3, 4)
    lines = block("Other: x" if has_headers else "")[:-2] if has_headers else b"NATS/1.0\r\n"
    wanted = [sent[0]._replace(headers=lines + lines_of(numbered, records) + b"\r\n"), *sent[1:]]
    assert with_lines(plain, lines_of(numbered, records)) == seal_parcel(wanted)[12:]
    assert stored_number(wanted[0].headers) == StoredNumber(numbered, records)
