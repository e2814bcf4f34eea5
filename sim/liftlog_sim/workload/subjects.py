"""A client that asks about subjects: the last message of one, the next match of a filter, counts (S1).

Most questions go to who leads, as far as the truth knows, and are to be answered with everything that was
acknowledged by then; the others to any node, for what it knows. Every answer is judged: SubjectAnswersTrue.
"""

from __future__ import annotations

from liftlog.messages import (
    LAST_OF_SUBJECT,
    MATCHING_SUBJECTS,
    NEXT_MATCH,
    ErrorReply,
    SubjectReply,
    SubjectRequest,
)
from liftlog_sim.chance.chances import Turn
from liftlog_sim.devices.copies import copy_of
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.subjects import AskedMoment, SubjectJudge
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.targets import WORDS, Target

TIMEOUT_US = 4 * SECOND
WAIT_MS = 1500


class SubjectAsker:
    """Asks of one partition after the other, again and again."""

    __slots__ = ("_account", "_cluster", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._turns = self._cluster.chances.turns("subjects/0", self._cluster.knobs.ask_subjects_us)

    def start(self) -> None:
        if self._cluster.knobs.ask_subjects_us:
            self._schedule()

    def _schedule(self) -> None:
        turn = None if self._shared.stopping else self._turns.next()
        if turn is not None:
            self._cluster.kernel.at(turn.at_us, self._fire, turn)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        target = self._shared.target_of(turn)
        if target is None:
            self._schedule()
            return
        turn.noted(target.name)
        truth = self._account.truth(target.partition)
        request = self._question(turn, target)
        leader = truth.newest_leader
        to_leader = leader and turn.draws.random() < (0.3 if request.known else 0.9)
        node = leader if to_leader else self._shared.any_node(turn.draws)
        deletions = self._account.deletions(target.partition) if target.config.has_journal else None
        told = deletions.told if deletions is not None else 0
        asked = AskedMoment(truth.acked_end, truth.purged, journal=told)
        if target.config.compact and not request.known:
            asked = self._with_copy(asked, target, node, truth.hw)
        mended = self._mended(node)

        def answered(reply: object) -> None:
            if isinstance(reply, SubjectReply):
                self._account.checks.counts["SubjectAnswersTrue"] += 1
                self._account.count("answers about subjects")
                named = deletions.named() if deletions is not None else {}
                judge = SubjectJudge(truth.contents, truth.hw, target.config.compact, named)
                same = self._mended(node) == mended
                problem = judge.problem(request, reply, asked if same else asked._replace(had=None))
                if problem:
                    text = f"node {node}, asked for {request.what} of {request.pattern!r} of partition "
                    finding = f"{text}{target.partition}, {problem}"
                    self._account.fail(Violation("SubjectAnswersTrue", finding))
            elif isinstance(reply, ErrorReply):
                self._account.count(f"questions about subjects told {reply.code}")
            self._schedule()

        self._shared.hub.request(turn.name, node, request, answered, TIMEOUT_US)

    def _mended(self, node: int) -> tuple[int, ...]:
        """Counts what brings records back to a node's copies that they had lost, or thinned."""
        running = self._cluster.machines[node].node
        marks = running.marks if running is not None else {}
        starts = self._account.counters.get("starts", 0), self._account.counters.get("rebuilds", 0)
        return *starts, *(marks.get(name, 0) for name in ("D2.repaired", "C3.reset", "D2.cut"))

    def _with_copy(self, asked: AskedMoment, target: Target, node: int, hw: int) -> AskedMoment:
        """With what lies on the disk of the node that is asked, if that is all that is committed."""
        machine = self._cluster.machines[node]
        replica = machine.node.replicas.get(target.partition) if machine.node is not None else None
        if replica is None or not replica.leading:
            return asked
        copy = copy_of(machine.disk, target.partition, self._cluster.sealer)
        if not copy.covers(replica.log_start, hw):
            return asked
        return asked._replace(had=copy.records.keys(), end=hw)

    def _question(self, turn: Turn, target: Target) -> SubjectRequest:
        draws = turn.draws
        what = draws.choice((LAST_OF_SUBJECT, LAST_OF_SUBJECT, NEXT_MATCH, MATCHING_SUBJECTS))
        literal = target.subject_with(draws.choice(WORDS)).decode()
        pattern, offset = literal, 0
        if what != LAST_OF_SUBJECT and draws.random() < 0.6:
            pattern = draws.choice((">", target.pattern))
        if what == NEXT_MATCH:
            offset = draws.randrange(self._account.truth(target.partition).hw + 1)
        return SubjectRequest(
            partition=target.partition,
            what=what,
            pattern=pattern,
            offset=offset,
            known=draws.random() < 0.3,
            wait_ms=WAIT_MS,
        )
