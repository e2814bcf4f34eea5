"""A node's whole data folder in a few kilobytes, and what may come of damage to any byte of it.

Three logs of several segments: one purged and compacted, one plain, one with a damaged range that is waiting
for its repair and a verdict on its tail; a metadata log, a vote, HW checkpoints. `Folder.outcome` starts a
node on a damaged copy and holds all that can be read against what the undamaged one has: each record is there
with the right content, or storage says which is not. In between there is nothing: a wrong record, a missing
one that nobody mentions, or an exception that is no clear error is a `Mismatch`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from liftlog.messages import CheckpointHw, LogRead, MoveLogStart, OpenLog, ReadLog
from liftlog.storage.logstate import united
from liftlog.storage.verdict import remember_verdict
from liftlog.types import (
    Entry,
    HardState,
    Identity,
    LiftlogError,
    LogOptions,
    PartitionId,
    Recovered,
    TailState,
)
from tests.storage.model import Found, LogModel
from tests.storage.storage_harness import LOG, OTHER, segments
from tests.storage.twin import Mismatch, Twin

MARRED = PartitionId(8, 0)
SMALL_SEGMENTS = LogOptions(segment_bytes=330)
NEVER_WRITTEN = "as if never written"
"""The last group is gone to the byte, without a clean stop that would know of it: nothing to notice."""
BAD_TAILS = (TailState.SUSPECT, TailState.DAMAGED)


class Folder:
    """A stopped node's folder, and what it holds."""

    def __init__(self, *, clean: bool, compacted: bool = True) -> None:
        self.clean = clean
        twin = self._filled(compacted)
        if clean:
            twin.close()
        else:
            twin.kill()
        self.last_groups = {log: model.leo.low - 1 for log, model in twin.models.items()}
        """First offset of each log's last group: no later batch tells that it was durable (R14)."""
        self.snapshot = twin.snapshot()
        found = self.start()
        self.identity: Identity = found[1].identity
        self.hard_state: HardState = found[1].hard_state
        self.entries: list[Entry] = found[1].raft_entries
        self.logs = look_all(*found)

    @staticmethod
    def _filled(compacted: bool) -> Twin:
        twin = Twin(1, SMALL_SEGMENTS)
        twin.models[MARRED] = LogModel()
        twin.begin()
        logs = (LOG, OTHER, MARRED)
        twin.do(*(OpenLog(log, options=SMALL_SEGMENTS) for log in logs))
        twin.do(twin.entries(b"create"), twin.vote(1))
        twin.do(twin.entries(b"register"))
        for i in range(7):
            twin.do(twin.append((b"ab"[i % 2 :][:1], b"%d" % i * 9), (b"c", None), log=LOG))
        for i in range(4):
            twin.do(twin.append(b"%d" % i * 9, b"o", log=OTHER))
            twin.do(twin.append(b"%d" % i * 9, b"m", log=MARRED))
        twin.do(twin.append_batches([[b"last"]], epoch=2))
        for log in (OTHER, MARRED):
            twin.do(twin.append_batches([[b"last"]], epoch=2, log=log))
        twin.do(*(CheckpointHw(log, twin.models[log].end - 1) for log in logs))
        if compacted:
            twin.compact(twin.model.end - 1)
        twin.do(MoveLogStart(LOG, 3))
        twin.disk.flip(segments(twin.disk, MARRED)[0], 110, 5)
        (event,) = twin.engine.write([ReadLog(MARRED, 1, 0, 100, 1000)])
        assert isinstance(event, LogRead) and event.damage is not None, event
        remember_verdict(twin.disk, MARRED, TailState.SUSPECT, rewrite=True)
        return twin

    def copy(self) -> Twin:
        return Twin.restored(self.snapshot)

    def files(self) -> list[tuple[str, int]]:
        """Every file with its length."""
        disk = self.copy().disk
        return [(path, len(disk.content(path))) for path in disk.files()]

    def start(self, damage: Callable[[Twin], None] = lambda _: None) -> tuple[Twin, Recovered]:
        twin = self.copy()
        damage(twin)
        twin.kill()
        return twin, twin.begin()

    def outcome(self, path: str, damage: Callable[[Twin], None]) -> str:
        """Damage a copy of the folder at `path` and start a node on it. What came of it, in a word or two."""
        try:
            twin, recovered = self.start(damage)
        except LiftlogError as error:
            if not names(error, path):
                raise Mismatch(f"the start is refused, but not for {path}: {error}") from error
            return "refused at the start"
        return self.compare(path, twin, recovered)

    def compare(self, path: str, twin: Twin, recovered: Recovered) -> str:
        """Hold what a start reports, and what can be read then, against the undamaged folder."""
        if recovered.renewed:
            return self._compare_renewed(path, twin, recovered)
        if recovered.identity != self.identity or recovered.hard_state != self.hard_state:
            raise Mismatch(f"{recovered.identity}, {recovered.hard_state} are not what was saved")
        told = self._compare_entries(twin, recovered)
        found = look_all(twin, recovered)
        for log, true in self.logs.items():
            if log not in found:
                raise Mismatch(f"log {log} is gone")
            problem, detected = self._compare_log(log, true, found[log])
            if problem:
                raise Mismatch(f"log {log}: {problem}")
            told = told or detected
        if told:
            self._check_told_again(twin, found)
        return told or "harmless"

    def _compare_renewed(self, path: str, twin: Twin, recovered: Recovered) -> str:
        """M4: what the disk had of the metadata group is given up, and nothing else."""
        if not names(LiftlogError(recovered.renewed), path):
            raise Mismatch(f"the group's log is given up, but not for {path}: {recovered.renewed}")
        renewed = replace(self.identity, vote_id=recovered.identity.vote_id)
        if recovered.identity != renewed or not renewed.vote_id:
            raise Mismatch(f"{recovered.identity} is not what was saved, under another id to vote")
        if recovered.hard_state != HardState() or recovered.raft_entries or recovered.snapshot is not None:
            raise Mismatch("something of what was given up is there")
        found = look_all(twin, recovered)
        for log, true in self.logs.items():
            problem, _ = self._compare_log(log, true, found[log])
            if problem:
                raise Mismatch(f"log {log}: {problem}")
        return "given up"

    def _compare_entries(self, twin: Twin, recovered: Recovered) -> str:
        entries = recovered.raft_entries
        if entries == self.entries:
            return ""
        if self.clean or entries != self.entries[:-1]:
            raise Mismatch(f"metadata entries {entries}, {self.entries} were saved")
        quarantined = any("/000001-0-0-" in name for name in twin.disk.files())
        return "suspect tail" if quarantined else NEVER_WRITTEN

    def _compare_log(self, log: PartitionId, true: Found, found: Found) -> tuple[str, str]:
        """(what is wrong, what was detected)."""
        summary, lines, unreadable = found
        detected = ""
        if unreadable != true.unreadable or summary.damage != true.summary.damage:
            detected = "damaged range"
        news = summary.tail is not true.summary.tail or summary.leo != true.summary.leo
        if summary.tail in BAD_TAILS and news:
            detected = f"{summary.tail.value} tail"
        for offset, line in lines.items():
            if line != true.lines.get(offset) and not (offset < true.summary.log_start and detected):
                return f"offset {offset} holds {line}, not {true.lines.get(offset)}", ""
        covered = (*unreadable, *summary.damage)
        for offset in true.lines:
            silent = offset not in lines and not any(one.start <= offset < one.end for one in covered)
            if silent and offset < summary.leo and summary.tail is not TailState.DAMAGED:
                return f"offset {offset} is missing and nobody says so: {summary}", ""
        if summary.leo != true.summary.leo:
            lost_in_group = summary.leo >= self.last_groups[log] and not self.clean
            if summary.tail is TailState.SUSPECT and not lost_in_group:
                return f"the tail is only suspect, although the log ends at {summary.leo}", ""
            if not detected and not lost_in_group:
                return f"the log ends at {summary.leo} and nobody says why", ""
            detected = detected or NEVER_WRITTEN
        if detected:
            return "", detected
        return self._compare_numbers(true, found), ""

    @staticmethod
    def _compare_numbers(true: Found, found: Found) -> str:
        """Where nothing was detected, checkpoints may have been lost but must not lie."""
        # Where records are damaged nobody may know when their epoch began, until they are repaired.
        if found.summary.epochs != true.summary.epochs and not found.summary.damage:
            return f"epoch history {found.summary.epochs}, not {true.summary.epochs}"
        if found.summary.log_start != true.summary.log_start:
            return f"log start {found.summary.log_start}, not {true.summary.log_start}"
        if found.summary.hw > true.summary.hw or found.summary.clean_point > true.summary.clean_point:
            return f"{found.summary} has more than {true.summary}"
        if found.summary.dropped_below < true.summary.dropped_below:
            return f"dropped_below {found.summary.dropped_below}, not {true.summary.dropped_below} (C4)"
        return ""

    def _check_told_again(self, twin: Twin, before: dict[PartitionId, Found]) -> None:
        """A node that dies before anybody has heard of it finds the same again (R14)."""
        twin.kill()
        recovered = twin.begin()
        for summary in recovered.logs:
            earlier = before[summary.log].summary
            if earlier.tail in BAD_TAILS and summary.tail is not earlier.tail:
                raise Mismatch(f"the next start calls the tail {summary.tail}, it was {earlier.tail}")
            known = united((*before[summary.log].unreadable, *earlier.damage), earlier.log_start, earlier.leo)
            if summary.damage != known:
                raise Mismatch(f"the next start reports damage {summary.damage}, known was {known}")


def names(error: LiftlogError, path: str) -> bool:
    """Whether the error says where the trouble is: the file, or for entries that are gone their folder."""
    return (path.partition("/")[0] if path.startswith("raft/") else path) in str(error)


def look_all(twin: Twin, recovered: Recovered) -> dict[PartitionId, Found]:
    return {summary.log: twin.look(summary, 1 << 20) for summary in recovered.logs}
