"""What one node is told of itself: who it is, and the limits and times of its protocol core (L3)."""

from __future__ import annotations

import msgspec

from liftlog.types import FEATURE_LEVEL


class NodeConfig(msgspec.Struct, frozen=True):
    """Limits and times of one node's protocol core. Everything is bounded here, explicitly (L3)."""

    node: int
    voters: tuple[int, ...]
    learners: tuple[int, ...] = ()
    peers: tuple[tuple[int, str], ...] = ()
    """I3: where nodes call each other, as far as the configuration says."""
    joins: bool = False
    """I3: this node was admitted to a cluster that is there; `voters` are members whom it asks."""
    address: str = ""
    """host:port where clients and peers reach this node's TCP port."""
    tick_ms: int = 50
    election_min_ms: int = 700
    election_max_ms: int = 1100
    suspicion_ms: int = 300
    """M1o: how long a leader must have been silent of whom it is said that nobody listens there any more."""
    heartbeat_ticks: int = 1
    session_timeout_ms: int = 1500
    lease_ms: int = 650
    """N2: for so long from its sending a heartbeat that was answered lets a leader serve."""
    fence_margin_ms: int = 50
    """N2: the session of a node of whom it is said that nobody listens there ends so long after its lease."""
    leader_timeout_ms: int = 1800
    """R15: longer than a leader is unheard that pauses for half a second after two fetches that waited."""
    report_window_ms: int = 3000
    replica_lag_max_ms: int = 3000
    replica_slow_ms: int = 25
    """R17: for how long records may wait for one replica alone before it counts as late; 0 = however long."""
    replica_probation_ms: int = 10_000
    """R18: for how long a replica that was slow has to keep up before it is in sync again. Doubles."""
    replica_probation_max_ms: int = 300_000
    fetch_wait_ms: int = 500
    fetch_max_bytes: int = 1024 * 1024
    request_timeout_ms: int = 10_000
    hw_checkpoint_ms: int = 2000
    tail_cache_bytes: int = 8 * 1024 * 1024
    batch_max_bytes: int = 1024 * 1024
    inflight_max_bytes: int = 64 * 1024 * 1024
    parked_reads_max: int = 1024
    disk_reads_max: int = 1024
    """Reads of this node that may wait for storage; clients get half of them (L3)."""
    log_reads_max: int = 128
    """Reads by clients of one log that may wait for storage."""
    index_memory_bytes: int = 256 * 1024 * 1024
    """S1: what all subject indexes of this node may take of memory."""
    raft_append_max_bytes: int = 256 * 1024
    raft_inflight_proposals_max: int = 1024
    raft_proposal_span: int = 4096
    """M3: a command means nothing more than so many entries after the last that its author had applied."""
    raft_snapshot_entries: int = 8192
    """M1p: when so many were applied a snapshot is taken; a quarter stays in the log, for late nodes."""
    max_voters: int = 5
    """M2: how many nodes may vote in the metadata group, if the configuration does not name more of them."""
    spare_after_ms: int = 900_000
    """M2: for so long a voter is gone until one that does not vote takes its place, if any; 0 = for ever."""
    can_level: int = FEATURE_LEVEL
    """U2: up to which feature level this process can follow. Simulated nodes may know less than they do."""
    raft_chunk_records: int = 256
    """So many records make a chunk of a snapshot: as much as one step encodes or takes in."""
    restate_entries: int = 32
    """R21: a journal with fewer entries is not said again; at least 4. Simulated clusters vary."""
    activity_room: int = 4096
    """N12: so many events wait at most for their stream. The same on all nodes: simulated clusters vary."""
    step_partitions_max: int = 200
    """So many partitions one step cares for: ticks, commands and those who follow them go on in the next."""
    move_bytes_per_s: int = 0
    """R20: so much a leader's node sends to copies that moves have begun, all together; 0 = as it can."""
    retention_check_ms: int = 30_000
    """How often a leader looks for segments that retention lets go (C3)."""
    compaction_check_ms: int = 15_000
    """How often a replica asks whether a compaction is due."""
    compaction_bytes_per_s: int = 20 * 1024 * 1024
    """Throttle of compaction, per log."""
    scrub_bytes_per_s: int = 1024 * 1024
    """How fast sealed segments are read over and over to find decayed bytes (D2); 0 = never."""
