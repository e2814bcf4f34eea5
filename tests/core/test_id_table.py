"""The table of message ids against its definition: the last record of an id, if it is young enough (L7)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.replica.publishing.id_table import PARTS, UNKNOWN, IdTable

IDS = [b"a", b"b", b"c", b"d"]
Steps = st.lists(st.tuples(st.sampled_from(IDS), st.integers(0, 60), st.booleans()), max_size=60)


@given(Steps, st.integers(1, 100))
def test_L7_a_table_knows_the_last_record_of_an_id_for_the_length_of_its_window(
    steps: list[tuple[bytes, int, bool]], window_ms: int
) -> None:
    table, stored = IdTable(window_ms), []
    now_ms = 0
    for offset, (id, later_ms, asks_all) in enumerate(steps):
        now_ms += later_ms
        if asks_all:
            table.pass_to(now_ms)
        for one in IDS:
            places = [(place, at) for known, place, at in stored if known == one]
            young = places[-1][0] if places and now_ms < places[-1][1] + window_ms else UNKNOWN
            assert table.find(one, now_ms) == young
        if table.find(id, now_ms) == UNKNOWN:
            table.add(id, offset, now_ms)
            stored.append((id, offset, now_ms))
    young = [place for _, place, at in stored if now_ms < at + window_ms]
    table.pass_to(now_ms)
    span_ms = max(1, window_ms // PARTS)
    held = [place for _, place, at in stored if now_ms < at + window_ms + span_ms]
    assert len(young) <= len(table) <= len(held), "an eighth of the window is held beyond it, and no more"


@given(Steps, st.integers(1, 100), st.data())
def test_L7_what_the_log_must_keep_goes_by_the_time_that_is_committed(
    steps: list[tuple[bytes, int, bool]], window_ms: int, data: st.DataObject
) -> None:
    table, stored = IdTable(window_ms), []
    now_ms = committed_ms = 0
    for offset, (id, later_ms, _) in enumerate(steps):
        now_ms += later_ms
        table.add(id, offset, now_ms)
        stored.append((offset, now_ms))
        table.pass_to(now_ms)
        committed_ms = data.draw(st.integers(committed_ms, now_ms))
        young = [place for place, at in stored if committed_ms < at + window_ms]
        needed = table.needed_from(committed_ms)
        span_ms = max(1, window_ms // PARTS)
        near = [place for place, at in stored if committed_ms < at + window_ms + span_ms]
        if young:
            assert needed is not None and near[0] <= needed <= young[0]
        else:
            assert needed is None or needed >= near[0]


def test_L7_the_oldest_are_dropped_on_demand_and_their_records_are_kept() -> None:
    table = IdTable(800)
    for number in range(4):
        table.add(b"%d" % number, number, 100 * number)
    table.drop_oldest()
    assert (len(table), table.find(b"0", 300), table.find(b"1", 300)) == (3, UNKNOWN, 1)
    assert table.needed_from(300) == 0
    for _ in range(5):
        table.drop_oldest()
    assert len(table) == 0
