"""One partition as the model sees it: a state, the way from the program's numbers to the model's, and a pen.

The model counts epochs, versions, runs and indexes from 0 without gaps; the program's epochs also count
times without a leader, its versions grow by several at once, its incarnations and indexes are places in the
Raft log. `Abstract` keeps the maps. Nodes are numbered by their place among the partition's replicas.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from liftlog.trace.replica_lines import ReplicaState
from liftlog_spec.lang.sparse import Sparse
from liftlog_spec.lang.types import SpecError
from liftlog_spec.models.isr_steps import IsrSteps
from liftlog_spec.refine.runs import Runs
from liftlog_spec.run.compiled import State
from liftlog_spec.run.stepwise import NO_VALUE, Refused, Stepper

UNBOUNDED = 10**9


class Disagreement(Exception):
    """The program did what the model does not allow. `action`: what was tried."""

    def __init__(self, action: str, finding: str) -> None:
        super().__init__(f"{action}: {finding}" if action else finding)
        self.action = action
        self.finding = finding


VARIABLES = (
    *("now", "index", "eligible", "known", "change", "elected", "news", "up", "tail", "run"),
    *("log", "synced", "found", "hw", "applied", "view", "first", "progress", "pending", "crashes"),
    *("damages", "committed", "here", "barred", "remembered", "former", "mail", "told"),
    *("minimum_now", "minimum_of", "minimum_news"),
)
"""Those of the model in their order, in which a state holds their values ..."""
NOW, INDEX, ELIGIBLE, KNOWN, CHANGE, ELECTED, NEWS, UP, TAIL, RUN = range(10)
LOG, SYNCED, FOUND, HW, APPLIED, VIEW, FIRST, PROGRESS, PENDING, CRASHES = range(10, 20)
DAMAGES, COMMITTED, HERE, BARRED, REMEMBERED, FORMER, MAIL, TOLD = range(20, 28)
MINIMUM_NOW, MINIMUM_OF = range(28, 30)
"""... so that each can be read by its place."""


class Seen(NamedTuple):
    """The model's View, as it is held."""

    leader: int
    epoch: int
    version: int
    isr: int
    runs: tuple[int, ...]
    live: int


OF_EACH = (KNOWN, UP, TAIL, RUN, SYNCED, FOUND, HW, FIRST, PENDING, BARRED, REMEMBERED, FORMER)
"""Those of which each replica has one, and that begin as they are first; others need more thought."""


MAIL_KIND, MAIL_FOLLOWER, MAIL_LEADER, MAIL_EPOCH, MAIL_RUN, MAIL_AT, MAIL_LAST, MAIL_TO = range(8)
MAIL_ENTRIES, MAIL_HW = 8, 9
"""Places of the fields in the model's Message, as it is held."""


class Agreed(NamedTuple):
    """A history that was compared with a log of the model, but for where the last stretch of both ends."""

    history: tuple[tuple[int, int], ...]
    log_start: int
    values: tuple[Any, ...]
    ends: tuple[int, ...]

    def still(self, after: ReplicaState, log: Runs) -> bool:
        """Whether neither has changed since, but for that."""
        return (
            self.history == after.history
            and self.log_start == after.log_start
            and self.values == log.values
            and self.ends == log.ends[:-1]
        )


REPORT, RECORDS, CUT, START = range(4)


@lru_cache(maxsize=64)
def stepper_of(replicas: int, minimum: int) -> Stepper:
    """The model for so many replicas and this minimum at first, without any other bound."""
    bounds = ("Records", "Epochs", "Changes", "Crashes", "Damages", "Mail", "Confessions")
    given: dict[str, Any] = dict.fromkeys(bounds, UNBOUNDED)
    settings: dict[str, Any] = {
        "operator": "may-lose",
        "moves": "right",
        "alters": "right",
        "pairs": "other-log",
    }
    found = Stepper(IsrSteps(Replicas=replicas, Minimum=minimum, **settings, **given))
    if found.variables != VARIABLES:
        raise SpecError(f"IsrSteps has the variables {', '.join(found.variables)}; abstract.py takes others")
    return found


