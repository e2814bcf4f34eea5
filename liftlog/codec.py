"""Compression of payloads: what a codec is called, what it is numbered, and how far its output is believed.

A payload is compressed as a whole: `u32 length of the plain payload | compressed bytes`. That number is
believed only within bounds: it may not exceed PLAIN_BYTES_MAX, no more memory than it says is taken, and the
output must have exactly this length. Bytes made to expand without end are therefore an error like any other.

The libraries are the extra `liftlog[compression]` and are imported when first needed: a node that meets no
compressed stream runs without them. Nothing is kept between calls, because the core, the storage thread and
readers call from different threads and may not share the libraries' contexts; making one costs 10 us.
"""

from __future__ import annotations

import struct

from liftlog.types import LiftlogError

CODECS = ("none", "zstd", "lz4")
"""Names of the codecs; a codec's place in this row is its number in a batch's attributes."""
PLAIN_BYTES_MAX = 64 * 1024 * 1024
ZSTD_LEVEL = 1
"""Twice as fast as the library's default of 3 and, on batches of messages, as small."""

_U32 = struct.Struct("<I")
_LENGTH_BYTES = 4


class MissingCodec(LiftlogError):
    """The library of a codec is not installed on this machine. The text names the remedy."""


class BadPayload(ValueError):
    """Compressed bytes that are not what a writer with this codec makes. The text says why."""


def number_of(codec: str) -> int:
    """The number of a codec in a batch's attributes. Raises LiftlogError for an unknown name."""
    if codec not in CODECS:
        raise LiftlogError(f"there is no codec {codec!r}; use one of: {', '.join(CODECS)}")
    return CODECS.index(codec)


def available(codec: str) -> bool:
    """Whether this machine can compress with `codec`. Raises LiftlogError for an unknown name."""
    try:
        _compressor(codec, b"")
    except MissingCodec:
        return False
    return True


def compress(codec: str, plain: bytes) -> bytes | None:
    """`plain` as a compressed payload, or None if that would not be smaller or `plain` is beyond the bound.

    Raises MissingCodec; LiftlogError for an unknown name.
    """
    if len(plain) > PLAIN_BYTES_MAX:
        return None
    packed = _compressor(codec, plain)
    if _LENGTH_BYTES + len(packed) >= len(plain):
        return None
    return _U32.pack(len(plain)) + packed


def decompress(codec: str, payload: bytes) -> bytes:
    """The plain payload, of exactly the length that the payload declares. Raises BadPayload, MissingCodec."""
    if len(payload) < _LENGTH_BYTES:
        raise BadPayload(f"{len(payload)} bytes are too few for a compressed payload")
    length: int = _U32.unpack_from(payload)[0]
    if not 0 < length <= PLAIN_BYTES_MAX:
        raise BadPayload(f"it claims {length} plain bytes; accepted: 1 to {PLAIN_BYTES_MAX}")
    packed = memoryview(payload)[_LENGTH_BYTES:]
    plain = _unpack_zstd(packed, length) if codec == "zstd" else _unpack_lz4(packed, length)
    if len(plain) != length:
        raise BadPayload(f"it claims {length} plain bytes and holds {len(plain)}")
    return plain


def _compressor(codec: str, plain: bytes) -> bytes:
    try:
        if codec == "zstd":
            import zstandard

            return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(plain)
        if codec == "lz4":
            import lz4.block

            return bytes(lz4.block.compress(plain, store_size=False))
    except ImportError:
        raise _missing(codec) from None
    number_of(codec)
    return plain


def _unpack_zstd(packed: memoryview, length: int) -> bytes:
    """The library allocates what the zstd frame itself declares, so that has to be looked at first."""
    try:
        import zstandard
    except ImportError:
        raise _missing("zstd") from None
    try:
        declared = zstandard.get_frame_parameters(packed).content_size
        if declared != length:
            raise BadPayload(f"it claims {length} plain bytes, its zstd frame {declared}")
        return zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise BadPayload(f"zstd: {error}") from None


def _unpack_lz4(packed: memoryview, length: int) -> bytes:
    try:
        import lz4.block
    except ImportError:
        raise _missing("lz4") from None
    try:
        return bytes(lz4.block.decompress(packed, uncompressed_size=length))
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise BadPayload(f"lz4: {error}") from None


def _missing(codec: str) -> MissingCodec:
    library = {"zstd": "zstandard", "lz4": "lz4"}[codec]
    return MissingCodec(
        f"codec {codec} needs the Python library {library}, which is not installed; "
        "install it with: pip install 'liftlog[compression]'"
    )
