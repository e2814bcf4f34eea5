"""The plan of a large generated history: which operation stands where, as formulas instead of a list.

A history of a hundred million operations does not fit into memory, and its two tables are sorted differently:
operations by position, micro-operations by log and offset. So nothing is ever listed. Whatever one wants to
know of an operation follows from its number, and each table is computed in its own order, piece by piece.

*Time* is cut into rounds, all of one shape. A round has bursts of sends and then polls:

    burst 0 invoked | burst 0 acked, burst 1 invoked | ... | assigns | polls | room for planted operations

The `concurrency` operations of a burst overlap each other and those of the next burst. They are acknowledged
in one shuffled order and take offsets in another, which is right for a log because they all overlap. A
round's polls read what its bursts stored.

*Logs* come in groups of `sends_per_op` (1, or more for transactions). An operation sends one record to every
log of one group, so the logs of a group have one order of writers: transactions form no cycles. Groups
differ in how many bursts of a round are theirs, equally many or by Zipf's law.

*Chance* is a hash of the seed and of the number of whatever is decided, not a stream of random numbers: so
both tables agree, and any piece can be made again alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from liftlog.types import LiftlogError
from liftlog_jepsen.generate.shape import Shape

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ROUNDS_WANTED = 4
"""A history gets at least so many rounds if its bursts can be made rarer for it."""
STRIDE = 2
"""Between two positions of the plan one is free, for what is planted amid them."""
ROUNDS_PER_PLANTED = 3
TAIL_POSITIONS = 128
"""Room for the positions of one planted story."""
PLANTED_OPS = 32
"""Operation numbers of one planted story."""
OK, FAIL, INFO, STORED_INFO = 0, 1, 2, 3
"""Fates of a send; of the last, nobody was told, but the log has it."""
_STEP = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_OUTCOMES, _OFFSETS, _ACKS, _STORED = 1, 2, 3, 4
"""What a hash decides, so that two decisions about one operation are independent."""


class Layout(NamedTuple):
    """Everything that is the same in every round. `rounds` is how many there are."""

    shape: Shape
    rounds: int
    groups: int
    bursts: Ints
    """Per group: its bursts in a round."""
    first_burst: Ints
    """Per group: where its bursts begin in `burst_slots`."""
    burst_slots: Ints
    """The places in the round of all bursts, by group and in order of time."""
    polls: Ints
    """Per group: the polls that one reader makes of it in a round."""
    first_poll: Ints
    """Per group: where these begin among all polls of one reader's pass."""
    consumer: Ints
    """[reader, group]: the process that polls."""
    assign_place: Ints
    """[reader, group]: where the group stands among those that its process names in an assign."""
    planted: int
    """How many anomalies are planted."""

    @property
    def round_bursts(self) -> int:
        return len(self.burst_slots)

    @property
    def round_polls(self) -> int:
        return int(self.polls.sum()) * self.shape.reads

    @property
    def round_assigns(self) -> int:
        return self.shape.consumers if self.shape.assign_every else 0

    @property
    def round_sends(self) -> int:
        """Send operations of a round."""
        return self.round_bursts * self.shape.concurrency

    @property
    def round_ops(self) -> int:
        """Operation numbers of a round; those of assigns are unused in rounds without any."""
        return self.round_sends + self.round_assigns + self.round_polls

    @property
    def round_positions(self) -> int:
        return self._tail_start + TAIL_POSITIONS * -(-self.planted // self.rounds)

    @property
    def _tail_start(self) -> int:
        """Where a round's room for planted operations begins, within the round."""
        return 2 * STRIDE * (self.round_sends + self.round_assigns + self.round_polls)

    def tail_position(self, round_: int, slot: int = 0) -> int:
        return round_ * self.round_positions + self._tail_start + TAIL_POSITIONS * slot

    @property
    def final_position(self) -> int:
        """Where the final reads begin, behind the acks of the last burst."""
        return self.rounds * self.round_positions + 2 * STRIDE * self.shape.concurrency

    @property
    def first_planted_op(self) -> int:
        return self.rounds * self.round_ops

    @property
    def final_op(self) -> int:
        return self.first_planted_op + PLANTED_OPS * self.planted

    # -- sends ---------------------------------------------------------------------------------------------

    def burst_start(self, burst: Ints) -> Ints:
        """The position of the first invocation of a burst, numbered through the history."""
        number, place = burst // self.round_bursts, burst % self.round_bursts
        return number * self.round_positions + place * (2 * STRIDE * self.shape.concurrency)

    def send_op(self, burst: Ints, member: Ints) -> Ints:
        number, place = burst // self.round_bursts, burst % self.round_bursts
        return number * self.round_ops + place * self.shape.concurrency + member

    def send_process(self, burst: Ints, member: Ints) -> Ints:
        return (burst * self.shape.concurrency + member) % self.shape.producers

    def send_positions(self, burst: Ints, member: Ints) -> tuple[Ints, Ints]:
        """Invocation and completion: acks follow the invocations of the next burst."""
        size = self.shape.concurrency
        acked = self.burst_start(burst + 1) + STRIDE * (size + self._shuffled(_ACKS, burst, member))
        return self.burst_start(burst) + STRIDE * member, acked

    def member_at(self, burst: Ints, rank: Ints) -> Ints:
        """Which operation of a burst gets its `rank`th offset."""
        return self._shuffled(_OFFSETS, burst, rank)

    def _shuffled(self, purpose: int, burst: Ints, number: Ints) -> Ints:
        """A permutation of 0 … concurrency-1 of its own for every burst."""
        size = self.shape.concurrency
        chance = self.chance(purpose, burst)
        factor, shift = (chance & (size - 1)) | 1, (chance >> 20) & (size - 1)
        mixed: Ints = (number * factor + shift) & (size - 1)
        return mixed

    def fate(self, op: Ints) -> npt.NDArray[np.int8]:
        chance = self.chance(_OUTCOMES, op) & 0xFFFFF
        failing = round(self.shape.fail * 0x100000)
        unknown = failing + round(self.shape.info * 0x100000)
        fate = np.where(chance < failing, FAIL, np.where(chance < unknown, INFO, OK)).astype(np.int8)
        fate[(fate == INFO) & (self.chance(_STORED, op) & 1 == 0)] = STORED_INFO
        return fate

    def chance(self, purpose: int, number: Ints) -> Ints:
        """A hash of non-negative int64 (splitmix64)."""
        x = number.astype(np.uint64)
        x += np.uint64((self.shape.seed * 64 + purpose) * _STEP % 2**64)
        x ^= x >> np.uint64(30)
        x *= _MIX_1
        x ^= x >> np.uint64(27)
        x *= _MIX_2
        x ^= x >> np.uint64(31)
        return (x >> np.uint64(1)).astype(np.int64)

    # -- polls and assigns -----------------------------------------------------------------------------------

    def poll_op(self, round_: Ints, reader: int, place: Ints) -> Ints:
        """`place` counts the polls of one reader's pass over all groups."""
        return round_ * self.round_ops + self.round_sends + self.round_assigns + self._pass(reader) + place

    def poll_invoked(self, round_: Ints, reader: int, place: Ints) -> Ints:
        """The position of the invocation; the completion is one stride later."""
        ahead = self.round_sends + self.round_assigns + self._pass(reader)
        return round_ * self.round_positions + 2 * STRIDE * (ahead + place)

    def _pass(self, reader: int) -> int:
        return reader * int(self.polls.sum())

    def assign_op(self, round_: Ints, consumer: Ints) -> Ints:
        return round_ * self.round_ops + self.round_sends + consumer

    def assign_invoked(self, round_: Ints, consumer: Ints) -> Ints:
        return round_ * self.round_positions + 2 * STRIDE * (self.round_sends + consumer)

    def assigning_rounds(self, start: int, stop: int) -> Ints:
        every = self.shape.assign_every
        if not every:
            return np.empty(0, np.int64)
        return np.arange(-(-start // every) * every, stop, every, dtype=np.int64)

    @property
    def first_consumer(self) -> int:
        return self.shape.producers

    @property
    def first_final_reader(self) -> int:
        return self.shape.producers + self.shape.consumers

    @property
    def first_planted_process(self) -> int:
        return self.first_final_reader + self.shape.final_readers


def plan(shape: Shape, planted: int = 0) -> Layout:
    """The layout for this shape, with room for `planted` stories.

    Raises LiftlogError if the shape is impossible, naming the option.
    """
    shape = shape.settled()
    each = shape.sends_per_op
    groups = -(-shape.streams // each)
    copies = 1 + shape.reads + shape.final_readers
    cost = shape.concurrency * each * copies
    """Micro-operations of one burst and of the reads of what it stores."""
    affordable = shape.operations // (groups * cost * max(ROUNDS_WANTED, ROUNDS_PER_PLANTED * planted))
    common = max(1, min(shape.batch // shape.concurrency, affordable))
    bursts = _bursts(groups, common, shape.zipf)
    if shape.operations < int(bursts.sum()) * cost:
        raise LiftlogError(
            f"{shape.operations:,} operations are too few for {shape.streams:,} streams: give "
            f"{int(bursts.sum()) * cost:,} or more, or fewer streams, or a smaller concurrency"
        )
    stored = 1 - shape.fail - shape.info / 2
    per_round = int(bursts.sum()) * shape.concurrency * each * (1 + stored * (copies - 1))
    rounds = max(1, -(-shape.operations // max(1, int(per_round))))
    first_burst = np.concatenate([[0], np.cumsum(bursts)[:-1]]).astype(np.int64)
    polls = -(-bursts * shape.concurrency // shape.batch)
    consumer = (np.arange(groups)[None, :] + np.arange(shape.reads)[:, None]) % shape.consumers
    return Layout(
        shape,
        rounds,
        groups,
        bursts,
        first_burst,
        _interleaved(bursts),
        polls,
        np.concatenate([[0], np.cumsum(polls)[:-1]]).astype(np.int64),
        consumer.astype(np.int64) + shape.producers,
        _places(consumer),
        planted,
    )


def _bursts(groups: int, common: int, zipf: float) -> Ints:
    """Bursts per round and group; the first group is the busiest."""
    if not zipf:
        return np.full(groups, common, np.int64)
    weights = np.arange(1, groups + 1, dtype=np.float64) ** -zipf
    bursts: Ints = np.maximum(1, np.round(weights * (common * groups / weights.sum()))).astype(np.int64)
    return bursts


def _interleaved(bursts: Ints) -> Ints:
    """The places of all bursts of a round, by group: each group's are spread evenly over the round."""
    group = np.repeat(np.arange(len(bursts)), bursts)
    number = np.arange(len(group)) - np.repeat(np.cumsum(bursts) - bursts, bursts)
    order = np.lexsort((group, (number + 0.5) / bursts[group]))
    slots = np.empty(len(group), np.int64)
    slots[order] = np.arange(len(group))
    return slots


def _places(consumer: Ints) -> Ints:
    """[reader, group]: how many groups stand before it in its process's assigns."""
    flat = consumer.ravel()
    order = np.argsort(flat, kind="stable")
    sorted_ = flat[order]
    starts = np.searchsorted(sorted_, sorted_, side="left")
    places = np.empty(len(flat), np.int64)
    places[order] = np.arange(len(flat)) - starts
    return places.reshape(consumer.shape)
