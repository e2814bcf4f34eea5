"""docs/log-format.md is enough to read a log: the golden batches, read with the page's own numbers (D1).

Nothing here uses liftlog's decoder: what the page says is done by hand, as in any other language.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import lz4.block
import msgspec
import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from google_crc32c import value as crc32c

from liftlog.format import VERSION
from liftlog.messages import CheckpointHw, SaveHardState
from liftlog.storage.sealing import note_open_logs
from liftlog.types import HardState, Ticket
from tests.storage.batch_kinds import KEY, MIXED, golden_1, golden_2, kinds, sealer
from tests.storage.storage_harness import LOG, new_disk, opened, run, start, store

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "log-format.md").read_text()
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.M)
STREAM, PARTITION = (7).to_bytes(8, "little"), (2).to_bytes(4, "little")
FRAMES = {"version 1": golden_1(), **golden_2()}


def positions() -> dict[str, tuple[int, int]]:
    """Every header field of the page's table; each ends where the next one begins."""
    rows = [(int(position), name) for position, name in ROW.findall(PAGE)] + [(64, "")]
    ends = [position for position, _ in rows[1:]]
    return {name: (position, end) for (position, name), end in zip(rows, ends, strict=False)}


def attribute(name: str) -> int:
    """Number of the bit that the page gives an attribute."""
    row = re.search(rf"^\| (\d) \| {name} \|", PAGE, re.M)
    assert row is not None, name
    return int(row[1])


class Fields(NamedTuple):
    """What of a header the tests compare."""

    synced_below: int
    local_crc: int
    length: int
    crc: int
    magic: int
    version: int
    attributes: int
    base_offset: int
    epoch: int
    count: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    records: int


def fields(data: bytes) -> Fields:
    return Fields(**{name: int.from_bytes(data[at:end], "little") for name, (at, end) in positions().items()})


def test_D1_the_page_reads_the_header_of_a_plain_batch() -> None:
    found = fields(FRAMES["dense"])
    assert (found.synced_below, found.base_offset, found.epoch, found.count) == (40, 41, 5, 3)
    assert (found.magic, found.version, found.attributes, found.records) == (0x4CF5, VERSION, 0, 0)
    assert (found.first_timestamp_ms, found.last_timestamp_ms) == (1_700_000_000_000, 1_700_000_000_250)
    assert fields(FRAMES["version 1"]).version == 1
    assert re.search(rf"^\| 22 \| `version` \| {VERSION};", PAGE, re.M)


@pytest.mark.parametrize("kind", FRAMES)
def test_D1_the_page_verifies_every_kind_of_batch(kind: str) -> None:
    data = FRAMES[kind]
    found = fields(data)
    assert found.length + 16 == len(data)
    assert found.local_crc == crc32c(data[:8] + data[16:20])
    assert found.crc == crc32c(STREAM + PARTITION + data[12:16] + data[20:])


def by_hand(data: bytes) -> list[tuple[int, int, list[bytes | None]]]:
    """(offset, timestamp, strings) of each record, as the page says."""
    found, payload = fields(data), data[64:]
    if found.attributes >> attribute("SEALED") & 1:
        key = HKDF(SHA256(), 32, None, b"liftlog log " + STREAM + PARTITION).derive(KEY)
        header = bytearray(data[20:64])
        header[3] &= 0x7F
        payload = AESGCM(key).decrypt(payload[:12], payload[12:], STREAM + PARTITION + bytes(header))
    codec = found.attributes & 3
    if codec:
        length = int.from_bytes(payload[:4], "little")
        assert length <= int(re.search(r"64 MiB \((\d+)\)", PAGE)[1])  # type: ignore[index]
        if codec == 1:
            payload = zstandard.ZstdDecompressor().decompress(payload[4:])
        else:
            payload = lz4.block.decompress(payload[4:], uncompressed_size=length)
        assert len(payload) == length
    sparse = found.attributes >> attribute("SPARSE") & 1
    return split(found, payload, bool(sparse))


