"""Codecs: bounded on bad input, clear when a library is missing, safe from several threads."""

from __future__ import annotations

import struct
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import lz4.block
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog import codec as codecs
from liftlog.codec import (
    PLAIN_BYTES_MAX,
    BadPayload,
    MissingCodec,
    available,
    compress,
    decompress,
    number_of,
)
from liftlog.format import CorruptBatch, decode_records, parse_batch, read_header, replace_payload
from liftlog.types import LiftlogError
from tests.storage.batch_kinds import LOG, LONG, golden_2

REAL = ("zstd", "lz4")
MIB = 1024 * 1024


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def packed(codec: str, plain: bytes) -> bytes:
    payload = compress(codec, plain)
    assert payload is not None
    return payload


def test_the_numbers_of_the_codecs_are_fixed_for_ever() -> None:
    assert [number_of(codec) for codec in ("none", "zstd", "lz4")] == [0, 1, 2]
    with pytest.raises(LiftlogError, match="no codec 'gzip'"):
        number_of("gzip")
    with pytest.raises(LiftlogError, match="no codec 'gzip'"):
        available("gzip")


@pytest.mark.parametrize("codec", REAL)
@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=1, max_size=300), st.integers(1, 50))
def test_what_is_compressed_comes_back(codec: str, part: bytes, times: int) -> None:
    payload = compress(codec, part * times)
    if payload is None:
        assert len(part) * times < 400, "only what is short or random stays as it is"
    else:
        assert len(payload) < len(part) * times and decompress(codec, payload) == part * times


@pytest.mark.parametrize("codec", REAL)
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=64), st.data())
def test_bad_bytes_are_a_bad_payload_whatever_they_are(codec: str, junk: bytes, data: st.DataObject) -> None:
    good = packed(codec, b"liftlog" * 200)
    position = data.draw(st.integers(0, len(good)))
    for payload in (
        junk,
        good[:position] + junk + good[position + len(junk) :],
        good + junk,
        good[:position],
    ):
        try:
            plain = decompress(codec, payload)
        except BadPayload:
            continue
        assert len(plain) == struct.unpack_from("<I", payload)[0]


@pytest.mark.parametrize("codec", REAL)
def test_output_beyond_the_declared_length_or_the_bound_is_refused_without_the_memory(codec: str) -> None:
    """32 MiB of zeros in a few KiB: the memory that is taken stays near what is declared."""
    plain = bytes(32 * MIB)
    bomb = packed(codec, plain)[4:]
    tracemalloc.start()
    try:
        for declared in (1, 1000, 32 * MIB - 1, PLAIN_BYTES_MAX + 1, 2**32 - 1):
            tracemalloc.reset_peak()
            with pytest.raises(BadPayload):
                decompress(codec, u32(declared) + bomb)
            peak = tracemalloc.get_traced_memory()[1]
            assert peak < min(declared, PLAIN_BYTES_MAX) + 2 * MIB, (declared, peak)
    finally:
        tracemalloc.stop()
    assert decompress(codec, u32(32 * MIB) + bomb) == plain


def test_a_zstd_frame_that_declares_more_than_it_may_is_refused_before_it_is_unpacked() -> None:
    """The library allocates what the frame says: 4 GB here, of which nothing is there."""
    frame = b"\x28\xb5\x2f\xfd" + bytes([0b1010_0000]) + u32(0xFFFF_FFF0) + b"\x01\x00\x00"
    assert zstandard.get_frame_parameters(frame).content_size == 0xFFFF_FFF0
    with pytest.raises(BadPayload, match="claims 1000 plain bytes, its zstd frame 4294967280"):
        decompress("zstd", u32(1000) + frame)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"abc" * 100)
    with pytest.raises(BadPayload, match="claims 300"):
        decompress("zstd", u32(300) + unsized)


def test_bytes_behind_the_compressed_ones_are_refused() -> None:
    frame = zstandard.ZstdCompressor().compress(b"abc" * 100)
    with pytest.raises(BadPayload, match="unused"):
        decompress("zstd", u32(300) + frame + b"x")
    block = lz4.block.compress(b"abc" * 100, store_size=False)
    with pytest.raises(BadPayload):
        decompress("lz4", u32(300) + block + b"x")


@pytest.mark.parametrize("codec", REAL)
def test_what_readers_would_refuse_is_not_compressed(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codecs, "PLAIN_BYTES_MAX", 999)
    assert compress(codec, bytes(1000)) is None
    assert compress(codec, bytes(999)) is not None


@pytest.mark.parametrize("codec", REAL)
def test_a_bad_payload_makes_a_corrupt_batch(codec: str) -> None:
    frame = golden_2()[codec]
    broken = replace_payload(LOG, frame, frame[22], frame[23], frame[64:-1])
    with pytest.raises(CorruptBatch, match=f"the {codec} payload is bad"):
        decode_records(parse_batch(LOG, broken))


@pytest.mark.parametrize("codec", REAL)
def test_a_missing_library_is_one_clear_error_that_names_the_extra(
    codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = golden_2()[codec]
    for module in ("zstandard", "lz4", "lz4.block"):
        monkeypatch.setitem(sys.modules, module, None)
    assert not available(codec) and available("none")
    with pytest.raises(MissingCodec, match=r"pip install 'liftlog\[compression\]'"):
        compress(codec, b"x" * 100)
    batch = parse_batch(LOG, frame)
    assert read_header(batch.data).codec == codec, "everything but the records is read without the library"
    with pytest.raises(LiftlogError, match=f"codec {codec} needs the Python library"):
        decode_records(batch)


def test_codecs_work_from_several_threads_at_once() -> None:
    def work(number: int) -> bool:
        plain = bytes([number]) * 10_000 + b"".join(record.value or b"" for record in LONG)
        return all(decompress(codec, packed(codec, plain)) == plain for codec in REAL for _ in range(40))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(16)))
