"""What the core of `liftlog_spec/models/raft_snapshots.py` does in one breath, and what it never does; see
`limits.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.reading import Shown, Taken


class RaftSnapshotsLimits(Limits):
    """Limits of liftlog's Raft, on disks as fast as memory."""

    reasons: ClassVar[dict[str, str]] = {
        "commit-at-once": "the leader commits in the step in which it hears what lacked",
        "opens-with-entry": "a new leader, the first one too, appends an empty entry in the step in which it "
        "is elected (M1i)",
        "no-entry-left": "the bounds leave no entry for what a new leader appends",
        "asks-before": "nobody stands before a quorum has said in pre-votes that it could win (M1c)",
        "has-a-leader": "who may know the leader of its term votes for nobody else in that term",
    }
    rides: ClassVar[dict[str, str]] = {"Commit": "commit-at-once"}
    undriven: ClassVar[tuple[str, ...]] = ("Add", "Promote", "Remove")
    """Membership, which the bounds leave out: there are no changes in them."""

    weights: ClassVar[dict[str, float]] = {
        "Campaign": 0.2,
        "GrantVote": 0.6,
        "BecomeLeader": 3.0,
        "StepDown": 0.1,
        "Propose": 2.0,
        "Accept": 3.0,
        "Heartbeat": 2.0,
        "Restart": 0.1,
        "LoseDisk": 0.05,
    }

    def refuses(self, before: Shown, step: Taken, given: dict[str, Any]) -> str:
        opening = [n for n, role in before.role.items() if role == "leader" and not before.log[n]]
        if opening and (step.action, given.get("n")) != ("Propose", opening[0]):
            return "opens-with-entry"
        if step.action == "Campaign":
            return "" if self._could_win(before, given["n"]) else "asks-before"
        if step.action == "GrantVote":
            n, term = given["n"], before.term[given["to"]]
            return "has-a-leader" if before.term[n] == term and before.elected[term] else ""
        return ""

    @staticmethod
    def _could_win(before: Shown, n: str) -> bool:
        """M1b, M1c: whether a quorum, with itself, would vote for it in the next term."""
        mine = _newness(before.log[n])
        ready = [
            other
            for other, log in before.log.items()
            if other != n
            and other not in before.lost
            and before.term[other] <= before.term[n]
            and mine >= _newness(log)
        ]
        return 2 * (len(ready) + 1) > len(before.log)

    def forces(
        self,
        after: Shown,
        done: Sequence[tuple[Taken, dict[str, Any]]],
        possible: Callable[[], list[Taken]],
    ) -> tuple[str, list[Taken]]:
        last, given = done[-1]
        if last.action == "BecomeLeader":
            entries = [step for step in possible() if step.action == "Propose"]
            mine = [step for step in entries if self.reader.parameters(step) == given]
            return ("opens-with-entry" if mine else "no-entry-left"), mine
        commits = [(self.reader.parameters(step), step) for step in possible() if step.action == "Commit"]
        if not commits:
            return "", []
        furthest = max(found["index"] for found, _ in commits)
        return "commit-at-once", [step for found, step in commits if found["index"] == furthest]


def _newness(log: list[dict[str, Any]]) -> tuple[int, int]:
    return (log[-1]["term"] if log else 0, len(log))
