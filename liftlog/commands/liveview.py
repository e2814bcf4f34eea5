"""What `liftlog cluster status --live` draws: as many lines as the terminal has, the worst first.

Made of two looks at the cluster, so that it can say how fast things go. It judges nothing itself: what is
wrong is what `ClusterView` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import table_lines
from liftlog.messages import PartitionInfo, ReplicaInfo, StreamInfo
from liftlog.types import PartitionId

BAD, WARN, GOOD, DIM = "red", "yellow", "green", "bright_black"
ROWS_MIN = 3
"""Partitions that are shown however low the terminal is."""


class LiveLine(NamedTuple):
    """A line and its colour; empty for the terminal's own."""

    text: str
    colour: str = ""


class _Row(NamedTuple):
    trouble: int
    rate: float
    cells: list[object]


def live_lines(
    view: ClusterView, before: ClusterView | None, seconds: float, height: int
) -> list[LiveLine]:
    """`before`: the look `seconds` ago; None: this is the first. `height`: of the terminal."""
    lines = [LiveLine(view.headline())]
    lines += _nodes(view)
    verdict = _verdict(view)
    room = max(ROWS_MIN, height - len(lines) - len(verdict) - 4)
    rows = sorted(_rows(view, before, seconds), key=lambda row: (-row.trouble, -row.rate))
    if rows:
        heads = ["STREAM", "PARTITION", "LEADER", "EPOCH", "IN SYNC", "HW", "COMMITTED/S", "WORST LAG"]
        head, *told = table_lines([row.cells for row in rows[:room]], heads)
        lines += [LiveLine(""), LiveLine(head)]
        colours = ("", WARN, BAD)
        lines += [LiveLine(text, colours[row.trouble]) for text, row in zip(told, rows, strict=False)]
        if len(rows) > room:
            lines.append(LiveLine(f"and {len(rows) - room} more partitions", DIM))
    return [*lines, LiveLine(""), *verdict]


def _nodes(view: ClusterView) -> list[LiveLine]:
    infos = view.nodes()
    rows: list[list[object]] = []
    for info in infos:
        answer = view.answers.get(info.node)
        nats = "-" if answer is None else "yes" if answer.contact.nats else "no"
        held = [] if answer is None else [copy for copy in answer.replicas if not copy.partition.is_journal]
        copies = "-" if answer is None else len(held)
        led = "-" if answer is None else sum(copy.role == "leader" for copy in held)
        contact = view.contact(info.node)
        rows.append([info.node, view.session(info), contact, nats, copies, led, view.vote(info)])
    head, *told = table_lines(rows, ["NODE", "SESSION", "CONTACT", "NATS", "COPIES", "LEADS", "VOTE"])
    lines = [LiveLine(""), LiveLine(head)]
    for text, info in zip(told, infos, strict=True):
        lines.append(LiveLine(text, "" if info.node in view.answers and info.live else BAD))
    return lines


def _rows(view: ClusterView, before: ClusterView | None, seconds: float) -> list[_Row]:
    now, then = _committed(view), _committed(before) if before is not None else {}
    copies: dict[PartitionId, dict[int, ReplicaInfo]] = {}
    for node, answer in view.answers.items():
        for copy in answer.replicas:
            copies.setdefault(copy.partition, {})[node] = copy
    rows = []
    for stream in view.streams:
        for partition in stream.partitions:
            place = PartitionId(stream.id, partition.index)
            rate = (now[place] - then[place]) / seconds if place in now and place in then and seconds else 0.0
            rows.append(_row(stream, partition, now.get(place), rate, copies.get(place, {})))
    return rows


def _row(
    stream: StreamInfo,
    partition: PartitionInfo,
    hw: int | None,
    rate: float,
    copies: Mapping[int, ReplicaInfo],
) -> _Row:
    lacking = len(partition.isr) < len(partition.replicas)
    unready = not partition.ready and not stream.config.paused
    dead = not partition.leader or unready or len(partition.isr) < partition.min_insync
    leader = copies.get(partition.leader)
    behind = [leader.leo - copy.durable_leo for copy in copies.values()] if leader is not None else []
    in_sync = f"{_listed(partition.isr)} of {_listed(partition.replicas)}"
    cells: list[object] = [
        stream.config.name,
        partition.index,
        partition.leader or "none",
        partition.epoch,
        in_sync,
        "-" if hw is None else hw,
        round(rate),
        max(0, *behind) if behind else "-",
    ]
    return _Row(2 if dead else int(lacking), rate, cells)


def _committed(view: ClusterView) -> dict[PartitionId, int]:
    """The greatest HW that any copy tells."""
    found: dict[PartitionId, int] = {}
    for answer in view.answers.values():
        for copy in answer.replicas:
            found[copy.partition] = max(found.get(copy.partition, 0), copy.hw)
    return found


def _verdict(view: ClusterView) -> list[LiveLine]:
    lines = [LiveLine(f"note: {remark}", WARN) for remark in view.remarks]
    if view.takes_messages:
        what = "every partition takes messages" if view.streams else "ready; there are no streams yet"
        return [*lines, LiveLine(what, GOOD)]
    return [*lines, *(LiveLine(problem, BAD) for problem in view.problems)]


def _listed(nodes: Sequence[int]) -> str:
    return " ".join(map(str, nodes)) or "none"
