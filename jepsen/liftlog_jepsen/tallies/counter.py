"""Counter: adds only, and reads that must lie between what was certainly added and what may have been.

After `jepsen.checker/counter`: a read may return no less than the sum of the adds that had been acknowledged
when it was invoked, and no more than the sum of the adds, failed ones aside, that had been invoked when it
completed. Log-linear in the history, and weaker than linearizability (`linearizable-counter`): a value
between the bounds passes even if no subset of the adds makes it up.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from liftlog_jepsen.events import OK, Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies.common import Collected, TallyOptions, completed, may_have_happened, unknown


def check_counter(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge the `ok` reads. Decrements, and values that are no integers, leave the verdict unknown."""
    chosen = options or TallyOptions()
    listed = list(operations)
    adds = [one for one in listed if one.f == "add"]
    for add in adds:
        amount = add.argument
        if not isinstance(amount, int) or amount < 0:
            return unknown(
                f"operation {add.number} adds {write(amount)}: the bounds of a counter need integers from 0, "
                "use linearizable-counter"
            )
    reads = completed(listed, "read")
    for read in reads:
        if not isinstance(read.result, int):
            return unknown(f"the read of operation {read.number} returned {write(read.result)}, no integer")
    starts, upper = _sums([(add.start, add.argument) for add in adds if may_have_happened(add)])
    ends, lower = _sums(
        [(add.end, add.argument) for add in adds if add.outcome == OK and add.end is not None]
    )
    found = Collected(chosen.examples)
    for read in reads:
        assert read.end is not None  # completed
        least = lower[bisect_left(ends, read.start)]
        most = upper[bisect_left(starts, read.end)]
        if not least <= read.result <= most:
            side = (
                f"{least} had been acknowledged before it began"
                if read.result < least
                else f"no more than {most} had even been asked for when it ended"
            )
            found.add(
                "out-of-bounds",
                [read.number],
                f"the read of process {read.process} returned {read.result}, but {side}",
                lower=least,
                value=read.result,
                upper=most,
            )
    return found.judgement()


def _sums(amounts: list[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Positions in order, and the sum of all amounts before each, and after the last."""
    amounts.sort()
    return [position for position, _ in amounts], [0, *accumulate(amount for _, amount in amounts)]
