"""What a check of one history found, in the shape that objects, transactions and tallies share.

Plain data, small enough to bring home: the checks name operations by their numbers, and whoever reports joins
them with the history again. docs/checking.md says where every anomaly is described.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """One anomaly. `key`: the object that it is about, as text; None = the whole history.

    `operations`: the numbers (`Operation.number`) of those involved, in the order in which `words` names
    them. `words`: what happened, in sentences that need no knowledge of the checker.
    `detail`: facts for machines and drawings, only what JSON has. Two shapes are drawn:

    - `{"linearization": {"linearized": [number…], "state": text, "stuck": [{"operation": number,
      "words": text}…]}}`: the longest partial linearization, the state after it, and why each operation that
      could come next cannot. If they are there, `"states": [text…]` has the state after each of
      `linearized`, and a stuck one's `"possible": true` says that the object allows it next, but nothing
      follows from it;
    - `{"cycle": [{"from": number, "to": number, "edge": "ww"|"wr"|"rw"|"process"|"realtime",
      "key": text|None, "words": text}…]}`: each step's `to` is the next one's `from`, and the last one's
      is the first's.
    """

    anomaly: str
    key: str | None
    operations: tuple[int, ...]
    words: str
    detail: Mapping[str, Any] = {}


class Judgement(NamedTuple):
    """The verdict on one history, or on one of its keys.

    `valid`: None = unknown; `reasons` then say why. `problems` may be fewer than there are; `totals` has the
    number of each kind. `allowed`: anomalies that were found but do not count under the chosen model.
    """

    valid: bool | None
    problems: tuple[Problem, ...] = ()
    totals: Mapping[str, int] = {}
    reasons: tuple[str, ...] = ()
    allowed: tuple[Problem, ...] = ()


def merge(parts: Iterable[Judgement]) -> Judgement:
    """The judgement on a whole from those on its parts: one invalid part is enough, then one unknown."""
    listed = list(parts)
    verdicts = {part.valid for part in listed}
    totals: dict[str, int] = {}
    for part in listed:
        for name, count in part.totals.items():
            totals[name] = totals.get(name, 0) + count
    return Judgement(
        False if False in verdicts else None if None in verdicts else True,
        tuple(problem for part in listed for problem in part.problems),
        dict(sorted(totals.items())),
        tuple(dict.fromkeys(reason for part in listed for reason in part.reasons)),
        tuple(problem for part in listed for problem in part.allowed),
    )


class Budget(NamedTuple):
    """What one search may use before it gives up with `unknown`. `seconds` is wall time per key, None = no
    limit; `states` bounds memory: configurations that are kept, about 200 bytes each.
    """

    seconds: float | None = 60.0
    states: int = 5_000_000
