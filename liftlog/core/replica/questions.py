"""Questions about the subjects of one replica's committed records (S1).

Storage keeps the index (`liftlog/storage/subjectindexes.py`). A question notes the HW of the moment when it
comes, or, for an answer that must know everything acked before, of the moment when a read-index round has
confirmed the leader. It waits until the index has everything below, and is answered from what the index has
then: the answer says which offsets it is about. An index that is far behind is not waited for without end;
the error says how far it is.

Of a partition with a journal the answer leaves out what is deleted there, up to where the journal is heeded,
which it says; it waits until that is all that was committed of the journal when the question came (R21).
"""

from __future__ import annotations

from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.indexstate import KEPT_MS
from liftlog.core.replica.state.log import JOBS_WAIT, LogState
from liftlog.messages import (
    ERR_DAMAGED,
    ERR_FAILED,
    ERR_INDEX_FULL,
    ERR_INDEX_RENEWED,
    ERR_NOT_READY,
    ERR_OVERLOAD,
    MATCHING_SUBJECTS,
    NEXT_MATCH,
    AskSubjects,
    ClientReply,
    ErrorReply,
    ReplyClient,
    SubjectReply,
    SubjectRequest,
    SubjectsFolded,
    SubjectsTold,
)
from liftlog.types import NO_OFFSET, ClientRef


class Question:
    """A question that waits, for the index or for storage's answer. `least`: what the answer has to know, and
    `journal`, of that log. `heeds`: what it was asked with.
    """

    __slots__ = ("client", "epoch", "heeds", "journal", "least", "offset", "request", "ticks_left")

    def __init__(
        self,
        client: ClientRef,
        request: SubjectRequest,
        epoch: int,
        least: int,
        journal: int,
        ticks_left: int,
    ) -> None:
        self.client = client
        self.request = request
        self.epoch = epoch
        self.least = least
        self.journal = journal
        self.heeds = 0
        self.ticks_left = ticks_left
        self.offset = request.offset
        """From where on a match is still to be looked for."""

    def expires(self) -> bool:
        """A tick has passed. Whether it was the last that this question waits."""
        self.ticks_left -= 1
        return self.ticks_left <= 0

    def asked_with(self, journal: int) -> None:
        """Storage is asked, and told what is gone by the journal below there."""
        self.heeds = journal

    def goes_on(self, offset: int) -> None:
        """There is no match below this offset."""
        self.offset = offset


