"""A purge by subjects (R21): the leader finds out what matches, and writes that into the journal.

    what matches   the subject index says, of committed messages below the offset that the client has named;
                   a chunk of offsets at a time, without what is gone (S1)
    what stays     the newest so many of these. Where they begin is found first, when the journal is committed
                   and heeded to its end, so that removals that are on their way count; nothing else is
                   deleted until it is found
    what goes      is named by its runs of offsets, an entry for each answer of the index, and the next one is
                   asked for when that is committed

The client names the upper end, so that a request that comes late, or twice, takes nothing that came after it.
Copies evaluate nothing: all hide what the entries name. One purge of a partition at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.replica.removal.entries import RUNS_MAX, encode_removed
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.forbidding import not_purged, read_only
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.epochs import EpochHistory
from liftlog.format import encode_values
from liftlog.messages import (
    ERR_DAMAGED,
    ERR_FAILED,
    ERR_INDEX_FULL,
    ERR_INVALID,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    ERR_TIMEOUT,
    MATCHING_RUNS,
    NEWEST_MATCHES,
    ClientReply,
    ErrorReply,
    PurgeSubjectsRequest,
    ReplyClient,
    SubjectsFolded,
    SubjectsPurged,
    SubjectsTold,
)
from liftlog.types import NO_OFFSET, NUMBER_MAX, ClientRef, OffsetRange


def deciding_refusal(
    data: LogState, leading: LeaderState, journal: LogState, journal_leading: LeaderState
) -> ErrorReply | None:
    """Why this leader does not say what is gone, or not now."""
    ctx = data.ctx
    if leading.no_promise:
        return ErrorReply(ERR_NOT_READY, leading.no_promise, True)
    inherited = data.hw >= leading.epoch_start and journal.hw >= journal_leading.epoch_start
    if not ctx.decides(("R21.inherited", inherited)):
        text = "the new leader has not committed yet what it inherited; try again"
        return ErrorReply(ERR_NOT_READY, text, True, ctx.node)
    config = data.config
    if config is not None and config.read_only:
        return ErrorReply(ERR_INVALID, read_only(config), False)
    return None


class SubjectPurge:
    """The one that is under way. `at`: what matches below is named. `below`: from there on nothing goes.
    `counts`: where that is has still to be found; until it is, nobody else deletes. `end`: of what it has
    written into the journal, at first of what others had.
    """

    __slots__ = ("at", "below", "client", "counts", "end", "keep", "messages", "request", "top", "until")

    def __init__(self, client: ClientRef, request: PurgeSubjectsRequest, until: int, end: int) -> None:
        self.client = client
        self.request = request
        self.until = until
        self.at = 0
        self.below = request.below
        self.top = request.below
        """Where what is to stay is looked for next, downward."""
        self.keep = request.keep
        self.counts = request.keep > 0
        self.messages = 0
        self.end = end

    def counted(self, told: SubjectsTold) -> None:
        """What the index says of the newest that match."""
        if told.offset != NO_OFFSET:
            self.below, self.counts = told.offset, False
        elif told.place != NO_OFFSET:
            self.top, self.keep = told.place, self.keep - told.messages
        else:
            self.below, self.counts = 0, False

    def named(self, told: SubjectsTold, end: int) -> None:
        """What the index says is written, up to `end`."""
        self.messages += sum(run.end - run.start for run in told.runs)
        self.end = end
        self.at = told.place if told.place != NO_OFFSET else self.below

    @property
    def is_named(self) -> bool:
        """Whether everything is that is to go."""
        return not self.counts and self.at >= self.below


class SubjectPurges:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_asker", "_ctx", "_data", "_data_leading", "_leading", "_log", "_removed", "_written"),
        *("asked", "purge"),
    )

    def __init__(self, log: LogState, leading: LeaderState, data: LeaderState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._data_leading = data
        self._data: LogState | None = None
        self._removed: Removed | None = None
        self.purge: SubjectPurge | None = None
        self.asked = 0
        """The question that storage has; 0 = none."""
        self._asker: SubjectPurge | None = None
        """For whom."""
        self._written = leading.epoch_start
        """Where the newest entry ends that deletes anything, in this epoch: consumers write entries too."""

    def wrote(self) -> None:
        """The journal's last entry deletes something."""
        self._written = self._log.leo

    @property
    def written(self) -> int:
        """Where the newest entry ends that deletes anything: nobody counts before it is committed."""
        return self._written

    @property
    def counts(self) -> bool:
        """Whether nothing else is to be deleted now."""
        return self.purge is not None and self.purge.counts

    def refusal(self, data: LogState) -> ErrorReply | None:
        """Why this leader does not say what is gone, or not now."""
        return deciding_refusal(data, self._data_leading, self._log, self._leading)

    def ask(
        self, client: ClientRef, request: PurgeSubjectsRequest, data: LogState, removed: Removed
    ) -> None:
        ctx = self._ctx
        refusal = not_purged(data.config) or self.refusal(data)
        below = request.below
        if refusal is None and not ctx.decides(
            ("R21.uncommitted", below <= data.hw or ctx.mutants.purge_takes_uncommitted)
        ):
            text = f"offset {below} lies above {data.hw}, the end of what is committed; purge up to that"
            refusal = ErrorReply(ERR_OFFSET_RANGE, text, False)
        if refusal is None and self.purge is not None:
            text = "another purge of this partition is under way; try again"
            refusal = ErrorReply(ERR_OVERLOAD, text, True)
        if refusal is not None:
            ctx.mark("R21.refused")
            self._reply(client, refusal)
            return
        self._data, self._removed = data, removed
        until = ctx.ticks + ctx.ticks_of(ctx.config.request_timeout_ms)
        self.purge = SubjectPurge(client, request, until, self._written)
        self.go_on()

    def go_on(self) -> None:
        """Ask the index, or answer, if nothing is to be waited for."""
        purge, data, removed = self.purge, self._data, self._removed
        if purge is None or data is None or removed is None or self.asked:
            return
        log, early = self._log, self._ctx.mutants.purge_answered_at_append
        if purge.is_named and (purge.end <= log.hw or early):
            self._ctx.mark("R21.purged")
            journal = max(purge.end, removed.folded)
            self._end(SubjectsPurged(data.id, purge.messages, journal))
            return
        least = purge.request.below
        if self._ctx.mutants.purge_takes_uncommitted:
            least = min(least, data.settled)
        if not index_reaches(data, least):
            return
        waits_for = max(purge.end, removed.committed)
        if log.hw < waits_for or not removed.is_known or removed.folded < waits_for:
            return
        what, limit = (NEWEST_MATCHES, self._keep(purge)) if purge.counts else (MATCHING_RUNS, RUNS_MAX)
        self._asker = purge
        self.asked = ask_subjects(
            log,
            data,
            what=what,
            least=least,
            until=purge.top if purge.counts else purge.below,
            offset=purge.at,
            limit=limit,
            gone=removed.hidden(data.history),
            pattern=purge.request.pattern,
        )

    def _keep(self, purge: SubjectPurge) -> int:
        data, removed = self._data, self._removed
        if not self._ctx.mutants.purge_keeps_removed or data is None or removed is None:
            return purge.keep
        gone = removed.hidden(data.history)
        newest = range(max(0, purge.top - purge.keep), purge.top)
        return max(1, purge.keep - sum(offset in gone for offset in newest))

    # -- what storage says -------------------------------------------------------------------------

    def told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """The answer to the question `asked`. Whether an entry was written."""
        self.asked = 0
        purge, data = self.purge, self._data
        if data is None:
            return False
        writes = False
        if purge is None or purge is not self._asker:
            self.go_on()
            return False
        if isinstance(event, SubjectsFolded):
            data.index.reached(event.folded, event.ready)
        elif event.error:
            self._end(self._stopped(ERR_FAILED, event.error))
        elif data.config is not None and data.config.read_only:
            self._end(ErrorReply(ERR_INVALID, read_only(data.config), False))
        elif (denied := not_purged(data.config)) is not None:
            self._end(denied)
        elif purge.counts:
            purge.counted(event)
            self._ctx.mark("R21.counted")
        else:
            runs = event.runs
            if self._ctx.mutants.purge_takes_uncommitted and data.settled < purge.below <= data.leo:
                runs = (*runs, OffsetRange(data.settled, purge.below))
            writes = self.write(runs, data.history)
            purge.named(event, self._log.leo)
        self.go_on()
        return writes

    def write(
        self, runs: Sequence[OffsetRange], history: EpochHistory, *, done_with: bool = False
    ) -> bool:
        """Append entries that name these records; `done_with`: no consumer is to be given one of them
        (R27). Whether there are any.
        """
        cut = by_epoch(runs, history)
        entries = [encode_removed(epoch, some, done_with=done_with) for epoch, some in cut]
        if entries:
            log = self._log
            log.append(
                [encode_values(log.id, log.leo, self._leading.epoch, self._ctx.wall_ms, entries)]
            )
            self.wrote()
        return bool(entries)

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if event.error and self.purge is not None and not self.asked:
            code = ERR_FAILED if event.damage is None else ERR_DAMAGED
            self._end(self._stopped(ERR_INDEX_FULL if event.full else code, event.error))
        self.go_on()

    # -- time and ends -----------------------------------------------------------------------------

    def tick(self) -> None:
        """Nobody waits for ever: who asks again has the rest done."""
        if self.purge is not None and self.purge.until <= self._ctx.ticks:
            self._ctx.mark("R21.purge-late")
            self._end(self._stopped(ERR_TIMEOUT, "the purge has taken too long for one request"))
        self.go_on()

    def end(self, code: str, text: str) -> None:
        """This leader answers nobody any more; what becomes of the last entry is open."""
        if self.purge is not None:
            self._end(self._stopped(code, text))

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone: what is named goes, and nothing more."""
        if self.purge is not None and self.purge.client == client:
            self.purge = None

    def _stopped(self, code: str, text: str) -> ErrorReply:
        purge = self.purge
        assert purge is not None
        done = f"below offset {purge.at} it has named {purge.messages} messages, the last of which may stay"
        return ErrorReply(code, f"{text}; {done}: ask again for the rest", True)

    def _end(self, reply: ClientReply) -> None:
        purge, self.purge = self.purge, None
        if purge is not None:
            self._reply(purge.client, reply)

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self._ctx.effects.append(ReplyClient(client, reply))


def by_epoch(runs: Sequence[OffsetRange], history: EpochHistory) -> list[tuple[int, list[OffsetRange]]]:
    """Runs that rise, cut where one epoch ends and another one begins; for each epoch its own."""
    found: list[tuple[int, list[OffsetRange]]] = []
    for start, end in runs:
        while start < end:
            epoch = history.epoch_before(start + 1)
            stop = min(end, history.floor(epoch, NUMBER_MAX)[1])
            if not found or found[-1][0] != epoch:
                found.append((epoch, []))
            found[-1][1].append(OffsetRange(start, stop))
            start = stop
    return found
