"""A copy that does not know the epoch at its end any more is outside of the model; any other is not (D2, R6).

Found in seed 749: an index had decayed, the records that it told of were unreadable at the next start, and
what followed them was cut; the copy then began anew, which is safe, and no action of the model.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from liftlog.trace.replica_lines import ReplicaState, View
from liftlog_spec.refine.abstract import LOG
from liftlog_spec.refine.checker import PartitionRefinement
from liftlog_spec.refine.runs import Runs


@pytest.mark.parametrize("first", [0, 40])
@pytest.mark.parametrize(
    ("leo", "damage", "history", "knows"),
    [
        (3, ((0, 3),), (), False),
        (3, ((0, 2),), ((1, 0), (2, 2)), True),
        (3, ((0, 3),), ((1, 0),), False),
        (3, ((0, 3),), ((1, 0), (2, 2)), True),
        (2, ((0, 3),), ((1, 0),), True),
        (3, ((3, 5),), ((1, 0), (2, 2)), True),
    ],
)
def test_D2_R6_an_end_of_unknown_epochs_is_told_from_one_that_is_known(
    leo: int,
    damage: tuple[tuple[int, int], ...],
    history: tuple[tuple[int, int], ...],
    knows: bool,
    first: int,
) -> None:
    """In the model offsets 0 and 1 are of epoch 1, and 2 of epoch 2; the program's begin at `first` (C7)."""
    state: list[object] = [None] * (LOG + 1)
    state[LOG] = (Runs.of([(1, "a"), (1, "b"), (2, "c")]),)
    abstract = SimpleNamespace(state=state, place={7: 0}, epochs={1: 1, 2: 2})
    view = cast(View, None)
    damage = tuple((start + first, end + first) for start, end in damage)
    history = tuple((epoch, start + first) for epoch, start in history)
    leo += first
    after = ReplicaState("ready", "follower", 2, leo, leo, first, first, history, view, damage=damage)
    partition = cast(PartitionRefinement, SimpleNamespace(abstract=abstract, _first=first))
    assert PartitionRefinement.knows_its_end(partition, 7, after) is knows
