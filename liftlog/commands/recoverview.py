"""What `liftlog cluster recover` says: which disk holds what, and what may be lost."""

from __future__ import annotations

from liftlog.commands.common import print_table
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import PartitionState
from liftlog.core.total_loss.plan import counted_on, surviving
from liftlog.core.total_loss.reports import CopyReport, Survivors
from liftlog.types import TailState


def losses(survivors: Survivors, metadata: Metadata | None) -> list[str]:
    """What may be lost, one sentence each. `metadata`: those of the disk that goes on, if it is here."""
    said = []
    end = survivors.chosen.last_index
    if survivors.lacks:
        said.append(
            f"the metadata end with entry {end}, and entries up to {survivors.lacks} are known to have been "
            "decided: what these said is lost; before a start, copy folders of streams that are in no table"
        )
    elif survivors.decided_elsewhere:
        said.append(f"what the missing voters decided after entry {end}, if anything: nobody here was told")
    if metadata is not None:
        for partition in metadata.partitions.values():
            stream = metadata.by_id[partition.id.stream].config.name
            loss = _loss(survivors, partition, stream)
            if loss:
                said.append(f"'{stream}' partition {partition.id.index}: {loss}")
    return said


def _loss(survivors: Survivors, partition: PartitionState, stream: str) -> str:
    """Of one partition, as far as the metadata know; empty: nothing."""
    copies = surviving(partition.id, partition.replicas, survivors.disks)
    there = {node: copy for node, copy in copies.items() if copy is not None}
    if not there:
        return "everything, no copy of it is left"
    counted = [copy for node, copy in there.items() if node in counted_on(partition)]
    if not counted:
        best = max(there, key=lambda node: (there[node].epoch, there[node].end))
        return (
            f"what a copy that was not in sync lacks; the best, on node {best}, ends at offset "
            f"{there[best].end}; nobody leads until "
            f"'liftlog stream elect {stream} {partition.id.index} {best} --unclean'"
        )
    if not any(copy.state == TailState.INTACT.value for copy in counted):
        return "what is damaged on each copy that was in sync and is left"
    return ""


def print_survey(survivors: Survivors, metadata: Metadata | None) -> None:
    rows: list[list[object]] = []
    copies: list[list[object]] = []
    for disk in survivors.disks:
        part = "follows"
        if disk is survivors.chosen:
            part = "goes on"
        elif disk in survivors.behind:
            part = "behind"
        log = disk.problem or f"entry {disk.last_index} of term {disk.last_term}"
        rows.append([disk.node, disk.disk, disk.epoch.number, log, disk.known_committed, part])
        copies += [_row(disk.node, copy) for copy in disk.copies]
    print_table(rows, ["NODE", "DISK", "EPOCH", "METADATA END WITH", "KNOWN DECIDED", "IT"])
    if copies:
        print()
        print_table(copies, ["STREAM", "PARTITION", "NODE", "EPOCH", "START", "END", "HW", "STATE"])
    voters = ", ".join(str(voter.node) for voter in survivors.voters)
    missing = ", ".join(f"node {node.node} (disk {node.disk})" for node in survivors.missing) or "nobody"
    print(f"\nvoters, as node {survivors.chosen.node} knows them: {voters}; not here: {missing}")
    found = losses(survivors, metadata)
    for one in found:
        print(f"may be lost: {one}")
    if metadata is None:
        print("what of each partition may be lost is said where the disk that goes on is")
    elif not found:
        print("may be lost: nothing")


def _row(node: int, copy: CopyReport) -> list[object]:
    return [*copy.log, node, copy.epoch, copy.start, copy.end, copy.hw, copy.state]