class Questions:
    """Those of one replica that are not answered. Bounded by `parked_reads_max`."""

    __slots__ = ("asked", "ctx", "log", "parked", "removed")

    def __init__(self, log: LogState) -> None:
        self.log = log
        self.ctx = log.ctx
        self.parked: list[Question] = []
        self.asked: dict[int, Question] = {}
        self.removed: Removed | None = None
        """What is in no answer, if the partition has a journal that says so."""

    def heed(self, removed: Removed | None) -> None:
        """From now on what these are is left out."""
        self.removed = removed

    def ask(self, client: ClientRef, request: SubjectRequest) -> None:
        """What is committed now, as far as this copy knows, is what the answer has to know."""
        log, config = self.log, self.ctx.config
        if len(self.parked) + len(self.asked) >= config.parked_reads_max:
            self._reply(client, ErrorReply(ERR_OVERLOAD, "too many questions wait here; try again", True))
            return
        ticks = self.ctx.ticks_of(request.wait_ms or config.request_timeout_ms)
        least = 0 if self.ctx.mutants.subjects_behind else log.settled
        journal = self.removed.committed if self.removed is not None else 0
        self.parked.append(Question(client, request, log.epoch, least, journal, ticks))
        self._go_on()

    def wake(self) -> None:
        """More is known to be gone."""
        if self.parked:
            self._go_on()

    def _heeds(self, question: Question) -> bool:
        """R21: whether all is known to be gone that the answer is not to have."""
        removed = self.removed
        return removed is None or (removed.is_known and removed.folded >= question.journal)

    def _go_on(self) -> None:
        """Ask storage what it can answer by now; the index is to go on for the others."""
        log = self.log
        still: list[Question] = []
        for question in self.parked:
            ready = log.index.has(question.least) and self._heeds(question)
            if ready and self.ctx.reads.has_place(log.id):
                self._ask_storage(question)
            else:
                still.append(question)
        self.parked = still
        if not still:
            log.index.nobody_waits()
        else:
            kept_ticks = self.ctx.ticks_of(KEPT_MS)
            for question in still:
                log.index.want(question.least, kept_ticks)
            log.touch(JOBS_WAIT)

    def _ask_storage(self, question: Question) -> None:
        request, removed = question.request, self.removed
        question.asked_with(removed.folded if removed is not None else 0)
        number = self.ctx.new_ticket()
        self.ctx.reads.begin(self.log.id, number)
        self.asked[number] = question
        self.ctx.effects.append(
            AskSubjects(
                log=self.log.id,
                request=number,
                least=question.least,
                what=request.what,
                pattern=request.pattern,
                offset=question.offset,
                limit=request.limit,
                gone=removed.hidden(self.log.history) if removed is not None else None,
            )
        )

    # -- what storage says ------------------------------------------------------------------------

    def told(self, event: SubjectsTold, behind: list[tuple[str, int]], problem: str) -> None:
        """The answer to a question in `asked`. `behind`: what is to come of what this stream copies;
        `problem`: why nothing comes of that.
        """
        question = self.asked.pop(event.request)
        request = question.request
        if event.error:
            self._reply(question.client, ErrorReply(ERR_FAILED, event.error, True))
        elif request.what == MATCHING_SUBJECTS and request.offset and request.index != event.index:
            text = "the subject index was made anew since the page before this one: begin with the first"
            self._reply(question.client, ErrorReply(ERR_INDEX_RENEWED, text, False))
        elif request.what == NEXT_MATCH and event.place != NO_OFFSET:
            question.goes_on(event.place)
            self.parked.append(question)
        else:
            self._answer(question, event, behind, problem)
        self._go_on()

    def _answer(
        self, question: Question, event: SubjectsTold, behind: list[tuple[str, int]], problem: str
    ) -> None:
        self.ctx.mark("S1.answered")
        reply = SubjectReply(
            partition=self.log.id,
            epoch=question.epoch,
            hw=event.folded,
            log_start=event.first,
            offset=event.offset,
            subjects=event.subjects,
            messages=event.messages,
            place=event.place if question.request.what == MATCHING_SUBJECTS else NO_OFFSET,
            index=event.index,
            journal=question.heeds,
            size=event.size,
            behind=behind,
            problem=problem,
        )
        self._reply(question.client, reply)

    def behind(self, event: SubjectsFolded) -> None:
        """The index is not far enough for a question in `asked`: it waits again."""
        self.ctx.mark("S1.behind")
        self.log.index.reached(event.folded, event.ready)
        self.parked.append(self.asked.pop(event.request))
        self._go_on()

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if event.error:
            code = ERR_FAILED if event.damage is None else ERR_DAMAGED
            error = ErrorReply(ERR_INDEX_FULL if event.full else code, event.error, not event.full)
            waiting, self.parked = self.parked, []
            for question in waiting:
                self._reply(question.client, error)
        self._go_on()

    # -- time and ends ----------------------------------------------------------------------------

    def tick(self) -> None:
        if not self.parked:
            return
        waiting, self.parked = self.parked, []
        index = self.log.index
        for question in waiting:
            if not question.expires():
                self.parked.append(question)
                continue
            self.ctx.mark("S1.late")
            text = (
                f"the subject index has come to offset {max(index.folded, self.log.log_start)} of"
                f" {question.least}; it goes on: ask again, or wait longer"
            )
            self._reply(question.client, ErrorReply(ERR_NOT_READY, text, True))
        self._go_on()

    def fail(self) -> None:
        """The replica cannot serve any more."""
        self._end(ErrorReply(ERR_NOT_READY, "this replica has stopped after a storage failure", True))

    def close(self) -> None:
        """This node holds no copy any more."""
        self._end(ErrorReply(ERR_NOT_READY, "this replica was removed", True))

    def _end(self, error: ErrorReply) -> None:
        for question in [*self.parked, *self.asked.values()]:
            self._reply(question.client, error)
        self.parked = []
        self.asked = {}

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone. Whoever carries answers drops those that nobody waits for."""
        self.parked = [question for question in self.parked if question.client != client]

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self.ctx.effects.append(ReplyClient(client, reply))
