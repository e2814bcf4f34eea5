"""What the core of `liftlog_spec/models/isr.py` does in one breath, and what it never does; see
`limits.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.reading import Shown, Taken

Done = Sequence[tuple[Taken, dict[str, Any]]]
ELECTIONS = ("ElectFromIsr", "ElectFromEligible", "ElectFromLastKnown")


class IsrLimits(Limits):
    """Limits of liftlog's replication."""

    reasons: ClassVar[dict[str, str]] = {
        "commit-at-once": "the leader moves its HW in the very step that gives it the reason to (R2)",
        "proposes-at-once": "a leader proposes an addition in the step in which it hears that it may (R10)",
        "elects-at-once": "the command that takes a leader away elects the next, if there is anybody (R16)",
        "applies-at-once": "removal and election are one command: a replica applies both in one step",
        "asks-with-report": "a question tells how far the follower is durable: what it tells must be known, "
        "else Report is a step before it (R7)",
        "asks-for-addition": "a question of somebody who may join makes the leader propose the addition",
        "proposes-when-behind": "a leader that is behind proposes on an old version and waits until it has "
        "applied why that was refused; the model leaves such proposals out",
        "one-removal": "the leader proposes the first of the members that lag; a choice among several is "
        "left out",
        "answers-on-tick": "an HW without records is told on a tick, and a tick proposes the removal of "
        "members that have lagged long enough",
        "question-ends-wait": "a report that goes with a question ends the wait for an earlier answer (R6)",
        "no-leader-no-answer": "being without a leader is an epoch of its own in the core, where no answer "
        "of the epoch before counts; in the model it is the same epoch",
        "confirms-later": "registration and confirmation are two commands, and the election after the first "
        "cannot choose the node that registers",
        "no-election-left": "the bounds leave no epoch or no command for the election that would follow",
    }
    rides: ClassVar[dict[str, str]] = {
        "Commit": "commit-at-once",
        **dict.fromkeys(ELECTIONS, "elects-at-once"),
    }

    weights: ClassVar[dict[str, float]] = {
        "Crash": 0.1,
        "CrashWithTornTail": 0.1,
        "LoseDisk": 0.05,
        "ExpireMember": 0.15,
        "ExpireOutsider": 0.15,
        "ElectAnother": 0.3,
        "LateMessageIsLost": 0.2,
        "Truncate": 3.0,
    }

    # -- from a state at rest ------------------------------------------------------------------------------

    def refuses(self, before: Shown, step: Taken, given: dict[str, Any]) -> str:
        match step.action:
            case "Fetch" | "FetchIsAnsweredLate":
                return self._question(before, given["f"], given["lead"]) or self._hw_only(before, given)
            case "Report" | "ReportIsLate":
                if self._waits(before, given["f"]):
                    return "question-ends-wait"
                known = before.synced[given["f"]]
                if step.action == "Report" and self._stale_joiner(before, given["lead"], given["f"], known):
                    return "proposes-when-behind"
            case "ProposeAddition":
                if self._waits(before, given["who"]):
                    return "question-ends-wait"
                if self._unreported(before, given["who"], given["lead"]):
                    return "asks-with-report"
            case "ProposeRemoval":
                if len(self._laggards(before, given["lead"])) > 1:
                    return "one-removal"
            case "LateRecordsArrive" | "LateCutArrives":
                if before.view[given["f"]]["leader"] is None:
                    return "no-leader-no-answer"
            case "LateReportArrives":
                late = before.late
                if self._stale_joiner(before, given["lead"], given["f"], late["to"]):
                    return "proposes-when-behind"
        return ""

    def _question(self, before: Shown, f: str, lead: str) -> str:
        if self._unreported(before, f, lead):
            return "asks-with-report"
        if self._may_join(before, lead, f, before.progress[lead][f]):
            return "asks-for-addition"
        return ""

    def _hw_only(self, before: Shown, given: dict[str, Any]) -> str:
        f, lead = given["f"], given["lead"]
        nothing_new = len(before.log[f]) == len(before.log[lead])
        return "answers-on-tick" if nothing_new and self._laggards(before, lead) else ""

    @staticmethod
    def _unreported(before: Shown, f: str, lead: str) -> bool:
        return bool(before.progress[lead][f] < before.synced[f])

    @staticmethod
    def _waits(before: Shown, f: str) -> bool:
        """Whether an answer to `f` is on its way that it would still use."""
        late = before.late
        return late is not None and late["follower"] == f and late["kind"] != "report"

    @staticmethod
    def _laggards(before: Shown, lead: str) -> list[str]:
        """Members that are not known to have everything, as long as nothing is pending."""
        if before.pending[lead] is not None:
            return []
        end, known = len(before.log[lead]), before.progress[lead]
        return [m for m in before.view[lead]["isr"] if m != lead and known[m] < end]

    def _may_join(self, before: Shown, lead: str, who: str, durable: int) -> bool:
        """R10, whatever version the leader is at."""
        view = before.view[lead]
        return (
            before.pending[lead] is None
            and who not in view["isr"]
            and who in view["live"]
            and durable >= before.hw[lead]
            and durable >= before.first[lead]
        )

    def _stale_joiner(self, before: Shown, lead: str, who: str, durable: int) -> bool:
        behind = before.view[lead]["version"] != before.now["version"]
        return behind and self._may_join(before, lead, who, durable)

    # -- in the same breath --------------------------------------------------------------------------------

    def forces(
        self, after: Shown, done: Done, possible: Callable[[], list[Taken]]
    ) -> tuple[str, list[Taken]]:
        first, given = done[0]
        last = done[-1][0].action
        if last in ELECTIONS and first.action in ("Register", "RegisterAfterDamage"):
            return "applies-at-once", self._apply(possible(), given["r"])
        if after.now["leader"] is None and (wanted := self._electable(after, done)) is not None:
            return self._election(wanted, possible())
        if first.action == "ApplyInEpoch" and self._elected_next(after, given["r"]):
            return "applies-at-once", self._apply(possible(), given["r"])
        commits = [step for step in possible() if step.action == "Commit"]
        if commits:
            return "commit-at-once", commits
        if first.action in ("Report", "LateReportArrives") and last != "ProposeAddition":
            for step in possible():
                if step.action == "ProposeAddition":
                    found = self.reader.parameters(step)
                    if found["lead"] == given["lead"] and found["who"] == given["f"]:
                        return "proposes-at-once", [step]
        return "", []

    def _apply(self, possible: list[Taken], r: str) -> list[Taken]:
        applications = [step for step in possible if step.action == "ApplyNewEpoch"]
        return [step for step in applications if self.reader.parameters(step)["r"] == r]

    @staticmethod
    def _elected_next(after: Shown, r: str) -> bool:
        """Whether what it has applied leaves no leader, and the same command has elected one."""
        if not after.up[r] or after.view[r]["leader"] is not None:
            return False
        following = after.news.get(after.applied[r] + 1)
        return following is not None and following["epoch"] > after.view[r]["epoch"]

    def _electable(self, after: Shown, done: Done) -> tuple[str, list[str]] | None:
        """(how, who may be chosen) by R16, or None if there is nobody. An empty list: not by this model."""
        now, eligible = after.now, after.eligible
        late = next((given["r"] for step, given in done if step.action.startswith("Register")), None)
        members = [m for m in now["isr"] if m in now["live"]]
        outside = [m for m in eligible if m in now["live"]]
        if members:
            others = [m for m in members if m != late]
            if others:
                return "ElectFromIsr", others
            # Only the node that registers: before it is confirmed somebody else may be eligible.
            return "ElectFromIsr", [] if [m for m in outside if m != late] else members
        if outside:
            others = [m for m in outside if m != late]
            return "ElectFromEligible", others or outside
        if now["isr"] or eligible:
            return None
        known = {m: copy for m, copy in after.known.items() if copy is not None}
        if not known or any(copy["lost"] for copy in known.values()):
            return None
        most = max((copy["epoch"], copy["leo"]) for copy in known.values())
        best = [m for m, copy in known.items() if (copy["epoch"], copy["leo"]) == most and m in now["live"]]
        others = [m for m in best if m != late]
        if not best:
            return None
        return "ElectFromLastKnown", others or best

    def _election(self, wanted: tuple[str, list[str]], possible: list[Taken]) -> tuple[str, list[Taken]]:
        how, chosen = wanted
        if not chosen:
            return "confirms-later", []
        found = [step for step in possible if step.action in ELECTIONS]
        if not found:
            return "no-election-left", []
        wished = [
            step for step in found if step.action == how and self.reader.parameters(step)["to"] in chosen
        ]
        return ("elects-at-once" if wished else "confirms-later"), wished
