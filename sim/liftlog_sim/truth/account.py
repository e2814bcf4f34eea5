"""What is known of a run for sure: the truth about partitions and metadata, counts, the first violation.

The observer keeps it (`watching/observer.py`). Clients hold what they are told against it, faults ask it
what they may damage, and everybody adds counts and rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from liftlog.core.metadata.outbox import ROOM
from liftlog.core.replica.replica import Replica
from liftlog.mutants import Mutants
from liftlog.types import PartitionId
from liftlog_sim.devices.elsewhere import ORIGIN, FarLog, FarStream
from liftlog_sim.kernel import Kernel
from liftlog_sim.truth.activity import is_data
from liftlog_sim.truth.authors import Authors
from liftlog_sim.truth.consumers import ConsumerTruth
from liftlog_sim.truth.filtered import ClientWitness
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from liftlog_sim.truth.letters import LetterTruth
from liftlog_sim.truth.metadata import AFAR, MetadataTruth
from liftlog_sim.truth.mirrors import mirrored, mirrored_afar
from liftlog_sim.truth.parcels import Parcels
from liftlog_sim.truth.pins import PinTruth
from liftlog_sim.truth.removals import DeletionTruth
from liftlog_sim.truth.sources import AnySource, FarSourceTruth, Filters, SourceTruth, sourced


class Account:
    """See the module."""

    def __init__(self, kernel: Kernel, mutants: Mutants, activity_room: int = ROOM) -> None:
        self.checks = Checks()
        self.mutants = mutants
        self.metadata = MetadataTruth(mutants, activity_room, self.checks.counts)
        self.authors = Authors(self.checks.counts, kernel)
        self.parcels = Parcels()
        self.partitions: dict[PartitionId, PartitionTruth] = {}
        self.letters = LetterTruth()
        self.log_starts: dict[tuple[int, PartitionId], int] = {}
        """Where each node's copy of a log begins, as last heard; while a reset is under way, the lower of
        where it began and where it is to begin."""
        self.places: dict[PartitionId, dict[int, int]] = {}
        """R29: of each partition with sources, up to where it has committed what these have."""
        self.afar: Mapping[str, FarStream] = {}
        """R28: the streams that another cluster ever had, by identity."""
        self._deletions: dict[PartitionId, DeletionTruth] = {}
        self._consumers: dict[PartitionId, ConsumerTruth] = {}
        self._pins: dict[PartitionId, PinTruth] = {}
        self.counters: dict[str, int] = {}
        self.violation: Violation | None = None
        self.on_row: Callable[[str, str], None] | None = None
        self.held: ClientWitness | None = None
        """Who holds clients against models, if the run is refined."""

    def count(self, what: str, number: int = 1) -> None:
        self.counters[what] = self.counters.get(what, 0) + number

    def row(self, what: str, detail: str) -> None:
        """Something worth a status row happened."""
        if self.on_row is not None:
            self.on_row(what, detail)

    def truth(self, partition: PartitionId) -> PartitionTruth:
        truth = self.partitions.get(partition)
        if truth is None:
            truth = self.partitions[partition] = PartitionTruth(partition, self.checks)
            if first := self.first_of(partition):
                truth.begins_at(first)
        return truth

    def first_of(self, log: PartitionId) -> int:
        """C7: where a log begins."""
        return 0 if log.is_journal else self.metadata.firsts.get(log.stream, 0)

    def deletions(self, partition: PartitionId) -> DeletionTruth:
        """Of a partition with a journal."""
        found = self._deletions.get(partition)
        if found is None:
            found = self._deletions[partition] = DeletionTruth(
                self.truth(partition),
                self.truth(partition.journal),
                self.metadata,
                lambda: self.furthest_start(partition),
            )
        return found

    def consumers(self, partition: PartitionId) -> ConsumerTruth:
        """Of a partition with a journal."""
        found = self._consumers.get(partition)
        if found is None:
            found = self._consumers[partition] = ConsumerTruth(
                self.truth(partition), self.deletions(partition), lambda: self.furthest_start(partition)
            )
        return found

    def pins(self, partition: PartitionId) -> PinTruth:
        """Of the same."""
        found = self._pins.get(partition)
        if found is None:
            found = self._pins[partition] = PinTruth(self.truth(partition))
        return found

    def furthest_start(self, log: PartitionId) -> int:
        """Where that copy of a log begins which begins last, as last heard."""
        return max((start for (_, of), start in self.log_starts.items() if of == log), default=0)

    def hides(self, node: int, run: int, replica: Replica | None) -> None:
        """A replica has moved. LogStartMonotone; if it is a journal, SameVisible and SameConsumerState."""
        if replica is not None and replica.state == "ready" and self.first_of(replica.id):
            self.truth(replica.id).begun(node, replica.log_start)
        if replica is not None and replica.data is not None:
            self.deletions(replica.data.id).same_visible(node, run, replica.data, replica)
            self.consumers(replica.data.id).same_state(node, run, replica)

    def grown(self, truth: PartitionTruth, before: int) -> None:
        """More of a partition is committed than what lies below offset `before`. ParcelWhole."""
        if not truth.id.is_journal and truth.id.stream in self.metadata.mirrors:
            self._mirrored(truth, before)
            return
        if is_data(truth.id, self.metadata.activity):
            self.checks.counts["ActivityInOrder"] += 1
            self.metadata.activity[truth.id.stream].grown(truth, before)
            return
        if not truth.id.is_journal and truth.id.stream in self.metadata.sources:
            if truth.id in self._deletions:
                self._deletions[truth.id].grown(before)
            self._sourced(truth, before)
            return
        for message in self.letters.grown(truth.id, truth.contents.committed[before:]):
            self.consumers(message.partition).letter(message)
        if truth.id in self._deletions:
            self._deletions[truth.id].grown(before)
        self.checks.counts["ParcelWhole"] += 1
        problem = self.parcels.problem(truth.contents.committed, before)
        if problem:
            raise Violation("ParcelWhole", f"partition {truth.id}: {problem}")

    def _mirrored(self, truth: PartitionTruth, before: int) -> None:
        """MirrorIsPrefix. Of what a mirror has, all else was judged where its origin has it."""
        self.checks.counts["MirrorIsPrefix"] += 1
        takes = self.metadata.taking[truth.id.stream]
        if self.metadata.mirrors[truth.id.stream] == AFAR:
            if truth.id.stream in self.metadata.saying:
                self.deletions(truth.id).grown(before)
            naming = self.metadata.named.get((truth.id.stream, ORIGIN))
            mirrored_afar(truth, naming, self.afar, before, takes)
            return
        origin = self.truth(PartitionId(self.metadata.mirrors[truth.id.stream], truth.id.index))
        if truth.id.stream in self.metadata.saying:
            self.deletions(truth.id).grown(before)
        start, gone = self.furthest_start(origin.id), self.deletions(origin.id)
        mirrored(truth, origin, before, start, gone, takes)

    def _sourced(self, truth: PartitionTruth, before: int) -> None:
        """SourcesExact. What is in a copy was judged where its source has it."""
        self.checks.counts["SourcesExact"] += 1
        places = self.places.setdefault(truth.id, {})
        sourced(truth, self.sources(truth.id), places, before)

    def sources(self, copy: PartitionId) -> dict[int, AnySource]:
        """R29: by the ids of the streams that this partition copies, what is known of them; a number below 0
        is of another cluster's (`liftlog/options/copied.py`).
        """
        found: dict[int, AnySource] = {}
        for stream, filters in self.metadata.sources.get(copy.stream, {}).items():
            if stream < 0:
                found[stream] = self._far_source(copy, filters)
                continue
            log = PartitionId(stream, copy.index)
            start, gone = self.furthest_start(log), self.deletions(log)
            found[stream] = SourceTruth(self.truth(log), filters, start, gone)
        return found

    def _far_source(self, copy: PartitionId, filters: Filters) -> FarSourceTruth:
        naming = self.metadata.named.get((copy.stream, ORIGIN))
        making = self.afar.get(naming.identity) if naming is not None else None
        logs = making.logs if making is not None else []
        return FarSourceTruth(naming, logs[copy.index] if copy.index < len(logs) else FarLog(), filters)

    def fail(self, violation: Violation) -> None:
        """Remember the first violation and end the run."""
        if self.violation is None:
            self.violation = violation
        raise self.violation
