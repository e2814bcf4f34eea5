"""Where a consumer is to begin, by what is committed (K1)."""

from __future__ import annotations

from collections.abc import Callable

from liftlog.messages import DELIVER_ALL, DELIVER_FROM, DELIVER_NEW, DELIVER_TIME, ConsumerConfig
from liftlog_sim.truth.invariants import PartitionTruth
from liftlog_sim.truth.trueconsumer import TrueConsumer


def latest_start(config: ConsumerConfig, data: PartitionTruth, log_start: int) -> int:
    """Behind this offset no consumer begins that is made so now."""
    latest = {
        DELIVER_ALL: log_start,
        DELIVER_FROM: max(config.offset, log_start),
        DELIVER_NEW: data.hw,
        DELIVER_TIME: _first_at(config.timestamp_ms, data, log_start),
    }
    return latest.get(config.deliver, data.hw)


def _first_at(timestamp_ms: int, data: PartitionTruth, log_start: int) -> int:
    """The first message that has come then, or later."""
    there = enumerate(data.contents.committed[: data.hw])
    later = (at for at, record in there if record is not None and record.timestamp_ms >= timestamp_ms)
    return max(log_start, next(later, data.hw))


def last_of_each(
    consumer: TrueConsumer, data: PartitionTruth, is_deleted: Callable[[int], bool]
) -> set[int]:
    """The last messages, of each subject that its filters match, with which it is to begin."""
    lasts: dict[bytes, int] = {}
    for offset, record in enumerate(data.contents.committed[: consumer.created.since]):
        if record is not None and not is_deleted(offset) and consumer.lets(record):
            lasts[record.subject] = offset
    return set(lasts.values())
