"""What a replica knows in its present role: as the leader of an epoch, or as the follower of a leader.

Plain values with their transitions; what is done about them stands in `isr.py`, `leader.py`, `serving.py`,
`purge.py`, and in `follower.py`. A new epoch gets a new value.

A leader's view of ISR, minimum and version is the metadata it has applied, nothing else. What it has asked
for and not yet seen decided (`pending`) counts on the unfavourable side: a pending addition must hold every
record before it commits, a pending removal still must.

What a leader knows of a follower holds for fetches of its epoch and of one incarnation. `durable` and
`log_start` never go back; `clean_point` does, with the newest fetch (C2). `epoch` and `epoch_start` never
change; the record's version never goes back.
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.core.context import Context
from liftlog.core.metadata.commands import ChangeIsr
from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.state.pace import Pace
from liftlog.messages import Fetch
from liftlog.types import InvariantViolation, PartitionId, invariant


class FollowerState:
    """What the leader knows of one follower, from fetches of this epoch and of one incarnation only (R2)."""

    __slots__ = (
        "clean_point",
        "durable",
        "incarnation",
        "lag_ticks",
        "leo",
        "log_start",
        "mark",
        "parked",
        "parked_ticks",
        "request",
        "sent_hw",
        "sent_start",
    )

    def __init__(self, incarnation: int, leo: int) -> None:
        self.incarnation = incarnation
        self.durable = -1
        """Durable LEO of the follower, -1 until a fetch of this epoch passed the epoch check."""
        self.leo = -1
        """The greatest offset that it has asked for in this epoch, behind a log that is a prefix of ours."""
        self.mark = leo
        """R11: the follower is caught up each time its durable LEO reaches the LEO noted here."""
        self.lag_ticks = 0
        self.parked: Fetch | None = None
        self.parked_ticks = 0
        self.sent_hw = -1
        self.sent_start = -1
        self.log_start = 0
        """C3: the follower's durable log start."""
        self.clean_point = 0
        """C2: how far it has compacted, by the newest fetch; `request` is that fetch's number."""
        self.request = 0

    def reached(self, durable: int, log_start: int) -> None:
        """It has said how far it is."""
        if durable > self.durable:
            self.durable = durable
        if log_start > self.log_start:
            self.log_start = log_start

    def caught_up(self, leo: int) -> None:
        """R11: it has reached the LEO that was noted; from now on `leo` is to be reached."""
        if leo < self.mark:
            raise InvariantViolation(f"a follower was to reach {self.mark}, now only {leo}")
        self.lag_ticks = 0
        self.mark = leo

    def tick(self, leo: int) -> None:
        self.lag_ticks += 1
        self.parked_ticks += 1
        if self.durable >= leo:
            self.caught_up(leo)

    def park(self, fetch: Fetch) -> None:
        """This is what it asks for; its log up to there is a prefix of ours."""
        self.leo = max(self.leo, fetch.offset)
        clean_point = min(fetch.clean_point, fetch.offset)
        if fetch.request > self.request:
            # Only the newest one counts: a clean point goes back when a copy is reset or damaged (C2).
            self.request = fetch.request
            self.clean_point = clean_point
        elif clean_point < self.clean_point:
            # Older, or after one with a number that nobody has come to: too low does no harm.
            self.clean_point = clean_point
        self.parked = fetch
        self.parked_ticks = 0

    def unpark(self) -> None:
        """What it asks for is being answered."""
        self.parked = None

    def sent(self, hw: int, log_start: int) -> None:
        """These were told with the last answer."""
        self.sent_hw = hw
        self.sent_start = log_start

    def uncleaned(self, request: int, offset: int) -> None:
        """C2: it refetches from `offset` on; what it gets may be less compacted than what it had."""
        self.request = max(self.request, request)
        self.clean_point = min(self.clean_point, offset)


