"""What the core of `liftlog_spec/models/raft.py` does in one breath, and what it never does; see
`limits.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.reading import Shown, Taken

Done = Sequence[tuple[Taken, dict[str, Any]]]


class RaftLimits(Limits):
    """Limits of liftlog's Raft."""

    reasons: ClassVar[dict[str, str]] = {
        "commit-at-once": "the leader commits in the step in which it hears, or syncs, what lacked",
        "opens-with-entry": "a new leader appends an empty entry in the step in which it is elected (M1i)",
        "no-entry-left": "the bounds leave no entry, or no write, for what a new leader appends",
        "asks-before": "nobody stands before a quorum, whose terms and votes are on disk, has said in "
        "pre-votes that it could win (M1c)",
        "has-a-leader": "who knows the leader of its term votes for nobody else in that term",
        "tells-all": "an acknowledgement says all that it may: the entries that came, or what is on disk of "
        "the part that agrees (M1g)",
    }
    rides: ClassVar[dict[str, str]] = {"Commit": "commit-at-once"}

    weights: ClassVar[dict[str, float]] = {
        "Campaign": 0.3,
        "GrantVote": 0.6,
        "BecomeLeader": 3.0,
        "StepDown": 0.1,
        "Accept": 2.0,
        "Restart": 0.1,
        "LoseDisk": 0.05,
        "Withhold": 0.05,
    }

    def refuses(self, before: Shown, step: Taken, given: dict[str, Any]) -> str:
        match step.action:
            case "Campaign":
                return "" if self._could_win(before, given["n"]) else "asks-before"
            case "GrantVote":
                return self._knows_leader(before, given["n"], given["request"])
            case "Accept":
                return self._acked(before, given["n"], given["append"], given["acked"])
        return ""

    @staticmethod
    def _could_win(before: Shown, n: str) -> bool:
        """M1b, M1c: whether a quorum, with itself, would vote for it in the next term.

        And may say so: what it says waits until its term and vote are on disk.
        """
        if _unsaved(before, n):
            return False
        mine = _newness(before.log[n])
        ready = [
            other
            for other, log in before.log.items()
            if other != n
            and not before.barred[other]
            and not _unsaved(before, other)
            and before.term[other] <= before.term[n]
            and mine >= _newness(log)
        ]
        return 2 * (len(ready) + 1) > len(before.log)

    @staticmethod
    def _knows_leader(before: Shown, n: str, request: dict[str, Any]) -> str:
        if request["term"] > before.term[n] or before.vote[n] is not None:
            return ""
        heard = any(
            m["kind"] == "append" and m["to"] == n and m["term"] == request["term"] for m in before.messages
        )
        return "has-a-leader" if heard else ""

    @staticmethod
    def _acked(before: Shown, n: str, m: dict[str, Any], acked: int) -> str:
        if before.barred[n]:
            return ""
        known = m["index"] + len(m["entries"])
        if not m["entries"]:
            known = min(known, _common(before.log[n], before.disk[n]["log"]))
        return "" if acked == known else "tells-all"

    def forces(
        self, after: Shown, done: Done, possible: Callable[[], list[Taken]]
    ) -> tuple[str, list[Taken]]:
        last, given = done[-1]
        if last.action == "BecomeLeader":
            entries = [step for step in possible() if step.action == "Propose"]
            mine = [step for step in entries if self.reader.parameters(step) == given]
            return ("opens-with-entry" if mine else "no-entry-left"), mine
        if "leader" not in after.role.values():
            return "", []
        commits = [(self.reader.parameters(step), step) for step in possible() if step.action == "Commit"]
        if not commits:
            return "", []
        furthest = max(found["index"] for found, _ in commits)
        return "commit-at-once", [step for found, step in commits if found["index"] == furthest]


def _unsaved(before: Shown, n: str) -> bool:
    """Whether its term or vote is still being written."""
    return any(
        image[name] != before.disk[n][name]
        for image in before.writes[n]
        for name in ("term", "vote", "barred")
    )


def _newness(log: list[int]) -> tuple[int, int]:
    return (log[-1] if log else 0, len(log))


def _common(one: list[int], other: list[int]) -> int:
    """Length of what two logs begin with alike."""
    for place, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return place
    return min(len(one), len(other))
