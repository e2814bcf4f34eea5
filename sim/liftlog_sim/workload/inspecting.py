"""What a leader tells of its consumers while nothing is on its way: it is what the journal says (K2, K7).

Clients ask now and then, and who has healed a cluster asks each leader in the end.
"""

from __future__ import annotations

from liftlog.messages import ConsumersReply, PullReply
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.truth.account import Account
from liftlog_sim.workload.targets import Target


def leading_of(account: Account, target: Target) -> tuple[int, int] | None:
    """(epoch, node) of a partition's newest leader; None: it never had one."""
    truth = account.truth(target.partition)
    return (max(truth.leaders), truth.newest_leader) if truth.leaders else None


class CountedPull:
    """A pull that is asked when this is made: what is said to be to come behind its messages is judged."""

    __slots__ = ("_account", "_asked", "_refiltered", "_target")

    def __init__(self, account: Account, target: Target) -> None:
        self._account = account
        self._target = target
        self._asked = account.truth(target.partition).hw
        self._refiltered = account.consumers(target.partition).refiltered()

    def judge(self, reply: PullReply) -> None:
        """Raises Violation(PendingExact). Who leads no more need not know what is committed."""
        leading = leading_of(self._account, self._target)
        leads = leading is not None and leading[0] == reply.epoch
        truth = self._account.consumers(self._target.partition)
        truth.behind(reply, self._asked if leads else 0, self._refiltered)


class QuietQuestion:
    """One question, asked when this was made. `exact` judges what is answered to it."""

    __slots__ = ("_account", "_before", "_cluster", "_target")

    def __init__(self, cluster: Cluster, account: Account, target: Target) -> None:
        self._cluster = cluster
        self._account = account
        self._target = target
        self._before = self._quiet()

    def exact(self, reply: object) -> bool:
        """Whether it could be judged: nothing came in between. Raises Violation(PendingExact)."""
        if not isinstance(reply, ConsumersReply) or self._before is None or self._quiet() != self._before:
            return False
        epoch, _, log_start, _ = self._before
        if reply.epoch != epoch:
            return False
        for info in reply.consumers:
            self._account.consumers(self._target.partition).exact(info, log_start)
        return True

    def _quiet(self) -> tuple[int, int, int, int] | None:
        """The epoch, the end of its leader's journal, which is committed and heeded, where its data begin,
        and what is committed of these; None: something is on its way.
        """
        partition = self._target.partition
        leading = leading_of(self._account, self._target)
        if leading is None:
            return None
        epoch, number = leading
        node = self._cluster.machines[number].node
        journal = None if node is None else node.replicas.get(partition.journal)
        if journal is None or journal.removed is None or journal.data is None:
            return None
        end = self._account.truth(partition.journal).hw
        quiet = journal.removed.folded == journal.leo == end
        committed = self._account.truth(partition).hw
        quiet = quiet and journal.data.hw == committed
        return (epoch, end, journal.data.log_start, committed) if quiet else None
