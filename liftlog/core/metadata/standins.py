"""What a partition's record allows: which change of its ISR fits it, and who is elected of whom."""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.metadata.commands import ChangeIsr
from liftlog.core.metadata.records import PartitionState, StreamState
from liftlog.types import TailState


def fits_record(partition: PartitionState, command: ChangeIsr) -> bool:
    """R9: whether a change of the ISR is by the present leader, and is one."""
    return (
        partition.leader == command.leader
        and partition.epoch == command.epoch
        and command.leader in command.isr
        and all(node in partition.replicas for node in command.isr)
        and all(node in partition.isr or node == command.joiner for node in command.isr)
    )


def greatest_last_known(
    partition: PartitionState, is_live: Callable[[int], bool], count: Callable[[str], None]
) -> int:
    """R14: with nobody left, the greatest (epoch, LEO) of both logs, once all have reported and none is lost.

    If one has the longest data and another one the longest journal, nobody: what the one would lead without
    may be committed.
    """
    if partition.isr or partition.eligible or not partition.last_known:
        return 0
    if any(known.lost for known in partition.last_known.values()):
        if any(is_live(node) for node, known in partition.last_known.items() if not known.lost):
            count("R14.wait-for-all")
        return 0
    greatest = max((known.epoch, known.leo) for known in partition.last_known.values())
    longest = max((known.journal_epoch, known.journal_leo) for known in partition.last_known.values())
    apart = False
    for node in partition.replicas:
        known = partition.last_known.get(node)
        if known is not None and (known.epoch, known.leo) == greatest and is_live(node):
            if (known.journal_epoch, known.journal_leo) == longest:
                return node
            apart = True
    if apart:
        count("R14.apart")
    elif any(is_live(node) for node in partition.last_known):
        count("R14.greatest")
    return 0


def doubtful_tails(stream: StreamState | None) -> tuple[str, ...]:
    """R14: after which finds a copy may lack something that it had reported durable.

    With durability "os" after every unclean stop: what was never synced can vanish without a bad byte.
    """
    doubtful = (TailState.SUSPECT.value, TailState.DAMAGED.value)
    if stream is not None and stream.config.durability == "os":
        return (*doubtful, TailState.INTACT.value)
    return doubtful