class Abstract:
    """The model's state of one partition."""

    def __init__(self, members: tuple[int, ...], minimum: int, counts: dict[str, int]) -> None:
        self.members = members
        self.place = {node: place for place, node in enumerate(members)}
        self.minimum = minimum
        self.steps = stepper_of(len(members), minimum)
        self._counts = counts
        self._functions: dict[str, Callable[[State, tuple[Any, ...]], Any]] = {}
        """Of the actions that were taken: what the model makes of a state."""
        self._masks: dict[tuple[int, ...], int] = {}
        first = self.steps.first()
        self.state = self.steps.with_values(first, {"log": (Runs(),) * len(members)})
        self.raft_index = [0]
        """By the model's index: the Raft index of the command that it belongs to."""
        self.version_at: dict[int, int] = {}
        self.epoch_at: dict[int, int] = {}
        """By the model's index, where a command ends: the program's version and epoch."""
        self.epochs: dict[int, int] = {0: 0}
        """By the program's epoch, if somebody led it: the model's."""
        self.incarnations: list[list[int]] = [[] for _ in members]
        """By replica and run: the program's incarnation."""
        self.agreed: list[Agreed | None] = [None] * len(members)
        """By replica: the history that was found to be that of its log in the model."""
        self.done: list[str] = []
        """What was done in the present step of the program, for people."""

    def do(self, action: str, *given: Any) -> None:
        """Take a step of the model. Raises Disagreement."""
        function = self._functions.get(action)
        if function is None:
            function = self._functions[action] = self.steps.function(action)
        try:
            after = function(self.state, given)
        except NO_VALUE:
            after = None
        if type(after) is not tuple:
            raise self._refused(action, given)
        self.state = after
        self.done.append(action)
        counts = self._counts
        counts[action] = counts.get(action, 0) + 1

    def _refused(self, action: str, given: tuple[Any, ...]) -> Disagreement:
        """Why the model does not take this step."""
        try:
            refused = self.steps.apply(action, given, self.state)
        except SpecError as error:
            return Disagreement(self.shown(action, given), str(error))
        assert isinstance(refused, Refused)
        return Disagreement(self.shown(action, given), f"refused by {refused.line}: {refused.text}")

    def shown(self, action: str, given: tuple[Any, ...]) -> str:
        """`Name(f = node 2, lead = node 1)`."""
        parts = []
        for (name, kind), value in zip(self.steps.parameters(action), given, strict=True):
            text = str(kind.show(value)) if kind.holds(value) else repr(value)
            if getattr(kind, "name", "") == "Replica":
                text = f"node {self.members[value]}"
            parts.append(f"{name} = {text}")
        return f"{action}({', '.join(parts)})"

    def apply_next(self, r: int) -> None:
        """R2: a replica applies the next of what the group has decided."""
        coming = self.state[NEWS][self.state[APPLIED][r] + 1][0]
        self.do("ApplyInEpoch" if coming[1] == self.view(r).epoch else "ApplyNewEpoch", r)

    # -- replicas that are moved (R20) ---------------------------------------------------------------------

    def widen(self, node: int, incarnation: int, live: bool) -> None:
        """A node is given a copy for the first time: another replica, which has been there all the time with
        nothing, in no ISR, and lives as its node does.
        """
        place = len(self.members)
        self.members += (node,)
        self.place[node] = place
        self.incarnations.append([incarnation])
        self.agreed.append(None)
        self.steps = stepper_of(place + 1, self.minimum)
        self._functions.clear()
        self._masks.clear()
        state, first = list(self.state), self.steps.first()

        def known(view: tuple[Any, ...]) -> tuple[Any, ...]:
            leader, epoch, version, isr, runs, living = view
            return leader, epoch, version, isr, (*runs, 0), living | live << place

        now = state[NOW] = known(state[NOW])
        news = state[NEWS]
        changed = {index: tuple(known(view) for view in told) for index, told in news.changed.items()}
        state[NEWS] = Sparse(news.length, news.default, changed)
        views = tuple(known(view) if state[HERE][r] else first[VIEW][r] for r, view in enumerate(state[VIEW]))
        for variable in OF_EACH:
            state[variable] = (*state[variable], first[variable][place])
        state[VIEW] = (*views, now)
        state[APPLIED] = (*self.state[APPLIED], state[INDEX])
        state[MINIMUM_OF] = (*self.state[MINIMUM_OF], state[MINIMUM_NOW])
        state[LOG] = (*self.state[LOG], Runs())
        rows = tuple((*row, first[PROGRESS][place][place]) for row in self.state[PROGRESS])
        state[PROGRESS] = (*rows, first[PROGRESS][place])
        state[HERE] = (*self.state[HERE], first[HERE][place])
        self.state = tuple(state)

    # -- parts of the state --------------------------------------------------------------------------------

    def view(self, r: int) -> Seen:
        return Seen(*self.state[VIEW][r])

    @property
    def now(self) -> Seen:
        return Seen(*self.state[NOW])

    # -- numbers -------------------------------------------------------------------------------------------

    def mask(self, nodes: tuple[int, ...]) -> int:
        """A set of nodes as the model holds it."""
        mask = self._masks.get(nodes)
        if mask is None:
            mask = 0
            for node in nodes:
                mask |= 1 << self.place[node]
            self._masks[nodes] = mask
        return mask

    def nodes(self, mask: int) -> list[int]:
        return [node for place, node in enumerate(self.members) if mask >> place & 1]

    def node(self, place: int) -> int:
        """Back from the model's leader: 0 for nobody."""
        return self.members[place] if place >= 0 else 0

    def run_of(self, r: int, incarnation: int) -> int:
        """The run that has this incarnation, -1 if none has."""
        known = self.incarnations[r]
        return known.index(incarnation) if incarnation in known else -1
