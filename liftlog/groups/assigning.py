"""Who shall own which partition: a function of the group's state, so that whoever asks decides the same.

As few as possible are moved (sticky): a member keeps what it has up to its part, and only what is too much,
or has nobody, goes to those who have too little. Nobody has two more than another.
"""

from __future__ import annotations

from liftlog.groups.state import Assigned, GroupState, share_place


def assignments(state: GroupState) -> list[Assigned]:
    """What has to be decided so that every partition is to be somebody's; none without members."""
    if not state.members:
        return []
    # By name first: static members come again under another id, and their place is the same.
    order = sorted(state.members, key=lambda member: (state.members[member].name, member))
    names = sorted(state.shares, key=share_place)
    kept: dict[str, list[str]] = {member: [] for member in order}
    for name in names:
        target = state.shares[name].target
        if target in kept:
            kept[target].append(name)
    least, more = divmod(len(names), len(order))
    # Those who have most get the ones that are left over, so that nothing moves for that.
    by_load = sorted(order, key=lambda member: -len(kept[member]))
    room = {member: least + (place < more) for place, member in enumerate(by_load)}
    staying = {name for member in order for name in kept[member][: room[member]]}
    free = [name for name in names if name not in staying]
    found: list[Assigned] = []
    for member in order:
        missing = room[member] - min(len(kept[member]), room[member])
        found += [Assigned(name, member) for name in free[:missing]]
        free = free[missing:]
    return found
