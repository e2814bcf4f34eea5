"""Answers to a reader with a filter, held against the model: what it refuses, and in which words (S2)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.refine.abstract import Disagreement
from liftlog_spec.refine.filtered import AnswerHeld, ReaderRefinement


class Held:
    """A reader that begins at offset 5 of a log in which 5, 7 and 8 match, committed up to 9."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.reader = ReaderRefinement(5, self.counts)
        self.reader.committed(9, [5, 7, 8])
        self.spare: set[int] = set()

    def answered(self, node: int, at: int, looked: int, *found: int, **more: Any) -> None:
        told = {"hw": 9, "journal": 0} | more
        answer = AnswerHeld(node, at, looked, frozenset(found), spare=self.spare.__contains__, **told)
        self.reader.answered(answer)


def test_answers_of_several_copies_are_steps_of_the_model() -> None:
    held = Held()
    held.answered(1, 5, 6, 5, hw=6)
    held.answered(2, 6, 8, 7)
    held.answered(3, 8, 9, 8)
    held.answered(3, 9, 9)
    held.reader.committed(11, [10])
    held.answered(1, 9, 10, hw=11)
    held.answered(1, 10, 11, 10, hw=11)
    assert held.counts == {"Write": 6, "Commit": 2, "Hear": 4, "Ask": 6, "Take": 6}


def test_what_is_deleted_is_left_out_once_it_is_heeded() -> None:
    held = Held()
    held.reader.deleted({7: 3})
    held.answered(1, 5, 8, 5, journal=3)
    held.reader.deleted({7: 3, 8: 2})
    held.answered(1, 8, 9, journal=3)
    assert held.counts["Delete"] == 3, "the one that lies before comes first, and all are told again"


def test_what_compaction_takes_may_be_missing_and_come_again() -> None:
    held = Held()
    held.spare = {7}
    held.answered(1, 5, 6, 5)
    held.answered(1, 6, 8)
    assert held.counts["Thin"] == 1
    again = Held()
    again.spare = {7}
    again.answered(1, 5, 7, 5)
    again.answered(2, 7, 8)
    again.answered(2, 8, 9, 8)
    assert again.counts["Thin"] == 1


@pytest.mark.parametrize(
    ("answer", "more", "word"),
    [
        ((1, 5, 9, 5, 8), {}, "node 1 sends 5, 8, in the model 5, 7, 8"),
        ((1, 5, 9, 5, 6, 7, 8), {}, "sends 5, 6, 7, 8, in the model 5, 7, 8"),
        ((1, 5, 9), {}, "sends nothing, in the model 5, 7, 8"),
        ((1, 5, 9, 5, 7, 8), {"hw": 8}, "looked <= maximum(reach, s.position)"),
        ((1, 5, 5), {}, "Or(s.position < looked, s.known[c] <= s.position)"),
        ((1, 6, 9, 7, 8), {}, "asked from 6, and has come to 5"),
        ((1, 5, 9, 5, 7, 8), {"hw": 10}, "end <= s.hw"),
    ],
)
def test_what_is_no_step_is_refused(answer: tuple[int, ...], more: dict[str, int], word: str) -> None:
    with pytest.raises(Disagreement) as refused:
        Held().answered(*answer, **more)
    assert word in str(refused.value)


def test_a_copy_that_has_heeded_less_does_not_answer() -> None:
    held = Held()
    held.reader.deleted({5: 1})
    held.answered(1, 5, 6, journal=1)
    with pytest.raises(Disagreement) as refused:
        held.answered(2, 6, 8, 7, journal=0)
    assert "s.seen <= s.heeds[c]" in str(refused.value)
