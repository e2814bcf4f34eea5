"""Frames that only who took part in the handshake can have written, each once and in order. Without IO.

    frame  =  u32 length (of what follows)  |  tag, 16 bytes  |  u64 number of the frame  |  msgpack

The tag is a cut HMAC-SHA256 of number and message under a key that belongs to this direction of this
connection. A frame that was changed, left out, repeated, moved, or brought over from another connection ends
the connection. Nothing is hidden: who listens on the wire reads along (docs/security.md).
"""

from __future__ import annotations

import hmac
from struct import Struct as Layout

import msgspec

from liftlog.api.wire import WireError

TAG_BYTES = 16
HEAD_BYTES = TAG_BYTES + 8

_LENGTH = Layout(">I")
_NUMBER = Layout(">Q")
_encoder = msgspec.msgpack.Encoder()


class FrameSealer:
    """The sending end of one direction."""

    __slots__ = ("_key", "_number")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def seal(self, message: object) -> bytes:
        """The next frame, to be sent in this order; or see `take_back`."""
        frame = bytearray(4 + HEAD_BYTES)
        _encoder.encode_into(message, frame, 4 + HEAD_BYTES)
        return self._seal(frame)

    def empty(self) -> bytes:
        """The next frame, without a message: says that this end is alive."""
        return self._seal(bytearray(4 + HEAD_BYTES))

    def take_back(self) -> None:
        """The frame that was sealed last will not be sent."""
        self._number -= 1

    def _seal(self, frame: bytearray) -> bytes:
        _LENGTH.pack_into(frame, 0, len(frame) - 4)
        _NUMBER.pack_into(frame, 4 + TAG_BYTES, self._number)
        self._number += 1
        with memoryview(frame) as view, view[4 + TAG_BYTES :] as covered:
            frame[4 : 4 + TAG_BYTES] = hmac.digest(self._key, covered, "sha256")[:TAG_BYTES]
        return bytes(frame)


class FrameOpener:
    """The receiving end of one direction."""

    __slots__ = ("_key", "_number")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def open(self, frame: memoryview) -> memoryview:
        """The message in a frame (given without its length); empty if there is none. Raises WireError.

        It is a part of `frame`, to be released before the frame is.
        """
        if len(frame) < HEAD_BYTES:
            raise WireError("a frame without a tag")
        tag = hmac.digest(self._key, frame[TAG_BYTES:], "sha256")[:TAG_BYTES]
        if not hmac.compare_digest(tag, frame[:TAG_BYTES]):
            raise WireError("a frame that was changed on its way")
        (number,) = _NUMBER.unpack_from(frame, TAG_BYTES)
        if number != self._number:
            raise WireError(f"frame {number} where frame {self._number} is due")
        self._number += 1
        return frame[HEAD_BYTES:]