class LeaderState:
    """What the leader of a partition knows in one epoch. `record`: the applied metadata of the partition."""

    __slots__ = (
        "_ctx",
        "_id",
        "_office",
        "_paired",
        "epoch",
        "epoch_start",
        "followers",
        "front",
        "needed_from",
        "pace",
        "pending",
        "pending_ticks",
        "record",
    )

    def __init__(
        self,
        ctx: Context,
        log: PartitionId,
        record: PartitionState,
        leo: int,
        office: LeaderState | None = None,
    ) -> None:
        """`office`: of the data, if this is the journal: what it has asked for is for both logs."""
        self._ctx = ctx
        self._id = log
        self._office = office
        self._paired = False
        """What is asked for counts for the journal too."""
        if office is not None:
            office.pair()
        self.record = record
        self.epoch = record.epoch
        self.epoch_start = leo
        """The LEO at which the epoch began."""
        self.followers: dict[int, FollowerState] = {}
        self.pending: ChangeIsr | None = None
        self.pending_ticks = 0
        self.pace = Pace(ctx, record, leo)
        self.needed_from: int | None = None
        """L7: the log must not lose what lies here or behind it; None: it may lose anything."""
        self.front = 0
        """R25: what lies below here is gone."""

    @property
    def no_promise(self) -> str:
        """N2, R13: why this leader may not say that something is durable now; empty: it may."""
        if self._ctx.fenced:
            return "this leader has no contact to the cluster; try again"
        record = self.record
        if len(record.isr) < record.min_insync:
            return f"{len(record.isr)} in sync, {record.min_insync} needed; try again later"
        return ""

    @property
    def awaits_followers(self) -> bool:
        """Whether a follower in sync has not asked for what comes next."""
        followers = self.followers
        return any(
            node not in followers or followers[node].parked is None
            for node in self.record.isr
            if node != self._ctx.node
        )

    # -- transitions -----------------------------------------------------------------------------------

    def view(self, record: PartitionState) -> None:
        """The applied metadata has moved within our epoch (R2, R9)."""
        invariant(record.epoch == self.epoch, f"{self._id}: epoch {record.epoch} seen in epoch {self.epoch}")
        self._touch()
        self.record = record
        self.pace.view(record)
        if self.pending is not None and record.version > self.pending.version:
            self.pending = None
        nodes = self._ctx.metadata.nodes
        for node in list(self.followers):
            if node not in nodes or nodes[node].incarnation != self.followers[node].incarnation:
                del self.followers[node]

    def follower(self, node: int, incarnation: int, leo: int) -> FollowerState:
        """What is known of this follower; from now on something is."""
        known = self.followers.get(node)
        if known is None:
            self._touch()
            known = self.followers[node] = FollowerState(incarnation, leo)
        return known

    def tick(self, leo: int) -> None:
        """Every follower lags one tick more, but for those that have all up to `leo` (R11)."""
        for known in self.followers.values():
            known.tick(leo)

    def measure(self, leo: int, hw: int, own: int) -> None:
        """R17, R18: how far everybody is at this tick, ours being `own`. Who is silent has nothing."""
        if not self.pace.tick(self.record, leo, hw):
            return
        config = self._ctx.config
        patience = self._ctx.ticks_of(config.fetch_wait_ms + 2 * config.tick_ms)
        heard = [node for node, known in self.followers.items() if known.parked_ticks <= patience]
        reached = {node: self.followers[node].durable for node in heard}
        reached[self._ctx.node] = own
        self.pace.weigh(self.record, leo, hw, reached)

    def reached(self, known: FollowerState, durable: int, log_start: int) -> tuple[bool, bool]:
        """A follower has said how far it is. Whether its durable LEO is greater now, and its log start."""
        further, moved = durable > known.durable, log_start > known.log_start
        if further:
            self._touch()
        known.reached(durable, log_start)
        return further, moved

    def pair(self) -> None:
        """This epoch is led in the journal too."""
        self._paired = True

    def propose(self, change: ChangeIsr) -> None:
        """From now on this change counts as if it might have been decided (R2), in both logs."""
        self._touch()
        if self._paired:
            self._ctx.touch(self._id.journal)
        self.pending = change
        self.pending_ticks = 0

    def needs_from(self, offset: int | None) -> None:
        """L7: from here on there are message ids that a later leader may have to know."""
        self.needed_from = offset

    def front_gone(self, offset: int) -> None:
        """R25: what lies below here is gone."""
        self.front = offset

    def pending_tick(self) -> None:
        self.pending_ticks += 1
        if self._ctx.mutants.pending_ended_by_timeout and self.pending_ticks > 3:
            self._touch()
            self.pending = None

    def _touch(self) -> None:
        self._ctx.touch(self._id)

    # -- what follows from it ---------------------------------------------------------------------

    @property
    def change(self) -> ChangeIsr | None:
        """What was asked for and is not decided yet: one for both logs of a partition."""
        return self.pending if self._office is None else self._office.pending

    def maximal_isr(self) -> tuple[int, ...]:
        """Committed ISR plus pending additions; pending removals still count (R2)."""
        pending = self.change
        if pending is None:
            return self.record.isr
        if self._ctx.mutants.hw_over_shrunk_isr and not pending.joiner:
            return tuple(pending.isr)
        if pending.joiner and pending.joiner not in self.record.isr:
            return (*self.record.isr, pending.joiner)
        return self.record.isr

    def least_durable(self, members: Iterable[int], own: int, unheard: int = -1) -> int:
        """The least durable LEO of these, ours being `own`; `unheard` of one not heard of in this epoch."""
        lowest = own
        for node in members:
            if node != self._ctx.node:
                known = self.followers.get(node)
                durable = known.durable if known is not None else unheard
                if durable < lowest:
                    lowest = durable
        return lowest

    def least_log_start(self, own: int) -> int:
        """The log start that the whole maximal ISR has durably, ours being `own` (C3)."""
        least = own
        for node in self.maximal_isr():
            if node != self._ctx.node:
                known = self.followers.get(node)
                least = min(least, known.log_start if known is not None else 0)
        return least

    def least_clean_point(self, own: int) -> int:
        """C2: the offset that every replica has compacted past; what is not known counts as 0."""
        least = own
        for node in self.record.replicas:
            if node != self._ctx.node:
                known = self.followers.get(node)
                least = min(least, known.clean_point if known is not None else 0)
        return least


