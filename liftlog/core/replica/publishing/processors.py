"""Processors: how far each is with its input lies in the log that has its outputs (L10).

A processor is a producer (L2) whose messages each have a *cursor*: the offset of its input that is next.
Outputs and cursor are one message, often a parcel (L8), so that they are there together or not at all. A run
of it begins with a message that *opens* it, number 0. To its leader that is one more message of the log:
behind it there is none of an older run, and when it is committed, so is all that lies before it. So the
cursor before it is the last word on what older runs have done, and that is what its answer tells.

Its leader writes that cursor into it. The last message of a processor therefore says how far it is, and a
window (L7) that has that message has all that is to be known.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.context import Context
from liftlog.core.replica.publishing.producer_table import ProducerTable
from liftlog.messages import ERR_CURSOR, ERR_NO_CURSOR
from liftlog.options.cursors import InputCursor, with_cursor
from liftlog.options.numbered import Numbered
from liftlog.options.wishes import Wishes


class BadCursor(NamedTuple):
    """Why a message is not stored: one of the ERR_* codes, and a sentence."""

    code: str
    text: str


def misfit(
    ctx: Context, producers: ProducerTable, numbered: Numbered, wish: Wishes, window_ms: int
) -> BadCursor | None:
    """What is wrong with the cursor of a message that is due, or with its lack of one; None: nothing."""
    known, wanted = producers.cursor_of(numbered.producer), wish.cursor
    name = numbered.producer.decode("ascii", "backslashreplace")[:64]
    if wish.opens and wanted is not None:
        if not ctx.decides(("L10.known", known is not None or wanted.position >= 0)):
            text = (
                f"nothing is known here of processor {name!r}: it never began, or was silent for longer than "
                f"the stream remembers ({window_ms} ms); find out how far it is, and say where to begin"
            )
            return BadCursor(ERR_NO_CURSOR, text)
    elif not ctx.decides(("L10.opened", (known is None) == (wanted is None))):
        if wanted is None:
            text = f"{name!r} is a processor: each of its messages has a Liftlog-Cursor, from Liftlog-Open on"
        else:
            text = f"run {numbered.run} of {name!r} was not opened: begin a new one with Liftlog-Open"
        return BadCursor(ERR_CURSOR, text)
    if known is None or wanted is None:
        return None
    if not ctx.decides(("L10.input", known.is_of_input_of(wanted))):
        text = (
            f"processor {name!r} has read partition {known.partition} of the stream with id {known.stream}, "
            f"and not {wanted.partition} of {wanted.stream}; for another input use another name"
        )
        return BadCursor(ERR_CURSOR, text)
    forward = wish.opens or wanted.position >= known.position
    if not ctx.decides(("L10.back", forward)):
        text = f"processor {name!r} has done all below {known.position}, and goes back to {wanted.position}"
        return BadCursor(ERR_CURSOR, text)
    return None


def granted(
    ctx: Context, producers: ProducerTable, numbered: Numbered, wish: Wishes, wanted: InputCursor, hw: int
) -> Wishes:
    """The wishes of a message that opens a run, which is taken: what is stored, and what is answered."""
    known = producers.cursor_of(numbered.producer)
    if ctx.mutants.cursor_of_committed:
        known = producers.cursor_of(numbered.producer, hw)
    begins = wanted if known is None else known
    ctx.mark("L10.begun" if known is None else "L10.goes-on")
    stored = wanted if ctx.mutants.opening_as_sent else begins
    block = with_cursor(wish.headers or b"", stored)
    return wish._replace(cursor=stored, headers=block, granted=begins.position)
