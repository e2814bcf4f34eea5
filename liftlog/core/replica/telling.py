"""What the leader of a partition tells of its consumers (K7, K8): by all that it has written, folded or not.

    position, sequence   behind what was delivered, and how many deliveries there were
    floor, ack_pending   what waits for an ack; what is gone does not, though that is not written off yet
    floor_sequence       so many deliveries wait for no ack. Where acks come in order that is the number of
                         the last delivery before those that do; where they do not it is more
"""

from __future__ import annotations

from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.state import Consumer
from liftlog.core.replica.removed import Removed
from liftlog.core.replica.state import LogState
from liftlog.messages import ConsumerInfo


def is_gone(offset: int, data: LogState, removed: Removed) -> bool:
    """K7: whether nobody gets it any more."""
    named = offset, data.history.epoch_before(offset + 1)
    return offset < data.log_start or named in removed


def info_of(consumer: Consumer, flight: Flight, data: LogState, removed: Removed) -> ConsumerInfo:
    """Of one of them."""
    kept = data.ctx.mutants.gone_kept_pending
    waiting = [offset for offset in flight.pending() if kept or not is_gone(offset, data, removed)]
    return ConsumerInfo(
        name=consumer.name,
        number=consumer.number,
        config=consumer.config,
        position=flight.ahead,
        floor=waiting[0] if waiting else flight.ahead,
        ack_pending=len(waiting),
        num_pending=_to_come(flight, data, removed),
        sequence=flight.sequence,
        floor_sequence=flight.sequence - len(waiting),
        redelivered=sum(flight.count(offset) > 1 for offset in waiting),
        pulls=len(flight.pulls),
    )


def _to_come(flight: Flight, data: LogState, removed: Removed) -> int:
    """How many messages are not delivered yet; -1: that is not known."""
    if flight.filters or flight.ahead < flight.consumer.since:
        return -1
    begin, end = max(flight.ahead, data.log_start), data.hw
    gone = sum(stop - start for start, stop in removed.hidden(data.history).runs(begin, end))
    return max(0, end - begin) - gone
