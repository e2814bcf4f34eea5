"""Operations in words: what a report says of them in a bar, in a table and beside the pointer.

What a history contains was written by others: texts come out printable and of bounded length.
"""

from __future__ import annotations

from typing import Any

from liftlog_jepsen.events import FAIL, INFO, OK, BadHistory, Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.result import printable

VALUE_MAX = 80
"""Characters of a value that are shown; the middle of a longer one is left out."""
WORDS_MAX = 1500
"""Characters of a sentence that was composed elsewhere."""
OUTCOMES = {FAIL: "failed", INFO: "outcome unknown"}
QUESTIONS = ("read", "get", "r", "deq", "dequeue", "poll", "pop", "peek", "take", "remove")
"""Functions whose missing result is an answer: there was nothing."""


def show(value: Any, limit: int = VALUE_MAX) -> str:
    """A value as EDN writes it, keywords without their colon at the top."""
    if isinstance(value, str) and type(value) is not str:
        return clip(printable(str(value)), limit)
    try:
        text = write(value)
    except BadHistory:
        text = repr(value)
    return clip(printable(text), limit)


def clip(text: str, limit: int) -> str:
    """A text without its middle, if it is too long."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{text[: limit - 1 - half]}…{text[-half:]}" if half else text[:limit]


def micro_operations(value: Any) -> list[Any] | None:
    """The steps of a transaction, if a value is one: `[["append", 3, 1], ["r", 4, None]]`."""
    if not isinstance(value, (list, tuple)) or not value:
        return None
    steps = [step for step in value if isinstance(step, (list, tuple)) and step and isinstance(step[0], str)]
    return list(value) if len(steps) == len(value) else None


def micro(step: Any, limit: int = VALUE_MAX, known: bool = True) -> str:
    """One step of a transaction: `append 3 1`, `r 4 [1 2]`. `known`: whether a nil in it is an answer."""
    name, *rest = step
    if rest and rest[-1] is None and not known:
        rest = rest[:-1]
    return clip(" ".join([printable(str(name)), *(show(each, limit) for each in rest)]), limit)


def name(operation: Operation) -> str:
    """How sentences call an operation: T3 for a transaction, #3 for others."""
    transaction = str(operation.f) == "txn" or micro_operations(operation.argument) is not None
    return f"{'T' if transaction else '#'}{operation.number}"


def answered(operation: Operation) -> Any:
    """The value that tells more: the answer, or the question where no answer came."""
    return operation.argument if operation.result is None else operation.result


def call(operation: Operation, limit: int = VALUE_MAX) -> str:
    """What was asked and what came back, without who and when: `write 3`, `read → 5`, `cas [1 2] failed`."""
    f = printable(str(operation.f))
    steps = micro_operations(answered(operation))
    if steps is not None:
        known = operation.outcome == OK
        words = clip(", ".join(micro(step, limit, known) for step in steps), limit)
    elif operation.outcome in OUTCOMES or operation.result == operation.argument:
        words = f if operation.argument is None else f"{f} {show(operation.argument, limit)}"
        if operation.outcome not in OUTCOMES and operation.result is None and str(operation.f) in QUESTIONS:
            words = f"{f} → nil"
    else:
        asked = "" if operation.argument is None else f" {show(operation.argument, limit)}"
        words = f"{f}{asked} → {show(operation.result, limit)}"
    end = OUTCOMES.get(operation.outcome)
    return words if end is None else f"{words} {end}"


def describe(operation: Operation) -> str:
    """One operation with everything that fits into a sentence."""
    parts = [f"{name(operation)} {call(operation, 4 * VALUE_MAX)}", f"process {operation.process}"]
    if operation.key is not None:
        parts.append(f"key {show(operation.key)}")
    if operation.error is not None:
        parts.append(f"error {show(operation.error)}")
    end = "never ended" if operation.end is None else f"to {operation.end}"
    parts.append(f"events {operation.start} {end}")
    return printable(", ".join(parts))


def plural(count: int, noun: str) -> str:
    """`1 operation`, `2 operations`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def sentence(text: str) -> str:
    """Words that a check composed, made fit for a page: printable and of bounded length."""
    return clip(printable(text), WORDS_MAX)


def full(text: str) -> str:
    """Such words as a sentence of their own: with a capital and a full stop."""
    words = sentence(text)
    end = "" if words[-1:] in (".", "!", "?", "…", "") else "."
    return f"{words[:1].upper()}{words[1:]}{end}"


def duration(duration_ns: float) -> str:
    """A duration with three figures."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if duration_ns >= size:
            return f"{duration_ns / size:.3g} {unit}"
    return f"{duration_ns:.0f} ns"
