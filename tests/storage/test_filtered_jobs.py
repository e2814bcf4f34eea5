"""Storage picks what a reader wants out of batches of any kind, a bounded part of the log at once (S2)."""

from __future__ import annotations

from random import Random

import pytest

from liftlog.format import compress, decode_records, encode_records
from liftlog.messages import AppendLog, LogRead, OpenLog, Picked, ReadLog
from liftlog.storage import answers
from liftlog.storage.engine import StorageEngine
from liftlog.storage.sealing import Sealer
from liftlog.types import PartitionId, Record, Ticket
from liftlog_sim.devices.disk import SimDisk

LOG = PartitionId(3, 1)


def engine_with(codec: str, sealed: bool = False) -> StorageEngine:
    """A log of a hundred batches of ten; one record in ten is on `s.hit`, with key k."""
    sealer = Sealer(bytes(32), lambda: Random(2).randbytes(12)) if sealed else None
    engine = StorageEngine(SimDisk(Random(1)), sealer=sealer)
    engine.recover(1, "d", 1)
    engine.write([OpenLog(LOG)])
    batches = []
    for base in range(0, 1000, 10):
        records = [
            Record(
                offset,
                1000 + offset,
                b"s.hit" if offset % 10 == 4 else b"s.miss",
                b"",
                b"",
                b"k" if offset % 10 == 4 else None,
                b"v" * 100,
            )
            for offset in range(base, base + 10)
        ]
        batches.append(compress(LOG, encode_records(LOG, 1, records), codec))
    engine.write([AppendLog(LOG, batches, Ticket(1))])
    engine.sync()
    return engine


def pick(engine: StorageEngine, offset: int, limit: int, max_bytes: int, picked: Picked) -> LogRead:
    job = ReadLog(
        log=LOG, request=1, offset=offset, limit=limit, max_bytes=max_bytes, spans=True, picked=picked
    )
    (event,) = engine.write([job])
    assert isinstance(event, LogRead) and not event.error and not event.spans
    return event


@pytest.mark.parametrize("picked", [Picked(("s.hit",), (), 995), Picked((), (b"k",), 995)])
@pytest.mark.parametrize(("codec", "sealed"), [("none", False), ("zstd", False), ("none", True)])
@pytest.mark.parametrize("max_bytes", [1, 1000, 1 << 20])
def test_S2_all_that_matches_comes_in_rounds(
    codec: str, sealed: bool, max_bytes: int, picked: Picked
) -> None:
    engine = engine_with(codec, sealed)
    came: list[int] = []
    at = 0
    while at < 995:
        event = pick(engine, at, 1000, max_bytes, picked)
        assert event.looked > at
        came += [record.offset for batch in event.batches for record in decode_records(batch)]
        at = event.looked
    assert came == list(range(4, 995, 10))


def test_S2_one_job_looks_at_a_bounded_part_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SCAN_BYTES", 4000)
    monkeypatch.setattr(answers, "SLICE_BYTES", 2000)
    event = pick(engine_with("none"), 0, 1000, 1 << 20, Picked(("none",), (), 1000))
    assert event.batches == [] and 0 < event.looked < 100


def test_S2_of_a_batch_in_which_the_hw_lies_what_is_below_it_is_picked() -> None:
    engine = engine_with("zstd")
    nothing = pick(engine, 990, 996, 1 << 20, Picked(("s.*",), (), 996))
    assert nothing.looked == 990, "no whole batch lies below the limit"
    event = pick(engine, 990, 1000, 1, Picked(("s.*",), (), 996))
    assert event.looked == 996
    assert [record.offset for record in decode_records(event.batches[0])] == list(range(990, 996))
