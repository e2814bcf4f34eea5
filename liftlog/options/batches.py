"""Messages that say that they are part of a batch, as JetStream's publishers write it (L11, ADR-50 there).

    Nats-Batch-Id: 7f3a          which batch, up to 64 bytes
    Nats-Batch-Sequence: 3       which of its messages: 1, 2, 3 and so on
    Nats-Batch-Commit: 1         the last one: store them all; `eob`: the last one was the one before

What becomes of them is for their leader (`liftlog/core/replica/publishing/staging.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from liftlog.messages import (
    ERR_BATCH_COMMIT,
    ERR_BATCH_DISABLED,
    ERR_BATCH_ID,
    ERR_BATCH_SEQUENCE,
    ERR_HEADER,
)

ID, SEQUENCE, COMMIT = b"Nats-Batch-Id", b"Nats-Batch-Sequence", b"Nats-Batch-Commit"
NAMES = frozenset((ID, SEQUENCE, COMMIT))
PREFIX = b"Nats-Batch-"
ENDS, CLOSES = b"1", b"eob"
BATCH_ID_BYTES_MAX = 64
MESSAGES_MAX = 1000
"""So many messages a batch may have, as in nats-server."""
DIGITS_MAX = 9
COMMIT_LINE = COMMIT + b": " + ENDS + b"\r\n"


class BatchPart(NamedTuple):
    """Which message of which batch. `number`: from 1 on; 0: it does not say, and is refused. `ends`: the
    batch is to be stored. `kept`: this message is in it; otherwise it says no more than that all were sent.
    """

    id: bytes
    number: int
    ends: bool = False
    kept: bool = True


class WholeBatch(NamedTuple):
    """What is to be stored, or refused, as one. `lasts`: subjects, and which offset the last record of each
    is to have before the batch (L9). `ids`: of its messages that have one, and their places in it (L7).
    """

    id: bytes
    lasts: tuple[tuple[bytes, int], ...]
    ids: tuple[tuple[bytes, int], ...] = ()


def part_in(theirs: Mapping[bytes, bytes]) -> BatchPart | None:
    """Which part of a batch a message with these headers of JetStream's is; None if of none."""
    id, number, commit = theirs.get(ID), theirs.get(SEQUENCE, b""), theirs.get(COMMIT)
    if not id:
        return None
    good = number.isdigit() and len(number) <= DIGITS_MAX
    return BatchPart(id, int(number) if good else 0, bool(commit), commit != CLOSES)


def batch_problem(theirs: Mapping[bytes, bytes], stream: str, allowed: bool) -> tuple[str, str] | None:
    """Why such a message is refused, as one of the ERR_* codes and a sentence; None if it is not, by its
    headers alone.
    """
    found = [name for name, value in theirs.items() if value and name.startswith(PREFIX)]
    if not found:
        return None
    unknown = [name for name in found if name not in NAMES]
    shown = repr((unknown or found)[0][:64].decode("ascii", "backslashreplace"))
    if not allowed:
        return ERR_BATCH_DISABLED, (
            f"header {shown}: stream {stream!r} takes no batches; let it, with 'liftlog stream alter "
            f"{stream} --allow-batches', or publish one by one"
        )
    if unknown:
        return ERR_HEADER, f"header {shown} is not known; publish without it"
    if not theirs.get(ID):
        return ERR_HEADER, "Nats-Batch-Sequence and Nats-Batch-Commit stand beside Nats-Batch-Id: name one"
    if len(theirs[ID]) > BATCH_ID_BYTES_MAX:
        return ERR_BATCH_ID, f"Nats-Batch-Id has {len(theirs[ID])} bytes; it may have {BATCH_ID_BYTES_MAX}"
    part = part_in(theirs)
    if part is None or not part.number:
        return ERR_BATCH_SEQUENCE, "Nats-Batch-Sequence numbers the messages of a batch: 1, 2, 3 and so on"
    if theirs.get(COMMIT, ENDS) not in (ENDS, CLOSES):
        return ERR_BATCH_COMMIT, "Nats-Batch-Commit is '1', or 'eob' on a message that is not to be stored"
    return None
