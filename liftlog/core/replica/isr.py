"""What a leader commits, and who is in its ISR (R2, R10, R11, R9, R17, R18).

The HW is the least durable LEO over the maximal ISR (`LeaderState.maximal_isr`). Followers join when they
have everything committed, and are removed when they have not caught up for too long, or hold up the others
(`pace.py`); all are proposals to the metadata group, repeated until they are decided.
"""

from __future__ import annotations

from liftlog.core.metadata.commands import UNSENT, ChangeIsr, ForgetSlow
from liftlog.core.replica.state.log import START_MOVED, LogState
from liftlog.core.replica.state.role import LeaderState


class IsrKeeper:
    """Of one leadership. Keeps nothing itself: what it knows is in `LeaderState`."""

    __slots__ = ("ctx", "journal", "leading", "log")

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self.log = log
        self.leading = leading
        self.ctx = log.ctx
        self.journal: IsrKeeper | None = None
        """Who counts for the partition's journal, if it has one."""

    def joined_by(self, journal: IsrKeeper) -> None:
        """Whoever joins, or stays, is asked for this log too (R10, R11)."""
        self.journal = journal

    # -- commit (R2) ------------------------------------------------------------------------------

    def advance(self) -> None:
        """Move the HW to the least durable LEO over the maximal ISR, if enough replicas are in sync."""
        log, leading = self.log, self.leading
        record = leading.record
        if len(record.isr) < record.min_insync and not self.ctx.mutants.commit_below_minimum:
            self.ctx.mark("R13.below-minimum")
            if leading.least_durable(record.isr, log.durable_leo) > log.hw:
                self.ctx.mark("R2.below-minimum")
            return
        members = leading.maximal_isr()
        if self.ctx.mutants.hint_leaves_isr:
            members = tuple(node for node in members if node not in self.ctx.hints)
        lowest = leading.least_durable(members, log.durable_leo)
        if lowest <= log.hw:
            self._weigh()
        else:
            log.commit(lowest)

    def _weigh(self) -> None:
        """Nothing more is committed: count which guard alone is why."""
        log, leading = self.log, self.leading
        record, pending = leading.record, leading.change
        if log.leo == log.hw:
            return
        durable_leo, known = log.durable_leo, leading.followers
        isr = leading.maximal_isr()
        heard = [node for node in isr if node == self.ctx.node or node in known]
        if durable_leo <= log.hw:
            others = [known[node].durable for node in heard if node != self.ctx.node]
            if others and min(others) > log.hw:
                self.ctx.mark("R2.own-sync")
        elif len(heard) < len(isr) and leading.least_durable(heard, durable_leo) > log.hw:
            self.ctx.mark("R2.unheard")
        elif pending is not None:
            without = record.isr if pending.joiner else pending.isr
            if leading.least_durable(without, durable_leo) > log.hw:
                self.ctx.mark("R2.pending-addition" if pending.joiner else "R2.pending-removal")

    # -- followers (R10, R11) ---------------------------------------------------------------------

    def heard(self, sender: int, incarnation: int, durable: int, log_start: int) -> None:
        """Take over how far a follower is; that may commit, end purges, or show that it is caught up."""
        log = self.log
        known = self.leading.follower(sender, incarnation, log.leo)
        further, moved = self.leading.reached(known, durable, log_start)
        if further:
            self.advance()
        if moved:
            log.touch(START_MOVED)
        if known.durable >= known.mark:
            limit = self.ctx.ticks_of(self.ctx.config.replica_lag_max_ms)
            if known.lag_ticks >= limit and durable < log.leo:
                self.ctx.mark("R11.caught-up")
            known.caught_up(log.leo)

    def consider(self, node: int) -> None:
        """R10: who is durable up to the HW and to the epoch's start, in this epoch and incarnation, and live,
        may join. And with our log start: an election must not bring back what was purged (C3).
        """
        log, leading = self.log, self.leading
        record, known = leading.record, leading.followers.get(node)
        if known is not None and node not in record.isr and self.ctx.decides(
            ("R10.one-pending", leading.pending is None),
            ("R10.hw", known.durable >= log.hw),
            ("R10.epoch-start", known.durable >= leading.epoch_start),
            ("R10.log-start", known.log_start >= log.log_start),
            ("R10.live", self.ctx.metadata.is_live(node)),
            ("R18.probation", self._may_return(node)),
        ):
            if not self.ctx.decides(("R10.journal", self._has_journal(node, known.incarnation))):
                return
            self.ctx.mark("R10.join")
            isr = [member for member in record.replicas if member in record.isr or member == node]
            self._propose(isr, node, known.incarnation)

    def _has_journal(self, node: int, incarnation: int) -> bool:
        """R10: whether it is as ready in the journal, in this instant; if there is none, it is."""
        journal, config = self.journal, self.log.config
        if config is None or not config.has_journal or self.ctx.mutants.joins_by_data_alone:
            return True
        return journal is not None and journal.is_ready(node, incarnation)

    def is_ready(self, node: int, incarnation: int) -> bool:
        """R10, of this log alone: durable up to the HW and to the epoch's start, from our log start on."""
        log, leading = self.log, self.leading
        known = leading.followers.get(node)
        if known is None or known.incarnation != incarnation:
            return False
        reached = known.durable >= max(log.hw, leading.epoch_start)
        return reached and known.log_start >= log.log_start

    def lag_of(self, node: int) -> int:
        """R11: for how many ticks it has not been caught up in this log."""
        known = self.leading.followers.get(node)
        if known is None:
            # Nothing heard in this epoch yet: the clock starts now.
            incarnation = self.ctx.metadata.nodes[node].incarnation
            known = self.leading.follower(node, incarnation, self.log.leo)
        return known.lag_ticks

    def _may_return(self, node: int) -> bool:
        """R18: whoever was slow has to show that it keeps up; below the minimum everybody is welcome."""
        leading = self.leading
        record, removals = leading.record, leading.record.slow.get(node)
        if removals is None or len(record.isr) < record.min_insync:
            return True
        return leading.pace.has_served(node, 1 if self.ctx.mutants.probation_not_doubled else removals)

    def _propose(self, isr: list[int], joiner: int, incarnation: int, slow: bool = False) -> None:
        ctx, leading = self.ctx, self.leading
        change = ChangeIsr(
            request=UNSENT,
            partition=self.log.id,
            leader=ctx.node,
            epoch=leading.epoch,
            version=leading.record.version,
            isr=isr,
            joiner=joiner,
            joiner_incarnation=incarnation,
            slow=slow,
        )
        # Also while there is no room for it yet: it goes as soon as there is, and must count by then (R2).
        leading.propose(change)
        ctx.want(change)
        self.advance()

    def tick(self) -> None:
        leading = self.leading
        leading.measure(self.log.leo, self.log.hw, self.log.durable_leo)
        self._forget_slow()
        if leading.pending is not None:
            # Its bound may pass: then it goes again, and is pending as before (R2).
            self.ctx.want(leading.pending)
            leading.pending_tick()
        elif not self._remove_slow():
            self._remove_lagging()

    def _remove_slow(self) -> bool:
        """R17: who holds up the others is proposed for removal, unless the minimum needs it."""
        ctx, leading = self.ctx, self.leading
        record = leading.record
        for node in record.isr:
            if node != ctx.node and leading.pace.is_slow(node) and self._has_one_to_spare():
                ctx.mark("R17.removal")
                self._propose([member for member in record.isr if member != node], 0, 0, slow=True)
                return True
        return False

    def is_holding_up(self) -> bool:
        """R17: whether our own disk is what holds up the others, and they do not need it."""
        ctx, record, pace = self.ctx, self.leading.record, self.leading.pace
        if ctx.fenced or not pace.is_slow(ctx.node):
            return False
        if any(pace.is_slow(node) for node in record.isr if node != ctx.node):
            # A follower that is slow as well leaves first: it is not to be the next leader.
            return False
        return self._has_one_to_spare() and not ctx.mutants.slow_leader_stays

    def _has_one_to_spare(self) -> bool:
        record = self.leading.record
        return self.ctx.decides(("R17.minimum", len(record.isr) > record.min_insync))

    def _forget_slow(self) -> None:
        """R18: said until the group has heard it."""
        leading = self.leading
        for node, removals in leading.record.slow.items():
            if node in leading.record.isr and leading.pace.is_forgotten(node):
                self.ctx.mark("R18.forgotten")
                self.ctx.want(ForgetSlow(UNSENT, self.log.id, leading.epoch, node, removals))

    def _remove_lagging(self) -> None:
        """R11: who has not been caught up for `replica_lag_max_ms` is proposed for removal."""
        ctx, leading = self.ctx, self.leading
        limit = ctx.ticks_of(ctx.config.replica_lag_max_ms)
        for node in leading.record.isr:
            if node == ctx.node:
                continue
            lag = self.lag_of(node)
            if self.journal is not None:
                lag = max(lag, self.journal.lag_of(node))
            if lag > limit:
                ctx.mark("R11.removal")
                self._propose([member for member in leading.record.isr if member != node], 0, 0)
                return
