"""What commands do to a partition: who is in sync, who may be elected, who leads (R1, R9, R12 to R16).

Commands come here from `liftlog.core.metadata`. Each makes a new record of the partition's present one by the
transitions of `PartitionState`, decides by the rules which to take, and puts the outcome into `Records`.
"""

from __future__ import annotations

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import (
    ChangeIsr,
    ElectLeader,
    ExpireReports,
    ForgetSlow,
    LeaderReady,
    PairFailed,
    ReadyAgain,
    Rebalance,
    ReplicaFailed,
    ReportLeader,
    Resign,
)
from liftlog.core.metadata.pairs import FoundCopy, ends_told
from liftlog.core.metadata.records import (
    LIVE,
    OK,
    STALE,
    CommandResult,
    LastKnown,
    PartitionState,
    Records,
    replaced,
)
from liftlog.core.metadata.standins import doubtful_tails, fits_record, greatest_last_known
from liftlog.messages import ERR_INVALID, ERR_NOT_FOUND
from liftlog.types import TailState


class PartitionCommands:
    """Holds no state of its own."""

    __slots__ = ("_decides", "_mark", "_mutants", "_records")

    def __init__(self, records: Records, guards: Guards) -> None:
        self._records = records
        self._mutants = guards.mutants
        self._decides = guards.decides
        self._mark = guards.mark

    # -- a node comes and goes (R1, R14, R15) -----------------------------------------------------

    def registered(
        self, partition: PartitionState, node: int, found: FoundCopy | None, reset: bool, born: int
    ) -> PartitionState:
        """A new incarnation ends the old one's leadership (R1) and reports its tail (R14)."""
        refused = {other: text for other, text in partition.refused.items() if other != node}
        slow = {other: removals for other, removals in partition.slow.items() if other != node}
        partition = replaced(partition, refused=refused, slow=slow)
        if reset and not self._mutants.wiped_replica_rejoins:
            partition = partition.without_trust_in(node, LastKnown(0, 0, lost=True))
        elif found is None and not (reset and self._mutants.wiped_replica_rejoins):
            # No folder: created after this node's last run began, its log may never have been opened; an
            # older one is gone.
            created = partition.id.stream if self._mutants.partitions_as_old_as_stream else partition.created
            partition = partition.without_trust_in(node, LastKnown(0, 0, lost=created <= born))
        elif found is not None:
            partition = self._reported_tail(partition, node, found)
        if partition.leader == node:
            if self._mutants.restarted_leader_keeps_epoch:
                return partition.moved(leader_incarnation=self._records.nodes[node].incarnation)
            self._mark("R1.new-incarnation")
            return self.elect(partition, avoid=node)
        return self.elect(partition) if partition.leader == 0 else partition

    def _reported_tail(self, partition: PartitionState, node: int, found: FoundCopy) -> PartitionState:
        if found.state == TailState.LOST.value:
            self._mark("M4.lost")
            return partition.without_trust_in(node, LastKnown(0, 0, lost=True))
        if found.state in doubtful_tails(self._records.by_id.get(partition.id.stream)):
            self._mark("R14.unsynced" if found.state == TailState.INTACT.value else "R14.suspect")
            if found.by_journal:
                self._mark("R14.suspect-journal")
            return partition.without_trust_in(node, found.ends)
        if node in partition.last_known and not partition.last_known[node].lost:
            return replaced(partition, last_known={**partition.last_known, node: found.ends})
        return partition

    def lead_on(self, partition: PartitionState) -> PartitionState:
        """R20: a new epoch, of the present leader if he may go on, who knows nothing of anybody in it."""
        leader = partition.leader
        if leader in partition.isr and self._records.is_live(leader):
            return self._lead(partition, leader)
        return self.elect(partition)

    def without(self, partition: PartitionState, node: int) -> PartitionState:
        """R13, R15: a node is lost. It leaves the ISR, and if it led, another one does."""
        if node in partition.isr:
            partition = self._with_isr(partition, [member for member in partition.isr if member != node])
            self._mark("ISR.removal")
        return self.elect(partition, avoid=node) if partition.leader == node else partition

    # -- ISR (R9, R13) ----------------------------------------------------------------------------

    def change_isr(self, command: ChangeIsr) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        if partition is None:
            return STALE
        fits = fits_record(partition, command)
        if partition.version != command.version:
            self._mark("R9.stale")
            # It alone decides only where the rest would go together with the record of now.
            if not fits or not self._decides(("R9.version", False)):
                return STALE
        joiner = records.nodes.get(command.joiner)
        joiner_ok = command.joiner == 0 or (
            joiner is not None and joiner.state == LIVE and joiner.incarnation == command.joiner_incarnation
        )
        if self._mutants.late_addition_of_old_incarnation:
            joiner_ok = True
        if not self._decides(("R9.leader", fits), ("R9.joiner", joiner_ok)):
            # The answer to a change is always a higher version: only that ends the leader's wait (R2).
            self._mark("R9.rejected")
            records.put_partition(partition.moved())
            detail = "joiner is not the current live incarnation, or the leader has changed"
            return CommandResult("rejected", detail)
        self._mark("R9.addition" if command.joiner else "R9.removal")
        if command.slow:
            self._mark("R17.removed")
            gone = [node for node in partition.isr if node not in command.isr]
            removals = {node: partition.slow.get(node, 0) + 1 for node in gone}
            partition = replaced(partition, slow={**partition.slow, **removals})
        records.put_partition(self._with_isr(partition, command.isr))
        return OK

    def forget_slow(self, command: ForgetSlow) -> CommandResult:
        """R18: it has kept up for long."""
        partition = self._records.partitions.get(command.partition)
        if partition is None or partition.epoch != command.epoch:
            return STALE
        if partition.slow.get(command.node) != command.removals or command.node not in partition.isr:
            return STALE
        slow = {node: removals for node, removals in partition.slow.items() if node != command.node}
        self._records.put_partition(replaced(partition, slow=slow))
        return OK

    def _with_isr(self, partition: PartitionState, members: list[int]) -> PartitionState:
        moved = partition.with_isr(members)
        if len(moved.isr) < partition.min_insync:
            if any(node not in moved.isr for node in partition.isr):
                self._mark("R13.eligible")
        elif partition.eligible or partition.last_known:
            self._mark("R13.eligibility-ends")
        return moved

    def alter_minimum(self, partition: PartitionState, minimum: int) -> None:
        """R19: the version grows, so that a change of the ISR that was meant for another minimum is void."""
        if partition.min_insync == minimum:
            return
        self._mark("R19.minimum-lower" if minimum < partition.min_insync else "R19.minimum-higher")
        after = partition.with_minimum(minimum)
        if self._mutants.eligible_kept_when_minimum_changes:
            after = replaced(after, eligible=partition.eligible, last_known=partition.last_known)
        elif (partition.eligible or partition.last_known) and not (after.eligible or after.last_known):
            self._mark("R13.eligibility-ends")
        self._records.put_partition(after)

    def replica_failed(self, command: ReplicaFailed | PairFailed) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        node = records.nodes.get(command.node)
        if partition is None or node is None or node.incarnation != command.incarnation:
            return STALE
        if command.node not in partition.replicas:
            return STALE
        told = (command.incarnation, command.failure)
        # If it was told before, or a later one was, what it says may not be so any more.
        if not self._decides(("R5.stale-failure", told > partition.failures.get(command.node, (0, 0)))):
            return STALE
        self._mark("R5.failed-sync")
        if command.node in partition.isr:
            self._mark("R14.failed-log")
        partition = replaced(partition, failures={**partition.failures, command.node: told})
        partition = partition.without_trust_in(command.node, ends_told(command))
        if partition.leader in (command.node, 0):
            partition = self.elect(partition, avoid=command.node)
        elif command.shortfall:
            # A leader counts fetches of its own epoch only: in a new one it knows nothing of this copy.
            partition = self._lead(partition, partition.leader)
        records.put_partition(partition.moved())
        return OK

    # -- reports and readiness (R15, N1, N5) ------------------------------------------------------

    def report(self, command: ReportLeader) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        reporter = records.nodes.get(command.reporter)
        if partition is None or partition.leader == 0 or reporter is None:
            return STALE
        current = reporter.incarnation == command.incarnation and command.reporter in partition.isr
        in_epoch = partition.epoch == command.epoch
        if not self._decides(("R15.epoch", in_epoch), ("R15.reporter", current)):
            return STALE
        if in_epoch and partition.report_round != command.round:
            return STALE
        reports = {**partition.reports, command.reporter: command.incarnation}
        partition = replaced(partition, reports=reports)
        others = [node for node in partition.isr if node != partition.leader and records.is_live(node)]
        suspicious = [node for node in others if node in reports]
        if suspicious and len(suspicious) * 2 > len(others):
            self._mark("R15.election")
            partition = self.elect(partition, avoid=partition.leader)
        elif suspicious:
            self._mark("R15.majority")
        records.put_partition(partition)
        return OK

    def expire_reports(self, command: ExpireReports) -> CommandResult:
        partition = self._records.partitions.get(command.partition)
        if (
            partition is None
            or partition.epoch != command.epoch
            or partition.report_round != command.round
        ):
            return STALE
        if partition.reports:
            self._mark("R15.reports-expire")
        self._records.put_partition(
            replaced(partition, reports={}, report_round=partition.report_round + 1)
        )
        return OK

    def leader_ready(self, command: LeaderReady | ReadyAgain) -> CommandResult:
        partition = self._records.partitions.get(command.partition)
        if partition is None or partition.epoch != command.epoch or partition.leader == 0:
            return STALE
        # Which pause its author knows of, if this epoch has had one: before that it had a subscription.
        seen = command.paused_at if isinstance(command, ReadyAgain) else 0
        refusal = command.refusal if isinstance(command, LeaderReady) else ""
        missed = partition.paused_at if partition.paused_at > partition.led_since else 0
        if not self._decides(
            ("N1.paused", not self._records.by_id[partition.id.stream].config.paused),
            ("N1.before-pause", seen == missed or bool(refusal)),
        ):
            return STALE
        refused = {node: text for node, text in partition.refused.items() if node != partition.leader}
        if refusal:
            self._mark("N1.told-refused")
            refused[partition.leader] = refusal
        self._records.put_partition(replaced(partition, refused=refused, ready=not refusal))
        return OK

    def resign(self, command: Resign) -> CommandResult:
        records = self._records
        partition = records.partitions.get(command.partition)
        if partition is None or partition.epoch != command.epoch or partition.leader == 0:
            return STALE
        if not self._decides(("N5.stale-resignation", partition.version == command.version)):
            return STALE
        if all(node == partition.leader or not records.is_live(node) for node in partition.isr):
            self._mark("N5.nobody-else")
            return CommandResult("rejected", "no other live replica is in sync")
        self._mark("N5.handover")
        if command.slow:
            removals = partition.slow.get(partition.leader, 0)
            partition = replaced(partition, slow={**partition.slow, partition.leader: removals})
        records.put_partition(self.elect(partition, avoid=partition.leader))
        return OK

    # -- elections (R1, R14, R16) -----------------------------------------------------------------

    def elect_explicitly(self, command: ElectLeader) -> CommandResult:
        records, node = self._records, command.node
        partition = records.partitions.get(command.partition)
        if partition is None:
            return CommandResult(ERR_NOT_FOUND, "the partition does not exist")
        if not self._decides(("R16.stale-election", partition.version == command.version)):
            return STALE
        if node not in partition.replicas or not records.is_live(node):
            return CommandResult(ERR_INVALID, f"node {node} is no live replica of this partition")
        if node in partition.isr:
            partition = self._lead(partition, node)
        elif node in partition.eligible and not any(records.is_live(other) for other in partition.isr):
            partition = self._lead_from_eligible(partition, node)
        elif command.unclean:
            self._mark("R16.unclean")
            partition = self._lead(replaced(partition, isr=(node,), eligible=(), last_known={}), node)
            unclean_epochs = (*partition.unclean_epochs, partition.epoch)
            partition = replaced(partition, unclean_epochs=unclean_epochs)
        else:
            self._mark("R16.may-lack")
            return CommandResult(
                ERR_INVALID, f"node {node} may lack committed data; only an unclean election can choose it"
            )
        records.put_partition(partition)
        return OK

    def rebalance(self, command: Rebalance) -> CommandResult:
        records, moved = self._records, 0
        for partition in records.partitions.values():
            if partition.led_since > command.as_of:
                continue
            for node in partition.replicas:
                able = node in partition.isr and records.is_live(node) and node not in partition.slow
                if able and not records.nodes[node].is_emptied:
                    if node != partition.leader:
                        records.put_partition(self._lead(partition, node))
                        moved += 1
                    break
        return CommandResult(detail=f"{moved} partitions moved")

    def elect(self, partition: PartitionState, avoid: int = 0) -> PartitionState:
        """R16: from the live ISR, else the live eligible, else by R14; else nobody. Ends the old epoch."""
        is_live, loads = self._records.is_live, self._records.loads
        candidates = [node for node in partition.isr if is_live(node)]
        if len(candidates) < len(partition.isr):
            self._mark("R16.not-live")
        wanted = [node for node in candidates if node != avoid] or candidates
        # R20: who is drained gets no office that another one can have.
        wanted = [node for node in wanted if not self._records.nodes[node].is_emptied] or wanted
        # N5: whom NATS refused comes last, since nothing would reach it.
        wanted = [node for node in wanted if node not in partition.refused] or wanted
        # R17: and before it whoever is known to be slow, for whom everybody would wait.
        wanted = [node for node in wanted if node not in partition.slow] or wanted
        if wanted:
            return self._lead(partition, loads.least_leading(wanted))
        eligible = [node for node in partition.eligible if is_live(node)]
        if not eligible and self._mutants.any_live_replica_leads:
            eligible = [node for node in partition.replicas if is_live(node)]
        if eligible:
            return self._lead_from_eligible(partition, loads.least_leading(eligible))
        chosen = greatest_last_known(partition, is_live, self._mark)
        if chosen:
            self._mark("R14.last-known")
            # The others are remembered until the ISR is back at the minimum: the chosen one may still be
            # found damaged, and then they are what is left.
            others = {node: known for node, known in partition.last_known.items() if node != chosen}
            last_known = others if partition.min_insync > 1 else {}
            return self._lead(replaced(partition, isr=(chosen,), last_known=last_known), chosen)
        if partition.leader:
            self._mark("R16.nobody")
            return self._lead(partition, 0)
        return partition

    def _lead_from_eligible(self, partition: PartitionState, node: int) -> PartitionState:
        self._mark("R13.elected")
        return self._lead(partition.with_sole(node), node)

    def _lead(self, partition: PartitionState, node: int) -> PartitionState:
        """Begin a new epoch under `node` (0 = without a leader)."""
        records = self._records
        self._mark("election" if node else "leaderless")
        return partition.led_by(node, records.nodes[node].incarnation if node else 0, records.applied)
