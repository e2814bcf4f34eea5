"""What nodes that retire wait for, in words: lines of `cluster status` (I3).

Who retires, and in whose favour, a node's counters say (`retires.N`, `drained.N`); the rest follows from
where the copies are, who is here, and who votes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from liftlog.messages import NodeInfo, PartitionInfo, StreamInfo

NAMED_MAX = 3
"""At most so many partitions are named that wait for something."""


def retirements(
    counters: Mapping[str, int], nodes: Sequence[NodeInfo], streams: Sequence[StreamInfo]
) -> list[str]:
    """One line for each node that retires."""
    heirs, drained = wishes(counters)
    return [_retires(node, heirs, drained, nodes, streams) for node in sorted(heirs)]


def wishes(counters: Mapping[str, int]) -> tuple[dict[int, int], set[int]]:
    """The nodes that retire, with their heirs (0: none), and those that are drained, by a node's counters."""
    heirs = {int(name.partition(".")[2]): heir for name, heir in counters.items() if _is(name, "retires")}
    return heirs, {int(name.partition(".")[2]) for name in counters if _is(name, "drained")}


def _is(name: str, kind: str) -> bool:
    before, _, number = name.partition(".")
    return before == kind and number.isdigit()


def _retires(
    node: int,
    heirs: Mapping[int, int],
    drained: Collection[int],
    nodes: Sequence[NodeInfo],
    streams: Sequence[StreamInfo],
) -> str:
    heir, live = heirs[node], {info.node for info in nodes if info.live}
    waits = [f"node {heir} is not here: start it, or name another one"] if heir and heir not in live else []
    kept = 0
    stuck: list[str] = []
    for stream in streams:
        for partition in stream.partitions:
            if node not in partition.replicas:
                continue
            kept += 1
            takers = live - set(heirs) - set(drained)
            problem = _waits(node, heir, partition, takers, live)
            if problem:
                stuck.append(f"'{stream.config.name}' partition {partition.index} {problem}")
    if kept:
        waits = [f"{kept} {'copy' if kept == 1 else 'copies'} to move", *waits, *stuck[:NAMED_MAX]]
        if len(stuck) > NAMED_MAX:
            waits.append(f"and {len(stuck) - NAMED_MAX} more partitions wait")
    elif any(info.node == node and info.voter for info in nodes):
        waits.append(_votes(node, nodes))
    else:
        waits.append("it is being removed")
    favour = f" in favour of node {heir}" if heir else ""
    return f"node {node} retires{favour}: {'; '.join(waits)}"


def _waits(
    node: int, heir: int, partition: PartitionInfo, takers: Collection[int], live: Collection[int]
) -> str:
    """Why a copy cannot leave the node yet; empty if nothing but time is needed."""
    if partition.target and node not in partition.target:
        missing = [other for other in partition.target if other not in live]
        return f"waits for node {missing[0]}, which is not here" if missing else ""
    if heir and heir not in (partition.target or partition.replicas):
        return f"waits until node {heir} has dropped its former copy" if heir in partition.dropping else ""
    free = [other for other in takers if other not in (*partition.replicas, *partition.dropping)]
    return "" if free else "has no other node: add one, or lower its number of replicas"


def _votes(node: int, nodes: Sequence[NodeInfo]) -> str:
    rest = [info for info in nodes if info.voter and info.node != node]
    live, needed = sum(info.live for info in rest), len(rest) // 2 + 1
    if not rest:
        return "it has the only vote; promote another node"
    if live < needed:
        return f"its vote: of {len(rest)} other voters {needed} must be here, and {live} are; start them"
    return "its vote"
