"""`liftlog log dump`: the batches and records of a log as they lie in its files, damage included."""

from __future__ import annotations

import argparse
import base64
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from liftlog.codec import MissingCodec
from liftlog.commands.common import positive_count, print_json
from liftlog.commands.logfolder import Folder, add_folder_options, open_folder
from liftlog.diskkey import encryption_key
from liftlog.format import Header, SealedBatch, decode_records
from liftlog.storage.inspect import Stretch, stretches
from liftlog.storage.layout import log_directory, segment_bases, segment_path
from liftlog.storage.sealing import Sealer
from liftlog.terminal import printable
from liftlog.types import LiftlogError, PartitionId, Record

SHOWN_BYTES = 120
"""Of a record's byte strings, in text; JSON has all of them."""


def add_dump_parser(kinds: Any) -> None:
    dump = kinds.add_parser(
        "dump",
        help="print batches and records",
        description="One line per batch: position in the file, offsets, epoch, records, bytes, flags (codec, "
        "S sparse, C control, E encrypted), synced_below, timestamps. With --json one object per line; byte "
        "strings are base64. Damage is shown where it is; exit code 1 if there was any.",
    )
    add_folder_options(dump)
    dump.add_argument("--offset", type=int, default=0, metavar="O", help="begin with the batch that holds it")
    dump.add_argument("--limit", type=positive_count, metavar="N", help="at most N batches of each log")
    dump.add_argument("--records", action="store_true", help="print the records as well")
    dump.add_argument(
        "--key-file",
        type=Path,
        metavar="F",
        help="key of an encrypted folder (environment LIFTLOG_ENCRYPTION_KEY)",
    )
    dump.set_defaults(run=run_dump)


def run_dump(options: argparse.Namespace) -> int:
    key = encryption_key(options.key_file, os.environ)
    sealer = None if key is None else Sealer(key, lambda: b"")
    folder = open_folder(options.folder, options.stream, options.partition, writable=False)
    try:
        damaged = [_dump_log(folder, log, options, sealer) for log in folder.logs]
    except OSError as error:
        raise LiftlogError(f"cannot read {options.folder}: {error}") from error
    finally:
        folder.close()
    return 1 if any(damaged) else 0


def _dump_log(folder: Folder, log: PartitionId, options: argparse.Namespace, sealer: Sealer | None) -> bool:
    """Whether there was damage."""
    damaged = False
    left = options.limit
    bases = segment_bases(folder.disk, log_directory(log))
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if following is not None and following <= options.offset:
            continue
        path = segment_path(log, base)
        if not options.json:
            print(path)
        for stretch in stretches(folder.disk, log, base, options.offset):
            if left == 0:
                return damaged
            if stretch.header is None:
                damaged = True
                if options.json:
                    print_json({"file": path, "byte": stretch.byte, "damage": stretch.problem})
                else:
                    print(f"  byte {stretch.byte:>10}  DAMAGE  {stretch.problem}")
                continue
            left = None if left is None else left - 1
            _dump_batch(log, path, stretch, stretch.header, options, sealer)
    return damaged


def _dump_batch(
    log: PartitionId,
    path: str,
    stretch: Stretch,
    header: Header,
    options: argparse.Namespace,
    sealer: Sealer | None,
) -> None:
    records, hidden = _records(log, header, stretch.frame, sealer) if options.records else ([], "")
    if options.json:
        content = {"content": hidden or [_record_json(record) for record in records]}
        line = {"file": path, "byte": stretch.byte} | _header_json(header)
        print_json(line | content if options.records else line)
        return
    flags = [header.codec] + ["S"] * header.sparse + ["C"] * header.control + ["E"] * header.sealed
    print(
        f"  byte {stretch.byte:>10}  offsets [{header.base_offset}, {header.end_offset})  "
        f"epoch {header.epoch}  {header.records} records  {header.frame_bytes} bytes  {' '.join(flags)}  "
        f"synced_below {header.synced_below}  "
        f"{_time(header.first_timestamp_ms)} to {_time(header.last_timestamp_ms)}"
    )
    if hidden:
        print(f"    {hidden}")
    for record in records:
        print(f"    {_record_text(record)}")


def _header_json(header: Header) -> dict[str, object]:
    return {
        "bytes": header.frame_bytes,
        "base_offset": header.base_offset,
        "end_offset": header.end_offset,
        "epoch": header.epoch,
        "records": header.records,
        "codec": header.codec,
        "sparse": header.sparse,
        "control": header.control,
        "encrypted": header.sealed,
        "synced_below": header.synced_below,
        "first_timestamp_ms": header.first_timestamp_ms,
        "last_timestamp_ms": header.last_timestamp_ms,
    }


def _records(
    log: PartitionId, header: Header, frame: bytes, sealer: Sealer | None
) -> tuple[list[Record], str]:
    """The records, or why they cannot be shown."""
    try:
        if header.sealed and sealer is not None:
            frame = sealer.open(log, frame)
        return decode_records(frame), ""
    except SealedBatch:
        return [], "the records are encrypted: give the key with --key-file or LIFTLOG_ENCRYPTION_KEY"
    except MissingCodec as error:
        return [], str(error)


def _record_json(record: Record) -> dict[str, object]:
    return {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "subject": _base64(record.subject),
        "reply": _base64(record.reply),
        "headers": _base64(record.headers),
        "key": _base64(record.key),
        "value": _base64(record.value),
    }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _record_text(record: Record) -> str:
    parts = [str(record.offset), _time(record.timestamp_ms)]
    if record.subject:
        parts.append(printable(record.subject))
    for name in ("reply", "headers"):
        data = getattr(record, name)
        if data:
            parts.append(f"{name} {_shown(data)}")
    if record.key is not None:
        parts.append(f"key {_shown(record.key)}")
    parts.append("no value" if record.value is None else _shown(record.value))
    return "  ".join(parts)


def _shown(data: bytes) -> str:
    if len(data) <= SHOWN_BYTES:
        return repr(data)[1:]
    return f"{repr(data[:SHOWN_BYTES])[1:]}... ({len(data)} bytes)"


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
