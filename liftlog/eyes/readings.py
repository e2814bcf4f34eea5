"""A node's state as samples, in slices: nobody stalls a node with thousands of partitions by looking at it.

`read` is a generator of a family and some of its samples; between two of them the node may go on, so that the
samples of one scrape are of moments that lie some milliseconds apart. All samples of a family come one after
the other, as the format demands. What is looked at is state that is there anyway, and counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from liftlog.config import ServerConfig
from liftlog.core.metadata.limits import SOURCES_MAX
from liftlog.core.node import Node
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.log import FAILED, OPENING, READY
from liftlog.core.waiting import WAITING_MAX
from liftlog.eyes import names
from liftlog.eyes.durations import Durations
from liftlog.eyes.health import missing
from liftlog.eyes.measures import Measures
from liftlog.eyes.names import Family
from liftlog.messages import tlstold
from liftlog.messages.rightstold import MISTAKEN, REFUSALS
from liftlog.messages.tlstold import LEFT_S, PLAIN_CLIENTS, PLAIN_PEERS
from liftlog.real.bus import OUTGOING_LIMIT_BYTES
from liftlog.real.server import Parts
from liftlog.types import PartitionId
from liftlog.version import VERSION

T = TypeVar("T")
SLICE_SAMPLES = 100
LOOKS_PER_SLICE = 1000
"""Partitions that are only counted take less than a tenth of one that has samples."""

Sample = tuple[tuple[str, ...], float | Durations]
Slice = tuple[Family, list[Sample]]
OVERLOADS = {
    "publishes": "N6.overload",
    "reads": "L3.reads",
    "fetches": "L3.fetches",
    "wishes": "L3.proposals-full",
    "changes": "L3.requests-full",
}
"""A queue, and the mark of a node that counts what did not fit."""
REFUSED = {
    "too-large": "nats.refused_too_large",
    "headers": "nats.refused_headers",
    "subscription": "nats.subscriptions_refused",
    "publish": "nats.publishes_refused",
}


class DiskSpace(NamedTuple):
    """Of the file system of the data folder."""

    free_bytes: int
    size_bytes: int


class LastScrape(NamedTuple):
    """What the one before cost."""

    duration_s: float = 0.0
    cpu_s: float = 0.0
    longest_s: float = 0.0
    size_bytes: int = 0


class Readings:
    """Of one node with its ports."""

    def __init__(
        self,
        node: Node,
        config: ServerConfig,
        parts: Parts,
        measures: Measures,
        log_bytes: Callable[[PartitionId], int],
        now_ms: Callable[[], float],
    ) -> None:
        """`log_bytes`: the size of a copy's segments. `now_ms`: the node's monotonic clock."""
        self._now_ms = now_ms
        self._node = node
        self._config = config
        self._parts = parts
        self._measures = measures
        self._log_bytes = log_bytes

    def read(
        self, disk: DiskSpace | None, http: dict[str, int], cut: int, last: LastScrape
    ) -> Iterator[Slice]:
        """All of it. `disk` None: it did not answer in time. `http`: answers of the port by status; `cut`:
        connections that it hung up on.
        """
        yield from self._place()
        yield from self._cluster()
        yield from self._copies()
        yield from self._times()
        yield from self._storage(disk)
        yield from self._queues()
        yield from self._network()
        yield names.HTTP_ANSWERS, [((code,), count) for code, count in sorted(http.items())]
        yield _one(names.HTTP_CUT, cut)
        yield _one(names.SCRAPE_TIME, last.duration_s)
        yield _one(names.SCRAPE_SLICE, last.longest_s)
        yield _one(names.SCRAPE_CPU, last.cpu_s)
        yield _one(names.SCRAPE_BYTES, last.size_bytes)

    # -- the node and the group ----------------------------------------------------------------------------

    def _place(self) -> Iterator[Slice]:
        node, config = self._node, self._config
        contact, raft = node.standing.contact(), node.raft
        # A node that does not step counts its ages from its last tick.
        late_ms = max(0.0, self._now_ms() - node.ctx.now_ms)
        yield names.NODE_INFO, [((str(config.node), config.cluster, VERSION), 1)]
        yield _one(names.FEATURE_LEVEL, node.metadata.level)
        yield _one(names.READY, not missing(node, self._parts))
        yield _one(names.SESSION_VALID, not contact.fenced)
        yield _age(names.SESSION_AGE, contact.session_ms, late_ms)
        yield _one(names.LEAVING, contact.leaving)
        live = [((str(one.node),), float(one.state == "live")) for one in node.metadata.nodes.values()]
        yield names.SESSION_LIVE, sorted(live)
        yield _one(names.CONTROLLER_ACTIVE, raft.is_leader)
        yield _one(names.CONTROLLER_HEARD, contact.has_controller)
        yield _age(names.CONTROLLER_AGE, contact.controller_ms, late_ms)
        yield _one(names.CONTROLLER_ELECTIONS, node.marks.get("M1.election", 0))
        yield _one(names.RAFT_TERM, raft.term)
        record = node.metadata.nodes.get(raft.node)
        excused = record is not None and not record.is_to_vote(node.ctx.founders)
        yield _one(names.VOTE_COUNTS, contact.vote == "born" or excused)
        yield _one(names.METADATA_LAST, raft.raft_log.last_index)
        yield _one(names.METADATA_APPLIED, node.metadata.applied)
        yield _one(names.METADATA_REFUSED, bool(contact.metadata_refused))
        yield _one(names.ACTIVITY_WAITING, len(node.metadata.outbox.events))

    def _cluster(self) -> Iterator[Slice]:
        metadata, measures = self._node.metadata, self._measures
        yield _one(names.STREAMS, len(metadata.by_id))
        records = list(metadata.partitions.values())
        offline = under = below = least = unready = 0
        for chunk in _chunks(records, LOOKS_PER_SLICE):
            for record in chunk:
                in_sync = len(record.isr)
                lacking = in_sync < len(record.replicas)
                offline += not record.leader
                under += lacking
                below += in_sync < record.min_insync
                least += lacking and in_sync == record.min_insync
                stream = metadata.by_id.get(record.id.stream)
                paused = stream is not None and bool(stream.config.paused)
                unready += bool(record.leader) and not record.ready and not paused
            yield names.PARTITIONS, []
        yield _one(names.PARTITIONS, len(records))
        yield _one(names.OFFLINE, offline)
        yield _one(names.UNDER_REPLICATED, under)
        yield _one(names.BELOW_MINIMUM, below)
        yield _one(names.AT_MINIMUM, least)
        yield _one(names.NOT_READY, unready)
        yield _one(names.ISR_SHRINKS, measures.isr_shrinks)
        yield _one(names.ISR_EXPANDS, measures.isr_expands)
        yield _one(names.LEADER_ELECTIONS, measures.elections)
        yield _one(names.UNCLEAN_ELECTIONS, measures.unclean_elections)

    # -- copies --------------------------------------------------------------------------------------------

    def _copies(self) -> Iterator[Slice]:
        replicas = [copy for copy in self._node.replicas.values() if not copy.id.is_journal]
        states = dict.fromkeys((OPENING, READY, FAILED), 0)
        leading = damaged = broken = 0
        for chunk in _chunks(replicas, LOOKS_PER_SLICE):
            for replica in chunk:
                states[replica.state] += 1
                leading += replica.leading is not None
                damaged += bool(replica.repairs.ranges)
                broken += bool(replica.log.broken)
            yield names.COPIES, []
        yield names.COPIES, [((state,), count) for state, count in states.items()]
        yield _one(names.COPIES_LEADING, leading)
        yield _one(names.COPIES_DAMAGED, damaged)
        yield _one(names.COPIES_BROKEN, broken)
        most = self._config.metrics_partitions_max
        yield _one(names.WITHOUT_SERIES, max(0, len(replicas) - most))
        named = sorted(replicas, key=lambda replica: replica.id)[:most]
        labelled = [(self._labels(replica.id), replica) for replica in named]
        yield from self._each(names.PARTITION_LEADING, labelled, lambda copy: copy.leading is not None)
        led = [(labels, copy) for labels, copy in labelled if copy.leading is not None]
        yield from self._each(names.PARTITION_IN_SYNC, led, lambda copy: len(copy.isr))
        yield from self._each(names.LOG_START, labelled, lambda copy: copy.log_start)
        yield from self._each(names.LOG_END, labelled, lambda copy: copy.leo)
        yield from self._each(names.HIGH_WATERMARK, labelled, lambda copy: copy.hw)
        yield from self._each(names.LOG_BYTES, labelled, lambda copy: self._log_bytes(copy.id))
        mirrors = [one for one in led if one[1].roles is not None and one[1].roles.mirroring.on]
        yield from self._each(names.MIRROR_LAG, mirrors, mirror_lag)
        yield from self._each(names.MIRROR_STANDS, mirrors, mirror_stands)
        sourced = [one for one in led if one[1].roles is not None and one[1].roles.sourcing.on]
        for some in _chunks(sourced, max(1, SLICE_SAMPLES // SOURCES_MAX)):
            yield names.SOURCE_LAG, [one for labels, copy in some for one in source_lags(labels, copy)]
        for some in _chunks(led, SLICE_SAMPLES // 2):
            yield names.LAG, [sample for labels, copy in some for sample in lags(labels, copy)]
        looked = self._node.ctx.looked
        yield _one(names.LOOKED_AT, looked.offsets)
        yield _one(names.LOOKED_SENT, looked.records)

    def _labels(self, partition: PartitionId) -> tuple[str, str]:
        stream = self._node.metadata.by_id.get(partition.stream)
        name = stream.config.name if stream is not None else f"id {partition.stream}"
        return name, partition.label

    @staticmethod
    def _each(
        family: Family,
        copies: Sequence[tuple[tuple[str, str], Replica]],
        value: Callable[[Replica], float],
    ) -> Iterator[Slice]:
        for some in _chunks(copies, SLICE_SAMPLES):
            yield family, [(labels, value(copy)) for labels, copy in some]

    # -- times, storage, queues ----------------------------------------------------------------------------

    def _times(self) -> Iterator[Slice]:
        measures = self._measures
        yield names.COMMIT_TIME, [((), measures.commits)]
        yield names.SYNC_TIME, [((), measures.syncs)]
        yield names.GROUP_TIME, [((), measures.groups)]
        yield names.REQUEST_TIME, [((request,), times) for request, times in measures.requests.items()]
        yield names.STEP_TIME, [((), measures.steps)]
        yield names.STEP_CPU, [((), measures.cpu.durations)]
        yield names.LOOP_DELAY, [((), measures.loop)]

    def _storage(self, disk: DiskSpace | None) -> Iterator[Slice]:
        storage = self._parts.storage
        counters = storage.counters
        yield _one(names.STORAGE_GROUPS, counters["storage.groups"])
        yield _one(names.STORAGE_JOBS, counters["storage.jobs"])
        yield _one(names.STORAGE_SLICES, counters["storage.slices"])
        yield _one(names.GROUP_AGE, storage.working_ms / 1000)
        if disk is not None:
            yield _one(names.DISK_FREE, disk.free_bytes)
            yield _one(names.DISK_SIZE, disk.size_bytes)

    def _queues(self) -> Iterator[Slice]:
        node, parts = self._node, self._parts
        limits, protocol, marks = self._config.network, node.config, node.marks
        inflight = [
            copy.roles.leader.inflight_bytes
            for copy in list(node.replicas.values())
            if copy.roles is not None
        ]
        sizes = {
            "in-flight": (max(inflight, default=0), protocol.inflight_max_bytes),
            "to-nats": (parts.bus.outgoing_bytes, OUTGOING_LIMIT_BYTES),
            **parts.network.fills,
        }
        yield names.QUEUE_BYTES, [((queue,), held) for queue, (held, _) in sizes.items()]
        yield names.QUEUE_BYTES_MAX, [((queue,), most) for queue, (_, most) in sizes.items()]
        waiting, background = parts.storage.waiting
        most = protocol.raft_inflight_proposals_max
        bounded = {
            "disk-reads": (len(node.ctx.reads), protocol.disk_reads_max),
            "clients-waiting": (node.requests.waiting, WAITING_MAX),
            "wishes": (len(node.proposals.under_way), most),
            "changes": (len(node.proposals.requests), most),
            "client-connections": (parts.network.counters["network.clients"], limits.client_connections_max),
        }
        # What waits for storage is bounded by what may be asked for: bytes in flight, and disk-reads.
        unbounded = {"storage": waiting, "storage-background": background}
        held = {queue: held for queue, (held, _) in bounded.items()} | unbounded
        yield names.QUEUE_ENTRIES, [((queue,), count) for queue, count in held.items()]
        yield names.QUEUE_ENTRIES_MAX, [((queue,), most) for queue, (_, most) in bounded.items()]
        yield names.OVERLOADS, [((queue,), marks.get(mark, 0)) for queue, mark in OVERLOADS.items()]

    def _network(self) -> Iterator[Slice]:
        bus, counters = self._parts.bus, self._parts.bus.counters
        yield _one(names.NATS_CONNECTED, bus.connected)
        yield _one(names.NATS_CONNECTS, counters["nats.connects"])
        yield _one(names.NATS_RECEIVED, counters["nats.messages_in"])
        yield names.NATS_REFUSED, [((what,), counters[counter]) for what, counter in REFUSED.items()]
        yield _one(names.NATS_ERRORS, counters["nats.errors"])
        yield _one(names.NATS_DROPPED, counters["nats.answers_dropped"])
        counters = self._parts.network.counters
        yield _one(names.PEERS, counters["network.peers"])
        yield _one(names.CLIENTS, counters["network.clients"])
        yield _one(names.PEER_SENT, counters["network.sent"])
        yield _one(names.PEER_RECEIVED, counters["network.received"])
        yield _one(names.PEER_DROPPED, counters["network.dropped"])
        yield _one(names.PEER_REFUSED, self._node.ctx.refused)
        yield _one(names.CONNECTIONS_REFUSED, counters["network.refused"])
        yield _one(names.CONNECTIONS_CUT, counters["network.cut"])
        if LEFT_S in counters:
            yield _one(names.TLS_LEFT, counters[LEFT_S])
            yield _one(names.TLS_MISTAKEN, counters[tlstold.MISTAKEN])
            plain = {"nodes": counters[PLAIN_PEERS], "clients": counters[PLAIN_CLIENTS]}
            yield names.TLS_PLAIN, [((whose,), count) for whose, count in plain.items()]
        counters = self._parts.gate.counters
        yield _one(names.RIGHTS_REFUSED, counters.get(REFUSALS, 0))
        yield _one(names.RIGHTS_MISTAKEN, counters.get(MISTAKEN, 0))


def lags(labels: tuple[str, str], copy: Replica) -> Iterator[Sample]:
    """What each other replica has not on disk, as its leader knows; nothing if `copy` does not lead."""
    leading = copy.leading
    if leading is None:
        return
    for node in leading.record.replicas:
        if node != copy.log.ctx.node:
            known = leading.followers.get(node)
            durable = known.durable if known is not None and known.durable >= 0 else copy.log_start
            yield (*labels, str(node)), max(0, copy.leo - durable)


def mirror_lag(copy: Replica) -> int:
    """R28: what a mirror's leader has not of what its origin has committed, as that said last."""
    return copy.roles.mirroring.lag if copy.roles is not None else 0


def mirror_stands(copy: Replica) -> bool:
    """R28: whether a mirror's leader copies nothing."""
    return copy.roles is not None and bool(copy.roles.mirroring.problem)


def _one(family: Family, value: float) -> Slice:
    return family, [((), value)]


def _age(family: Family, known_ms: int, late_ms: float) -> Slice:
    """No sample where there is no age: never in this run."""
    return family, [((), (known_ms + late_ms) / 1000)] if known_ms >= 0 else []


def _chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    left = iter(items)
    while chunk := list(islice(left, size)):
        yield chunk


def source_lags(labels: tuple[str, str], copy: Replica) -> Iterator[Sample]:
    """R29: what the leader of a stream with sources has not looked at of each, as that said last."""
    if copy.roles is not None:
        for source, lag in copy.roles.sourcing.lags().items():
            yield (*labels, source), lag
