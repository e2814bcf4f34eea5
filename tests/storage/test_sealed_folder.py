"""A whole data folder under encryption at rest: nothing in the clear, no start without the key."""

from __future__ import annotations

import pytest

from liftlog.format import verify_frame
from liftlog.messages import Durable, LogRead, ReadLog, TruncateLog
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import ENCRYPTION
from liftlog.storage.sealing import Sealer
from liftlog.types import LiftlogError, Recovered, TailState, Ticket
from sim.disk import SimDisk
from tests.storage.storage_harness import (
    LOG,
    SMALL,
    append,
    new_disk,
    opened,
    run,
    segments,
    values,
)

KEY = bytes(range(32))
SECRET = b"attack at dawn"
TICKET = Ticket(99)


def sealer(key: bytes = KEY) -> Sealer:
    """A new run of a node: its nonces begin anew, which only a test may do."""
    numbers = iter(range(1 << 30))
    return Sealer(key, lambda: next(numbers).to_bytes(12, "little"))


def start(disk: SimDisk, one: Sealer | None) -> tuple[StorageEngine, Recovered]:
    engine = StorageEngine(disk, SMALL, sealer=one)
    return engine, engine.recover(1, "disk-1", 99)


def store(engine: StorageEngine, first: int, count: int) -> None:
    for offset in range(first, first + count):
        value = SECRET + b" %d" % offset
        assert run(engine, append(offset, [value], offset + 1)) == [Durable(Ticket(offset + 1))]


def stored(disk: SimDisk, count: int = 12, clean: bool = False) -> list[bytes]:
    """A log of several segments, written with the key."""
    engine, _ = start(disk, sealer())
    opened(engine)
    store(engine, 0, count)
    if clean:
        engine.close(clean=True)
    disk.kill()
    assert len(segments(disk)) > 1
    return [SECRET + b" %d" % offset for offset in range(count)]


def contents(disk: SimDisk) -> dict[str, bytes]:
    return {path: disk.content(path) for path in disk.files()}


def with_flip(disk: SimDisk, path: str, position: int) -> None:
    """Flip a bit of a file as a decayed sector would."""
    data = bytearray(disk.content(path))
    data[position] ^= 1
    file = disk.open(path)
    file.truncate(0)
    file.append([bytes(data)])
    file.sync()
    file.close()


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_what_was_sealed_is_read_back_after_a_restart(clean: bool) -> None:
    disk = new_disk()
    expected = stored(disk, clean=clean)
    engine, recovered = start(disk, sealer())
    assert recovered.logs[0].leo == 12 and values(engine) == expected
    store(engine, 12, 3)
    assert values(engine, offset=11) == [SECRET + b" %d" % offset for offset in range(11, 15)]


def test_no_file_holds_anything_of_a_record() -> None:
    disk = new_disk()
    stored(disk, clean=True)
    plain = new_disk()
    engine, _ = start(plain, None)
    opened(engine)
    store(engine, 0, 2)
    assert any(SECRET in content for content in contents(plain).values()), "the test looks at the right files"
    assert not any(SECRET in content or KEY in content for content in contents(disk).values())


def test_batches_are_handed_out_open() -> None:
    """What readers and followers get verifies without any key (D1)."""
    disk = new_disk()
    stored(disk)
    engine, _ = start(disk, sealer())
    (event,) = run(engine, ReadLog(LOG, 1, 0, 12, 1 << 20))
    assert isinstance(event, LogRead) and len(event.batches) == 12
    for batch in event.batches:
        assert not verify_frame(LOG, batch.data).sealed


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
@pytest.mark.parametrize("other", [sealer(bytes(32)), None], ids=["another key", "no key"])
def test_without_the_right_key_a_start_changes_nothing(clean: bool, other: Sealer | None) -> None:
    disk = new_disk()
    expected = stored(disk, clean=clean)
    before = contents(disk)
    with pytest.raises(LiftlogError, match="LIFTLOG_ENCRYPTION_KEY"):
        start(disk, other)
    disk.kill()
    after = contents(disk)
    assert {path: after[path] for path in before} == before
    assert after.keys() - before.keys() <= {"lock"}
    engine, _ = start(disk, sealer())
    assert values(engine) == expected


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_wrong_key_that_the_check_cannot_tell_cuts_nothing(clean: bool) -> None:
    """The check file is gone as well: recovery works on sealed bytes, and reading says what is wrong."""
    disk = new_disk()
    expected = stored(disk, clean=clean)
    disk.remove(ENCRYPTION)
    engine, recovered = start(disk, sealer(bytes(32)))
    assert recovered.logs[0].leo == 12 and recovered.logs[0].damage == ()
    assert recovered.logs[0].tail in (TailState.CLEAN, TailState.INTACT)
    (event,) = run(engine, ReadLog(LOG, 1, 0, 12, 1 << 20))
    assert isinstance(event, LogRead) and event.damage is None and "another key" in event.error
    disk.kill()
    disk.remove(ENCRYPTION)
    engine, _ = start(disk, sealer())
    assert values(engine) == expected


def test_D2_damage_to_sealed_bytes_is_damage() -> None:
    disk = new_disk()
    stored(disk)
    with_flip(disk, segments(disk)[0], 100)
    engine, _ = start(disk, sealer())
    (event,) = run(engine, ReadLog(LOG, 1, 0, 12, 1 << 20))
    assert isinstance(event, LogRead) and event.damage is not None and event.damage.start == 0


def test_a_cut_inside_a_sealed_batch_seals_what_is_left() -> None:
    disk = new_disk()
    engine, _ = start(disk, sealer())
    opened(engine)
    run(engine, append(0, [SECRET, SECRET + b"!", b"later"], 1), TruncateLog(LOG, 2, TICKET))
    assert values(engine) == [SECRET, SECRET + b"!"]
    assert not any(SECRET in content for content in contents(disk).values())
    disk.kill()
    engine, _ = start(disk, sealer())
    assert values(engine) == [SECRET, SECRET + b"!"]


def test_encryption_can_be_switched_on_for_a_folder_that_has_none() -> None:
    disk = new_disk()
    engine, _ = start(disk, None)
    opened(engine)
    store(engine, 0, 4)
    disk.kill()
    engine, _ = start(disk, sealer())
    store(engine, 4, 4)
    disk.kill()
    engine, _ = start(disk, sealer())
    assert values(engine) == [SECRET + b" %d" % offset for offset in range(8)]
