"""docs/log-format.md is enough to read a log: the golden batch, read with the page's own numbers (D1)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from google_crc32c import value as crc32c

from liftlog.messages import CheckpointHw, SaveHardState
from liftlog.types import HardState, Ticket
from tests.storage.storage_harness import LOG, new_disk, opened, run, start, store

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "log-format.md").read_text()
GOLDEN = bytes.fromhex((ROOT / "tests" / "golden" / "batch.hex").read_text())
ROW = re.compile(r"^\| (\d+) \| `(\w+)` \|", re.M)


def fields() -> dict[str, int]:
    """Every header field of the page's table; each ends where the next one begins."""
    rows = [(int(position), name) for position, name in ROW.findall(PAGE)] + [(64, "")]
    ends = [position for position, _ in rows[1:]]
    return {
        name: int.from_bytes(GOLDEN[position:end], "little")
        for (position, name), end in zip(rows, ends, strict=False)
    }


def test_D1_the_page_reads_the_header_of_the_golden_batch() -> None:
    found = fields()
    assert (found["synced_below"], found["base_offset"], found["epoch"], found["count"]) == (40, 41, 5, 3)
    assert (found["magic"], found["version"], found["attributes"], found["reserved"]) == (0x4CF5, 1, 0, 0)
    assert (found["first_timestamp_ms"], found["last_timestamp_ms"]) == (1_700_000_000_000, 1_700_000_000_250)
    assert found["length"] + 16 == len(GOLDEN)
    assert found["local_crc"] == crc32c(GOLDEN[:8] + GOLDEN[16:20])
    stream, partition = (7).to_bytes(8, "little"), (2).to_bytes(4, "little")
    assert found["crc"] == crc32c(stream + partition + GOLDEN[12:16] + GOLDEN[20:])


def test_D1_the_page_reads_the_records_of_the_golden_batch() -> None:
    def number(at: int, length: int) -> int:
        return int.from_bytes(GOLDEN[at : at + length], "little", signed=length == 4)

    at, records = 64, []
    while at < len(GOLDEN):
        lengths = [number(at + 8, 2), number(at + 10, 2), *(number(at + i, 4) for i in (12, 16, 20))]
        assert number(at, 4) == 20 + sum(max(0, length) for length in lengths)
        delta, at = number(at + 4, 4), at + 24
        strings: list[bytes | None] = []
        for length in lengths:
            strings.append(None if length < 0 else GOLDEN[at : at + length])
            at += max(0, length)
        records.append((delta, strings))
    assert records[0] == (0, [b"orders.eu", b"_INBOX.1", b"", None, b"first"])
    assert records[1][1][3:] == [b"key", b""]
    assert records[2] == (-1, [b"", b"", b"", b"", None])


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
        "identity": {"node": 1, "disk_id": "disk-1", "incarnation": 0},
        "vote": {"term": 3, "voted_for": 2, "peer_disks": [], "vote_withheld": False, "born": False},
        "hw": [[[7, 0], 1]],
        "clean": [[[0, 0], 0, []], [[7, 0], 2, [[1, 0]]]],
    }
