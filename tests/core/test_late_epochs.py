"""R6 with a damaged leader whose history says of an epoch only how late it can have begun (D2).

Every small pair of logs that the protocol can bring forth, every damaged range in the leader's: whatever the
leader answers, a follower that does what it is told keeps all that both have in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations_with_replacement
from types import SimpleNamespace
from typing import Any

from liftlog.core.replica.serving import Serving
from liftlog.core.replica.state.damage import Damage
from liftlog.epochs import EpochHistory
from liftlog.messages import FETCH_DAMAGED, FETCH_DIVERGED, Fetch, FetchReply
from liftlog.mutants import Mutants
from liftlog.types import OffsetRange, PartitionId

LOG = PartitionId(1, 0)
EPOCHS = (1, 2, 3, 4)
LENGTH = 5
NOTHING = OffsetRange(0, 0)
Epochs = tuple[int, ...]
"""The epoch of each record; (offset, epoch) names a record."""


def history_of(log: Epochs, damage: OffsetRange = NOTHING) -> EpochHistory:
    """What somebody knows who cannot read the damaged range."""
    history = EpochHistory()
    for offset, epoch in enumerate(log):
        if not damage.start <= offset < damage.end:
            history.note(epoch, offset)
    return history


def common(one: Epochs, other: Epochs) -> int:
    """How far two logs are the same. The last record that has one name in both decides (log matching)."""
    return max((at + 1 for at in range(min(len(one), len(other))) if one[at] == other[at]), default=0)


def possible(one: Epochs, other: Epochs) -> bool:
    """Whether one cluster can have both: an epoch has one leader, who writes one log."""
    shared = common(one, other)
    if one[:shared] != other[:shared]:
        return False
    return not set(one[shared:]) & set(other[shared:])


def logs() -> Iterator[Epochs]:
    for length in range(LENGTH + 1):
        yield from combinations_with_replacement(EPOCHS, length)


def answer(history: EpochHistory, leo: int, damage: OffsetRange, follower: Epochs) -> FetchReply | None:
    """What a leader says to a follower's first fetch; None if it agrees."""
    late = (damage.end,) if damage.start < damage.end else ()
    ctx: Any = SimpleNamespace(mutants=Mutants(), effects=[], mark=lambda mark: None)
    ctx.decides = lambda *conditions: all(holds for _, holds in conditions)
    ctx.metadata = SimpleNamespace(nodes={2: SimpleNamespace(incarnation=1)})
    log: Any = SimpleNamespace(ctx=ctx, id=LOG, history=history, leo=leo, log_start=0, hw=0, config=None)
    log.dropped_below = 0
    log.horizon = lambda: 0
    log.damage = Damage([damage] if late else [], late)
    leading: Any = SimpleNamespace(epoch=9, followers={}, record=SimpleNamespace(replicas=(1, 2)))
    last = follower[-1] if follower else 0
    if Serving(log, leading).admits(2, Fetch(LOG, 9, 1, 1, len(follower), 0, last, 1000)):
        return None
    reply = ctx.effects[-1].message
    assert isinstance(reply, FetchReply)
    return reply


def test_R6_D2_what_is_hidden_by_damage_costs_no_follower_what_it_shares_with_the_leader() -> None:
    every = list(logs())
    seen: dict[str, int] = {}
    for leader in every:
        for start in range(len(leader)):
            for end in range(start + 1, len(leader)):
                damage = OffsetRange(start, end)
                history = history_of(leader, damage)
                for follower in every:
                    if possible(leader, follower):
                        kind = judge(leader, history, damage, follower)
                        seen[kind] = seen.get(kind, 0) + 1
    assert min(seen[kind] for kind in ("agreed", "cut", "waits")) > 1000, seen


def test_R6_D2_a_log_that_ends_behind_the_damage_is_told_no_place_that_may_be_too_late() -> None:
    """It was told the last place at which the next epoch can have begun: to keep what is not the leader's."""
    leader = (1, 1, 2, 2, 2, 2)
    damage = OffsetRange(1, 4)
    reply = answer(history_of(leader, damage), len(leader), damage, (1,) * 7)
    assert reply is not None and reply.status == FETCH_DAMAGED


def judge(leader: Epochs, history: EpochHistory, damage: OffsetRange, follower: Epochs) -> str:
    shared = common(leader, follower)
    case = f"leader {leader} without {damage}, follower {follower}"
    reply = answer(history, len(leader), damage, follower)
    if reply is None:
        assert shared == len(follower), case
        return "agreed"
    if reply.status == FETCH_DAMAGED:
        assert len(follower) > damage.start, f"{case}: nothing is unclear"
        return "waits"
    assert reply.status == FETCH_DIVERGED, case
    _, own_end = history_of(follower).floor(reply.end_epoch, len(follower))
    target = min(reply.end_offset, own_end)
    assert shared <= target < len(follower), case
    return "cut"


def test_R6_without_damage_every_answer_is_final() -> None:
    """The same, for a leader that can read everything."""
    every = list(logs())
    for leader in every:
        for follower in every:
            if possible(leader, follower):
                kind = judge(leader, history_of(leader), NOTHING, follower)
                assert kind == ("agreed" if common(leader, follower) == len(follower) else "cut")
