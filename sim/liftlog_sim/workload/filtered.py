"""A reader of a simulated cluster that names subjects, or keys, or both, and judges all that it is sent (S2).

It asks any node, forward, partition by partition, and carries what it has seen, as other readers do; each
answer is compared with what is committed: FilteredExactly.
"""

from __future__ import annotations

from liftlog.api.spans import filtered_batches_of
from liftlog.format import CorruptBatch, decode_records
from liftlog.messages import (
    ERR_COMPACTED,
    ERR_OFFSET_RANGE,
    ErrorReply,
    FilteredReadRequest,
    OffsetReply,
    OffsetRequest,
    VisibleReadReply,
)
from liftlog.types import PartitionId
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.filtered import AnswerSeen, FilteredAnswer, ReaderWitness, problem_of
from liftlog_sim.truth.invariants import PartitionTruth, Violation, epoch_at
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.targets import WORDS, Target

TIMEOUT_US = 4 * SECOND
AGAIN_SHARE = 0.05
"""How often it begins again, with another filter."""


class FilteredPlace:
    """How far it has come on one partition, with which filter. `earliest`: it asks where the log begins.
    `witness`: who holds it against the model.
    """

    __slots__ = ("dropped", "earliest", "keys", "offset", "subjects", "witness")

    def __init__(self, subjects: list[str], keys: list[bytes]) -> None:
        self.subjects = subjects
        self.keys = keys
        self.offset = 0
        self.dropped = -1
        self.earliest = True
        self.witness: ReaderWitness | None = None


class FilteredReader:
    """See the module."""

    __slots__ = ("_account", "_cluster", "_journal", "_places", "_seen", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._turns = self._cluster.chances.turns("filtered/0", self._cluster.knobs.filtered_interval_us)
        self._places: dict[PartitionId, FilteredPlace] = {}
        self._seen: dict[PartitionId, tuple[int, int]] = {}
        self._journal: dict[PartitionId, int] = {}

    def start(self) -> None:
        if self._cluster.knobs.filtered_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        target = self._shared.target_of(turn)
        if target is None:
            self._turns.take(self._fire)
            return
        turn.noted(target.name)
        place = self._places.get(target.partition)
        if place is None or turn.draws.part("again").random() < AGAIN_SHARE:
            place = self._places[target.partition] = self._begun(target, turn.draws.part("filter"))
        server = self._shared.any_node(turn.draws.part("server"))
        if place.earliest:
            self._ask_earliest(target, place, server, turn)
        else:
            self._poll(target, place, server, turn)

    def _begun(self, target: Target, draws: Draws) -> FilteredPlace:
        subjects: list[str] = []
        keys: list[bytes] = []
        kind = draws.choice(("subject", "subject", "key", "both", "all"))
        if kind in ("subject", "both"):
            words = draws.part("words")
            first, other = words.choice(WORDS), words.choice(WORDS)
            named = (first,) if words.random() < 0.7 else (first, other)
            subjects = [target.subject_with(word).decode() for word in named]
        elif kind == "all":
            subjects = [target.pattern if draws.random() < 0.5 else ">"]
        if kind in ("key", "both"):
            most = self._cluster.knobs.keys
            keys = [b"k%d" % draws.part("keys", nth).randrange(most) for nth in range(draws.choice((1, 3)))]
        self._journal.pop(target.partition, None)
        return FilteredPlace(subjects, keys)

    def _truth(self, target: Target) -> PartitionTruth:
        return self._account.truth(target.partition)

    def _ask_earliest(self, target: Target, place: FilteredPlace, server: int, turn: Turn) -> None:
        def answered(reply: object) -> None:
            if isinstance(reply, OffsetReply):
                place.offset, place.earliest = reply.offset, False
            self._turns.take(self._fire)

        request = OffsetRequest(target.partition, "earliest")
        self._shared.hub.request(turn.name, server, request, answered, TIMEOUT_US)

    def _poll(self, target: Target, place: FilteredPlace, server: int, turn: Turn) -> None:
        seen_epoch, seen_hw = self._seen.get(target.partition, (0, 0))
        truth = self._truth(target)
        purged = truth.purged if server in truth.isr else 0
        request = FilteredReadRequest(
            partition=target.partition,
            offset=place.offset,
            max_bytes=self._cluster.knobs.read_bytes,
            wait_ms=400 if turn.draws.part("waits").random() < 0.3 else 0,
            seen_epoch=seen_epoch,
            seen_hw=seen_hw,
            seen_dropped=place.dropped,
            seen_journal=self._journal.get(target.partition, 0),
            subjects=place.subjects,
            keys=place.keys,
        )

        def answered(reply: object) -> None:
            if isinstance(reply, VisibleReadReply):
                try:
                    self._judge(target, place, server, request, reply, purged)
                except Violation as violation:
                    self._account.fail(violation)
            elif isinstance(reply, ErrorReply):
                self._account.count(f"filtered readers told {reply.code}")
                if reply.code in (ERR_COMPACTED, ERR_OFFSET_RANGE):
                    self._places.pop(target.partition, None)
            self._turns.take(self._fire)

        self._shared.hub.request(turn.name, server, request, answered, TIMEOUT_US)

    def _judge(
        self,
        target: Target,
        place: FilteredPlace,
        server: int,
        request: FilteredReadRequest,
        reply: VisibleReadReply,
        purged: int,
    ) -> None:
        """FilteredExactly, and what holds of every reader. Raises Violation."""
        truth = self._truth(target)
        text = f"partition {target.partition}: node {server}, asked for {request.subjects} and {request.keys}"
        try:
            batches = list(filtered_batches_of(reply))
            found = [record for batch in batches for record in decode_records(batch)]
        except CorruptBatch as error:
            raise Violation("FilteredExactly", f"{text}, sends a bad batch: {error}") from error
        truth.read_position(server, reply.epoch, reply.hw, request.seen_epoch, request.seen_hw)
        heeded = max(request.seen_journal, reply.journal)
        gone: dict[int, int] = {}
        if target.config.has_journal:
            named = self._account.deletions(target.partition).named()
            known = truth.history
            gone = {offset: by for (offset, epoch), by in named.items() if epoch_at(known, offset) == epoch}
        records = [record for record in found if record.offset >= request.offset]
        answer = FilteredAnswer(request, reply, records, heeded)
        self._account.checks.counts["FilteredExactly"] += 1
        problem = problem_of(answer, truth.contents, truth.hw, target.config.compact, gone)
        if problem:
            raise Violation("FilteredExactly", f"{text}, {problem}")
        if (held := self._account.held) is not None:
            place.witness = place.witness or held.reader(request.offset)
            place.witness.answered(AnswerSeen(server, answer, truth, target.config.compact, gone))
        if reply.next_offset > request.offset:
            truth.read_below_purge(server, request.offset, purged)
        self._seen[target.partition] = (
            max(request.seen_epoch, reply.epoch),
            max(request.seen_hw, reply.hw),
        )
        self._journal[target.partition] = heeded
        if place.dropped < 0:
            place.dropped = reply.dropped_below
        place.offset = reply.next_offset
        self._account.count("filtered reads")
        self._account.count("records of filtered reads", len(records))
