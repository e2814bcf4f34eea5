"""Where messages waited on each node, in a table and in words, from what the nodes have counted.

`liftlog/real/breakdown.py` says what the stages are. Here two answers of each node are compared. A node that
has begun to count anew meanwhile, or that answered once only, has nothing to compare and is named instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from liftlog.commands.common import table_lines
from liftlog.real.breakdown import FOLLOWER, LEADER, PREFIX, StageTimes, read_counters

Counters = Mapping[int, Mapping[str, int]]
"""Node -> its counters, as it answered."""

ONLY_GROW = (f"{PREFIX}.", "storage.")
"""Counters that a process never takes back."""
PERCENTILES = ("p50", "p90", "p99")
BETWEEN = "between"
MEANINGS = {
    "parse": "from the read to the step: taking messages out of the bytes",
    "step": "the core's own work",
    "queue": "the wait for the group that is being synced",
    "write": "the write into memory",
    "sync": "the disk's sync",
    "out": "the wait for followers to ask",
    "followers": "the way to the slowest follower, its disk, and the way back",
    "ack": "handing acks to the socket",
    "report": "handing the report to the socket",
    BETWEEN: "the stages: a copy that left the ISR before it answered, or a process busy with something else",
}
BEFORE, DISK, OTHERS = ("parse", "step"), ("queue", "write", "sync"), ("out", "followers")
AFTER = {LEADER: ("ack",), FOLLOWER: ("report",)}


@dataclass(frozen=True, slots=True)
class BreakdownView:
    """Of one span of time. `nodes`: node -> role -> stages; only those through which something went."""

    seconds: float
    nodes: dict[int, dict[str, list[StageTimes]]]
    problems: list[str]

    @property
    def lines(self) -> list[str]:
        """For people; a line that says so if nothing was followed."""
        lines = []
        for node, roles in self.nodes.items():
            for role, stages in roles.items():
                lines += [f"node {node}, {role}, {self.seconds:.1f} s, in ms", *_table(stages)]
                lines += [in_words(role, stages), ""]
        return lines + self.remarks if self.remarks else lines[:-1]

    @property
    def remarks(self) -> list[str]:
        """What has to be said beside the tables."""
        if self.nodes:
            return self.problems
        nothing = f"nothing was stored in these {self.seconds:.1f} s"
        return [f"{nothing}; publish meanwhile, or choose a longer --seconds", *self.problems]

    def to_json(self) -> dict[str, Any]:
        return {
            "seconds": round(self.seconds, 3),
            "nodes": {
                str(node): {
                    role: {"words": in_words(role, stages), "stages": [one._asdict() for one in stages]}
                    for role, stages in roles.items()
                }
                for node, roles in self.nodes.items()
            },
            "problems": self.problems,
        }


def compare(before: Counters, after: Counters, silent: Iterable[int], seconds: float) -> BreakdownView:
    """What came between two answers of the same nodes. `silent`: who did not answer both times."""
    nodes, problems = {}, []
    for node in sorted({*before, *after, *silent}):
        if node not in before or node not in after:
            problems.append(f"node {node} did not answer in time; see whether it runs, and ask again")
        elif _began_anew(before[node], after[node]):
            problems.append(f"node {node} was started again meanwhile and counts anew; ask again")
        elif roles := read_counters(dict(after[node]), dict(before[node])):
            nodes[node] = roles
    return BreakdownView(seconds, nodes, problems)


def _began_anew(before: Mapping[str, int], after: Mapping[str, int]) -> bool:
    return any(after.get(name, 0) < count for name, count in before.items() if name.startswith(ONLY_GROW))


def in_words(role: str, stages: list[StageTimes]) -> str:
    """Where most of the time goes, in the middle and at the end."""
    middle, slow = _longest(role, stages, "p50_ms"), _longest(role, stages, "p99_ms")
    whole = stages[-1]
    text = (
        f"Most of the time goes to {middle[0]} ({MEANINGS[middle[0]]}): {_ms(middle[1])} of "
        f"{_ms(whole.p50_ms)} ms at p50"
    )
    if middle[0] == slow[0]:
        return f"{text}, {_ms(slow[1])} of {_ms(whole.p99_ms)} at p99."
    return f"{text}; at p99 to {slow[0]} ({MEANINGS[slow[0]]}): {_ms(slow[1])} of {_ms(whole.p99_ms)}."


def _longest(role: str, stages: list[StageTimes], percentile: str) -> tuple[str, float]:
    """The longest stage of those that decide. A leader's disk and its followers work at the same time: of
    these two ways the longer one counts.
    """
    took: dict[str, float] = {stage.name: getattr(stage, percentile) for stage in stages}
    disk, others = (sum(took.get(name, 0.0) for name in way) for way in (DISK, OTHERS))
    names = (*BEFORE, *(DISK if disk >= others else OTHERS), *AFTER[role])
    on_the_way = {name: took[name] for name in names if name in took}
    # Medians of stages add up to about that of the whole, tails to more: what is missing still is elsewhere.
    on_the_way[BETWEEN] = took["whole"] - sum(on_the_way.values())
    return max(on_the_way.items(), key=lambda one: one[1])


def _table(stages: list[StageTimes]) -> list[str]:
    rows: list[list[str]] = [["GROUPS", *(name.upper() for name in PERCENTILES)]]
    rows += [[f"{one.groups:,}", *map(_ms, (one.p50_ms, one.p90_ms, one.p99_ms))] for one in stages]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    heads, *cells = ([text.rjust(width) for text, width in zip(row, widths, strict=True)] for row in rows)
    return table_lines([[one.name, *row] for one, row in zip(stages, cells, strict=True)], ["STAGE", *heads])


def _ms(milliseconds: float) -> str:
    """A microsecond at least, and no more than four digits or so."""
    if milliseconds >= 100:
        return f"{milliseconds:,.0f}"
    digits = 3 if milliseconds < 1 else 2 if milliseconds < 10 else 1
    return f"{milliseconds:.{digits}f}"
