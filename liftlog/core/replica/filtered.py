"""S2: a reader that names subjects or keys is given the records that match, and no others.

What it is given is a function of the committed log and of what it asked: every copy gives the same. An answer
says up to where was looked, so that a reader goes on although nothing matched, and is never past anything
that did. What is in memory and not packed is looked at here, so much of it at a time; what has to be read or
unpacked is looked at where storage works.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.replica.state.log import LogState
from liftlog.format import CODEC_MASK, SEALED, read_header
from liftlog.messages import FilteredReadRequest, Picked, ReadRequest
from liftlog.picking import Gathering, RecordFilter
from liftlog.subjects.grammar import PatternRefused
from liftlog.subjects.index.interface import filter_tokens
from liftlog.types import Batch

LOOKED_BYTES = 64 * 1024
"""So much of what is in memory is looked at for one answer."""


def problem_of(request: FilteredReadRequest) -> str:
    """What is wrong with what a reader names; empty if nothing."""
    if not request.subjects and not request.keys:
        return "a filtered read names neither subjects nor keys: name some, or read without a filter"
    try:
        for pattern in request.subjects:
            filter_tokens(pattern)
    except PatternRefused as refused:
        return str(refused)
    return ""


def picked_by(request: ReadRequest, below: int) -> Picked | None:
    """For storage; None: whole batches are wanted."""
    if not isinstance(request, FilteredReadRequest):
        return None
    return Picked(tuple(request.subjects), tuple(request.keys), below)


def from_memory(
    log: LogState, request: FilteredReadRequest, batches: Sequence[Batch], below: int
) -> Gathering | None:
    """What is wanted of these, which hold the asked offset; None if one of them has to be unpacked. Raises
    CorruptBatch.
    """
    packed = CODEC_MASK | SEALED
    if not batches or any(read_header(batch.data).attributes & packed for batch in batches):
        return None
    wanted = RecordFilter(request.subjects, request.keys)
    found = Gathering(log.id, wanted, request.offset, below, request.max_bytes, log.ctx.mutants)
    found.take(batches)
    return found
