"""K9: what the leader of a partition does with messages that were delivered for the last time.

    dead       an entry says that a message is delivered no more (`Dead`). It is pending as it was, and takes
               its place among what may be pending; no ack counts any more
    published  when that entry is committed: so nothing is published that could be acked yet. By every leader,
               always under the same id, again and again, ever more seldom
    done       an entry says so when a stream has acknowledged it

A leader that is replaced forgets what it has published; the next one finds in the journal what is dead, and
publishes that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Protocol

from liftlog.core.consumers.entries import ConsumerEntry, Dead
from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.letters import letter_headers, letter_id, letter_problem
from liftlog.core.consumers.state import Consumer
from liftlog.core.metadata.subjects import listened_to
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.tail import cut_batches
from liftlog.format import CorruptBatch, decode_records
from liftlog.messages import LetterAnswered, LogRead, PublishLetter, ReadLog, runs_of
from liftlog.types import Batch, LiftlogError, Record

LETTERS_MAX = 64
"""So many of one consumer are on their way at once: the first ones that are dead."""
AGAIN_MS = 2000
AGAIN_MAX_MS = 60_000
"""What was not acknowledged for so long is published again: twice as long after each time."""


def stored_subjects(data: LogState) -> Sequence[str]:
    """On which subjects this partition stores messages."""
    return listened_to(data.config, data.id.index) if data.config is not None else ()


class LetterDesk(Protocol):
    """Who writes entries: the leader."""

    def write(self, entry: ConsumerEntry) -> int: ...

    def end_letter(self, number: int, offset: int, how: str) -> None:
        """Write that it is done."""
        ...


class LetterOut:
    """One that was published, or is about to be."""

    __slots__ = ("again_at", "problem", "times", "token")

    def __init__(self, token: int) -> None:
        self.token = token
        self.times = 0
        self.again_at = 0
        """At this tick it is published again."""
        self.problem = ""

    def sent(self, again_at: int) -> None:
        """It was published, once more."""
        self.times += 1
        self.again_at = again_at

    def says(self, problem: str) -> None:
        """Why it is not stored."""
        self.problem = problem


class DeadLetters:
    """Of one leader. `epoch`: that of its office."""

    __slots__ = (
        *("_by_token", "_ctx", "_data", "_desk", "_epoch", "_letters", "_own", "_reads", "_removed"),
        "request",
    )

    def __init__(self, data: LogState, removed: Removed, epoch: int, desk: LetterDesk) -> None:
        self._ctx = data.ctx
        self._data = data
        self._removed = removed
        self._epoch = epoch
        self._desk = desk
        self._letters: dict[tuple[int, int], LetterOut] = {}
        """By consumer and offset."""
        self._by_token: dict[int, tuple[int, int]] = {}
        self._own: set[tuple[int, int]] = set()
        """What has died in this office; for a planted bug."""
        self._reads = 0, 0
        self.request = 0
        """The read of storage that is under way, for the letter of `_reads`; 0 = none."""

    def bury(self, flight: Flight, offsets: Iterable[int], how: str) -> int:
        """Write that these were delivered for the last time. Where the entry ends."""
        dying = list(offsets)
        end = self._desk.write(Dead(flight.consumer.number, how, runs_of(dying)))
        flight.dies(dying, end)
        if self._ctx.mutants.inherited_letters_left:
            self._own |= {(flight.consumer.number, offset) for offset in dying}
        self._ctx.mark("K9.dead")
        return end

    def problem_of(self, consumer: Consumer) -> str:
        """Why one of its letters is not stored yet, as far as this leader knows."""
        found = (self._letters.get((consumer.number, offset)) for offset in consumer.dead)
        return next((letter.problem for letter in found if letter is not None and letter.problem), "")

    def problems(self) -> dict[str, str]:
        """By the names of consumers: what the log tells."""
        told = {one.name: self.problem_of(one) for one in self._removed.consumers.dying.values()}
        return {name: problem for name, problem in told.items() if problem}

    # -- publishing -------------------------------------------------------------------------------

    def work(self) -> None:
        """Publish what is dead by what is committed, and was not published for a while."""
        for _, consumer in sorted(self._removed.consumers.dying.items()):
            for offset in list(islice(consumer.dead, LETTERS_MAX)):
                if not self._ctx.mutants.inherited_letters_left or (consumer.number, offset) in self._own:
                    self._go_on(consumer, offset)
        for named in [named for named in self._letters if not self._is_dead(*named)]:
            del self._by_token[self._letters.pop(named).token]

    def _is_dead(self, number: int, offset: int) -> bool:
        consumer = self._removed.consumers.by_number.get(number)
        return consumer is not None and offset in consumer.dead

    def _go_on(self, consumer: Consumer, offset: int) -> None:
        named = consumer.number, offset
        letter = self._letters.get(named)
        if letter is None:
            letter = self._letters[named] = LetterOut(self._ctx.new_ticket())
            self._by_token[letter.token] = named
        if self._ctx.ticks < letter.again_at:
            return
        if not consumer.config.dead_letter:
            # It was altered meanwhile: nobody wants it.
            self._desk.end_letter(*named, consumer.dead[offset])
            return
        if problem := letter_problem(consumer.config, stored_subjects(self._data)):
            letter.says(problem)
            return
        batches = self._data.cached(offset, self._data.hw, 1)
        if batches:
            self._publish(consumer, offset, batches)
        elif not self.request and self._ctx.reads.has_place(self._data.id):
            self._reads, self.request = named, self._ctx.new_ticket()
            self._ctx.reads.begin(self._data.id, self.request)
            self._ctx.effects.append(ReadLog(self._data.id, self.request, offset, self._data.hw, 1))

    def on_read(self, event: LogRead) -> None:
        """Storage has read it, or could not: then it is tried again."""
        self.request = 0
        number, offset = self._reads
        if event.error or not self._is_dead(number, offset):
            return
        consumer = self._removed.consumers.by_number[number]
        if (number, offset) in self._letters:
            self._publish(consumer, offset, cut_batches(self._data.id, event.batches, self._data.hw))

    def _publish(self, consumer: Consumer, offset: int, batches: list[Batch]) -> None:
        letter = self._letters[consumer.number, offset]
        wait_ms = min(AGAIN_MS << min(letter.times, 10), AGAIN_MAX_MS)
        letter.sent(self._ctx.ticks + self._ctx.ticks_of(wait_ms))
        try:
            record = self._record(offset, batches)
        except (CorruptBatch, LiftlogError) as error:
            letter.says(str(error))
            return
        config = self._data.config
        if record is None or config is None:
            return  # It is gone, and is written off as such (K7).
        if letter.times > 1:
            self._ctx.mark("K9.again")
        log, epoch = self._data.id, self._data.history.epoch_before(offset + 1)
        unlike = self._epoch if self._ctx.mutants.letter_id_of_leader else epoch
        id = letter_id(config.name, log, consumer.number, offset, unlike)
        effect = PublishLetter(
            partition=log,
            epoch=self._epoch,
            token=letter.token,
            subject=consumer.config.dead_letter,
            headers=letter_headers(config.name, log, consumer, record, id),
            value=record.value or b"",
        )
        self._ctx.effects.append(effect)
        if self._ctx.mutants.letter_done_when_sent:
            self._desk.end_letter(consumer.number, offset, consumer.dead[offset])

    def _record(self, offset: int, batches: list[Batch]) -> Record | None:
        """The record at an offset, if it is there. Raises CorruptBatch, LiftlogError."""
        for batch in self._removed.visible(self._data.id, batches):
            for record in decode_records(batch):
                if record.offset == offset:
                    return record
        return None

    def answered(self, event: LetterAnswered) -> None:
        """A stream has stored one, or somebody says why not."""
        named = self._by_token.get(event.token)
        if named is None or not self._is_dead(*named):
            return
        if event.problem:
            self._ctx.mark("K9.refused")
            self._letters[named].says(event.problem)
            return
        self._ctx.mark("K9.stored")
        self._desk.end_letter(*named, self._removed.consumers.by_number[named[0]].dead[named[1]])
