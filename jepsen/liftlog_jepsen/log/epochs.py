"""The checks of leader epochs, as acknowledgements name them: an epoch is one leader's term of office.

A log's offsets are given by one leader after the other, so that epochs do not fall as offsets grow, and all
acknowledgements of an epoch come from one run of one node. Both need of each log, epoch and leader only the
acknowledged record with the least offset and the one with the greatest: a few rows however large a log is,
and the few rows of several parts of a log say what those of the whole would.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.log.columns import (
    NONE,
    OK,
    SEND,
    Block,
    Bools,
    Ints,
    concatenate,
    heads,
    sort_order,
    take,
)
from liftlog_jepsen.log.found import LogFindings

EPOCH_COLUMNS = ("history", "log", "epoch", "leader", "offset", "op", "pos")
"""An acknowledged record: where it lies, and the epoch and leader that its acknowledgement named."""
_PLACE = ("offset", "op", "pos")


def epochs(rows: Block) -> Block:
    """What acknowledgements among these rows, in any order, say of epochs (EPOCH_COLUMNS)."""
    told = (rows["kind"] == SEND) & (rows["outcome"] == OK) & (rows["epoch"] != NONE)
    which = np.flatnonzero(told & (rows["offset"] != NONE))
    if not len(which):
        return concatenate([], EPOCH_COLUMNS)
    log, epoch, leader, offset = (rows[name][which] for name in ("log", "epoch", "leader", "offset"))
    # Rows come nearly in the order of offsets: of each run with one epoch only the ends can matter.
    starts = np.flatnonzero(heads(log, epoch, leader))
    lengths = np.diff(np.append(starts, len(which)))
    least = np.repeat(np.minimum.reduceat(offset, starts), lengths)
    greatest = np.repeat(np.maximum.reduceat(offset, starts), lengths)
    which = which[(offset == least) | (offset == greatest)]
    return outermost({name: rows[name][which] for name in EPOCH_COLUMNS})


def outermost(acked: Block) -> Block:
    """Of each log, epoch and leader the rows with the least and with the greatest offset."""
    acked = _sorted(acked, "log", "epoch", "leader", *_PLACE)
    group = heads(acked["log"], acked["epoch"], acked["leader"])
    return take(acked, group | _greatest(acked, group))


def check_epochs(acked: Block, found: LogFindings) -> None:
    """Epochs that fall, and epochs with two leaders; `acked`: EPOCH_COLUMNS of whole logs."""
    if not len(acked["log"]):
        return
    acked = _sorted(outermost(acked), "log", "epoch", *_PLACE)
    _check_order(acked, found)
    _check_leaders(acked, found)


def _sorted(block: Block, *names: str) -> Block:
    return take(block, sort_order(tuple(block[name] for name in names)))


def _greatest(acked: Block, group: Bools) -> Bools:
    """The first row with its group's greatest offset; rows are sorted by group and place."""
    number = np.cumsum(group).astype(np.int64)
    place = np.flatnonzero(heads(number, acked["offset"]))
    last = np.append(number[place][1:] != number[place][:-1], True)
    marked = np.zeros(len(number), np.bool_)
    marked[place[last]] = True
    return marked


def _check_order(acked: Block, found: LogFindings) -> None:
    """An epoch's greatest offset lies below the least of all later epochs."""
    group = heads(acked["log"], acked["epoch"])
    lowest, highest = take(acked, group), take(acked, _greatest(acked, group))
    later = _least_later(lowest)
    high = np.flatnonzero((later >= 0) & (lowest["offset"][np.maximum(later, 0)] < highest["offset"]))
    _report("nonmonotonic-epoch", take(highest, high), take(lowest, later[high]), found)


def _least_later(lowest: Block) -> Ints:
    """For each epoch the row with the least place among the later epochs of its log; -1: there is none."""
    count = len(lowest["log"])
    order = sort_order(tuple(lowest[name] for name in _PLACE))
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    # From the last epoch to the first. Numbers of logs fall, so that each log begins below all before it.
    fresh = heads(lowest["log"])
    number = (np.cumsum(fresh) - 1)[::-1]
    level = np.minimum.accumulate(number * count + rank[::-1])
    least = order[level - number * count][::-1]
    later = np.full(count, -1, np.int64)
    later[:-1] = np.where(fresh[1:], -1, least[1:])
    return later


def _check_leaders(acked: Block, found: LogFindings) -> None:
    """All acknowledgements of an epoch that name a leader name the same."""
    named = take(acked, acked["leader"] != NONE)
    named = _sorted(named, "log", "epoch", "leader", *_PLACE)
    leaders = take(named, heads(named["log"], named["epoch"], named["leader"]))
    leaders = _sorted(leaders, "log", "epoch", *_PLACE)
    fresh = heads(leaders["log"], leaders["epoch"])
    first = np.flatnonzero(fresh[:-1] & ~fresh[1:])
    _report("two-leaders", take(leaders, first), take(leaders, first + 1), found)


def _report(anomaly: str, one: Block, other: Block, found: LogFindings) -> None:
    found.add(
        anomaly,
        one["history"],
        one["log"],
        one["op"],
        op_2=other["op"],
        value_op=one["op"],
        value_pos=one["pos"],
        other_op=other["op"],
        other_pos=other["pos"],
        offset=one["offset"],
        other_offset=other["offset"],
        epoch=one["epoch"],
        other_epoch=other["epoch"],
        leader=one["leader"],
        other_leader=other["leader"],
    )
