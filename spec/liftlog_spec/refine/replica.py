"""A step of a replica as actions of the model, in the order in which the program does them.

What was applied of the metadata; the log that opened or failed; the message that came; what was appended and
synced; the HW; proposals; and the messages that went out. Each part says from the step alone what to try,
and the model judges. `compare.py` then compares the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from liftlog.trace.replica_lines import Letter, Pending, ReplicaState, ReplicaStep, Report
from liftlog_spec.refine.abstract import (
    APPLIED,
    CUT,
    FORMER,
    HERE,
    HW,
    INDEX,
    LOG,
    MAIL,
    MAIL_AT,
    MAIL_ENTRIES,
    MAIL_EPOCH,
    MAIL_FOLLOWER,
    MAIL_HW,
    MAIL_KIND,
    MAIL_LAST,
    MAIL_LEADER,
    MAIL_RUN,
    MAIL_TO,
    PENDING,
    PROGRESS,
    RECORDS,
    REMEMBERED,
    REPORT,
    RUN,
    START,
    SYNCED,
    TOLD,
    UP,
    VIEW,
    Abstract,
    Disagreement,
)
from liftlog_spec.refine.compare import NO_PROGRESS, compare
from liftlog_spec.refine.group import GroupPart
from liftlog_spec.refine.runs import epoch_before

OK, DIVERGED, BELOW_START = 0, 1, 5
"""Statuses of an answer that say something about logs (liftlog/messages/peers.py)."""


Question = tuple[int, int, int]
"""Whose answer counts at present, everything else that arrives is thrown away (R6): of which incarnation, in
which epoch, its number."""
PUBLISHED = ("Published", "LastsTold", "Mirrored", "TimerFired", "Received", "Durable")
"""The events in which a leader writes, some of it only when it knows the last record of a subject (L9), and
markers where that goes (R24); the third is the answer of a mirror's origin, of which some waits until the
journal is committed that says what is empty in it (R28). The model lets it write at any moment.
"""


WORKED = (
    *("ClientRequest", "SubjectsTold", "TimeFound", "Received", "Durable", "LogRead", "TimerFired"),
    *("LetterAnswered", "LastsTold", "Mirrored"),
)
"""Those in which it writes entries of the journal: it is asked to, it knows which messages a purge is about,
there are messages for who waits for them, what was given is due again, it says again what is gone, a dead
letter is stored, it knows of which messages that are over others of their subject remain (R24), or it is to
copy what has empty offsets (R28).
"""


class ReplicaPart:
    """What one node's processes do to their copy."""

    WRITES: ClassVar[tuple[str, ...]] = PUBLISHED

    def __init__(
        self, abstract: Abstract, group: GroupPart, place: int, lags_elsewhere: Callable[[int, int], bool]
    ) -> None:
        """`lags_elsewhere`: whether a leader does not know that another one, of these places, has all of the
        partition's other log.
        """
        self._lags_elsewhere = lags_elsewhere
        self.abstract = abstract
        self.group = group
        self.place = place
        self.start = 0
        self.last: ReplicaState | None = None
        self.question: Question | None = None

    def take(self, step: ReplicaStep, others: list[ReplicaPart]) -> None:
        """Explain one step. Raises Disagreement."""
        after = step.after
        if after is None:
            self._dropped()
            return
        if step.start != self.start:
            self.start, self.last = step.start, None
        before, self.last = self.last, after
        a, r = self.abstract, self.place
        state = a.state
        if state[APPLIED][r] < state[INDEX]:
            self._apply_metadata(after)
        if step.reports or after.state != "ready" or not a.state[UP][r]:
            self._log(step, before, after)
        cause = step.cause
        letter = cause.letter
        if letter is not None:
            if letter.kind != "answer":
                self._report(letter, after)
            elif before is not None and before.question and before.question != after.question:
                self._answer(letter, before, after)
        early: list[Letter] = []
        if a.state[UP][r]:
            self._moved(cause.event, after)
            early = [letter for letter in step.sent if self._is_early(letter, after)]
            for letter in early:
                self._answers(letter, others)
            self._commit(after)
        office = after.office
        if office is not None and office.pending is not None:
            self._propose(office.pending)
        for letter in step.sent:
            if letter in early:
                continue
            if letter.kind == "answer":
                self._answers(letter, others)
            else:
                self._asked(letter)
        self.question = (step.incarnation, after.epoch, after.question) if after.question else None
        compare(a, r, after)

    # -- metadata ------------------------------------------------------------------------------------------

    def _apply_metadata(self, after: ReplicaState) -> None:
        """R2: in order, as far as this node has applied it."""
        a, r = self.abstract, self.place
        if not a.state[HERE][r]:
            return
        while a.state[APPLIED][r] < a.state[INDEX]:
            if a.raft_index[a.state[APPLIED][r] + 1] > after.view.applied:
                return
            a.apply_next(r)

    def _dropped(self) -> None:
        """R20: it has seen that it is to have no copy any more."""
        self.group.drop(self.place)
        self.last = self.question = None

    # -- opening and failing -------------------------------------------------------------------------------

    def _log(self, step: ReplicaStep, before: ReplicaState | None, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        if a.state[UP][r] and after.state != "ready":
            a.do("LogFails", r)
        for report in step.reports:
            self._confess(report, failed=after.state == "failed")
        if after.state != "ready" or a.state[UP][r] or not a.state[HERE][r]:
            return
        if before is not None and before.state == "failed":
            if after.history and not after.damage:
                self._uncut(after.leo, a.epochs.get(after.history[-1][0], -1))
            model = (len(a.state[LOG][r]), a.state[SYNCED][r])
            if model != (after.leo, after.leo) or a.state[FORMER][r]:
                a.do("LogIsBack", r, after.leo)
        leads = after.view.leader == a.members[r]
        if not leads or after.role == "leader":
            a.do("Open", r, min(after.hw, a.state[REMEMBERED][r], after.leo))

    def _confess(self, report: Report, *, failed: bool) -> None:
        a, r = self.abstract, self.place
        log, epoch = a.state[LOG][r], a.epochs.get(report.epoch, -1)
        if failed and report.leo < a.state[SYNCED][r]:
            a.do("LogIsShort", r, report.leo)
            return
        said = (r, a.state[RUN][r], epoch, report.leo, report.shortfall)
        if said in a.state[TOLD]:
            self.group.confessed(said)
        if epoch_before(log, report.leo) != epoch:
            for old in a.state[FORMER][r]:
                if epoch_before(old[0], report.leo) == epoch:
                    a.do("ConfessOfBefore", r, report.shortfall, old)
                    return
        a.do("Confess", r, report.leo, report.shortfall)

    def _uncut(self, leo: int, epoch: int) -> None:
        """R8: a failed log is back as it was before its last cut, which was not durable."""
        a, r = self.abstract, self.place
        log, synced = a.state[LOG][r], a.state[SYNCED][r]
        if epoch_before(log, leo) == epoch:
            return
        for old in a.state[FORMER][r]:
            text, durable, cut = old
            if min(max(durable, synced), cut) <= leo and epoch_before(text, leo) == epoch:
                a.do("CutIsUndone", r, leo, old)
                return

    # -- messages that came --------------------------------------------------------------------------------

    def _report(self, letter: Letter, after: ReplicaState) -> None:
        """R2: a leader counts what a follower reports."""
        a, r = self.abstract, self.place
        office, state = after.office, a.state
        f = a.place.get(letter.sender)
        if office is None or f is None or not state[UP][r]:
            return
        known = office.progress.get(letter.sender, NO_PROGRESS)[1]
        if known <= state[PROGRESS][r][f]:
            return
        run = a.run_of(f, letter.incarnation)
        epoch = a.epochs.get(letter.epoch, -1)
        wanted = (REPORT, f, r, epoch, run, letter.offset)
        reported = min(letter.durable, letter.offset)
        last = a.epochs.get(letter.last_epoch, -1)
        for message in state[MAIL]:
            same = message[MAIL_TO] == reported and message[:MAIL_LAST] == wanted
            if same and (message[MAIL_LAST] == last or not letter.last_epoch):
                a.do("ReportArrives", r, message)
                return
        raise Disagreement(
            "ReportArrives",
            f"node {letter.sender} has not reported {known} of {letter.offset} in epoch {letter.epoch} "
            f"as incarnation {letter.incarnation}, or that was used before",
        )

    def _answer(self, letter: Letter, before: ReplicaState, after: ReplicaState) -> None:
        """R6, R8: the question was answered, and the answer used."""
        a, r = self.abstract, self.place
        if letter.status == OK:
            self._records(letter, after)
        elif letter.status == DIVERGED:
            if after.leo == before.leo and after.log_start == before.log_start:
                return
            message = self._find(CUT)
            a.do("CutToNothing" if after.log_start < before.log_start else "CutArrives", r, message)
        elif letter.status == BELOW_START:
            a.do("StartArrives", r, self._find(START))

    def _records(self, letter: Letter, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        at = len(a.state[LOG][r])
        end, hw = max(letter.end, at), letter.hw
        for message in a.state[MAIL]:
            if message[MAIL_KIND] != RECORDS or message[MAIL_FOLLOWER] != r or message[MAIL_HW] != hw:
                continue
            if message[MAIL_AT] == at and at + len(message[MAIL_ENTRIES]) == end:
                a.do("RecordsArrive", r, after.leo, message)
                return
        raise Disagreement(
            "RecordsArrive",
            f"no answer with the records up to {end} and HW {letter.hw} is on its way to node {a.members[r]}",
        )

    def _find(self, kind: int) -> tuple[Any, ...]:
        a, r = self.abstract, self.place
        found: tuple[Any, ...]
        for found in a.state[MAIL]:
            if found[MAIL_KIND] == kind and found[MAIL_FOLLOWER] == r:
                return found
        what = "cut" if kind == CUT else "begin anew"
        raise Disagreement("", f"nobody has told node {a.members[r]} to {what}")

    # -- what moved ----------------------------------------------------------------------------------------

    def _moved(self, event: str, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        leads = after.role == "leader"
        if leads:
            written = after.leo - len(a.state[LOG][r])
            if written > 0 and event not in self.WRITES:
                text = f"node {a.members[r]} writes up to {after.leo} although nothing was published to it"
                raise Disagreement("Write", text)
            for _ in range(written):
                a.do("Write", r)
        state = a.state
        synced = state[SYNCED][r]
        if not after.waiting:
            if synced < after.durable or state[FORMER][r]:
                a.do("Sync", r)
        elif synced < after.durable:
            a.do("SyncSome", r, after.durable)

    def _is_early(self, letter: Letter, after: ReplicaState) -> bool:
        """Whether it went out before the HW moved, in the same step: entries for consumers are written, and
        sent to who waits for them, because the other log has moved; then comes this one.
        """
        return letter.kind == "answer" and letter.status == OK and letter.hw == self._hw < after.hw

    @property
    def _hw(self) -> int:
        hw: int = self.abstract.state[HW][self.place]
        return hw

    def _commit(self, after: ReplicaState) -> None:
        if after.role == "leader" and after.hw > self._hw:
            self.abstract.do("Commit", self.place)

    def _propose(self, change: Pending) -> None:
        a, r = self.abstract, self.place
        who = a.place.get(change.who, -1)
        if who == a.state[PENDING][r]:
            return
        lags = who >= 0 and a.state[PROGRESS][r][who] < len(a.state[LOG][r])
        if not change.joins and not lags and self._lags_elsewhere(r, who):
            a.do("RemoveForOtherLog", r, who)
        else:
            a.do("ProposeAddition" if change.joins else "ProposeRemoval", r, who)

    # -- messages that went out ----------------------------------------------------------------------------

    def _answers(self, letter: Letter, others: list[ReplicaPart]) -> None:
        a, r = self.abstract, self.place
        f = a.place.get(letter.receiver)
        if f is None:
            return
        state = a.state
        if others[f].question != (letter.incarnation, letter.epoch, letter.request) or not state[UP][f]:
            # Nobody waits for it any more: whatever it says, it is thrown away where it arrives.
            return
        status = letter.status
        if status == OK:
            at = len(state[LOG][f])
            end = letter.end or at
            if end > at and not letter.first <= at:
                raise Disagreement(
                    "Answer", f"the records of offset {at} on are wanted, it begins at {letter.first}"
                )
            if letter.hw != state[HW][r]:
                raise Disagreement("Answer", f"it says HW {letter.hw}, but that is {state[HW][r]}")
            a.do("Answer", f, r, max(end, at))
        elif status == DIVERGED:
            a.do("AnswerWithCut", f, r)
        elif status == BELOW_START:
            a.do("AnswerWithStart", f, r, letter.log_start)

    def _asked(self, letter: Letter) -> None:
        a, r = self.abstract, self.place
        self._forget_useless()
        a.do("Ask" if letter.kind == "fetch" else "Tell", r, min(letter.durable, letter.offset))
        log: Any = a.state[LOG][r]
        size = len(log)
        last = log[size - 1][0] if size else 0
        offset, epoch = letter.offset, a.epochs.get(letter.last_epoch, -1)
        if offset != size or (epoch != last and letter.last_epoch):
            raise Disagreement(
                "Ask", f"it names offset {offset} after epoch {epoch}, but has {size} up to epoch {last}"
            )

    def _forget_useless(self) -> None:
        """Reports that can change nothing any more, since others that say as much have arrived."""
        a, r = self.abstract, self.place
        for message in a.state[MAIL]:
            if message[MAIL_KIND] != REPORT or message[MAIL_FOLLOWER] != r:
                continue
            leader = message[MAIL_LEADER]
            _, epoch, _, _, runs, _ = a.state[VIEW][leader]
            over = epoch > message[MAIL_EPOCH] or runs[r] > message[MAIL_RUN]
            known = epoch == message[MAIL_EPOCH] and runs[r] == message[MAIL_RUN]
            if over or (known and a.state[PROGRESS][leader][r] >= message[MAIL_TO]):
                a.do("IsLost", message)


class JournalPart(ReplicaPart):
    """Of the partition's journal (ADR 0062)."""

    WRITES: ClassVar[tuple[str, ...]] = WORKED
