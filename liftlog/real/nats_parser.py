"""The NATS protocol as a client reads it, parsed a whole socket buffer at a time.

The ingest path is what this project exists for. A parser that calls back, allocates or switches tasks per
message spends more than the log itself; this one turns one read from the socket into one list of messages per
subscription. What is left per message is one `find`, one `split`, one slice and one tuple.

The protocol (docs.nats.io, "NATS Protocol"), as far as a server sends it:

    INFO {json}␍␊    PING␍␊    PONG␍␊    +OK␍␊    -ERR 'text'␍␊
    MSG  <subject> <sid> [reply] <payload bytes>␍␊<payload>␍␊
    HMSG <subject> <sid> [reply] <header bytes> <total bytes>␍␊<headers><payload>␍␊

Headers stay the bytes they are, from ``NATS/1.0`` to the empty line.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.envelope import COOKIE
from liftlog.options.fast import SUFFIX as FAST
from liftlog.types import Message

CONTROL_LINE_MAX_BYTES = 64 * 1024
"""Longest line before a payload; INFO of a large NATS cluster is the longest there is."""

MESSAGE_MAX_BYTES = 64 * 1024 * 1024
"""What a NATS server can be configured to accept at most, headers and payload."""


class ProtocolError(Exception):
    """The peer does not speak NATS; the connection cannot be used any longer."""


class Parsed(NamedTuple):
    """What one buffer held."""

    groups: dict[bytes, list[Message]]
    """Messages by subscription id, in order of arrival."""
    controls: list[bytes]
    """All other lines, in order of arrival, without their line end."""
    largest: int
    """Size in bytes of the largest message (headers and payload), 0 if there is none."""
    plain: bool
    """No message has headers, and none is in an envelope: mostly so, and one look tells it of all."""


class NatsParser:
    """Feed it what the socket brings; it keeps an incomplete end for the next time."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Parsed:
        """Parse everything that is complete. Raises `ProtocolError`."""
        buffer = self._rest + data if self._rest else data
        groups: dict[bytes, list[Message]] = {}
        controls: list[bytes] = []
        largest, headed = 0, False
        position, total = 0, len(buffer)
        find = buffer.find
        new, message_class = tuple.__new__, Message
        present_sid, append = b"", controls.append  # `append` is replaced before its first use for a message.
        while True:
            line_end = find(b"\r\n", position)
            if line_end < 0:
                break
            words = buffer[position:line_end].split(b" ")
            verb, count = words[0], len(words)
            headers_size = 0
            try:
                if verb == b"MSG":
                    if count == 5:
                        _, subject, sid, reply, size_text = words
                    else:
                        _, subject, sid, size_text = words
                        reply = b""
                elif verb == b"HMSG":
                    if count == 6:
                        _, subject, sid, reply, headers_text, size_text = words
                    else:
                        _, subject, sid, headers_text, size_text = words
                        reply = b""
                    headers_size = int(headers_text)
                    headed = True
                else:
                    controls.append(buffer[position:line_end])
                    position = line_end + 2
                    continue
                size = int(size_text)
                if not 0 <= headers_size <= size <= MESSAGE_MAX_BYTES:
                    raise ValueError(size)  # V1: it would make us go back, or wait for ever.
            except ValueError:
                raise ProtocolError(f"not a NATS message line: {buffer[position:line_end][:200]!r}") from None
            start = line_end + 2
            end = start + size
            if end + 2 > total:
                break
            if sid != present_sid:
                present_sid = sid
                append = groups.setdefault(sid, []).append  # type: ignore[assignment]
            if size > largest:
                largest = size
            body = start + headers_size
            message = new(message_class, (subject, reply, buffer[start:body], buffer[body:end]))
            append(message)  # type: ignore[arg-type]
            position = end + 2
        self._rest = buffer[position:]
        if len(self._rest) > CONTROL_LINE_MAX_BYTES and b"\r\n" not in self._rest[:CONTROL_LINE_MAX_BYTES]:
            raise ProtocolError(f"no line end within {CONTROL_LINE_MAX_BYTES} bytes: not a NATS server")
        return Parsed(groups, controls, largest, plain=not headed and not _has_wish(buffer))


def _has_wish(buffer: bytes) -> bool:
    """Whether a cookie stands anywhere, or what ends reply subjects of fast batches (L12). ASCII has no such
    byte as the cookie's first, and one byte is looked for far faster.
    """
    return (COOKIE[0] in buffer and COOKIE in buffer) or FAST in buffer
