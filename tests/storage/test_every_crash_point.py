"""Every multi-step operation, crashed at every one of its Disk calls (D4) and failed at each (D5, R5).

Enumerated, not sampled: see `tests.storage.crash_points`. Each scene below is one operation on a log of
several segments beside another log, a metadata log and a vote.
"""

from __future__ import annotations

from contextlib import suppress
from errno import EIO, ENOSPC
from itertools import count
from random import Random

import pytest

from liftlog.format import compress
from liftlog.messages import (
    AppendLog,
    CheckpointHw,
    LogOpened,
    MoveLogStart,
    OpenLog,
    RebuildLog,
    ResetLog,
    RetainLog,
    TrashLog,
)
from liftlog.types import (
    CompactionPolicy,
    EpochStart,
    LogOptions,
    PartitionId,
    RetentionPolicy,
    TailState,
)
from liftlog_sim.devices.disk import SimulatedCrash
from tests.storage.crash_points import Act, Scene, apply, crash_everywhere, fail_everywhere
from tests.storage.crash_report import TRIED
from tests.storage.storage_harness import LOG, OTHER, segments
from tests.storage.twin import EAGER, TINY, Twin

pytestmark = pytest.mark.slow

KEYS = (b"a", b"b", b"c")
NEW = PartitionId(8, 0)


# ----- what the disk looks like before -----


def furnished(twin: Twin) -> None:
    """Nine batches in about four segments, of two epochs; the HW two records below the LEO."""
    twin.do(OpenLog(LOG, options=TINY), OpenLog(OTHER, options=TINY))
    twin.do(twin.entries(b"create", b"register"), twin.vote(1))
    for i in range(5):
        twin.do(twin.append(b"%d" % i + b"." * 60, b"first"))
    for i in range(4):
        twin.do(twin.append_batches([[b"%d" % i + b"-" * 60, b"second", b"third"]], epoch=2))
    twin.do(twin.append(b"o" * 50, b"other", log=OTHER))
    twin.do(twin.append(b"p" * 400, log=OTHER))
    twin.do(CheckpointHw(LOG, twin.model.end - 2), CheckpointHw(OTHER, 2))


def keyed(twin: Twin) -> None:
    """Keys that come back, tombstones, and records without a key, in about five segments."""
    twin.do(OpenLog(LOG, options=TINY), OpenLog(OTHER, options=TINY))
    for i in range(14):
        key = KEYS[i % 3]
        value = None if i in (4, 9) else b"%d" % i + b"." * 40
        twin.do(twin.append((key, value), b"keyless %d" % i, (b"k%d" % i, b"once")))
    twin.do(CheckpointHw(LOG, twin.model.end))


def compressed(twin: Twin) -> None:
    twin.do(OpenLog(LOG, options=TINY), OpenLog(OTHER, options=TINY))
    for i in range(12):
        job = twin.append((KEYS[i % 3], b"%d" % i * 90), (KEYS[(i + 1) % 3], b"%d" % i * 90))
        codec = "zstd" if i % 2 else "lz4"
        twin.do(AppendLog(LOG, [compress(LOG, one, codec) for one in job.batches], job.ticket))
    twin.do(CheckpointHw(LOG, twin.model.end))


def compacted_once(twin: Twin) -> None:
    keyed(twin)
    twin.compact()
    for i in range(6):
        twin.do(twin.append((KEYS[i % 2], b"later %d" % i + b"." * 40), (b"k1", b"again")))


def damaged(twin: Twin) -> None:
    furnished(twin)
    destroy(twin, 1)


def destroy(twin: Twin, number: int) -> None:
    """Flip a bit in the first batch of a sealed segment."""
    path = segments(twin.disk)[number]
    twin.model.decayed = (*twin.model.decayed, int(path.rpartition("/")[2].partition(".")[0]))
    twin.disk.flip(path, 100, 3)


def known_damage(twin: Twin) -> None:
    damaged(twin)
    twin.scrub()
    assert twin.model.damage


def stopped(prepare: Act) -> Act:
    def act(twin: Twin) -> None:
        prepare(twin)
        twin.close()

    return act


