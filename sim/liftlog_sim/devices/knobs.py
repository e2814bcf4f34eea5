"""Everything that may differ between two simulated worlds, as plain data.

`profiles/profiles.py` draws a `Knobs` from a seed; a directed scenario states one. Times are in
microseconds of simulated time unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from liftlog.messages import CompactLog, FoldSubjects, ReadLog, StorageJob
from liftlog.nodeconfig import NodeConfig
from liftlog.storage.log import StorageOptions
from liftlog.types import StreamConfig
from liftlog_sim.devices.connections import HintOptions
from liftlog_sim.devices.options import BusOptions, NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND

SELDOM = 8192
"""As many entries as no simulated group gets to."""
TUNED = frozenset((CompactLog, FoldSubjects, ReadLog))
"""Jobs of storage that a world may bound otherwise than the node does."""


class Knobs(msgspec.Struct, frozen=True, kw_only=True):
    """One world's parameters."""

    profile: str = "calm"
    nodes: int = 3
    streams: tuple[StreamConfig, ...] = (StreamConfig("orders", "orders", 1, 3),)
    duration_us: int = 60 * SECOND

    network: NetworkOptions = NetworkOptions()
    bus: BusOptions = BusOptions()
    hints: HintOptions = HintOptions()
    client_jitter_us: int = 600
    """How much longer than the least a client's request or its answer may be on its way."""
    storage_times: StorageTimes = StorageTimes()
    storage_options: StorageOptions = StorageOptions()
    clock_drift: float = 0.0
    """Greatest deviation of a node's clock rate from 1."""
    clock_skew_ms: int = 0

    tick_ms: int = 250
    """All other times of the protocol are so many ticks."""
    election_ticks: int = 5
    suspicion_ticks: int = 3
    session_ticks: int = 15
    lease_ticks: int = 8
    hw_checkpoint_ticks: int = 20
    margin_ticks: int = 2
    fetch_wait_ticks: int = 6
    lag_ticks: int = 16
    report_ticks: int = 5
    probation_ticks: int = 8
    probation_max_ticks: int = 24
    raft_append_max_bytes: int = 256 * 1024
    fetch_max_bytes: int = 1024 * 1024
    tail_cache_bytes: int = 8 * 1024 * 1024
    inflight_max_bytes: int = 64 * 1024 * 1024
    parked_reads_max: int = 1024
    proposals_max: int = 1024
    proposal_span: int = 4096
    step_partitions: int = 200
    mixed_releases: bool = False
    """U2: nodes are of two releases, and each start may be one of the other."""

    snapshot_entries: int = SELDOM
    """M1p: how many entries the group applies between two snapshots."""
    chunk_records: int = 256
    """Records in a chunk of a snapshot."""

    retention_check_ms: int = 1000
    compaction_check_ms: int = 700
    compaction_bytes_per_s: int = 1 << 20
    map_bytes: int = 0
    """Bound on the key map of a compaction; 0 = the policy's own."""
    slice_bytes: int = 0
    """How much one slice of a compaction reads; 0 = what the node asks for."""
    scrub_bytes_per_s: int = 200_000
    encrypted: bool = False
    """Whether the nodes encrypt what they store."""

    publishers: int = 2
    publish_interval_us: int = 700 * MILLISECOND
    burst_max: int = 6
    with_reply: float = 0.85
    expecting: float = 0.0
    """Share of the bursts whose messages each expect the offset behind the one before (L6)."""
    expecting_lasts: float = 0.0
    """Share of the bursts that expect which record is the last of a subject (L9)."""
    parcels: float = 0.0
    """Share of the bursts of which parts are sent together, in parcels (L8)."""
    policies: float = 0.0
    """Share of the requests that want the leader's word alone, or no answer (R4)."""
    envelopes: float = 0.0
    """Share of the messages that come in Liftbridge's envelope (L1)."""
    value_filler: int = 0
    keys: int = 12
    """Number of keys in use on a compacted stream."""
    tombstones: float = 0.2
    """Share of the messages to a compacted stream that delete a key."""
    readers: int = 2
    read_interval_us: int = 700 * MILLISECOND
    read_bytes: int = 4096
    ask_latest: float = 0.2
    ask_time: float = 0.0
    front_again: float = 0.03
    """How often a reader begins again at the front."""
    purge_share: float = 0.0
    """Share of administrative requests that purge a partition."""
    delete_share: float = 0.0
    """Share of the other ones that delete messages, where streams have a journal (R21)."""
    purge_subjects_share: float = 0.0
    """Share of these that purge by subject."""
    consumers: int = 0
    """Clients of durable consumers, where streams have a journal (K1 to K7)."""
    grouped: int = 0
    """Clients of consumers with priority groups, beside those (K10)."""
    door_clients: int = 0
    """Clients of JetStream's doors of each kind, where there is a stream for them."""
    door_interval_us: int = 150 * MILLISECOND
    processors: int = 0
    """Processors, where streams remember producers (L10)."""
    consume_interval_us: int = 400 * MILLISECOND
    consumers_anew: float = 0.0
    """How often a client of consumers deletes one that does not begin at the front, or creates it again,
    instead of anything else.
    """
    consumers_stay: bool = False
    """Whether there are few consumers, of which none is deleted, nor goes when nobody uses it."""
    asks_heirs: bool = False
    """Whether somebody asks each new leader at once for a consumer that begins with what is new (K5)."""
    members: int = 0
    """Processes of a consumer group, where a stream is there for its register (G1 to G5)."""
    member_interval_us: int = 60 * MILLISECOND
    ask_subjects_us: int = 0
    """How often somebody asks about subjects, of which messages have several then (S1); 0 = never."""
    filtered_interval_us: int = 0
    """How often somebody reads what is on some subjects, or has some keys, alone; messages have several of
    both then (S2); 0 = never."""
    fold_bytes: int = 0
    """How much one slice enters into a subject index; 0 = what the node asks for."""
    journal_bytes: int = 0
    """How much of a journal one read gives, so that a copy that starts takes its time to read which messages
    are gone (R21); 0 = what the node asks for."""
    admin_interval_us: int = 8 * SECOND
    inspect_interval_us: int = 2 * SECOND
    """How often somebody asks what streams there are; 0 = never."""
    admin_to_controller: float = 0.3
    alter_interval_us: int = 0
    """How often an operator alters a stream (R19); 0 = never."""
    minimum_from: int = 0
    """R19: the least minimum in sync that he may ask for; 0 = he leaves it as it is."""
    partitions_max: int = 0
    """R19: up to how many partitions he makes of it; 0 = as many as it has."""
    move_interval_us: int = 0
    """How often an operator moves copies of a partition (R20); 0 = never."""
    afar_interval_us: int = 0
    """How often somebody has to do with another cluster's stream, and its mirror (R28); 0 = there is none."""
    mirror_interval_us: int = 0
    """How often somebody has to do with a stream's mirror (R28); 0 = there is none."""
    activity_interval_us: int = 0
    """How often somebody has to do with the activity stream (N12); 0 = there is none."""
    restate_entries: int = 32
    """R21: so many entries a journal has at least that is said again."""
    activity_room: int = 4096
    """N12: how many events the metadata has room for."""
    sources_interval_us: int = 0
    """How often somebody has to do with a stream that copies others (R29); 0 = there is none."""
    move_bytes_per_s: int = 0
    """R20: how much a node sends to copies that moves have begun; 0 = as it can."""
    joiners: int = 0
    """How many of the nodes, those with the highest numbers, have to be added before they are any (I3)."""
    nodes_stay: bool = False
    """I3: nobody is removed, or retired."""
    node_share: float = 0.0
    """How much of what the operator asks for is that one of these be added, moved or removed."""
    contest_interval_us: int = 0
    """How often two operators look for such a node that one may remove and the other use (I3); 0 = never."""
    voter_share: float = 0.0
    """How much of what the operator asks for is that a node shall vote, or not (M2)."""
    """Share of administrative requests that go to a node which believes to be controller."""
    admin_patience_us: int = 8 * SECOND
    """For so long an administrator waits for an answer."""
    voters: int = 0
    """How many nodes vote by the configuration, those with the lowest numbers; 0 = all."""
    spare_ticks: int = 0
    """M2: for so long a voter is gone until another node takes its place; 0 = for ever."""
    names: int = 0
    """If not 0: most administrative requests create and delete streams, with so many names between them."""
    election_spread_ticks: int = 5
    disk_reads_max: int = 1024
    log_reads_max: int = 128

    faults: tuple[tuple[str, float], ...] = ()
    """(kind, weight) of what `faults/faults.py` may do."""
    fault_interval_us: int = 2 * SECOND
    fault_duration_us: int = 3 * SECOND
    fault_spacing_us: int = 0
    """Between two faults, at least."""
    fault_duration_max_us: int = 0
    """0 = no bound."""
    quiet_from_us: int = 0
    """If not 0: nothing strikes before that, and from then on what happens must have a cause
    (`watching/causes.py`)."""
    killed: bool = False
    """Whether in such a world processes die: then others must be in office soon."""
    lies_interval_us: int = 0
    """How often a stranger comes or a peer breaks (`faults/liars.py`), beside the other faults; 0 =
    never."""
    index_decay_us: int = 0
    """How often a bit of an index file flips, beside the other faults; 0 = as seldom as of any file."""
    sick_from_us: int = 0
    """If not 0: one fault, then, of the kinds in `faults`, until the fault phase is over; none else."""
    hunt_controller: float = 0.0
    """Probability that a node is struck shortly after it became Raft leader."""
    hunt_leader: float = 0.0
    """The same for partition leaders."""
    hunt_within_us: int = 200 * MILLISECOND
    hunt_kinds: tuple[str, ...] = ("kill", "power", "isolate", "pause", "kill_then_power", "isolate")
    hunt_alternate: bool = False
    """Cut each new Raft leader off within `hunt_within_us`, until the next one is cut off."""
    hunt_voter: float = 0.0
    """Probability that a node dies shortly after it gave its vote."""
    hunt_follower: float = 0.0
    """Probability that a follower dies shortly after it was told to cut its log, and is back at once."""
    hunt_failed: float = 0.0
    """Probability that a node is cut off just after one of its logs has failed."""
    hunt_report: float = 0.0
    """Probability that a copy's report of its damage is overtaken by that of a failed sync."""
    hunt_boundary: float = 0.0
    """Probability that the place where an epoch begins is damaged and its leader left alone."""
    hunt_tail: float = 0.0
    """Probability that a follower loses all that it has of an epoch, from inside a complete segment on."""
    hunt_joiner: float = 0.0
    """Probability that a replica is struck while its return to the ISR is being decided, and that is held
    back.
    """
    hunt_contact: float = 0.0
    """Probability that a controller dies when it has admitted a node that knows it alone."""
    hunt_compaction: float = 0.0
    """How often a replica dies within a slice of a compaction."""
    hunt_joiner_kind: str = "wipe"
    """"wipe": its disk is wiped meanwhile; "silence": its leader does not hear it meanwhile; "stop":
    another one that a move is to keep is asked to stop in the same moment."""

    @property
    def takes_snapshots(self) -> bool:
        return self.snapshot_entries < SELDOM

    def tune(self, job: StorageJob) -> StorageJob:
        """A job with this world's limits in place of the node's."""
        if type(job) not in TUNED:
            return job
        if isinstance(job, CompactLog):
            policy = msgspec.structs.replace(job.policy, map_bytes=self.map_bytes or job.policy.map_bytes)
            most = min(job.max_bytes, self.slice_bytes or job.max_bytes)
            return msgspec.structs.replace(job, policy=policy, max_bytes=most)
        if isinstance(job, FoldSubjects) and self.fold_bytes:
            return msgspec.structs.replace(job, max_bytes=self.fold_bytes)
        if isinstance(job, ReadLog) and job.log.is_journal and self.journal_bytes:
            return msgspec.structs.replace(job, max_bytes=self.journal_bytes)
        return job

    def peer_address(self, node: int) -> str:
        """Where the others call a node."""
        return f"10.0.0.{node}:8000"

    def node_config(self, node: int) -> NodeConfig:
        """Limits and times of one node."""
        tick, founders = self.tick_ms, self.nodes - self.joiners
        voters, learners = range(1, (self.voters or founders) + 1), range(self.voters + 1, founders + 1)
        named: Iterable[int] = range(1, founders + 1)
        if node > founders:
            # It knows one member.
            voters = range(node % founders + 1, node % founders + 2)
            named = (*voters, node)
        return NodeConfig(
            node=node,
            voters=tuple(voters),
            learners=tuple(learners) if self.voters and node <= founders else (),
            peers=tuple((each, self.peer_address(each)) for each in named) if self.joiners else (),
            joins=node > founders,
            spare_after_ms=self.spare_ticks * tick,
            address=f"10.0.0.{node}:7000",
            tick_ms=tick,
            election_min_ms=self.election_ticks * tick,
            election_max_ms=(self.election_ticks + self.election_spread_ticks) * tick,
            suspicion_ms=self.suspicion_ticks * tick,
            session_timeout_ms=self.session_ticks * tick,
            lease_ms=self.lease_ticks * tick,
            fence_margin_ms=self.margin_ticks * tick,
            leader_timeout_ms=self.report_ticks * 2 * tick,
            report_window_ms=30 * tick,
            replica_lag_max_ms=self.lag_ticks * tick,
            replica_probation_ms=self.probation_ticks * tick,
            replica_probation_max_ms=self.probation_max_ticks * tick,
            fetch_wait_ms=self.fetch_wait_ticks * tick,
            fetch_max_bytes=self.fetch_max_bytes,
            disk_reads_max=self.disk_reads_max,
            log_reads_max=self.log_reads_max,
            request_timeout_ms=40 * tick,
            hw_checkpoint_ms=self.hw_checkpoint_ticks * tick,
            tail_cache_bytes=self.tail_cache_bytes,
            inflight_max_bytes=self.inflight_max_bytes,
            parked_reads_max=self.parked_reads_max,
            raft_append_max_bytes=self.raft_append_max_bytes,
            raft_inflight_proposals_max=self.proposals_max,
            raft_proposal_span=self.proposal_span,
            raft_snapshot_entries=self.snapshot_entries,
            raft_chunk_records=self.chunk_records,
            step_partitions_max=self.step_partitions,
            restate_entries=self.restate_entries,
            activity_room=self.activity_room,
            move_bytes_per_s=self.move_bytes_per_s,
            retention_check_ms=self.retention_check_ms,
            compaction_check_ms=self.compaction_check_ms,
            compaction_bytes_per_s=self.compaction_bytes_per_s,
            scrub_bytes_per_s=self.scrub_bytes_per_s,
        )
