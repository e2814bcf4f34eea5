"""A whole data folder under encryption at rest: nothing in the clear, no start without the key."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.format import SEAL_BYTES, decode_records, encode_values, read_header, verify_frame
from liftlog.messages import Durable, LogRead, ReadLog, RepairLog, Scrubbed, ScrubLog, TruncateLog
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import ENCRYPTION
from liftlog.storage.sealing import Sealer
from liftlog.storage.statefile import write_state
from liftlog.types import LiftlogError, Recovered, TailState, Ticket
from liftlog_sim.devices.disk import SimDisk
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


def start(
    disk: SimDisk, one: Sealer | None, take_over: bool = False, node: int = 1
) -> tuple[StorageEngine, Recovered]:
    engine = StorageEngine(disk, SMALL, sealer=one, take_over_open_logs=take_over)
    return engine, engine.recover(node, "disk-1", 99)


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
    engine, recovered = start(disk, sealer(bytes(32)), take_over=True)
    assert recovered.logs[0].leo == 12 and recovered.logs[0].damage == ()
    assert recovered.logs[0].tail in (TailState.CLEAN, TailState.INTACT)
    (event,) = run(engine, ReadLog(LOG, 1, 0, 12, 1 << 20))
    assert isinstance(event, LogRead) and event.damage is None and "another key" in event.error
    disk.kill()
    disk.remove(ENCRYPTION)
    engine, _ = start(disk, sealer(), take_over=True)
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


# -- batches of somebody who can write to the folder and has no key ----------------------------------------


FORGED = b"retreat at once".ljust(len(SECRET) + 2 + SEAL_BYTES, b"!")
"""As long as a sealed value: the files keep their sizes, and a start after a clean stop looks no closer."""


def forged(offset: int) -> bytes:
    """A good open batch for this place, as a node without a key would have written it."""
    return encode_values(LOG, offset, 1, 0, [FORGED]).data


def overwrite(disk: SimDisk, path: str, content: bytes) -> None:
    file = disk.open(path)
    file.truncate(0)
    file.append([content])
    file.sync()
    file.close()


def put_in_place_of(disk: SimDisk, offset: int) -> None:
    """Replace the batch at this offset, and let the rest of its segment follow."""
    for path in segments(disk):
        data, position = disk.content(path), 0
        while position < len(data):
            header = read_header(data, position)
            if header.base_offset == offset:
                rest = data[position + header.frame_bytes :]
                overwrite(disk, path, data[:position] + forged(offset) + rest)
                return
            position += header.frame_bytes
    raise AssertionError(f"no batch at {offset}")


def put_behind(disk: SimDisk, offset: int) -> None:
    path = segments(disk)[-1]
    overwrite(disk, path, disk.content(path) + forged(offset))


def read_any(engine: StorageEngine) -> tuple[list[bytes], list[LogRead]]:
    """All that any read hands out, from each offset; and the reads that found something wrong."""
    found, wrong = [], []
    for offset in range(14):
        (event,) = run(engine, ReadLog(LOG, 1, offset, 14, 1 << 20))
        assert isinstance(event, LogRead)
        found += [record.value or b"" for batch in event.batches for record in decode_records(batch)]
        wrong += [event] if event.damage is not None else []
    return found, wrong


@pytest.mark.parametrize("offset", [0, 1, 7, 10, 11])
@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_V8_an_open_batch_in_a_sealed_log_is_damage_and_nobody_gets_it(clean: bool, offset: int) -> None:
    disk = new_disk()
    stored(disk, clean=clean)
    put_in_place_of(disk, offset)
    engine, recovered = start(disk, sealer())
    found, wrong = read_any(engine)
    assert found and all(value.startswith(SECRET) for value in found)
    (log,) = recovered.logs
    if log.leo > offset and not log.damage:
        # A complete segment is not scanned at a start: who reads it finds what is wrong.
        assert wrong[0].damage is not None and wrong[0].damage.start == offset
        assert "without the key" in wrong[0].error


def test_an_open_batch_behind_the_end_is_not_taken_for_the_log_s_continuation() -> None:
    disk = new_disk()
    expected = stored(disk)
    put_behind(disk, 12)
    engine, recovered = start(disk, sealer())
    assert recovered.logs[0].leo == 12 and values(engine) == expected
    assert recovered.logs[0].tail not in (TailState.CLEAN, TailState.INTACT)


def test_a_forged_batch_is_found_by_the_scrub_and_mended_from_a_peer() -> None:
    disk = new_disk()
    expected = stored(disk, clean=True)
    put_in_place_of(disk, 1)
    engine, _ = start(disk, sealer())
    (found,) = run(engine, ScrubLog(LOG, 0, 1 << 20))
    assert isinstance(found, Scrubbed) and found.damage is not None and found.damage.start == 1
    damage = found.damage
    batches = [
        encode_values(LOG, offset, 1, 0, [expected[offset]])
        for offset in range(damage.start, damage.end)
    ]
    run(engine, RepairLog(LOG, damage, batches))
    assert values(engine) == expected
    assert not any(FORGED in disk.content(path) for path in segments(disk))


def test_V8_a_sealed_folder_whose_note_was_taken_away_or_changed_does_not_start() -> None:
    disk = new_disk()
    stored(disk)
    put_in_place_of(disk, 1)
    note = disk.content(ENCRYPTION)
    others = new_disk()
    start(others, sealer(), node=2)[0].close(clean=True)
    plain = new_disk()
    write_state(plain, ENCRYPTION, sealer().check_value)
    widened = new_disk()
    more = msgspec.msgpack.encode([sealer().check_value, 1, [[*LOG, 99]]])
    write_state(widened, ENCRYPTION, more + bytes(32))
    for content, words in (
        (None, "took the file 'encryption' away"),
        (others.content(ENCRYPTION), r"another node's \(2\)"),
        (plain.content(ENCRYPTION), "take_over_open_logs"),
        (widened.content(ENCRYPTION), "altered without the key"),
    ):
        disk.remove(ENCRYPTION)
        if content is not None:
            disk.open(ENCRYPTION, create=True).append([content])
        with pytest.raises(LiftlogError, match=words):
            start(disk, sealer())
        disk.kill()
        if content is None:
            disk.open(ENCRYPTION, create=True).append([note])
    overwrite(disk, ENCRYPTION, note)
    engine, _ = start(disk, sealer())
    assert FORGED not in read_any(engine)[0]


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_key_for_a_folder_that_has_none_is_said_once_and_open_batches_end_there(clean: bool) -> None:
    disk = new_disk()
    engine, _ = start(disk, None)
    opened(engine)
    store(engine, 0, 4)
    engine.close(clean=clean)
    disk.kill()
    with pytest.raises(LiftlogError, match="encryption is being switched on"):
        start(disk, sealer())
    disk.kill()
    engine, _ = start(disk, sealer(), take_over=True)
    store(engine, 4, 4)
    disk.kill()
    expected = [SECRET + b" %d" % offset for offset in range(8)]
    for take_over in (True, False):
        engine, _ = start(disk, sealer(), take_over)
        assert values(engine) == expected
        disk.kill()
    put_in_place_of(disk, 4)
    engine, _ = start(disk, sealer(), take_over=True)
    assert FORGED not in read_any(engine)[0]