def unsynced(twin: Twin) -> None:
    """The process dies with a roll behind it and batches that no sync has reached."""
    furnished(twin)
    job = twin.append(b"u" * 300, b"not synced")
    twin.model.submitted(job)
    assert twin.engine.write([job]) == []


def torn(twin: Twin) -> None:
    unsynced(twin)
    twin.power_loss(Random(3))


# ----- what is done -----


def grow(twin: Twin) -> None:
    twin.do(twin.append_batches([[b"x" * 50], [b"y" * 50, b"z"], [b"w" * 90]]))
    twin.do(twin.append(b"more"), twin.append(b"other", log=OTHER), twin.entries(b"entry"), twin.vote(2))


def roll_by_bytes(twin: Twin) -> None:
    for i in range(3):
        twin.do(twin.append(b"%d" % i * 350))


def roll_by_records(twin: Twin) -> None:
    twin.do(OpenLog(LOG, options=LogOptions(segment_bytes=1 << 20, segment_records=4)))
    for i in range(4):
        twin.do(twin.append(b"%d" % i, b"x", b"y"))


def roll_by_age(twin: Twin) -> None:
    twin.do(OpenLog(LOG, options=LogOptions(segment_bytes=1 << 20, segment_ms=1000)))
    for i in range(3):
        twin.now_ms += 900
        twin.do(twin.append(b"%d" % i, b"x"))


def truncate(offset: int) -> Act:
    def act(twin: Twin) -> None:
        twin.do(twin.truncate(offset), twin.append_batches([[b"instead" * 3]], epoch=5, base=min(offset, 22)))

    return act


def rebuild(keep_below: int) -> Act:
    def act(twin: Twin) -> None:
        (event,) = twin.do(RebuildLog(LOG, keep_below))
        assert isinstance(event, LogOpened)
        twin.do(twin.append(b"rebuilt"))

    return act


def cut_off(keep_below: int) -> Act:
    """D5: what a rebuild is where nothing is in doubt."""

    def act(twin: Twin) -> None:
        (event,) = twin.do(RebuildLog(LOG, keep_below, in_doubt=False))
        assert isinstance(event, LogOpened)
        twin.do(twin.append(b"cut off"))

    return act


def move_start(*offsets: int) -> Act:
    def act(twin: Twin) -> None:
        for offset in offsets:
            twin.do(MoveLogStart(LOG, offset))
        twin.do(twin.append(b"after the purge"))

    return act


def reset(twin: Twin) -> None:
    twin.do(ResetLog(LOG, 40, (EpochStart(1, 0), EpochStart(3, 30)), twin.ticket()))
    twin.do(twin.append_batches([[b"anew"]], epoch=3))


def retain(policy: RetentionPolicy) -> Act:
    def act(twin: Twin) -> None:
        twin.do(RetainLog(LOG, policy, twin.model.hw.low, twin.now_ms))

    return act


def compact(twin: Twin) -> None:
    twin.compact(max_bytes=300)


def compact_whole(twin: Twin) -> None:
    twin.compact(max_bytes=1 << 20)


def compact_in_passes(twin: Twin) -> None:
    twin.compact(max_bytes=1 << 20, policy=CompactionPolicy(0, 0, 0, map_bytes=1000))


def drop_tombstones(twin: Twin) -> None:
    twin.now_ms += 1000
    twin.compact(tombstones_below=twin.model.clean_point.low, policy=EAGER)


def scrub(twin: Twin) -> None:
    twin.scrub()


def repair(twin: Twin) -> None:
    twin.repair()


def close(twin: Twin) -> None:
    twin.do(twin.append(b"last words"))
    twin.close()


def start(twin: Twin) -> None:
    # It may die after it has removed the marker of the clean stop.
    twin.clean = False
    twin.begin()


def trash(twin: Twin) -> None:
    twin.do(TrashLog(OTHER))
    twin.do(twin.append(b"the other is gone"))


def open_fresh(twin: Twin) -> None:
    twin.do(OpenLog(LOG, fresh=True, options=TINY))
    twin.do(twin.append_batches([[b"fresh"]], epoch=7))


