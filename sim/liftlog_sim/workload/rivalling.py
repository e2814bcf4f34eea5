"""Publishers that compare and set by subject: by what they were told, or others, and some lag (L9). And those
that are refused since a subject is full (C6).
"""

from __future__ import annotations

from liftlog.messages import ERR_FULL, RefusePublishes
from liftlog.types import NO_OFFSET, PartitionId
from liftlog_sim.chance.draws import Draws
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.lasts import CrowdedSubject, ExpectedLast, LastsJudge
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.targets import WORDS, Target

OF_ANOTHER = 0.2
"""How often another subject is meant than the message's own."""
ASKS_OTHERS = 0.7
"""How often a publisher goes by what any of them was told, and not by what it was told itself."""
TOO = 0.9
"""How often the later messages of a burst expect what its first one does; mostly they are refused."""


OF_A_SUBJECT = "per subject"
"""What a refusal says that is about one subject (C6)."""


class Rivalry:
    """What one publisher knows of the last records of subjects, and what it expects."""

    __slots__ = ("_account", "_crowded", "_known", "_shared")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._account = shared.account
        self._known: dict[tuple[PartitionId, bytes], int] = {}
        self._crowded: dict[bytes, CrowdedSubject] = {}
        """By value that was sent on a subject that may be full."""

    def lines(self, target: Target, subject: bytes, value: bytes, place: int, draws: Draws) -> list[bytes]:
        """The headers of the burst's message at this place that say so; and it is noted."""
        self._may_be_full(target, subject, value)
        share = self._shared.cluster.knobs.expecting_lasts
        if not share:
            return []
        self._shared.sent_on[value] = subject
        if draws.part("burst").random() >= share or (place and draws.part("too", place).random() >= TOO):
            return []
        another = draws.part("another").random() < OF_ANOTHER
        compared = target.subject_with(draws.part("word").choice(WORDS)) if another else subject
        known = self._shared.last_known if draws.part("asks").random() < ASKS_OTHERS else self._known
        last = known.get((target.partition, compared), NO_OFFSET)
        last = max(NO_OFFSET, last + draws.part("wrong").choice((0, 0, 0, 0, 0, 0, 0, -1, 1)))
        hw = self._account.truth(target.partition).hw
        journal = self._account.truth(target.partition.journal).hw if target.config.has_journal else 0
        self._shared.lasts[value] = ExpectedLast(last, compared, hw, journal)
        lines = [b"Nats-Expected-Last-Subject-Sequence: %d" % (last + 1)]
        if not another and draws.part("ours").random() < 0.5:
            shown = b"none" if last == NO_OFFSET else b"%d" % last
            lines = [b"Liftlog-Expected-Last-Subject-Offset: " + shown]
        return [*lines, b"Nats-Expected-Last-Subject-Sequence-Subject: " + compared] if another else lines

    def others(self, target: Target) -> tuple[bytes, ...]:
        """Which subjects the records of a parcel may have beside its message's."""
        if not self._shared.cluster.knobs.expecting_lasts:
            return ()
        return tuple(target.subject_with(word) for word in WORDS)

    def acked(self, value: bytes, partition: PartitionId, offset: int) -> None:
        """It is stored there. StoredAsExpected."""
        if (subject := self._shared.sent_on.get(value)) is not None:
            last = max(offset, self._shared.last_known.get((partition, subject), NO_OFFSET))
            self._told(partition, subject, last)
        expected = self._shared.lasts.get(value)
        truth = self._account.truth(partition)
        if expected is None or offset >= truth.hw:
            return
        self._account.checks.counts["StoredAsExpected"] += 1
        problem = self._judge(partition).stored(expected, offset)
        if problem:
            text = f"partition {partition} acknowledged {value.decode()} at {offset}{problem}"
            self._account.fail(Violation("StoredAsExpected", text))

    def refused(self, value: bytes, refusal: RefusePublishes) -> None:
        """It is not: perhaps since another record is the last, or its subject is full."""
        if refusal.last_offset is not None:
            self._another_is_last(value, refusal, refusal.last_offset)
        elif refusal.code == ERR_FULL and OF_A_SUBJECT in refusal.description:
            self._is_full(value, refusal)

    def _may_be_full(self, target: Target, subject: bytes, value: bytes) -> None:
        """C6: this is sent now."""
        most = target.config.holds_of_subject
        if most:
            account, partition = self._account, target.partition
            # What a purge that was not answered has let go of one copy the next leader may still have.
            start = account.truth(partition).purged
            journal = account.truth(partition.journal).hw
            self._crowded[value] = CrowdedSubject(subject, most, start, journal)

    def _is_full(self, value: bytes, refusal: RefusePublishes) -> None:
        """C6: it was refused for that, and not since it is too many by itself. RefusedTruly."""
        full = self._crowded.get(value)
        if full is None or len(self._account.parcels.of(value)) > 1:
            return
        if repr(full.subject.decode()) not in refusal.description:
            # Of a parcel of one record, which may have another subject than its message.
            return
        self._account.checks.counts["RefusedTruly"] += 1
        self._account.count("refused for full subjects")
        problem = self._judge(refusal.partition).full(full)
        if problem:
            text = f"partition {refusal.partition} refused {value.decode()}{problem}"
            self._account.fail(Violation("RefusedTruly", text))

    def _another_is_last(self, value: bytes, refusal: RefusePublishes, last: int) -> None:
        """It is not, since another record is the last. RefusedTruly."""
        expected = self._shared.lasts.get(value)
        partition = refusal.partition
        if expected is None:
            # Of a parcel the first value alone is known to have said so.
            return
        self._told(partition, expected.subject, last)
        self._shared.last_told.setdefault(value, last)
        self._account.checks.counts["RefusedTruly"] += 1
        problem = self._judge(partition).refused(expected, last, self._account.truth(partition).hw)
        if problem:
            text = f"partition {partition} refused {value.decode()}{problem}"
            self._account.fail(Violation("RefusedTruly", text))

    def _told(self, partition: PartitionId, subject: bytes, last: int) -> None:
        self._known[partition, subject] = self._shared.last_known[partition, subject] = last

    def _judge(self, partition: PartitionId) -> LastsJudge:
        account = self._account
        target = next(target for target in self._shared.targets if target.partition == partition)
        contents, start = account.truth(partition).contents, account.furthest_start(partition)
        judge = LastsJudge(contents, start, target.config.compact)
        if target.config.has_journal:
            return judge._replace(deleted=account.deletions(partition).end_of)
        return judge
