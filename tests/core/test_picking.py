"""What is picked of batches is what a look at each decoded record picks (S2)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.format import CorruptBatch, build_batch, compress, decode_records, encode_sparse, parse_batch
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.picking import Gathering, RecordFilter, part_of
from liftlog.types import Batch, PartitionId, Record

LOG = PartitionId(7, 2)
SUBJECTS = [b"orders.eu", b"orders.us", b"pay", b"\xff"]
KEYS = [None, b"a", b"b", b""]
FILTERS: list[tuple[tuple[str, ...], tuple[bytes, ...]]] = [
    (("orders.*",), ()),
    (("orders.eu", "pay"), (b"a",)),
    ((), (b"a", b"")),
    ((">",), ()),
    (("none",), ()),
]

records = st.dictionaries(
    st.integers(0, 40),
    st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(KEYS), st.integers(-2, 2), st.binary(max_size=40)),
)


def batches_of(
    written: dict[int, tuple[bytes, bytes | None, int, bytes]], ends: list[int], codecs: list[str]
) -> list[Batch]:
    found = []
    for number, (base, end) in enumerate(itertools.pairwise(ends)):
        there = [
            Record(offset, 1000 + later, subject, b"r", b"", key, value)
            for offset, (subject, key, later, value) in sorted(written.items())
            if base <= offset < end
        ]
        batch = encode_sparse(LOG, 3, base, end, there)
        found.append(compress(LOG, batch, codecs[number % len(codecs)]))
    return found


@given(
    written=records,
    cuts=st.sets(st.integers(1, 40)),
    codecs=st.lists(st.sampled_from(["none", "zstd"]), min_size=1, max_size=3),
    chosen=st.sampled_from(FILTERS),
    start=st.integers(0, 40),
    below=st.integers(0, 41),
    max_bytes=st.sampled_from([1, 200, 600, 1 << 20]),
)
def test_S2_rounds_of_gathering_give_all_that_matches_once_and_nothing_else(
    written: dict[int, tuple[bytes, bytes | None, int, bytes]],
    cuts: set[int],
    codecs: list[str],
    chosen: tuple[tuple[str, ...], tuple[bytes, ...]],
    start: int,
    below: int,
    max_bytes: int,
) -> None:
    batches = batches_of(written, [0, *sorted(cuts), 41], codecs)
    wanted = RecordFilter(*chosen)
    everything = [record for batch in batches for record in decode_records(batch)]
    expected = [
        record
        for record in everything
        if start <= record.offset < below and wanted.wants(record.subject, record.key)
    ]
    came: list[Record] = []
    at = start
    while at < below:
        found = Gathering(LOG, wanted, at, below, max_bytes, NO_MUTANTS)
        found.take([batch for batch in batches if batch.end_offset > at])
        assert at < found.looked <= below, "each round comes on"
        end = at
        for part in found.parts:
            assert end <= part.base_offset or part.base_offset <= at
            assert part.end_offset <= below or part in batches
            end = part.end_offset
            here = decode_records(parse_batch(LOG, part.data))
            # A batch that is wanted as a whole is sent as it is.
            came += [record for record in here if start <= record.offset < below and record.offset >= at]
        assert len(found.parts) <= 1 or sum(len(part.data) for part in found.parts) <= max_bytes
        at = found.looked
    assert came == expected


def test_S2_what_matches_whole_is_sent_as_it_is_and_one_run_as_a_dense_batch() -> None:
    written = {n: (SUBJECTS[n // 4], None, 0, b"v") for n in range(8)}
    (batch,) = batches_of(written, [0, 8], ["none"])
    assert part_of(LOG, batch, RecordFilter(["orders.*"]), 0, 8) is batch
    part = part_of(LOG, batch, RecordFilter(["orders.us"]), 0, 8)
    assert part is not None and (part.base_offset, part.count) == (4, 4)
    assert decode_records(part) == decode_records(batch)[4:]
    assert part_of(LOG, batch, RecordFilter(["pay"]), 0, 8) is None


def test_S2_what_the_system_writes_for_itself_is_nobody_s() -> None:
    batch = encode_sparse(LOG, 3, 0, 1, [Record(0, 1, b"s", b"", b"", None, b"v")], control=True)
    assert part_of(LOG, batch, RecordFilter([">"]), 0, 1) is None


def test_records_that_do_not_fill_their_batch_are_damage() -> None:
    whole = encode_sparse(LOG, 3, 0, 2, [Record(n, 1, b"s", b"", b"", None, b"v") for n in range(2)])
    cut = build_batch(LOG, 0, 3, [whole.data[64:] + b"x"], count=2, first_ms=1, last_ms=1)
    with pytest.raises(CorruptBatch, match="do not fill"):
        part_of(LOG, cut, RecordFilter(["s"]), 0, 2)


def test_S2_planted_bugs_pass_what_they_did_not_send() -> None:
    written = {n: (SUBJECTS[0], b"b" if n < 2 else b"a", 0, b"v" * 90) for n in range(6)}
    batches = batches_of(written, [0, 2, 4, 6], ["none"])
    for bug, keys, max_bytes, looked in (
        ("picked_skips_the_rest", [b"a"], 100, 6),
        ("picked_ends_at_nothing", [b"a"], 1 << 20, 6),
    ):
        right = Gathering(LOG, RecordFilter([], keys), 0, 6, max_bytes, NO_MUTANTS)
        wrong = Gathering(LOG, RecordFilter([], keys), 0, 6, max_bytes, Mutants(**{bug: True}))
        right.take(batches)
        wrong.take(batches)
        assert wrong.looked == looked
        assert right.looked < looked or len(right.parts) > len(wrong.parts)


def test_what_is_remembered_of_subjects_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.picking.SUBJECTS_KNOWN", 3)
    wanted = RecordFilter(["s.*"])
    assert all(wanted.on(b"s.%d" % n) and not wanted.on(b"t.%d" % n) for n in range(10))
    assert len(wanted.known) <= 3
