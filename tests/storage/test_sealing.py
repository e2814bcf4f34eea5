"""Encryption at rest: readable headers, no plain text on disk, a wrong key told from damage (D1, D2)."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.format import (
    HEADER_BYTES,
    PREFIX_BYTES,
    CorruptBatch,
    decode_records,
    encode_records,
    read_header,
    replace_payload,
    stamp,
    verify_frame,
)
from liftlog.storage.layout import ENCRYPTION
from liftlog.storage.sealing import Sealer, WrongKey, check_key
from liftlog.types import RAFT_LOG, InvariantViolation, LiftlogError, PartitionId, Record
from liftlog_sim.devices.disk import SimDisk
from tests.storage.batch_kinds import KEY, LOG, MIXED, golden_1, kinds, sealer, stamped

OTHER_KEY = bytes(32)
SECRET = Record(41, 1_700_000_000_000, b"subject", b"reply", b"headers", b"key", b"attack at dawn")


class Counter:
    """Nonces that never repeat: 1, 2, 3, ..."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> bytes:
        self.number += 1
        return self.number.to_bytes(12, "little")


def frame_of(*records: Record) -> bytes:
    return stamped(encode_records(LOG, 5, records or MIXED).data)


def test_nothing_of_a_record_lies_on_disk() -> None:
    written = sealer().seal(LOG, frame_of(SECRET))
    for text in SECRET[2:]:
        assert isinstance(text, bytes) and text not in written
    assert decode_records(sealer().open(LOG, written)) == [SECRET]


@pytest.mark.parametrize("kind", ["dense", "sparse", "empty span", "control", "zstd", "lz4", "zstd sparse"])
def test_opening_gives_back_the_frame_that_travels_byte_for_byte(kind: str) -> None:
    data = kinds()[kind][0]
    written = sealer().seal(LOG, data)
    assert sealer().open(LOG, written) == data
    assert sealer().open(LOG, data) == data, "a log may hold batches from before encryption was switched on"
    old, new = read_header(data), verify_frame(LOG, written)
    assert new.sealed and new._replace(attributes=old.attributes, frame_bytes=old.frame_bytes) == old


def test_version_1_stays_version_1_when_it_is_sealed_and_opened() -> None:
    written = sealer().seal(LOG, golden_1())
    assert written[22] == 1 and sealer().open(LOG, written) == golden_1()


def test_a_replica_stamps_a_sealed_frame_like_any_other() -> None:
    data = frame_of()
    written = sealer().seal(LOG, data)
    again = stamp(written, 17) + written[PREFIX_BYTES:]
    assert verify_frame(LOG, again).synced_below == 17
    opened = sealer().open(LOG, again)
    assert opened[PREFIX_BYTES:] == data[PREFIX_BYTES:] and read_header(opened).synced_below == 17


def test_damage_to_a_sealed_frame_is_seen_without_the_key() -> None:
    written = sealer().seal(LOG, frame_of())
    for position in range(len(written)):
        flipped = bytearray(written)
        flipped[position] ^= 0x20
        with pytest.raises(CorruptBatch):
            verify_frame(LOG, bytes(flipped))


def test_a_wrong_key_is_an_error_of_its_own_and_never_damage() -> None:
    written = Sealer(OTHER_KEY, Counter()).seal(LOG, frame_of())
    assert verify_frame(LOG, written).sealed, "good bytes"
    with pytest.raises(
        WrongKey, match=r"offset 41 was encrypted with another key.*encryption_key_file"
    ) as error:
        sealer().open(LOG, written)
    assert not isinstance(error.value, ValueError), "handlers of CorruptBatch must not catch it"


def test_D2_damage_that_was_not_verified_is_still_damage_to_who_opens_it() -> None:
    """A reader that opened before it verified must not blame the key for a flipped bit."""
    written = bytearray(sealer().seal(LOG, frame_of()))
    written[HEADER_BYTES + 20] ^= 1
    with pytest.raises(CorruptBatch, match="checksum"):
        sealer().open(LOG, bytes(written))


@pytest.mark.parametrize("position", [22, 24, 32, 40, 44, 52])
def test_a_header_that_somebody_altered_with_good_checksums_does_not_open(position: int) -> None:
    """Without the key nobody can move a payload to another offset, epoch or time."""
    written = sealer().seal(LOG, frame_of())
    moved = bytearray(written)
    moved[position] = 1 if position == 22 else moved[position] ^ 2
    forged = replace_payload(LOG, bytes(moved), moved[22], moved[23], written[HEADER_BYTES:])
    verify_frame(LOG, forged)
    with pytest.raises(WrongKey):
        sealer().open(LOG, forged)


