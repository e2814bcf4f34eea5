"""Messages whose reply subject says that they are part of a fast batch (L12, ADR-50 of JetStream).

    <inbox>.<id>.<flow>.<gap>.<number>.<operation>.$FI

`flow`: an ack for every so many messages, at most. `gap`: `ok` or `fail`. `operation`: 0 begins a batch, 1
goes on, 2 is the last message, 3 ends without one, 4 asks how far the batch is. What becomes of them is for
their leader (`liftlog/core/replica/publishing/fast.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.messages import ERR_FAST_DISABLED, ERR_FAST_ID, ERR_FAST_PATTERN, ERR_HEADER
from liftlog.options.wishes import ALL, NO_WISHES, FastPart, Refusal, Wishes
from liftlog.types import Message

SUFFIX = b".$FI"
BEGIN, GO_ON, COMMIT, CLOSE, PING = range(5)
"""Operations."""
GAPS = {b"ok": True, b"fail": False}
FLOW_MOST, FLOW_ELSE = 0xFFFF, 10
ID_BYTES_MAX = 64
DIGITS_MAX = 15


def fast_part(reply: bytes) -> FastPart | None:
    """Which part of a batch a message with this reply subject is, which ends with the suffix; None: it is
    not of that form.
    """
    tokens = reply[: -len(SUFFIX)].rsplit(b".", 5)
    if len(tokens) != 6:
        return None
    _, id, between, gap, which, what = tokens
    number, operation = _number(which), _number(what)
    known = id and gap in GAPS and operation <= PING
    if not known or number < 1 or not _goes_with(operation, number):
        return None
    flow = min(_number(between), FLOW_MOST)
    return FastPart(
        id,
        number,
        flow if flow > 0 else FLOW_ELSE,
        GAPS[gap],
        operation in (COMMIT, CLOSE),
        operation not in (CLOSE, PING),
    )


def any_fast(messages: Sequence[Message]) -> bool:
    """Whether a reply subject of one of them says that it is part of a fast batch."""
    return any(message.reply.endswith(SUFFIX) for message in messages)


def _goes_with(operation: int, number: int) -> bool:
    """Whether a message of this number may say that."""
    if operation < 0 or (operation == CLOSE and number == 1):
        return False
    return number == 1 if operation == BEGIN else number > 1 or operation != GO_ON


def _number(word: bytes) -> int:
    """-1: it is none."""
    return int(word) if word.isdigit() and len(word) <= DIGITS_MAX else -1


def with_fast(
    messages: Sequence[Message], wishes: list[Wishes] | None, stream: str, allowed: bool
) -> list[Wishes] | None:
    """The wishes, with the parts of fast batches that the messages are; as they were if none is one."""
    if not any_fast(messages):
        return wishes
    known = wishes if wishes is not None else [NO_WISHES] * len(messages)
    return [
        _of(message.reply, wish, stream, allowed) if message.reply.endswith(SUFFIX) else wish
        for message, wish in zip(messages, known, strict=True)
    ]


def _of(reply: bytes, wish: Wishes, stream: str, allowed: bool) -> Wishes:
    if not allowed:
        text = (
            f"stream {stream!r} takes no fast batches; let it, with 'liftlog stream alter {stream} "
            "--allow-fast-batches', or publish one by one"
        )
        return wish._replace(refusal=Refusal(ERR_FAST_DISABLED, text))
    part = fast_part(reply)
    if part is None:
        text = (
            "a reply subject of a fast batch is INBOX.ID.FLOW.GAP.NUMBER.OPERATION.$FI: GAP is ok or fail, "
            "OPERATION 0 with number 1, 1 to 3 with those behind it, 2 with any, 4 to ask"
        )
        return wish._replace(refusal=Refusal(ERR_FAST_PATTERN, text))
    if len(part.id) > ID_BYTES_MAX:
        text = f"the id of a fast batch has {len(part.id)} bytes; it may have {ID_BYTES_MAX}"
        return wish._replace(refusal=Refusal(ERR_FAST_ID, text))
    if wish is NO_WISHES:
        return Wishes(fast=part)
    problem = _not_done(wish)
    if problem and wish.refusal is None and part.kept:
        text = f"{problem} is not done within a fast batch; publish without it"
        return wish._replace(refusal=Refusal(ERR_HEADER, text), fast=part)
    return wish._replace(fast=part)


def _not_done(wish: Wishes) -> str:
    """What a message of a fast batch asks for that it cannot; empty if nothing. It would be judged when
    others that came behind it are stored already.
    """
    facts = (
        (wish.id is None, "Nats-Msg-Id"),
        (wish.after is None, "Nats-Expected-Last-Msg-Id"),
        (not wish.compares, "an expected sequence or offset"),
        (wish.numbered is None, "Liftlog-Producer"),
        (wish.part is None, "Nats-Batch-Id"),
        (not wish.in_parcel, "Liftlog-Batch"),
        (wish.envelope is None, "Liftbridge's envelope"),
        (wish.policy == ALL, "Liftlog-Ack-Policy"),
        (not wish.full_ack, "Liftlog-Ack"),
    )
    return next((name for holds, name in facts if not holds), "")
