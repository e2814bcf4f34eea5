"""Who publishes in fast batches, in worlds whose streams take batches: messages one after the other, now and
then one that is missing or late (L12). Each batch has an id of its own.

What its leader says is judged as it is said. FastAcksHold: of a batch without gaps all up to the number that
is acked are committed, in their order, and nothing behind a message that is missing; of another one nothing
more comes below that number. What was never acked is where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from liftlog.messages import TellFast
from liftlog.types import Message, PartitionId
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.bus import FAST
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target

NUMBER = 9900
"""Of this publisher, above those of all others."""
INTERVAL_US = 1500 * MILLISECOND
MESSAGES_MAX = 8
WRONG_SHARE = 0.3
WRONGS = ("lost", "first lost", "late", "twice", "refused")
PAUSES_US = (0, 0, 2 * MILLISECOND, 100 * MILLISECOND, 600 * MILLISECOND)


class SentBatch(NamedTuple):
    """`values`: by number, from 1 on."""

    partition: PartitionId
    values: tuple[bytes, ...]
    gap_ok: bool


class FastRoom:
    """The publisher, and what is known of its batches."""

    __slots__ = ("_acked", "_cluster", "_places", "_read", "_sent", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._sent: dict[bytes, SentBatch] = {}
        self._acked: dict[bytes, tuple[int, tuple[int, ...]]] = {}
        """By id: up to which number, and where what was sent up to there lay."""
        self._places: dict[bytes, list[int]] = {}
        """By value, where it is committed."""
        self._read: dict[PartitionId, int] = {}

    def start(self) -> None:
        """If there is a stream for it."""
        if any(_takes(target) for target in self._shared.targets):
            self._cluster.bus.on_fast = self._told
            self._turns = self._cluster.chances.turns("fast/0", INTERVAL_US)
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        targets = [target for target in self._shared.targets if _takes(target)]
        draws = turn.draws
        target = targets[draws.part("target").randrange(len(targets))]
        size = turn.count or 1 + draws.part("size").randrange(MESSAGES_MAX)
        turn.noted(target.name, size)
        self._publish(target, b"f%d" % turn.number, size, draws)
        self._turns.take(self._fire)

    def _publish(self, target: Target, id: bytes, size: int, draws: Draws) -> None:
        cluster, now_us = self._cluster, self._cluster.kernel.now_us
        gap_ok = draws.part("gap").random() < 0.5
        values = tuple(b"%d-%b-%d" % (NUMBER, id, place) for place in range(size))
        self._sent[id] = SentBatch(target.partition, values, gap_ok)
        words = b"%d.%b" % (1 + draws.part("flow").randrange(4), b"ok" if gap_ok else b"fail")
        made = batch(id, values, words, target.subject, draws)
        if draws.part("wrong").random() < WRONG_SHARE:
            made = wronged(made, draws.part("how"))
        operations = [ClientOperation("send", NUMBER, target, now_us, value) for value in values]
        self._shared.perform(operations)
        pause_us = draws.part("pause").choice(PAUSES_US)

        def publish(message: Message, second: object) -> None:
            cluster.bus.publish(message.subject, [message])

        now = [message for place, message in enumerate(made) if not place * pause_us]
        for place, message in enumerate(made):
            if place * pause_us:
                cluster.kernel.after(place * pause_us, publish, message)
        cluster.bus.publish(target.subject, now)

    # -- what is said --------------------------------------------------------------------------------------

    def _told(self, told: TellFast) -> None:
        """FastAcksHold."""
        sent = self._sent.get(told.batch)
        if sent is None or told.word not in ("ack", "end"):
            return
        account = self._shared.account
        account.checks.counts["FastAcksHold"] += 1
        self._look(sent.partition)
        up_to = min(told.number, len(sent.values))
        found = [tuple(self._places.get(value, ())) for value in sent.values]
        problem = self._problem(told, sent, up_to, found)
        if problem:
            text = f"partition {sent.partition}, fast batch {told.batch.decode()}: {problem}"
            account.fail(Violation("FastAcksHold", text))
        self._acked[told.batch] = up_to, tuple(place for places in found[:up_to] for place in places)

    def _problem(
        self, told: TellFast, sent: SentBatch, up_to: int, found: Sequence[tuple[int, ...]]
    ) -> str:
        said = f"{told.word} {told.number}"
        before, places = self._acked.get(told.batch, (0, ()))
        there = tuple(place for one in found[:before] for place in one)
        if there != places:
            return f"{said}: of the first {before}, which were acked, there were {places}, now {there}"
        in_order = [place for one in found[:up_to] for place in one]
        if in_order != sorted(set(in_order)):
            return f"{said}: the messages lie at {found}, which is not their order"
        if not sent.gap_ok and any(len(one) != 1 for one in found[:up_to]):
            return f"{said}: of its messages {found} are committed"
        if told.word == "end" and told.other >= 0 and told.other not in in_order:
            return f"{said} names offset {told.other}; the messages lie at {found}"
        return ""

    def _look(self, partition: PartitionId) -> None:
        """What is committed since we looked last."""
        committed = self._shared.account.truth(partition).contents.committed
        for offset in range(self._read.get(partition, 0), len(committed)):
            record = committed[offset]
            if record is not None and record.value is not None and record.value.startswith(b"%d-f" % NUMBER):
                self._places.setdefault(record.value, []).append(offset)
        self._read[partition] = len(committed)


def _takes(target: Target) -> bool:
    return target.config.allow_fast_batches is True and target.config.ack_reply


def batch(
    id: bytes, values: Sequence[bytes], words: bytes, subject: bytes, draws: Draws
) -> list[Message]:
    """The messages of one batch, some of which ask how far it is, and what ends it, if anything does."""
    end = draws.part("end").choice(("commit", "commit", "close", "never"))
    asked_at = draws.part("asked").randrange(3 * len(values))
    made = []
    for number, value in enumerate(values, 1):
        last = end == "commit" and number == len(values)
        operation = 2 if last else int(number > 1)
        made.append(_message(subject, id, words, number, operation, value))
        if number == asked_at and not last:
            made.append(_message(subject, id, words, number, 4, b""))
    if end == "close":
        made.append(_message(subject, id, words, len(values) + 1, 3, b""))
    return made


def wronged(made: list[Message], draws: Draws) -> list[Message]:
    """Some of these in another order, not all of them, or with one that asks for what is not done."""
    kind, middle = draws.choice(WRONGS), len(made) // 2
    if kind == "lost":
        return made[:middle] + made[middle + 1 :]
    if kind == "first lost":
        return made[1:]
    if kind == "late":
        return [*made[:middle], *reversed(made[middle:])]
    if kind == "twice":
        # One message that is a batch alone would be two of them.
        return [*made[: middle + 1], *made[middle:]] if middle else made
    asks = made[middle]._replace(headers=b"NATS/1.0\r\nNats-Expected-Last-Sequence: 1\r\n\r\n")
    return [*made[:middle], asks, *made[middle + 1 :]]


def _message(subject: bytes, id: bytes, words: bytes, number: int, operation: int, value: bytes) -> Message:
    reply = FAST + b"%b.%b.%d.%d.$FI" % (id, words, number, operation)
    return Message(subject, reply, b"", value)
