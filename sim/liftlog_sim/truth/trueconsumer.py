"""One consumer, as the committed entries of a journal and the answers to clients have it."""

from __future__ import annotations

from liftlog.core.consumers.entries import Created
from liftlog.messages import ConsumerConfig, Counted, PullReply, offsets_of
from liftlog.subjects.grammar import matches
from liftlog.types import Record

Standing = tuple[int, str, int, tuple[tuple[int, int], ...], int, tuple[tuple[int, str], ...]]
"""Number, name, position, how often each pending message was delivered, how many deliveries there are, and
which of those that are pending are dead, and why."""


class TrueConsumer:
    """One consumer, by the committed entries so far. Each end is an offset of the journal."""

    __slots__ = (
        *("config", "created", "deleted", "done", "handed", "number", "pending"),
        *("lasts", "numbered", "position", "said", "sequence", "served_us", "since", "standing", "told"),
        *("dead", "letters", "most", "passed", "refiltered", "unrecorded"),
    )

    def __init__(self, number: int, created: Created) -> None:
        self.number = number
        self.created = created
        self.config = created.config
        """As it was altered last."""
        self.most = created.config.max_deliver
        """Its greatest limit so far; 0 = it once had none."""
        self.position = created.start
        self.since = created.since
        self.lasts = frozenset(offsets_of(created.lasts))
        """What it is given below `since`."""
        self.pending: dict[int, int] = {}
        self.dead: dict[int, str] = {}
        """K9: of those that are pending, which were delivered for the last time, and why."""
        self.letters: set[int] = set()
        """Of which the letter is committed."""
        self.done: dict[int, int] = {}
        """By offset: where the entry ends that says so first."""
        self.passed: set[int] = set()
        """What other filters, which it had before, left out."""
        self.refiltered = 0
        """So often its filters were altered."""
        self.deleted = 0
        """Where the entry ends that says so; 0 = it is there."""
        self.told = False
        """Whether somebody was told that it is deleted."""
        self.handed: dict[int, list[PullReply]] = {}
        """What clients were given, by offset."""
        self.sequence = 0
        self.numbered: dict[tuple[int, int], list[Counted]] = {}
        """By the epoch of its entry, and the number of its first delivery: what was delivered."""
        self.unrecorded: dict[tuple[int, int], PullReply] = {}
        """What was given without a record, by the same."""
        self.said: set[int] = set()
        """Of which a client has said that it is done."""
        self.served_us = -(1 << 60)
        """When the ack was asked for that was answered last."""
        self.standing: Standing = self.stands()

    def stands(self) -> Standing:
        pending = tuple(sorted(self.pending.items()))
        dead = tuple(sorted(self.dead.items()))
        return self.number, self.created.name, self.position, pending, self.sequence, dead

    @property
    def limit(self) -> int:
        return self.config.max_deliver

    def altered(self, config: ConsumerConfig) -> None:
        """It has this configuration now. K6: other filters hold from its position on."""
        if config.patterns != self.config.patterns:
            below = range(self.created.start, self.position)
            self.passed = {offset for offset in below if offset not in self.pending}
            self.refiltered += 1
        self.config = config
        self.most = max(self.most, config.max_deliver) if self.most and config.max_deliver else 0

    def lets(self, record: Record | None) -> bool:
        """Whether its filters do."""
        subject = record.subject.decode() if record is not None else ""
        patterns = self.config.patterns
        return not patterns or any(matches(pattern, subject) for pattern in patterns)

    def wants(self, offset: int, record: Record | None) -> bool:
        """Whether it is to be given what it was not given yet."""
        return offset in self.lasts if offset < self.since else self.lets(record)

    def rewound(self, to: int) -> None:
        """From there on the messages are other ones than those that were delivered."""
        self.position = min(self.position, to)
        self.since = min(self.since, to)
        self.letters = {offset for offset in self.letters if offset < to}
        self.passed = {offset for offset in self.passed if offset < to}
        self.dead = {offset: how for offset, how in self.dead.items() if offset < to}
        for kept in (self.pending, self.done):
            for offset in [offset for offset in kept if offset >= to]:
                del kept[offset]
        for offset in [offset for offset in self.handed if offset >= to]:
            del self.handed[offset]
