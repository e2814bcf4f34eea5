"""A step of a replica as actions of the model, in the order in which the program does them.

What was applied of the metadata; the log that opened or failed; the message that came; what was appended and
synced; the HW; proposals; and the messages that went out. Each part says from the step alone what to try,
and the model judges. `compare.py` then compares the whole.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from liftlog.core.steps import Letter, ReplicaState, ReplicaStep
from spec.refine.abstract import CUT, RECORDS, REPORT, START, Abstract, Disagreement, Mail
from spec.refine.compare import compare
from spec.refine.group import GroupPart

OK, DIVERGED, BELOW_START = 0, 1, 5
"""Statuses of an answer that say something about logs (liftlog/messages/peers.py)."""


class Question(NamedTuple):
    """Whose answer counts at present: everything else that arrives is thrown away (R6)."""

    start: int
    incarnation: int
    epoch: int
    number: int


PUBLISHED = "Published"
"""The event in which a leader writes; the model lets it write at any moment."""


class ReplicaPart:
    """What one node's processes do to their copy."""

    def __init__(self, abstract: Abstract, group: GroupPart, place: int) -> None:
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
            return
        if step.start != self.start:
            self.start, self.last = step.start, None
        before, self.last = self.last, after
        self._apply_metadata(after)
        self._log(step, before, after)
        if step.cause.letter is not None:
            self._received(step.cause.letter, before, after)
        self._moved(step.cause.event, after)
        self._propose(after)
        for letter in step.sent:
            self._sent(letter, others)
        awaited = after.question and Question(step.start, step.incarnation, after.epoch, after.question)
        self.question = awaited or None
        compare(self.abstract, self.place, after)

    # -- metadata ------------------------------------------------------------------------------------------

    def _apply_metadata(self, after: ReplicaState) -> None:
        """R2: in order, as far as this node has applied it."""
        a, r = self.abstract, self.place
        if not a["here"][r]:
            return
        while a["applied"][r] < a["index"]:
            following = a["applied"][r] + 1
            if a.raft_index[following] > after.view.applied:
                return
            coming = a["news"][following][0]
            a.do("ApplyInEpoch" if coming[1] == a.view(r).epoch else "ApplyNewEpoch", r)

    # -- opening and failing -------------------------------------------------------------------------------

    def _log(self, step: ReplicaStep, before: ReplicaState | None, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        if a["up"][r] and after.state != "ready":
            a.do("LogFails", r)
        for report in step.reports:
            short = after.state == "failed" and report.leo < a["synced"][r]
            if short:
                a.do("LogIsShort", r, report.leo)
            else:
                said = (r, a["run"][r], a.epochs.get(report.epoch, -1), report.leo, report.shortfall)
                if said in a["told"]:
                    self.group.confessed(said)
                a.do("Confess", r, report.leo, report.shortfall)
        if after.state != "ready" or a["up"][r] or not a["here"][r]:
            return
        again = before is not None and before.state == "failed"
        if again and (after.leo != len(a["log"][r]) or a["synced"][r] != after.leo or a["former"][r]):
            a.do("LogIsBack", r, after.leo)
        leads = after.view.leader == a.members[r]
        if not leads or after.role == "leader":
            a.do("Open", r, min(after.hw, a["remembered"][r], after.leo))

    # -- messages that came --------------------------------------------------------------------------------

    def _received(self, letter: Letter, before: ReplicaState | None, after: ReplicaState) -> None:
        if letter.kind != "answer":
            self._report(letter, after)
        elif before is not None and before.question and before.question != after.question:
            self._answer(letter, before, after)

    def _report(self, letter: Letter, after: ReplicaState) -> None:
        """R2: a leader counts what a follower reports."""
        a, r = self.abstract, self.place
        office = after.office
        if office is None or letter.sender not in a.place or not a["up"][r]:
            return
        f = a.place[letter.sender]
        known = office.progress.get(letter.sender, (0, -1))[1]
        if known <= a["progress"][r][f]:
            return
        run = a.run_of(f, letter.incarnation)
        epoch = a.epochs.get(letter.epoch, -1)
        wanted = (REPORT, f, r, epoch, run, letter.offset)
        reported = min(letter.durable, letter.offset)
        last = a.epochs.get(letter.last_epoch, -1)
        for message in a.mail():
            same = message[:6] == wanted and message.to == reported
            if same and (message.last == last or not letter.last_epoch):
                a.do("ReportArrives", r, tuple(message))
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
            message = self._find(CUT, letter)
            a.do("CutToNothing" if after.log_start < before.log_start else "CutArrives", r, tuple(message))
        elif letter.status == BELOW_START:
            a.do("StartArrives", r, tuple(self._find(START, letter)))

    def _records(self, letter: Letter, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        at = len(a["log"][r])
        end = max(letter.end, at)
        for message in a.mail():
            mine = message.kind == RECORDS and message.follower == r and message.hw == letter.hw
            if mine and message.at == at and message.at + len(message.entries) == end:
                a.do("RecordsArrive", r, after.leo, tuple(message))
                return
        raise Disagreement(
            "RecordsArrive",
            f"no answer with the records up to {end} and HW {letter.hw} is on its way to node {a.members[r]}",
        )

    def _find(self, kind: int, letter: Letter) -> Mail:
        a, r = self.abstract, self.place
        for message in a.mail():
            if message.kind == kind and message.follower == r:
                return message
        what = "cut" if kind == CUT else "begin anew"
        raise Disagreement("", f"nobody has told node {a.members[r]} to {what}")

    # -- what moved ----------------------------------------------------------------------------------------

    def _moved(self, event: str, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        if not a["up"][r]:
            return
        if after.role == "leader":
            if after.leo > len(a["log"][r]) and event != PUBLISHED:
                text = f"node {a.members[r]} writes up to {after.leo} although nothing was published to it"
                raise Disagreement("Write", text)
            for _ in range(after.leo - len(a["log"][r])):
                a.do("Write", r)
        if not after.waiting:
            if a["synced"][r] < after.durable or a["former"][r]:
                a.do("Sync", r)
        elif a["synced"][r] < after.durable:
            a.do("SyncSome", r, after.durable)
        if after.role == "leader" and after.hw > a["hw"][r]:
            a.do("Commit", r)

    def _propose(self, after: ReplicaState) -> None:
        a, r = self.abstract, self.place
        change = after.office.pending if after.office is not None else None
        if change is None:
            return
        who = a.place.get(change.who, -1)
        if who != a["pending"][r]:
            a.do("ProposeAddition" if change.joins else "ProposeRemoval", r, who)

    # -- messages that went out ----------------------------------------------------------------------------

    def _sent(self, letter: Letter, others: list[ReplicaPart]) -> None:
        if letter.kind != "answer":
            self._asked(letter)
            return
        a = self.abstract
        if letter.receiver not in a.place:
            return
        f = a.place[letter.receiver]
        other = others[f]
        asked = other.question
        wanted = (letter.incarnation, letter.epoch, letter.request)
        if asked is None or asked[1:] != wanted or not a["up"][f]:
            # Nobody waits for it any more: whatever it says, it is thrown away where it arrives.
            return
        self._answered(letter, f)

    def _answered(self, letter: Letter, f: int) -> None:
        a, r = self.abstract, self.place
        match letter.status:
            case 0:
                at = len(a["log"][f])
                end = letter.end or at
                if end > at and not letter.first <= at:
                    raise Disagreement(
                        "Answer", f"the records of offset {at} on are wanted, it begins at {letter.first}"
                    )
                if letter.hw != a["hw"][r]:
                    raise Disagreement("Answer", f"it says HW {letter.hw}, but that is {a['hw'][r]}")
                a.do("Answer", f, r, max(end, at))
            case 1:
                a.do("AnswerWithCut", f, r)
            case 5:
                a.do("AnswerWithStart", f, r, letter.log_start)
            case _:
                pass

    def _asked(self, letter: Letter) -> None:
        a, r = self.abstract, self.place
        self._forget_useless()
        a.do("Ask" if letter.kind == "fetch" else "Tell", r, min(letter.durable, letter.offset))
        log: Any = a["log"][r]
        last = log[len(log) - 1][0] if len(log) else 0
        named = (letter.offset, a.epochs.get(letter.last_epoch, -1))
        if named != (len(log), last) and (letter.offset != len(log) or letter.last_epoch):
            raise Disagreement(
                "Ask",
                f"it names offset {named[0]} after epoch {named[1]}, but has {len(log)} up to epoch {last}",
            )

    def _forget_useless(self) -> None:
        """Reports that can change nothing any more, since others that say as much have arrived."""
        a, r = self.abstract, self.place
        for message in a.mail():
            if message.kind != REPORT or message.follower != r:
                continue
            view = a.view(message.leader)
            over = view.epoch > message.epoch or view.runs[r] > message.run
            known = view.epoch == message.epoch and view.runs[r] == message.run
            if over or (known and a["progress"][message.leader][r] >= message.to):
                a.do("IsLost", tuple(message))
