"""Random lives of a log, drawn by hypothesis: every job, every crash, in any order, against the model.

The machine keeps to what the core promises to storage: the HW is durable and never goes back within an
epoch, nothing below it is cut off, compaction and retention stay below it, and tombstones are let go only
below what every replica, this one among them, has compacted past. Everything else is free.

After each step all that the running process can read is compared with the model; a crash is followed by a
start, and what that finds is compared too, numbers and records (see `tests.storage.model`).
"""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from liftlog.format import compress
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    Compacted,
    CompactLog,
    ConfigureLog,
    Durable,
    LogOpened,
    LogStartMoved,
    MoveLogStart,
    OpenLog,
    RebuildLog,
    ResetLog,
    RetainLog,
    StorageFailed,
)
from liftlog.mutants import NO_MUTANTS
from liftlog.types import CompactionPolicy, LogOptions, RetentionPolicy, TailState
from tests.storage.storage_harness import LOG, OTHER, segments
from tests.storage.twin import JobFailed, Mismatch, Twin

OPTIONS = [
    LogOptions(segment_bytes=600),
    LogOptions(segment_bytes=1500, segment_records=7),
    LogOptions(segment_bytes=1 << 20, segment_ms=200),
]
VALUE = st.builds(lambda letter, length: letter * length, st.sampled_from([b"x", b"y"]), st.integers(0, 200))
KEYED = st.tuples(st.sampled_from([b"", b"a", b"b", b"c"]), st.one_of(st.none(), VALUE))
BATCH = st.lists(st.one_of(VALUE, KEYED, KEYED), min_size=1, max_size=4)
POLICIES = [
    CompactionPolicy(0, 0, 0),
    CompactionPolicy(0, 0, 0, map_bytes=150),
    CompactionPolicy(50, 30, 100),
]
RETENTIONS = [
    RetentionPolicy(retention_bytes=900),
    RetentionPolicy(retention_messages=6),
    RetentionPolicy(retention_ms=150),
]
PART = st.sampled_from([1.0, 0.5, 0.9, 0.2, 0.0])
"""How much of what is possible; drawn floats are almost always 0."""
MUCH = st.sampled_from([1.0, 0.8])
SEED = st.integers(0, 1 << 32)
REACHED: Counter[str] = Counter()
"""What the lives went through: a machine that never compacts proves nothing about compaction."""


