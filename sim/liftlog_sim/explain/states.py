"""What a node's state is to a reader of a story: flat, by names that can be said, and what a step changed."""

from __future__ import annotations

from typing import Any

from liftlog.core.node import Node

State = dict[str, Any]


def state_of(node: Node) -> State:
    """A node's state: `raft ...`, and for each replica `5/0 ...`, where 5/0 is the partition."""
    raft = node.raft
    state: State = {
        "incarnation": node.incarnation,
        "raft role": raft.role.value,
        "raft term": raft.term,
        "raft vote": raft.voted_for,
        "raft leader": raft.leader,
        "raft last": len(raft.log),
        "raft durable": raft.durable_index,
        "raft commit": raft.commit,
        "applied": node.metadata.applied,
    }
    for partition, replica in node.replicas.items():
        name = str(partition)
        state[f"{name} role"] = replica.role
        state[f"{name} state"] = replica.state
        state[f"{name} epoch"] = replica.epoch
        state[f"{name} log start"] = replica.log_start
        state[f"{name} LEO"] = replica.leo
        state[f"{name} durable LEO"] = replica.durable_leo
        state[f"{name} HW"] = replica.hw
        state[f"{name} damaged"] = [str(each) for each in replica.repairs.ranges]
        if replica.removed is not None:
            state[f"{name} heeded"] = replica.removed.folded
        record = replica.record
        if record is not None:
            state[f"{name} leader"] = record.leader
            state[f"{name} ready"] = record.ready
            state[f"{name} ISR"] = list(record.isr)
    return state


def difference(before: State, after: State) -> tuple[State, State]:
    """What changed: the old values and the new ones; None where there is none."""
    names = [name for name in (*after, *(name for name in before if name not in after))]
    changed = [name for name in names if before.get(name) != after.get(name)]
    return {name: before.get(name) for name in changed}, {name: after.get(name) for name in changed}
