"""Which members are silent, by the clock of the member that looks (G5).

A member beats. Whoever sees the same beat of another one for that one's whole session, by its own monotonic
clock, takes it for dead. That may be wrong, and does no harm then (G3). Only time in which it looked counts:
while the group's state could not be read, as during a fail-over of its coordinator, nobody could write that
it is there either. After such a gap every session begins anew.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.groups.state import GroupState

LOOKS_IN_A_SESSION = 2
"""Who looks less often than so often in a session has not looked."""


class Sight(NamedTuple):
    beat: int
    since_ms: int


class Watch:
    """What one member has seen of the others."""

    def __init__(self) -> None:
        self._seen: dict[str, Sight] = {}
        self._looked_ms = 0

    def look(self, now_ms: int, state: GroupState, me: str) -> list[str]:
        """Who is to be taken for dead, by the state as it is now. `now_ms`: this process's monotonic time."""
        gap_ms, self._looked_ms = now_ms - self._looked_ms, now_ms
        seen: dict[str, Sight] = {}
        silent: list[str] = []
        for member, known in state.members.items():
            before = self._seen.get(member)
            away = gap_ms * LOOKS_IN_A_SESSION > known.session_ms
            if before is None or away or before.beat != known.beat:
                before = Sight(known.beat, now_ms)
            seen[member] = before
            if member != me and now_ms - before.since_ms >= known.session_ms:
                silent.append(member)
        self._seen = seen
        return silent
