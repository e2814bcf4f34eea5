"""What was planted in a history, and whether a check found exactly that.

The answers lie beside the history as planted.json, one object per anomaly that a check must report:

    {"anomaly": "lost-write", "key": "log/17", "ops": [40123]}

`ops` are the operations that show it, ascending. A cycle has no key of its own; its `key` is null and is not
compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec

from liftlog.types import LiftlogError

FILE_NAME = "planted.json"


class Planted(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """One anomaly that is in a history."""

    anomaly: str
    key: str | None
    ops: tuple[int, ...]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of planted.json: the name of the history and everything wrong with it."""

    history: str
    planted: list[Planted]


def planted(anomaly: str, key: str | None, *ops: int) -> Planted:
    return Planted(anomaly, key, tuple(sorted(ops)))


def write_answer(answer: Answer, folder: Path) -> None:
    """Write planted.json into a history's folder."""
    sorted_ = Answer(answer.history, sorted(answer.planted, key=_order))
    encoded = msgspec.json.encode(sorted_)
    (folder / FILE_NAME).write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")


def read_answer(folder: Path) -> Answer:
    """The answers beside a history. Raises LiftlogError without such a file, or for a broken one."""
    path = folder / FILE_NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=Answer)
    except OSError as error:
        raise LiftlogError(
            f"cannot read {path}: {error.strerror}; `liftlog jepsen generate --plant` writes it"
        ) from None
    except msgspec.DecodeError as error:
        raise LiftlogError(f"broken {path}: {error}") from None


def check_planted(found: Iterable[Planted], wanted: Iterable[Planted]) -> list[str]:
    """What a check found against what was planted: one line for each difference, none if they agree.

    Every anomaly must be there as often as it was planted, and no other. Keys are compared unless the answer
    has none; operations must be the same.
    """
    expected = list(wanted)
    keyless = {each.anomaly for each in expected if each.key is None}
    seen = Counter(_without_key(each) if each.anomaly in keyless else each for each in found)
    due = Counter(expected)
    missing, surplus = due - seen, seen - due
    lines = [f"not found: {_words(each, missing[each])}" for each in sorted(missing, key=_order)]
    return lines + [f"not planted: {_words(each, surplus[each])}" for each in sorted(surplus, key=_order)]


def _without_key(each: Planted) -> Planted:
    return Planted(each.anomaly, None, each.ops)


def _order(each: Planted) -> tuple[str, str, tuple[int, ...]]:
    return (each.anomaly, each.key or "", each.ops)


def _words(each: Planted, times: int) -> str:
    where = f" in {each.key}" if each.key is not None else ""
    often = f", {times} times" if times > 1 else ""
    return f"{each.anomaly}{where}, operations {', '.join(map(str, each.ops))}{often}"
