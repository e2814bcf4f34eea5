"""Frames that only who took part in the handshake can have written, each once and in order (V6). Without IO.

    frame  =  u32 length (of what follows)  |  tag, 16 bytes  |  u64 number of the frame  |  msgpack

The tag covers number and message under a key that belongs to this direction of this connection. It is a cut
HMAC-SHA256, or, where both nodes have the library cryptography, GMAC: AES-256-GCM that encrypts nothing, with
the number as its nonce, at a tenth of the cost. A frame that was changed, left out, repeated, moved, or
brought over from another connection ends the connection. Nothing is hidden: who listens on the wire reads
along (docs/security.md).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from struct import Struct as Layout

import msgspec

from liftlog.api.handshake import GMAC_TAGS, HMAC_TAGS
from liftlog.api.wire import WireError

TAG_BYTES = 16
HEAD_BYTES = TAG_BYTES + 8

_LENGTH = Layout(">I")
_NUMBER = Layout(">Q")
_encoder = msgspec.msgpack.Encoder()


_BLOCK_BYTES = 64
_PIECE_BYTES = 2047
"""hashlib lets other threads run while it hashes more than that. Then the storage thread would take over, and
this one wait for its turn, for the sake of some microseconds."""


class _Mac:
    """HMAC-SHA256 under one key, prepared once: half the time of hmac.digest for a short frame."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))

    def tag(self, data: memoryview) -> bytes:
        inner = self._inner.copy()
        if len(data) <= _PIECE_BYTES:
            inner.update(data)
        else:
            for start in range(0, len(data), _PIECE_BYTES):
                with data[start : start + _PIECE_BYTES] as piece:
                    inner.update(piece)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()[:TAG_BYTES]


def possible_tags() -> int:
    """The ways of making tags that this process can."""
    try:
        import cryptography.hazmat.primitives.ciphers.aead  # noqa: F401
    except ImportError:
        return HMAC_TAGS
    return HMAC_TAGS | GMAC_TAGS


def _tagger(key: bytes, tags: int) -> Callable[[int, memoryview], bytes]:
    """Makes the tag of a frame out of its number and what it covers. `key`: 32 bytes."""
    if tags == HMAC_TAGS:
        mac = _Mac(key)
        return lambda number, covered: mac.tag(covered)
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    encrypt = AESGCM(key).encrypt
    return lambda number, covered: encrypt(number.to_bytes(12, "big"), b"", covered)


class FrameSealer:
    """The sending end of one direction."""

    __slots__ = ("_number", "_tag")

    def __init__(self, key: bytes, tags: int = HMAC_TAGS) -> None:
        self._tag = _tagger(key, tags)
        self._number = 0

    def seal(self, message: object) -> bytes:
        """The next frame, to be sent in this order."""
        return self.close(self.encode(message))

    @staticmethod
    def encode(message: object) -> bytearray:
        """A frame that has no number and no tag yet: `close` gives it both, whenever its turn comes."""
        frame = bytearray(4 + HEAD_BYTES)
        _encoder.encode_into(message, frame, 4 + HEAD_BYTES)
        return frame

    @staticmethod
    def nothing() -> bytearray:
        """A frame without a message, to be closed: says that this end is alive."""
        return bytearray(4 + HEAD_BYTES)

    def close(self, frame: bytearray) -> bytes:
        """The next frame, to be sent in this order. Nobody sees two tags under one number."""
        _LENGTH.pack_into(frame, 0, len(frame) - 4)
        number = self._number
        _NUMBER.pack_into(frame, 4 + TAG_BYTES, number)
        self._number += 1
        with memoryview(frame) as view, view[4 + TAG_BYTES :] as covered:
            frame[4 : 4 + TAG_BYTES] = self._tag(number, covered)
        return bytes(frame)


class FrameOpener:
    """The receiving end of one direction. `any_tag`: the planted bug `frame_tag_ignored`."""

    __slots__ = ("_any_tag", "_number", "_tag")

    def __init__(self, key: bytes, tags: int = HMAC_TAGS, any_tag: bool = False) -> None:
        self._any_tag = any_tag
        self._tag = _tagger(key, tags)
        self._number = 0

    def open(self, frame: memoryview) -> memoryview:
        """The message in a frame (given without its length); empty if there is none. Raises WireError.

        It is a part of `frame`, to be released before the frame is.
        """
        if len(frame) < HEAD_BYTES:
            raise WireError("a frame without a tag")
        (number,) = _NUMBER.unpack_from(frame, TAG_BYTES)
        with frame[TAG_BYTES:] as covered:
            tag = self._tag(number, covered)
        if not hmac.compare_digest(tag, frame[:TAG_BYTES]) and not self._any_tag:
            raise WireError("a frame that was changed on its way")
        if number != self._number:
            raise WireError(f"frame {number} where frame {self._number} is due")
        self._number += 1
        return frame[HEAD_BYTES:]
