"""Operations as transactions: which parts each has, and what is known about them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, OK, BadHistory, Operation
from liftlog_jepsen.formats import edn

READ = "r"
_PLAIN = frozenset((int, str, edn.Keyword))
_WORD = re.compile(r"[^\W\d][\w./:-]*")


class ReadOrWrite(NamedTuple):
    """One read or write. `key` is hashable. `value`: what was written, or what a read returned."""

    write: bool
    key: Any
    value: Any


class Transaction(NamedTuple):
    """One transaction, with what is known: reads of one that failed or is unknown are left out where they
    mean nothing. `start` and `end` as in `Operation`: end None = open for ever.
    """

    number: int
    process: int | str
    outcome: str
    start: int
    end: int | None
    parts: tuple[ReadOrWrite, ...]

    @property
    def may_have_happened(self) -> bool:
        return self.outcome != FAIL


def read_transactions(operations: Sequence[Operation], write: str) -> list[Transaction]:
    """The transactions, in their order. `write` is the name of a writing part, `append` or `w`.

    With `append`, reads are of lists (None = empty), and the reads of an unknown transaction count if it
    returned any; with `w`, only those of transactions that are `ok`. Values are hashable, lists of reads
    apart, whose elements are as they came: `freeze` them.

    Raises BadHistory for an operation that is no such transaction.
    """
    return [
        Transaction(
            operation.number,
            operation.process,
            operation.outcome,
            operation.start,
            operation.end,
            tuple(_parts(operation, write)),
        )
        for operation in operations
    ]


def _parts(operation: Operation, write: str) -> Iterable[ReadOrWrite]:
    source = operation.result if isinstance(operation.result, list | tuple) else None
    if source is None:
        if operation.outcome == OK:
            raise _bad(operation, write, f"the result {_shown(operation.result)}")
        source = operation.argument
    if not isinstance(source, list | tuple):
        raise _bad(operation, write, _shown(source))
    for part in source:
        if not isinstance(part, list | tuple) or len(part) not in (2, 3) or part[0] not in (READ, write):
            raise _bad(operation, write, _shown(part))
        name, key, value = part if len(part) == 3 else (*part, None)
        if len(part) == 2 and (name == write or operation.outcome == OK):
            raise _bad(operation, write, _shown(part))
        if name == write:
            yield ReadOrWrite(True, freeze(key), freeze(value))
        elif write == "w":
            if operation.outcome == OK:
                yield ReadOrWrite(False, freeze(key), freeze(value))
        elif operation.outcome == OK or (operation.outcome != FAIL and value is not None):
            if not isinstance(value, list | tuple | None):
                raise _bad(operation, write, f"{_shown(part)}, whose value is no list")
            yield ReadOrWrite(False, freeze(key), list(value or ()))


def _bad(operation: Operation, write: str, found: str) -> BadHistory:
    other = {"append": "w", "w": "append"}[write]
    model = {"append": "rw-register", "w": "list-append"}[write]
    return BadHistory(
        f"operation {operation.number} ({operation.f} of process {operation.process}): expected parts "
        f"[r key value] and [{write} key value], found {found}; histories with {other} are checked as {model}"
    )


def _shown(value: Any) -> str:
    text = edn.write(value)
    return text if len(text) <= 80 else text[:79] + "…"


def freeze(value: Any) -> Any:
    """A hashable stand-in for a value: lists and maps become EDN's frozen ones."""
    if value.__class__ in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return edn.Vector(freeze(each) for each in value)
    if isinstance(value, dict):
        return edn.FrozenMap((freeze(key), freeze(each)) for key, each in value.items())
    return value


def freeze_all(values: list[Any]) -> list[Any]:
    """The list with hashable elements; the same one, if they are so already."""
    if _PLAIN.issuperset(map(type, values)):
        return values
    return [freeze(value) for value in values]


def text(value: Any) -> str:
    """A key or value for people: EDN, but keywords and plain words bare."""
    if isinstance(value, edn.Keyword) or (isinstance(value, str) and _WORD.fullmatch(value)):
        return str(value)
    return edn.write(value)


def name(number: int) -> str:
    """How sentences call an operation."""
    return f"T{number}"


def names(numbers: Iterable[int], limit: int = 4) -> str:
    """`T1, T2 and T5`; of many, the first few."""
    listed = [name(number) for number in numbers]
    if len(listed) > limit:
        listed = [*listed[:limit], f"{len(listed) - limit} more"]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
