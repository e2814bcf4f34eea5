"""One batch of every kind that the format knows, and the golden files to hold it against."""

from __future__ import annotations

from pathlib import Path

from liftlog.format import PREFIX_BYTES, compress, encode_records, encode_sparse, stamp
from liftlog.storage.sealing import Sealer
from liftlog.types import Batch, PartitionId, Record

FOLDER = Path(__file__).parent.parent / "golden"
LOG = PartitionId(7, 2)
START_MS = 1_700_000_000_000
KEY = bytes(range(32))
NONCE = b"liftlognonce"

MIXED = [
    Record(41, START_MS, b"orders.eu", b"_INBOX.1", b"", None, b"first"),
    Record(42, START_MS + 250, b"orders.eu", b"", b"NATS/1.0\r\nA: b\r\n\r\n", b"key", b""),
    Record(43, START_MS - 1, b"", b"", b"", b"", None),
]
"""Null and empty keys and values, headers, a clock that steps back."""
LONG = [Record(41 + i, START_MS, b"orders.eu", b"", b"", b"k%d" % i, b"pay" * 40) for i in range(6)]
"""Compressible."""
SYNCED_BELOW = 40

COMPRESSED = ("zstd", "lz4", "zstd sparse", "sealed zstd")
"""Kinds whose bytes may differ from one version of a library to the next: kept to be read only."""


def golden_1() -> bytes:
    return bytes.fromhex((FOLDER / "batch-1.hex").read_text())


def golden_2() -> dict[str, bytes]:
    """Frames by kind, from lines of hex under lines of `# kind`."""
    frames: dict[str, str] = {}
    kind = ""
    for line in (FOLDER / "batches-2.hex").read_text().splitlines():
        if line.startswith("#"):
            kind = line.removeprefix("#").strip()
            frames[kind] = ""
        else:
            frames[kind] += line.strip()
    return {kind: bytes.fromhex(text) for kind, text in frames.items()}


def sealer(key: bytes = KEY) -> Sealer:
    return Sealer(key, lambda: NONCE)


def kinds() -> dict[str, tuple[bytes, list[Record]]]:
    """(frame, its records) of every kind, all of LOG and stamped alike."""
    dense = encode_records(LOG, 5, MIXED)
    sparse = [MIXED[0], MIXED[2]]
    holes = encode_sparse(LOG, 5, 41, 50, sparse)
    empty = encode_sparse(LOG, 5, 41, 50, [])
    long = encode_records(LOG, 5, LONG)
    thinned = encode_sparse(LOG, 5, 41, 47, LONG[1:])
    control = encode_records(LOG, 5, MIXED[:1], control=True)
    zstd = compress(LOG, long, "zstd")
    batches: dict[str, tuple[Batch, list[Record]]] = {
        "dense": (dense, MIXED),
        "sparse": (holes, sparse),
        "empty span": (empty, []),
        "control": (control, MIXED[:1]),
        "zstd": (zstd, LONG),
        "lz4": (compress(LOG, long, "lz4"), LONG),
        "zstd sparse": (compress(LOG, thinned, "zstd"), LONG[1:]),
    }
    frames = {kind: (stamped(batch.data), records) for kind, (batch, records) in batches.items()}
    for kind, sealed in (("sealed", "dense"), ("sealed empty span", "empty span"), ("sealed zstd", "zstd")):
        data, records = frames[sealed]
        frames[kind] = (sealer().seal(LOG, data), records)
    frames["sealed version 1"] = (sealer().seal(LOG, golden_1()), MIXED)
    return frames


def stamped(data: bytes) -> bytes:
    return stamp(data, SYNCED_BELOW) + data[PREFIX_BYTES:]


def as_text(frames: dict[str, bytes]) -> str:
    """The text of the golden file."""
    lines = []
    for kind, data in frames.items():
        text = data.hex()
        lines += [f"# {kind}", *(text[i : i + 96] for i in range(0, len(text), 96))]
    return "\n".join(lines) + "\n"
