"""A partition that holds so much at most refuses new messages, and lets no old ones go (C6).

Its leader counts from the log start to the end of its own log, committed or not: what is not committed yet
may become so. So however leaders change, no partition comes to hold more; what a leader that died has refused
may be taken by the next one. Where there is a journal, what it says to be gone counts for nothing (R21), as
far as the leader heeds that. Room comes of whatever removes messages, of retention and purges.

    messages    the length of the log without what is gone
    bytes       what the subject index says of what is committed (S1), and what was appended behind it since.
                What goes meanwhile is not taken off: so it is at most too much. Who finds no room by that is
                judged when it was counted anew, and waits until then, as for the last of its subject (L9)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.log import LogState
from liftlog.format import RECORD_HEAD_BYTES, decode_records
from liftlog.messages import ERR_FULL, NEWEST_BYTES, SubjectsFolded, SubjectsTold
from liftlog.options.wishes import Wishes
from liftlog.sizes import OF_EACH, OF_HEADERS, message_bytes
from liftlog.types import Batch, Message

NOTES_MAX = 512
"""So many appends are remembered apart; beyond, two at a time become one."""
COUNTS_A_TICK = 3
"""Where messages go all the time, the last of so many counts is believed."""


class NotNow(NamedTuple):
    """The `number`-th of the messages that came cannot be taken at present: one of the ERR_* codes, and why.
    """

    number: int
    code: str
    text: str


class SizeCount(NamedTuple):
    """Messages below `until`, at the log start and above, count for so many bytes, without what was heeded to
    be gone below journal offset `folded`.
    """

    until: int
    folded: int
    log_start: int
    size: int


def is_bounded(log: LogState) -> bool:
    """Whether anything is to be counted."""
    config = log.config
    return config is not None and max(config.holds_most, config.holds_bytes, config.holds_of_subject) > 0


def counted_bytes(message: Message, wish: Wishes) -> int:
    """What a message counts for when it is stored, or a parcel's together: at most, since options in headers
    and keys may be taken apart.
    """
    if wish.parcel is not None:
        return len(wish.parcel.plain) + wish.span * (OF_EACH + OF_HEADERS - RECORD_HEAD_BYTES)
    return message_bytes(len(message.subject), len(message.headers), len(message.value))


class PartitionRoom:
    """Of one leadership."""

    __slots__ = ("_asked_of", "_begin", "_count", "_counts", "_ctx", "_log", "_notes", "_removed", "asked")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._removed: Removed | None = None
        self._begin = -1
        """Appends are noted from here on; -1: they are not."""
        self._notes: list[tuple[int, int]] = []
        """Of each: where it ended, and its bytes."""
        self._count: SizeCount | None = None
        self._asked_of = SizeCount(0, 0, 0, 0)
        self._counts = (0, 0)
        """In which tick it was counted last, and how often."""
        self.asked = 0
        """The question that storage has; 0 = none."""

    def heed(self, removed: Removed) -> None:
        """The partition has a journal, which says that these are gone."""
        self._removed = removed

    # -- judging ---------------------------------------------------------------------------------------

    def fits(self, place: int, wish: Wishes, message: Message, taken: int) -> bool | None:
        """Whether a message may be stored that would come to lie there, behind others of `taken` bytes that
        are to be stored with it; a parcel as a whole. None: it is to be counted first.
        """
        config = self._log.config
        if config is None:
            return True
        messages = self._holds(place, wish, config.holds_most) if config.holds_most else True
        if messages is not True or not config.holds_bytes:
            return messages
        size = counted_bytes(message, wish)
        return size <= config.holds_bytes and self._has(size, taken, config.holds_bytes)

    def _holds(self, place: int, wish: Wishes, most: int) -> bool | None:
        """C6: by number."""
        log, ctx, removed = self._log, self._ctx, self._removed
        span = 1 if ctx.mutants.full_counts_parcel_once else wish.span
        end = (log.hw if ctx.mutants.full_by_committed else place) + span
        held = end - log.log_start
        if held > most and removed is not None:
            if not removed.heeds_all:
                return None
            held -= removed.hidden(log.history).count(log.log_start, place)
        return ctx.decides(("C6.full", held <= most))

    def _has(self, size: int, taken: int, most: int) -> bool | None:
        """C6: by bytes. A refusal rests on what is committed and counted, or on the last of many counts."""
        count, removed = self._count, self._removed
        if self._begin < 0:
            self._begin = self._log.leo
        if count is not None:
            noted = 0 if self._ctx.mutants.full_by_counted else sum(one for _, one in self._notes)
            if count.size + noted + taken + size <= most:
                return True
        if removed is None or count is None or not self._is_told(count, removed, most - size):
            self.ask()
            return None
        return self._ctx.decides(("C6.full-bytes", False))

    def _is_told(self, count: SizeCount, removed: Removed, most: int) -> bool:
        """Whether so much may be said to be exceeded."""
        tick, often = self._counts
        same = (count.folded, count.log_start) == (removed.folded, self._log.log_start) and count.size > most
        return removed.heeds_all and (same or (tick == self._ctx.ticks and often >= COUNTS_A_TICK))

    def refusal(self, number: int, place: int, subject: bytes = b"") -> NotNow:
        """What the publisher of the `number`-th message is told, which would have come to lie at `place`.
        `subject`: the one that holds as much as it may; empty: the partition does.
        """
        config, log = self._log.config, self._log
        assert config is not None
        name, most, size = config.name, config.holds_most, config.holds_bytes
        held = place - log.log_start
        if self._removed is not None:
            held -= self._removed.hidden(log.history).count(log.log_start, place)
        what, option = f"messages exceeded: this partition holds {held} of {most}", "messages-max"
        if size and not 0 < most <= held:
            what, option = f"bytes exceeded: this partition holds no more than {size}", "bytes-max"
        if subject:
            shown, option = subject.decode("utf-8", "backslashreplace")[:64], "subject-messages-max"
            what = f"messages per subject exceeded: {shown!r} holds no more than {config.holds_of_subject}"
        text = (
            f"maximum {what}; let some go (liftlog stream purge {name} --before OFFSET), or allow more: "
            f"liftlog stream alter {name} --{option} N"
        )
        return NotNow(number, ERR_FULL, text)

    # -- what is appended, and counted -----------------------------------------------------------------

    def appended(self, batches: Sequence[Batch]) -> None:
        """The leader has appended these."""
        if self._begin < 0:
            return
        config = self._log.config
        if config is None or not config.holds_bytes:
            self._begin, self._notes, self._count = -1, [], None
            return
        size = 0
        for batch in batches:
            for record in decode_records(batch):
                size += message_bytes(len(record.subject), len(record.headers), len(record.value or b""))
        self._notes.append((batches[-1].end_offset, size))
        if len(self._notes) > NOTES_MAX:
            pairs = zip(self._notes[::2], self._notes[1::2], strict=False)
            odd = self._notes[len(self._notes) // 2 * 2 :]
            self._notes = [(end, first + second) for (_, first), (end, second) in pairs] + odd

    def ask(self) -> None:
        """Have the index say how much there is, up to what is committed."""
        log, removed = self._log, self._removed
        if self.asked or self._begin < 0 or removed is None or not removed.heeds_all:
            return
        counted = self._count.until if self._count is not None else self._begin
        until = max((end for end, _ in self._notes if end <= log.hw), default=counted)
        if until > log.hw or not index_reaches(log, until):
            return
        self._asked_of = SizeCount(until, removed.folded, log.log_start, 0)
        gone = removed.hidden(log.history)
        self.asked = ask_subjects(log, log, what=NEWEST_BYTES, least=until, until=until, gone=gone)

    def told(self, event: SubjectsTold | SubjectsFolded) -> None:
        """The answer to the question `asked`."""
        self.asked = 0
        if isinstance(event, SubjectsFolded):
            self._log.index.reached(event.folded, event.ready)
        elif not event.error and self._begin >= 0:
            self._ctx.mark("C6.counted")
            tick, often = self._counts
            self._counts = self._ctx.ticks, often + 1 if tick == self._ctx.ticks else 1
            self._count = self._asked_of._replace(size=event.size)
            self._notes = [one for one in self._notes if one[0] > self._count.until]
