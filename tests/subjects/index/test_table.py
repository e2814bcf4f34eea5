"""The table of subjects is exact, whatever its hash is worth, and says beforehand when it is full."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.subjects.index import table as module
from liftlog.subjects.index.interface import SubjectIndexFull
from liftlog.subjects.index.table import LENGTH_MAX, SubjectTable

PLENTY = 1 << 30
SUBJECTS = st.one_of(
    st.binary(max_size=40),
    st.builds(lambda part, times: part * times, st.sampled_from([b"\0", b"a", b"ab."]), st.integers(0, 200)),
)
STEPS = st.lists(st.one_of(st.lists(SUBJECTS, max_size=30), st.floats(0, 1)), max_size=8)


@settings(deadline=None)
@given(STEPS, st.integers(0, (1 << 64) - 1))
def test_numbers_are_those_of_a_dictionary_whatever_is_entered_and_cut(
    steps: list[list[bytes] | float], key: int
) -> None:
    check_against_a_dictionary(SubjectTable(key, PLENTY), steps)


def test_subjects_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_factors", lambda key, count: np.zeros(count, np.uint64))
    names = [b"a.%d" % number for number in range(120)]
    check_against_a_dictionary(SubjectTable(1, PLENTY), [names, 0.3, [*names[::-1], b"b" * 100], 0.9, names])


def check_against_a_dictionary(table: SubjectTable, steps: list[list[bytes] | float]) -> None:
    expected: dict[bytes, int] = {}
    asked = [b"", b"\0", b"a", b"a\0", b"no such"]
    for step in steps:
        if isinstance(step, float):
            count = int(step * len(expected))
            table.cut(count)
            expected = dict(list(expected.items())[:count])
        else:
            for subject in step:
                expected.setdefault(subject, len(expected))
            assert table.intern(step).tolist() == [expected[subject] for subject in step]
            asked += step
        assert len(table) == len(expected)
        numbers = [expected.get(subject, -1) for subject in asked]
        assert table.find_all(asked).tolist() == numbers
        assert [table.find(subject) for subject in asked] == numbers
        assert [table.subject(sid) for sid in range(len(table))] == list(expected)
        half = len(expected) // 2
        lengths, text = table.texts(half, len(expected))
        left = list(expected)[half:]
        assert lengths.tolist() == [len(subject) for subject in left] and text == b"".join(left)


def test_many_come_and_are_found_after_the_table_has_grown() -> None:
    table = SubjectTable(7, PLENTY)
    names = [b"app.%d.%s" % (number, b"x" * (number % 90)) for number in range(20_000)]
    for first in range(0, len(names), 777):
        table.intern(names[first : first + 777])
    assert table.find_all(names).tolist() == list(range(len(names)))
    assert table.find_all([name + b"." for name in names[:500]]).tolist() == [-1] * 500


def test_coming_and_going_does_not_fill_the_table_with_what_is_gone() -> None:
    table = SubjectTable(7, PLENTY)
    table.intern([b"kept"])
    for number in range(200):
        table.intern([b"%d.%d" % (number, each) for each in range(40)])
        table.cut(1)
    assert table.memory < 10_000 and table.find(b"kept") == 0 and table.find(b"199.0") == -1


def test_a_table_that_is_full_refuses_all_and_keeps_what_it_has() -> None:
    table = SubjectTable(7, 100_000)
    count = 0
    with pytest.raises(
        SubjectIndexFull, match=r"would take [\d,]+ bytes for [\d,]+ subjects, and may take 100,000"
    ):
        for count in range(0, 10_000, 10):
            table.intern([b"subject.%d" % number for number in range(count, count + 10)])
    assert len(table) == count > 500 and table.memory <= 100_000
    assert table.find(b"subject.%d" % (count - 1)) == count - 1 and table.find(b"subject.%d" % count) == -1
    assert table.intern([b"subject.3", b"subject.0"]).tolist() == [3, 0]


def test_a_subject_that_no_record_holds_is_refused() -> None:
    table = SubjectTable(7, PLENTY)
    assert table.intern([b"x" * LENGTH_MAX, b"y"]).tolist() == [0, 1]
    assert table.find(b"x" * LENGTH_MAX) == 0 and table.find(b"x" * (LENGTH_MAX + 1)) == -1
    with pytest.raises(ValueError, match="more than 65535 bytes"):
        table.intern([b"x" * (LENGTH_MAX + 1)])
    assert len(table) == 2


def test_the_key_changes_where_subjects_lie_and_nothing_else() -> None:
    names = [b"a.%d" % number for number in range(1000)]
    first, second = SubjectTable(1, PLENTY), SubjectTable(2, PLENTY)
    assert first.intern(names).tolist() == second.intern(names).tolist()
    assert not np.array_equal(first._slots, second._slots)
