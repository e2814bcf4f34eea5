"""Writes down what the clients of durable consumers see, as the facts of docs/promises.md, as they see it.

    writer = HistoryWriter("billing", stream=JsonlStream(run / "history.jsonl"))
    recorder = ConsumerRecorder(writer, "orders/0")
    billing = await recorder.consumer(lambda: client.consumer("orders", "billing", config=config))
    for delivery in await billing.fetch(20, wait_ms=500):
        await billing.ack(delivery)
    await recorder.publish("a", lambda: client.publish("orders", b"a"))
    await billing.reset(0)  # all of it again
    await recorder.final_read(lambda: read_it_all())  # at the end: offset -> value
    await billing.floor()

All calls raise what the client raises, when they have written that nobody knows the outcome. Any client will
do that has the calls of `liftlog.client`. One recorder for all clients of a log, in one thread, so that their
operations are in one order; each wrapped consumer does one thing at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

from liftlog.types import Record
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop
from liftlog_jepsen.recording import ClientRecorder, RecordedClient, RecordedSender, SendAnswer, end_send

ACKING, GIVING_UP = "ack", "term"
GIVES_ALL = ("all", "offset", "new", "time")
"""Where a consumer without patterns begins, by its configuration, and gives all that is behind."""


T = TypeVar("T")


class Given(Protocol):
    """A delivery, as the client has it."""

    @property
    def record(self) -> Record: ...
    @property
    def delivered(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def recorded(self) -> int: ...


class Answered(Protocol):
    """What a leader answered to an ack."""

    @property
    def unknown(self) -> list[int]: ...
    @property
    def journal(self) -> int: ...


class Configured(Protocol):
    """What a consumer was made with."""

    @property
    def max_deliver(self) -> int: ...
    @property
    def deliver(self) -> str: ...
    @property
    def patterns(self) -> tuple[str, ...]: ...


class ConsumerTold(Protocol):
    """What a leader tells of a consumer."""

    @property
    def number(self) -> int: ...
    @property
    def floor(self) -> int: ...
    @property
    def config(self) -> Configured: ...


class Consuming(Protocol):
    """A client's consumer."""

    @property
    def number(self) -> int: ...
    @property
    def config(self) -> Configured: ...
    async def info(self) -> ConsumerTold: ...
    async def reset(self, offset: int | None) -> ConsumerTold: ...
    async def fetch(self, messages: int, *, wait_ms: int) -> Sequence[Given]: ...
    async def settle(self, how: str, offsets: Sequence[int]) -> Answered: ...


P = TypeVar("P", bound=SendAnswer)


class ConsumerRecorder(ClientRecorder):
    """Of one log, `key`. Everything that is written to that log has to be published here."""

    def __init__(self, writer: HistoryWriter, key: str, *, first_process: int = 1) -> None:
        super().__init__(writer, first_process)
        self.key = key
        self._sender = RecordedSender(self)

    async def consumer(self, make: Callable[[], Awaitable[Consuming]]) -> RecordedConsumer:
        """Make a consumer, or find it. Where it begins is what its leader says then, since one that is found
        may have been reset by anybody, and a configuration says nothing of that.
        """

        async def made_and_told() -> tuple[Consuming, ConsumerTold]:
            made = await make()
            return made, await made.info()

        op_id, (made, told) = await self.doing("create-consumer", self.process(), made_and_told)
        consumer = RecordedConsumer(self, made)
        self.writer.ok(op_id, mops=[consumer.begins(told)])
        return consumer

    async def publish(self, value: str, publish: Callable[[], Awaitable[P]]) -> P:
        """`value`, which no other message of this log has."""

        def begin(process: int) -> int:
            return self.writer.invoke(process, "send", self.key, value)

        return await self._sender.send(begin, publish, partial(end_send, self.writer))

    async def final_read(self, read: Callable[[], Awaitable[Mapping[int, str]]]) -> Mapping[int, str]:
        """All that is in the log, value by offset, when nobody publishes any more."""
        op_id, there = await self.doing(FINAL_POLL, self.process(), read, Mop("poll", self.key))
        self.writer.ok_poll(op_id, self.key, sorted(there), [there[offset] for offset in sorted(there)])
        return there


class RecordedConsumer(RecordedClient):
    """A client's consumer whose answers are written down."""

    def __init__(self, recorder: ConsumerRecorder, consumer: Consuming) -> None:
        super().__init__(recorder)
        self.consumer = consumer
        self._recorder = recorder

    def _fact(self, f: str, offset: int | None, epoch: int | None = None) -> Mop:
        return Mop(f, self._recorder.key, offset, self.consumer.number, epoch)

    def begins(self, told: ConsumerTold) -> Mop:
        """From its floor on it is to give all. The client asks by name: another consumer may have it now."""
        config = self.consumer.config
        gives_all = config.deliver in GIVES_ALL and not config.patterns
        start = told.floor if gives_all and told.number == self.consumer.number else None
        return self._fact("consumer", start, config.max_deliver or None)

    async def reset(self, offset: int | None = None) -> ConsumerTold:
        """As the client's: another consumer takes this one's place."""
        op_id, told = await self._doing("create-consumer", lambda: self.consumer.reset(offset))
        self._recorder.writer.ok(op_id, mops=[self.begins(told)])
        return told

    async def fetch(self, messages: int = 100, *, wait_ms: int = 1000) -> Sequence[Given]:
        """As the client's."""
        op_id, given = await self._doing("pull", lambda: self.consumer.fetch(messages, wait_ms=wait_ms))
        facts: list[Mop] = []
        for one in given:
            value = (one.record.value or b"").decode()
            # Of one answer all have the same record and epoch.
            if not facts:
                facts.append(self._fact("pull", one.recorded or None, one.epoch))
            facts.append(Mop("deliver", self._recorder.key, one.record.offset, value, one.delivered))
        self._recorder.writer.ok(op_id, mops=facts)
        return given

    async def ack(self, *deliveries: Given) -> list[int]:
        """As the client's: the offsets that the leader does not know."""
        return await self._settle(ACKING, deliveries)

    async def term(self, *deliveries: Given) -> list[int]:
        """As `ack`, of what is given up."""
        return await self._settle(GIVING_UP, deliveries)

    async def _settle(self, how: str, deliveries: Sequence[Given]) -> list[int]:
        offsets = [one.record.offset for one in deliveries]
        asked = [self._fact("settle", offset) for offset in offsets]
        op_id, answered = await self._doing(how, lambda: self.consumer.settle(how, offsets), *asked)
        facts = [self._fact("settle", offset, answered.journal) for offset in offsets]
        facts += [self._fact("unknown-delivery", offset) for offset in answered.unknown]
        self._recorder.writer.ok(op_id, mops=facts)
        return answered.unknown

    async def floor(self) -> int:
        """Below which all is done, as the leader tells it."""
        op_id, told = await self._doing("consumer-info", self.consumer.info)
        # The client asks by name: another consumer may have it now.
        facts = [self._fact("floor", told.floor)] if told.number == self.consumer.number else []
        self._recorder.writer.ok(op_id, mops=facts)
        return told.floor