class Following:
    """Of whom this replica copies in one epoch, and where their talk stands. One fetch is outstanding."""

    __slots__ = (
        "_ctx",
        "_id",
        "epoch",
        "leader",
        "outstanding",
        "quiet_ticks",
        "request",
        "verified",
        "waited_ticks",
    )

    def __init__(self, ctx: Context, partition: PartitionId, leader: int, epoch: int) -> None:
        self._ctx = ctx
        self._id = partition
        self.leader = leader
        self.epoch = epoch
        self.request = 0
        self.outstanding = False
        self.waited_ticks = 0
        self.quiet_ticks = 0
        self.verified = False
        """An answer of this epoch passed the epoch check: our log is a prefix of the leader's from now on."""

    def asked(self, number: int) -> None:
        """A fetch of this number is on its way; its answer is the one that counts (R6)."""
        if number <= self.request:
            raise InvariantViolation(f"{self._id}: fetch {number} after {self.request}")
        self._touch()
        self.request = number
        self.outstanding = True
        self.waited_ticks = 0

    def answered(self) -> None:
        """The answer that counts is here; another one to the same fetch does not count any more."""
        self._touch()
        self.outstanding = False

    def heard(self) -> None:
        """The leader has said something of use (R15)."""
        self.quiet_ticks = 0

    def verify(self) -> None:
        """The leader has found our log to be a prefix of its own."""
        self.verified = True

    def tick(self) -> None:
        self.quiet_ticks += 1
        self.waited_ticks += 1

    def _touch(self) -> None:
        self._ctx.touch(self._id)
