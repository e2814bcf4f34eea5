"""What the state of a log promises: each wrong write raises, and nothing that is written breaks a promise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.core.context import Context
from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import UNSENT, ChangeIsr
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.log import HW_MOVED, JOBS_WAIT, READY, START_MOVED, WAS_RESET, WHOLE, LogState
from liftlog.core.replica.state.role import FollowerState, Following, LeaderState
from liftlog.format import encode_messages
from liftlog.messages import Compacted
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    Batch,
    EpochStart,
    InvariantViolation,
    LogSummary,
    Message,
    OffsetRange,
    PartitionId,
    TailState,
    Ticket,
)

LOG = PartitionId(7, 0)


def context() -> Context:
    config = NodeConfig(node=1, voters=(1, 2, 3))
    return Context(config, Metadata(Guards()), 1, Guards())


def record(epoch: int = 5) -> PartitionState:
    return PartitionState(LOG, (1, 2, 3), 1, 1, 1, epoch, isr=(1, 2, 3))


def batch(offset: int, count: int = 1, epoch: int = 5) -> Batch:
    return encode_messages(LOG, offset, epoch, 1, [Message(b"s", b"", b"", b"v")] * count)


def summary(leo: int = 4, hw: int = 2, start: int = 0, damage: tuple[OffsetRange, ...] = ()) -> LogSummary:
    return LogSummary(LOG, start, leo, hw, (EpochStart(5, 0),) if leo else (), TailState.CLEAN, damage=damage)


def opened(**found: int) -> LogState:
    """A log with offsets 0 to 3, all durable, of which two are known committed, in epoch 5."""
    log = LogState(context(), LOG)
    log.opened(summary(**found))
    log.enter(5)
    log.check()
    return log


def leading() -> LogState:
    log = opened()
    log.enter(6, LeaderState(log.ctx, LOG, record(6), log.leo))
    return log


# -- one test a row of the table -----------------------------------------------------------------------------


def lowered(log: LogState) -> None:
    """A leader whose log is not durable as far as it thinks."""
    log.append([batch(4, epoch=6)])
    log.commit(5)


WRONG: dict[str, tuple[Callable[[], LogState], Callable[[LogState], object]]] = {
    "the log start passes the HW": (opened, lambda log: log.start_moved(3)),
    "an append leaves a gap": (opened, lambda log: log.append([batch(5)])),
    "an append overwrites": (opened, lambda log: log.append([batch(3)])),
    "an append of an epoch to come": (opened, lambda log: log.append([batch(4, epoch=6)])),
    "epochs go back": (opened, lambda log: log.append([batch(4, epoch=4)])),
    "the HW goes back": (opened, lambda log: log.commit(1)),
    "the HW passes the log": (opened, lambda log: log.commit(5)),
    "a leader's HW passes its durable LEO": (leading, lowered),
    "a cut below what is committed": (opened, lambda log: log.truncate(1)),
    "a cut below the log start": (lambda: opened(start=2), lambda log: log.truncate(1, consent=True)),
    "a reset below what is committed": (opened, lambda log: log.reset(1, ())),
    "an epoch goes back": (opened, lambda log: log.enter(4)),
    "a log is opened twice": (opened, lambda log: log.opened(summary())),
    "compacted beyond the log": (opened, lambda log: log.cleaned(5, 0)),
    "a range is mended that is not damaged": (opened, lambda log: log.mended(OffsetRange(1, 2), ())),
    "a log fails in its role": (leading, lambda log: log.close(4, in_doubt=False)),
}


@pytest.mark.parametrize("name", WRONG)
def test_R1_R2_R3_R6_R8_C3_a_wrong_write_raises(name: str) -> None:
    make, write = WRONG[name]
    log = make()
    with pytest.raises(InvariantViolation):
        write(log)


def test_R1_an_epoch_in_which_the_log_failed_is_not_led_again() -> None:
    log = leading()
    log.leave_role()
    log.close(4, in_doubt=True)
    log.opened(summary())
    with pytest.raises(InvariantViolation, match="in which it has failed"):
        log.enter(6, LeaderState(log.ctx, LOG, record(6), log.leo))


def test_R5_tickets_rise() -> None:
    log = opened()
    log.append([batch(4)])
    log.pending.append((log.ctx.ticket + 5, 5))
    with pytest.raises(InvariantViolation, match="ticket"):
        log.append([batch(5)])


def test_R7_what_is_not_there_is_not_durable() -> None:
    log = opened()
    log.pending.append((1, 9))
    with pytest.raises(InvariantViolation, match="9 is said to be durable"):
        log.synced(Ticket(1))


BROKEN: dict[str, Callable[[LogState], object]] = {
    "the HW is outside the log": lambda log: setattr(log, "hw", 5),
    "more is durable than there is": lambda log: setattr(log, "durable_leo", 5),
    "the leader has committed what it has not synced": lambda log: setattr(log, "durable_leo", 1),
    "what is remembered as committed is not": lambda log: setattr(log, "checkpointed_hw", 3),
    "the epoch history goes beyond the log": lambda log: log.history.note(9, 4),
    "more is being written than there is": lambda log: log.pending.append((1, 5)),
    "more is compacted than there is": lambda log: setattr(log, "clean_point", 5),
    "the damaged ranges lie outside": lambda log: log.damage.ranges.append(OffsetRange(2, 5)),
}


@pytest.mark.parametrize("text", BROKEN)
def test_what_does_not_fit_together_is_found(text: str) -> None:
    log = leading()
    log.check()
    BROKEN[text](log)
    with pytest.raises(InvariantViolation, match=text):
        log.check()


@pytest.mark.parametrize(
    "ranges", [[(2, 3), (1, 2)], [(1, 2), (2, 3)], [(1, 3), (2, 4)], [(2, 2)], [(-1, 2)]], ids=str
)
def test_D2_damaged_ranges_ascend_and_do_not_touch(ranges: list[tuple[int, int]]) -> None:
    log = opened()
    log.damage.ranges.extend(OffsetRange(*one) for one in ranges)
    with pytest.raises(InvariantViolation, match="damaged ranges"):
        log.check()


def test_R11_what_a_follower_is_to_reach_never_goes_back() -> None:
    known = FollowerState(1, 4)
    known.caught_up(5)
    with pytest.raises(InvariantViolation, match="only 4"):
        known.caught_up(4)


def test_R6_the_numbers_of_fetches_rise() -> None:
    following = Following(context(), LOG, 2, 5)
    following.asked(3)
    with pytest.raises(InvariantViolation, match="fetch 3 after 3"):
        following.asked(3)


def test_R2_another_epochs_record_is_no_view_of_this_one() -> None:
    state = LeaderState(context(), LOG, record(5), 0)
    with pytest.raises(InvariantViolation, match="epoch 6 seen in epoch 5"):
        state.view(record(6))


# -- what moves leave to react to ---------------------------------------------------------------------------


def changes(log: LogState) -> list[int]:
    found = []
    while change := log.take_change():
        found.append(change)
    return found[:-1]


def test_changes_are_taken_in_one_order_whatever_the_order_of_the_moves() -> None:
    log = opened()
    changes(log)
    log.want_start(2)
    log.start_moved(2)
    log.commit(3)
    assert changes(log) == [HW_MOVED, START_MOVED, JOBS_WAIT]
    log.reset(6, (EpochStart(5, 0),))
    assert changes(log) == [WAS_RESET, HW_MOVED]
    assert changes(log) == []


def test_D2_the_last_damage_that_goes_is_told() -> None:
    log = LogState(context(), LOG)
    log.opened(summary(damage=(OffsetRange(0, 1), OffsetRange(2, 3))))
    changes(log)
    log.start_moved(1)
    assert changes(log) == [START_MOVED]
    log.mended(OffsetRange(2, 3), ())
    assert changes(log) == [WHOLE]


def test_a_move_touches_the_replica() -> None:
    log = opened()
    for move in (
        lambda: log.append([batch(4)]),
        lambda: log.synced(Ticket(log.ctx.ticket)),
        lambda: log.commit(5),
        lambda: log.enter(7),
    ):
        log.ctx.touched.clear()
        move()
        assert log.ctx.touched == {LOG: None}


def test_R2_a_leader_s_moves_touch_the_replica() -> None:
    ctx = context()
    state = LeaderState(ctx, LOG, record(), 0)
    change = ChangeIsr(UNSENT, LOG, 1, 5, state.record.version, [1, 2], 0, 0)
    for move in (
        lambda: state.propose(change),
        lambda: state.follower(2, 1, 0),
        lambda: state.reached(state.followers[2], 1, 0),
        lambda: state.view(record()),
    ):
        ctx.touched.clear()
        move()
        assert ctx.touched == {LOG: None}


def test_C2_a_compaction_that_was_in_work_at_a_cut_makes_nothing_clean() -> None:
    """It told of records that an unclean election has cut: what came in their place counted as clean."""
    ctx = context()
    replica = Replica(ctx, LOG)
    log = replica.log
    log.opened(summary(hw=4))
    log.enter(5)
    replica.upkeep.busy = True
    log.truncate(1, consent=True)
    log.append([batch(1, 5)])
    replica.durable(Ticket(ctx.ticket))
    replica.on_upkeep(Compacted(LOG, True, 4, 2))
    assert (log.clean_point, log.dropped_below) == (0, 2)
    assert log.cached(1, 6, 1000) is None, "storage has compacted what lies below"


# -- whatever the moves ------------------------------------------------------------------------------------


def _append(log: LogState, number: int) -> None:
    log.append([batch(log.leo, 1 + number % 3, log.epoch)])


def _sync(log: LogState, number: int) -> None:
    if log.pending:
        log.synced(Ticket(log.pending[number % len(log.pending)][0]))


def _commit(log: LogState, number: int) -> None:
    log.commit(log.hw + number % (log.leo - log.hw + 1))


def _truncate(log: LogState, number: int) -> None:
    if log.leo > log.hw:
        log.truncate(log.hw + number % (log.leo - log.hw))


def _cut_committed(log: LogState, number: int) -> None:
    log.truncate(log.log_start + number % (log.leo - log.log_start + 1), consent=True)


def _reset(log: LogState, number: int) -> None:
    log.reset(log.hw + number % 3, ())


def _start(log: LogState, number: int) -> None:
    if log.settled > log.log_start:
        log.start_moved(log.log_start + number % (log.settled - log.log_start + 1))


def _damage(log: LogState, number: int) -> None:
    log.damaged(OffsetRange(number % 9, number % 9 + 1 + number % 4))


def _mend(log: LogState, number: int) -> None:
    if log.damage.ranges:
        log.mended(log.damage.ranges[0], [OffsetRange(number % 7, number % 7 + 1)])


def _clean(log: LogState, number: int) -> None:
    log.cleaned(number % (log.leo + 1), number)


def _fail(log: LogState, number: int) -> None:
    log.leave_role()
    keep = min(log.durable_leo, max(log.log_start, number))
    log.close(keep, in_doubt=bool(number % 2))
    start = min(log.log_start, keep)
    epochs = tuple(entry for entry in log.history.entries if entry.start < keep)
    log.opened(LogSummary(LOG, start, keep, min(log.checkpointed_hw, keep), epochs, TailState.CLEAN))


MOVES = (
    *(
        _append,
        _append,
        _sync,
        _commit,
        _truncate,
        _cut_committed,
        _reset,
        _start,
        _damage,
        _mend,
        _clean,
        _fail,
    ),
    *(lambda log, number: log.checkpoint(), lambda log, number: log.enter(log.epoch + number % 2)),
    *(lambda log, number: log.want_start(number), lambda log, number: log.take_wanted_start()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 30)), max_size=40))
def test_whatever_the_moves_the_state_keeps_its_promises(
    steps: list[tuple[Callable[[LogState, int], object], int]],
) -> None:
    """And the log start never goes back, nor the HW and the durable LEO, but by cuts, resets, reopening."""
    log = opened()
    for move, number in steps:
        before = (log.log_start, log.hw, log.durable_leo)
        move(log, number)
        log.check()
        assert log.state == READY
        if move not in (_truncate, _cut_committed, _reset, _fail):
            assert (log.log_start, log.hw, log.durable_leo) >= before
            assert all(
                now >= then
                for now, then in zip((log.log_start, log.hw, log.durable_leo), before, strict=True)
            )