def split(found: Fields, payload: bytes, sparse: bool) -> list[tuple[int, int, list[bytes | None]]]:
    def number(at: int, length: int) -> int:
        return int.from_bytes(payload[at : at + length], "little", signed=length == 4)

    at = 0
    records: list[tuple[int, int, list[bytes | None]]] = []
    while at < len(payload):
        total, place = number(at, 4), number(at + 4, 4) if sparse else len(records)
        end = at + 4 + total
        at += 4 if sparse else 0
        lengths = [number(at + 8, 2), number(at + 10, 2), *(number(at + i, 4) for i in (12, 16, 20))]
        assert total == (24 if sparse else 20) + sum(max(0, length) for length in lengths)
        time_ms = found.first_timestamp_ms + number(at + 4, 4)
        at += 24
        strings: list[bytes | None] = []
        for length in lengths:
            strings.append(None if length < 0 else payload[at : at + length])
            at += max(0, length)
        assert at == end
        records.append((found.base_offset + place, time_ms, strings))
    assert len(records) == (found.records if sparse else found.count)
    return records


@pytest.mark.parametrize("kind", FRAMES)
def test_D1_the_page_reads_the_records_of_every_kind_of_batch(kind: str) -> None:
    expected = MIXED if kind == "version 1" else kinds()[kind][1]
    assert by_hand(FRAMES[kind]) == [
        (record.offset, record.timestamp_ms, list(record[2:])) for record in expected
    ]


def test_D1_the_page_states_the_rule_for_batches_of_newer_versions() -> None:
    """Whoever writes a program by the page must not take a newer batch for damage."""
    rule = PAGE.partition("**Forward compatibility.**")[2].partition("## ")[0]
    for word in ("local_crc", "`crc`", "`magic`", "`version`", "64 bytes", "newer", "never", "upgraded"):
        assert word in rule, word
    for name in ("batch-1.hex", "batches-2.hex"):
        assert name in PAGE and (ROOT / "tests" / "golden" / name).exists()


def test_M4_the_page_tells_how_to_check_a_key() -> None:
    assert "| `encryption` | `[check value, node, [[stream, partition, offset], ...]]`" in PAGE
    assert "`liftlog key check`" in PAGE and "`liftlog note `" in PAGE
    disk = new_disk()
    note_open_logs(disk, sealer(), 7, {LOG: 12})
    content, proof = disk.content("encryption")[16:-32], disk.content("encryption")[-32:]
    check_value = HKDF(SHA256(), 32, None, b"liftlog key check").derive(KEY)
    assert msgspec.msgpack.decode(content) == [check_value, 7, [[*LOG, 12]]]
    assert proof == HKDF(SHA256(), 32, None, b"liftlog note " + content).derive(KEY)


def test_M4_the_page_reads_the_state_files_and_names_every_file_there_is() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    store(engine, 2)
    run(engine, SaveHardState(HardState(3, 2), Ticket(1)), CheckpointHw(LOG, 1))
    engine.close(clean=True)
    contents: dict[str, object] = {}
    for path in disk.files():
        assert re.search(rf"\b{path.split('/')[0]}\b", PAGE), f"{path} is not on the page"
        if "/" not in path:
            data = disk.content(path)
            content = data[16:]
            assert data[:8] == b"LIFTSTA1" and int.from_bytes(data[8:12], "little") == len(content)
            assert int.from_bytes(data[12:16], "little") == crc32c(path.encode() + b"\0" + content)
            contents[path] = msgspec.msgpack.decode(content)
    assert contents == {
        "identity": {
            "node": 1,
            "disk_id": "disk-1",
            "incarnation": 0,
            "vote_id": "",
            "renewing": False,
            "cluster_epoch": 0,
            "recovery": "",
            "recovering": False,
        },
        "vote": {
            "term": 3,
            "voted_for": 2,
            "peer_disks": [],
            "vote_withheld": False,
            "born": False,
            "voted_disk": "",
        },
        "logs": [[7, 0]],
        "hw": [[[7, 0], 1], [[0, 0], 0]],
        "clean": [[[0, 0], 0, [], 1], [[7, 0], 2, [[1, 0]], 1]],
    }