SCENES = [
    Scene("append", furnished, grow),
    Scene("roll by bytes", furnished, roll_by_bytes),
    Scene("roll by records", furnished, roll_by_records),
    Scene("roll by age", furnished, roll_by_age),
    Scene("truncate nothing", furnished, truncate(22)),
    Scene("truncate at a batch", furnished, truncate(19)),
    Scene("truncate within a batch", furnished, truncate(21)),
    Scene("truncate to an early segment", furnished, truncate(8)),
    Scene("truncate within an early batch", furnished, truncate(5)),
    Scene("truncate to the start", furnished, truncate(0)),
    Scene("rebuild all", furnished, rebuild(22)),
    Scene("cut off nothing", furnished, cut_off(22)),
    Scene("cut off early segments", furnished, cut_off(7)),
    Scene("rebuild within a batch", furnished, rebuild(17)),
    Scene("rebuild an early segment", furnished, rebuild(7)),
    Scene("purge within a segment", furnished, move_start(3)),
    Scene("purge segments", furnished, move_start(4, 12)),
    Scene("purge all", furnished, move_start(22)),
    Scene("reset", furnished, reset),
    Scene("retain by bytes", furnished, retain(RetentionPolicy(retention_bytes=900))),
    Scene("retain by messages", furnished, retain(RetentionPolicy(retention_messages=8))),
    Scene("retain by age", furnished, retain(RetentionPolicy(retention_ms=80))),
    Scene("compact in slices", keyed, compact),
    Scene("compact at once", keyed, compact_whole),
    Scene("compact in passes", keyed, compact_in_passes),
    Scene("compact again", compacted_once, compact),
    Scene("compact compressed batches", compressed, compact),
    Scene("drop tombstones", compacted_once, drop_tombstones),
    Scene("scrub", damaged, scrub),
    Scene("repair", known_damage, repair),
    Scene("stop cleanly", furnished, close),
    Scene("start after a clean stop", stopped(furnished), start, starts=False),
    Scene("start after a clean stop, compacted", stopped(compacted_once), start, starts=False),
    Scene("start after a kill", unsynced, start, starts=False),
    Scene("start after a power loss", torn, start, starts=False),
    Scene("start with damage", known_damage, start, starts=False),
    Scene("trash", furnished, trash),
    Scene("open fresh", furnished, open_fresh),
]


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_D4_a_crash_at_any_disk_call_of_an_operation_loses_nothing_durable(scene: Scene) -> None:
    # A start that dies is started again, and dies again.
    assert crash_everywhere(scene, deep=0 if scene.starts and scene.name != "reset" else 29) > 1


@pytest.mark.nightly
@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_D4_a_crash_at_any_disk_call_of_the_recovery_from_any_crash(scene: Scene) -> None:
    crash_everywhere(scene, deep=1, outcomes=5)


@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_D5_R5_any_disk_call_of_an_operation_may_fail(scene: Scene) -> None:
    fail_everywhere(scene, EIO)


@pytest.mark.nightly
@pytest.mark.parametrize("scene", SCENES, ids=str)
def test_D5_any_disk_call_of_an_operation_may_find_the_disk_full(scene: Scene) -> None:
    fail_everywhere(scene, ENOSPC)


# ----- durability "os" -----


@pytest.mark.parametrize("kind", ["kill", "power"])
def test_R5_R14_with_durability_os_a_kill_loses_nothing_and_every_unclean_stop_is_told(kind: str) -> None:
    """Written counts as durable: true for a kill; a power loss may take any end of the log, and says so."""
    options = LogOptions(segment_bytes=600, durability="os")
    for number in count(1):
        twin = Twin(number, options)
        twin.begin()
        twin.do(OpenLog(LOG, options=options))
        twin.do(twin.append(b"first"))
        twin.disk.crash_after(number)
        with suppress(SimulatedCrash):
            for i in range(4):
                twin.do(twin.append(b"%d" % i * 150))
            return
        apply(twin, kind, Random(number))
        TRIED['durability "os", crash'] += 1
        for _ in range(2):
            (summary,) = twin.begin().logs
            problem = twin.model.content_problem(twin.look(summary))
            assert not problem, f"call {number}: {problem}"
            assert summary.tail in (TailState.SUSPECT, TailState.DAMAGED), f"call {number}: {summary}"
            assert kind == "power" or summary.leo >= twin.model.leo.low > 0
            twin.kill()
