"""What an epoch history learns when damage that hid the start of an epoch is repaired (D2, R6)."""

from __future__ import annotations

import pytest

from liftlog.epochs import EpochHistory
from liftlog.types import EpochStart

WHOLE = [EpochStart(1, 0), EpochStart(3, 6), EpochStart(4, 12)]


@pytest.mark.parametrize(
    "seen",
    [
        [EpochStart(1, 0), EpochStart(3, 8), EpochStart(4, 12)],
        [EpochStart(1, 0), EpochStart(4, 12)],
        WHOLE,
    ],
    ids=["begins too late", "hidden altogether", "known"],
)
def test_a_repaired_range_gives_an_epoch_its_start_back(seen: list[EpochStart]) -> None:
    """Found by the simulator: a repaired copy came back into the ISR with another history than its leader."""
    history = EpochHistory(seen)
    for epoch, offset in ((1, 4), (3, 6), (3, 7), (4, 12)):
        history.learn(epoch, offset)
    assert history.entries == WHOLE


def test_a_first_epoch_is_learned_before_all_others() -> None:
    history = EpochHistory(WHOLE[1:])
    history.learn(1, 0)
    assert history.entries == WHOLE