def test_a_payload_moved_to_another_log_does_not_open() -> None:
    written = sealer().seal(LOG, frame_of())
    other = PartitionId(7, 3)
    forged = replace_payload(other, written, written[22], written[23], written[HEADER_BYTES:])
    verify_frame(other, forged)
    with pytest.raises(WrongKey):
        sealer().open(other, forged)


def test_the_same_batch_twice_gives_different_bytes_as_long_as_nonces_differ() -> None:
    one = Sealer(KEY, Counter())
    written = [one.seal(log, frame_of()) for log in (LOG, LOG, PartitionId(8, 0), RAFT_LOG)]
    assert len({data[HEADER_BYTES + 12 :] for data in written}) == 4
    same_nonce = [sealer().seal(log, frame_of())[HEADER_BYTES:] for log in (LOG, PartitionId(8, 0))]
    assert same_nonce[0] != same_nonce[1], "each log has a key of its own"


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=3000), st.binary(min_size=32, max_size=32), st.binary(min_size=12, max_size=12))
def test_any_value_comes_back_under_any_key(value: bytes, key: bytes, nonce: bytes) -> None:
    data = frame_of(SECRET._replace(value=value))
    one = Sealer(key, lambda: nonce)
    written = one.seal(LOG, data)
    assert one.open(LOG, written) == data
    if key != OTHER_KEY:
        with pytest.raises(WrongKey):
            Sealer(OTHER_KEY, Counter()).open(LOG, written)


def test_wrong_use_is_refused() -> None:
    with pytest.raises(LiftlogError, match="has 16 bytes; it must have 32"):
        Sealer(bytes(16), Counter())
    with pytest.raises(InvariantViolation, match="sealed again"):
        sealer().seal(LOG, sealer().seal(LOG, frame_of()))
    with pytest.raises(InvariantViolation, match="nonce of 3 bytes"):
        Sealer(KEY, lambda: b"abc").seal(LOG, frame_of())


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "cryptography"]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(LiftlogError, match=r"pip install 'liftlog\[encryption\]'"):
        Sealer(KEY, Counter())


def test_more_logs_than_are_kept_ready_and_more_threads_than_one() -> None:
    one = Sealer(KEY, Counter())
    data = frame_of(SECRET)
    logs = [PartitionId(stream, 0) for stream in range(1, 5000)]
    written = {log: one.seal(log, data) for log in logs}

    def opens(log: PartitionId) -> bool:
        return all(one.open(log, written[log])[20:] == data[20:] for _ in range(3))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(opens, logs[::10]))


# --- the folder's key -------------------------------------------------------------------------------------


def test_a_folder_remembers_the_key_it_was_written_with() -> None:
    disk = SimDisk(Random(0))
    check_key(disk, None, 1, False)
    check_key(disk, sealer(), 1, False)
    check_key(disk, sealer(), 1, False)
    assert KEY not in disk.content(ENCRYPTION)
    with pytest.raises(WrongKey, match=r"another key.*LIFTLOG_ENCRYPTION_KEY"):
        check_key(disk, Sealer(OTHER_KEY, Counter()), 1, False)
    with pytest.raises(LiftlogError, match="no key was given"):
        check_key(disk, None, 1, False)


def test_the_check_value_is_no_key() -> None:
    """It lies on the disk beside what it checks."""
    value = sealer().check_value
    assert value != KEY and len(value) == 32
    with pytest.raises(WrongKey):
        Sealer(value, Counter()).open(LOG, sealer().seal(LOG, frame_of()))


def test_M4_a_damaged_key_check_is_named_with_the_remedy() -> None:
    disk = SimDisk(Random(0))
    check_key(disk, sealer(), 1, False)
    for position in range(len(disk.content(ENCRYPTION))):
        content = bytearray(disk.content(ENCRYPTION))
        content[position] ^= 1
        damaged = SimDisk(Random(0))
        damaged.open(ENCRYPTION, create=True).append([bytes(content)])
        with pytest.raises(LiftlogError, match="remove that file"):
            check_key(damaged, sealer(), 1, False)
