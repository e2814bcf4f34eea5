"""The headers of a record that was copied from a source (R29).

    Liftlog-Sources: 4@17 5@3     it is that of offset 17 of stream 4, and of stream 5 offset 3 is next: all
                                  that a leader has to know to go on behind this record; -1, -2, ... are the
                                  first, the second that was named of its sources of other clusters
    Nats-Stream-Source: orders 18 > > orders.eu
                                  the stream, its sequence, the filter, what becomes of subjects (nothing),
                                  and the subject, as nats-server writes it

A record that was a copy already has those of its last source alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SOURCES_LINE = b"Liftlog-Sources:"
STREAM_SOURCE_LINE = b"Nats-Stream-Source:"
BLOCK_START, BLOCK_END = b"NATS/1.0\r\n", b"\r\n\r\n"
_PLACE = re.compile(rb"(-?[0-9]{1,16})@([0-9]{1,16})")


def copied_headers(
    headers: bytes, own: tuple[int, int], others: Mapping[int, int], jetstream: bytes
) -> bytes:
    """The header block of a copy. `own`: stream and offset; `others`: of other streams, what is next."""
    lines = headers.removesuffix(BLOCK_END).split(b"\r\n") if headers.endswith(BLOCK_END) else []
    ours = SOURCES_LINE.lower(), STREAM_SOURCE_LINE.lower()
    kept = [line for line in lines[1:] if not line.lower().startswith(ours)]
    places = [b"%d@%d" % own, *(b"%d@%d" % place for place in sorted(others.items()) if place[0] != own[0])]
    first = lines[0] if lines else BLOCK_START.rstrip()
    added = [SOURCES_LINE + b" " + b" ".join(places), STREAM_SOURCE_LINE + b" " + jetstream]
    return b"\r\n".join((first, *kept, *added)) + BLOCK_END


def stream_source(name: str, offset: int, filter: str, subject: bytes) -> bytes:
    """The value of `Nats-Stream-Source`."""
    return b"%s %d %s > %s" % (name.encode(), offset + 1, (filter or ">").encode(), subject)


def copy_of(headers: bytes) -> tuple[int, int] | None:
    """Of which stream and offset a record is a copy; None: of none."""
    found = _places(headers)
    return found[0] if found else None


def positions_in(headers: bytes) -> dict[int, int] | None:
    """By streams, the offset that is next behind a record; None: it is no copy."""
    found = _places(headers)
    if not found:
        return None
    return dict([(found[0][0], found[0][1] + 1), *found[1:]])


def _places(headers: bytes) -> list[tuple[int, int]]:
    for line in headers.removesuffix(BLOCK_END).split(b"\r\n"):
        if line.startswith(SOURCES_LINE):
            places = [_PLACE.fullmatch(text) for text in line[len(SOURCES_LINE) :].split()]
            return [(int(place[1]), int(place[2])) for place in places if place is not None]
    return []