class LogMachine(RuleBasedStateMachine):
    """One log, and another beside it that must stay as it is."""

    mutants = NO_MUTANTS

    @initialize(options=st.sampled_from(OPTIONS), seed=SEED)
    def birth(self, options: LogOptions, seed: int) -> None:
        self.twin = Twin(seed, options, self.mutants)
        self.twin.begin()
        self.twin.do(OpenLog(LOG, options=options), OpenLog(OTHER, options=options))
        self.twin.do(self.twin.append(b"the other log", log=OTHER))
        self.epoch = 1
        self.cluster_clean_point = 0
        self.hw = 0

    @property
    def durable(self) -> int:
        return self.twin.model.leo.low

    # ----- writing -----

    @rule(
        groups=st.lists(BATCH, min_size=1, max_size=3),
        codec=st.sampled_from(["none", "none", "zstd", "lz4"]),
        sync=st.booleans(),
        step_ms=st.sampled_from([0, 10, -15]),
    )
    def append(self, groups: list[list[bytes]], codec: str, sync: bool, step_ms: int) -> None:
        job = self.twin.append_batches(groups, epoch=self.epoch, step_ms=step_ms)
        if codec != "none":
            job = AppendLog(LOG, [compress(LOG, one, codec) for one in job.batches], job.ticket)
        assert self.twin.write(job) == []
        if sync:
            self.sync()

    @rule(groups=st.lists(BATCH, min_size=4, max_size=8))
    def publish(self, groups: list[list[bytes]]) -> None:
        """Several groups, each committed at once: what a log sees most of its life."""
        for group in groups:
            self.append([group], "none", True, 10)
        self.commit(1.0, False)

    @rule()
    def sync(self) -> None:
        events = self.twin.sync()
        assert all(isinstance(event, Durable) for event in events), events
        assert self.twin.model.leo.low == self.twin.model.leo.high

    @rule(part=MUCH, late=st.booleans())
    def commit(self, part: float, late: bool) -> None:
        """The HW moves; its checkpoint may come much later."""
        self.hw += int((self.durable - self.hw) * part)
        if not late:
            self.twin.write(CheckpointHw(LOG, self.hw))

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule(milliseconds=st.sampled_from([50, 100, 1000]))
    def time_passes(self, milliseconds: int) -> None:
        self.twin.now_ms += milliseconds

    @rule(options=st.sampled_from(OPTIONS))
    def configure(self, options: LogOptions) -> None:
        self.twin.options = options
        assert self.twin.write(ConfigureLog(LOG, options)) == []

    @rule(part=PART)
    def truncate(self, part: float) -> None:
        offset = self.hw + int((self.twin.model.end - self.hw) * part)
        assert self.twin.write(self.twin.truncate(offset)) == []
        self.epoch += 1

    @rule(keep_all=st.booleans())
    def rebuild(self, keep_all: bool) -> None:
        """R5: a sync failed; only what an earlier one had reached is kept."""
        self.twin.write(self.twin.append_batches([[b"doubtful" * 9]], epoch=self.epoch))
        self.twin.disk.fail_next_sync(f"streams/{LOG[0]}/{LOG[1]}/")
        answers = self.twin.sync()
        assert any(isinstance(event, StorageFailed) and event.sync for event in answers), answers
        keep_below = self.durable if keep_all else self.hw
        event = self.twin.ask(RebuildLog(LOG, keep_below))
        assert isinstance(event, LogOpened) and event.summary.leo == keep_below, event
        REACHED["rebuilt"] += 1
        self.epoch += 1

    @rule(groups=st.lists(BATCH, min_size=1, max_size=2), cut_off=st.booleans())
    def disk_full(self, groups: list[list[bytes]], cut_off: bool) -> None:
        """D5: the write is refused, reads go on, and it can be repeated once there is space."""
        self.sync()
        self.twin.disk.fill()
        try:
            self.twin.do(self.twin.append_batches(groups, epoch=self.epoch))
            raise AssertionError("an append to a full disk was not refused")
        except JobFailed as failure:
            assert isinstance(failure.event, StorageFailed) and not failure.event.sync, failure
        self.twin.check_running()
        if cut_off:
            # While it is full: nothing is copied, nothing is in doubt.
            event = self.twin.ask(RebuildLog(LOG, self.twin.model.end, in_doubt=False))
            assert isinstance(event, LogOpened), event
            self.twin.check_running()
        self.twin.disk.fill(False)
        REACHED["disk full"] += 1
        self.append(groups, "none", True, 10)

    @precondition(lambda self: self.twin.model.end > 30)
    @rule(gap=st.integers(0, 20))
    def reset(self, gap: int) -> None:
        """The leader's log begins behind all that is here."""
        model = self.twin.model
        start = model.end + gap
        epochs = tuple(model.epoch_starts(model.end))
        self.twin.do(ResetLog(LOG, start, epochs, self.twin.ticket()))
        self.hw = start
        self.cluster_clean_point = 0
        REACHED["reset"] += 1

    # ----- what removes records -----

    @rule(part=PART)
    def purge(self, part: float) -> None:
        start = self.twin.model.log_start
        offset = start + int((max(self.hw, start) - start) * part)
        event = self.twin.ask(MoveLogStart(LOG, offset))
        assert event == LogStartMoved(LOG, offset)
        REACHED["purged"] += offset > start

    @rule(policy=st.sampled_from(RETENTIONS))
    def retain(self, policy: RetentionPolicy) -> None:
        model = self.twin.model
        before, end = model.log_start, model.end
        there = self.twin.look(self.twin.summary()).lines
        event = self.twin.ask(RetainLog(LOG, policy, self.hw, self.twin.now_ms))
        assert isinstance(event, LogStartMoved)
        after = event.log_start
        assert before <= after <= max(before, self.hw)
        if after == before:
            return
        REACHED["retained"] += 1
        if policy.retention_messages:
            assert end - after >= policy.retention_messages
        if policy.retention_ms:
            for offset, line in there.items():
                assert offset >= after or line.record.timestamp_ms < self.twin.now_ms - policy.retention_ms

    @rule(policy=st.sampled_from(POLICIES), slices=st.integers(1, 30), max_bytes=st.sampled_from([100, 800]))
    def compact(self, policy: CompactionPolicy, slices: int, max_bytes: int) -> None:
        twin = self.twin
        for _ in range(slices):
            job = CompactLog(LOG, policy, self.hw, self.cluster_clean_point, twin.now_ms, max_bytes)
            try:
                event = twin.ask(job)
            except JobFailed as failure:
                lost = getattr(failure.event, "damage", None)
                if lost is not None and lost.start < twin.model.log_start:
                    # Nobody misses it, and the segment that the log start divides is not compacted any more.
                    return
                if not twin.model.decayed:
                    raise Mismatch(f"compaction: {failure}") from failure
                return
            assert isinstance(event, Compacted)
            if event.done:
                return

    @rule(retention_ms=st.sampled_from([0, 100]), pass_ms=st.sampled_from([0, 99, 100, 1000]))
    def compact_all(self, retention_ms: int, pass_ms: int) -> None:
        """All replicas compact; some time later tombstones may go."""
        self.commit(1.0, False)
        policy = CompactionPolicy(0, 0, retention_ms)
        self.compact(policy, 200, 800)
        self.others_compacted(1.0)
        self.twin.now_ms += pass_ms
        self.compact(policy, 200, 800)

    @rule(part=PART)
    def others_compacted(self, part: float) -> None:
        """The slowest replica's clean point, as the leader tells it; this replica's is one of them."""
        mine = self.twin.model.clean_point.low
        if mine > self.cluster_clean_point:
            self.cluster_clean_point += int((mine - self.cluster_clean_point) * part)

    # ----- damage -----

    @precondition(lambda self: not self.twin.model.decayed and len(segments(self.twin.disk)) > 1)
    @rule(part=st.sampled_from([0.0, 0.3, 0.6, 0.9]), bit=st.integers(0, 7), place=st.integers(0, 999))
    def decay(self, part: float, bit: int, place: int) -> None:
        """One bit of a sealed segment decays."""
        self.sync()
        sealed = segments(self.twin.disk)[:-1]
        number = int(len(sealed) * part)
        path = sealed[number]
        ends = [int(one.rpartition("/")[2][:20]) for one in segments(self.twin.disk)]
        model = self.twin.model
        model.decayed = tuple(range(ends[number], ends[number + 1]))
        if model.decayed and model.decayed[-1] < self.hw:
            self.twin.disk.flip(path, len(self.twin.disk.content(path)) * place // 1000, bit)
        else:
            model.decayed = ()

    @precondition(lambda self: self.twin.model.decayed)
    @rule(at_a_time=st.integers(1, 3), compacted=st.booleans())
    def scrub_and_repair(self, at_a_time: int, compacted: bool) -> None:
        twin = self.twin
        twin.scrub()
        twin.repair(at_a_time=at_a_time, compacted=compacted)
        if twin.model.damage:
            raise Mismatch(f"after the repair {twin.model.damage} is left")
        twin.scrub()
        twin.model.decayed = ()
        twin.check_running()
        REACHED["repaired"] += 1

    # ----- crashes -----

    @rule()
    def kill(self) -> None:
        self.twin.kill()
        self.start()

    @rule(seed=SEED, groups=st.lists(BATCH, max_size=3))
    def lose_power(self, seed: int, groups: list[list[bytes]]) -> None:
        """In the middle of a group that no sync has reached."""
        if groups:
            self.append(groups, "none", False, 10)
        self.twin.power_loss(Random(seed))
        self.start()

    @rule(seed=SEED)
    def kill_and_lose_power(self, seed: int) -> None:
        self.append([[b"not yet durable" * 9], [b"x"]], "none", False, 10)
        self.kill()
        self.lose_power(seed, [])

    @rule(power=st.booleans(), seed=SEED)
    def stop(self, power: bool, seed: int) -> None:
        self.sync()
        self.twin.close()
        if power:
            self.twin.power_loss(Random(seed))
        else:
            self.twin.kill()
        self.start()

    def start(self) -> None:
        before = self.twin.model.end
        recovered = self.twin.recover()
        REACHED["lost what was not durable"] += self.twin.model.end < before
        REACHED["suspect tail"] += any(one.tail is TailState.SUSPECT for one in recovered.logs)
        REACHED["clean start"] += recovered.clean
        self.hw = max(self.hw, self.twin.model.hw.low)
        self.epoch += 1

    # ----- reading -----

    @rule(max_bytes=st.sampled_from([1, 300, 1 << 20]))
    def read_all(self, max_bytes: int) -> None:
        self.twin.check_running(max_bytes)

    @rule(start=PART, length=st.integers(0, 9), max_bytes=st.sampled_from([1, 300, 1 << 20]))
    def read_below(self, start: float, length: int, max_bytes: int) -> None:
        model = self.twin.model
        offset = model.log_start + int((model.end - model.log_start) * start)
        self.twin.read(offset, offset + length, max_bytes)

    @rule(milliseconds=st.integers(-50, 400))
    def read_by_time(self, milliseconds: int) -> None:
        twin = self.twin
        if twin.model.decayed:
            return
        found = twin.look(twin.summary())
        times = {offset: line.record.timestamp_ms for offset, line in found.lines.items()}
        first = min(times.values(), default=0)
        wanted = first + milliseconds
        true = min((offset for offset, ms in times.items() if ms >= wanted), default=twin.model.end)
        answer = twin.find_time(wanted)
        if answer != true:
            raise Mismatch(f"the first record at or after {wanted} is {true}, found was {answer}; {times}")

    @rule()
    def read_below_the_start(self) -> None:
        start = self.twin.model.log_start
        if start:
            event = self.twin.read(start - 1)
            assert event.error and event.damage is None, event

    @invariant()
    def reads_agree(self) -> None:
        if not hasattr(self, "twin"):
            return
        self.twin.check_running()
        model = self.twin.model
        REACHED["several segments"] += len(segments(self.twin.disk)) > 2
        REACHED["clean point"] += model.clean_point.low > 0
        REACHED["tombstones may go"] += model.droppable_below > 0
        REACHED["tombstones are gone"] += model.dropped_below.low > 0
        REACHED["damage is known"] += bool(model.damaged)
