"""Comments: if one write ended before another began, nobody may see the second without the first.

After the comments test of Jepsen's CockroachDB suite, which elle-cli has too: writes insert distinct values,
reads return all that are visible. A read at fault shows that the system is not strictly serializable.

What had been acknowledged when a write began only grows with time, so the values that a read must have are
those acknowledged before the latest begun of the writes that it saw.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from liftlog_jepsen.events import OK, Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies.common import (
    Collected,
    TallyOptions,
    added,
    completed,
    elements,
    frozen,
    is_collection,
    listed,
    unknown,
)


def check_comments(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge the `ok` reads."""
    chosen = options or TallyOptions()
    every = list(operations)
    writes = [one for one in every if one.f == "write"]
    begun: dict[Any, Operation] = {frozen(one.argument): one for one in writes}
    acknowledged = sorted(
        (one.end, one.number, added(one)) for one in writes if one.outcome == OK and one.end is not None
    )
    ends = [end for end, _, _ in acknowledged]
    found = Collected(chosen.examples)
    for read in completed(every, "read"):
        if not is_collection(read.result):
            return unknown(
                f"the read of operation {read.number} returned {write(read.result)}, no collection"
            )
        seen = set(elements(read.result))
        latest = max(
            (begun[value] for value in seen if value in begun), key=lambda one: one.start, default=None
        )
        if latest is None:
            continue
        due = acknowledged[: bisect_left(ends, latest.start)]
        missing = {value: number for _, number, value in due if value not in seen}
        if missing:
            words = (
                f"the read of process {read.process} has {write(frozen(latest.argument))}, but not what had "
                f"been acknowledged before that was even written: {listed(missing)}"
            )
            earlier = min(missing.values())
            found.add("missing-comment", [earlier, latest.number, read.number], words, missing=len(missing))
    return found.judgement()
