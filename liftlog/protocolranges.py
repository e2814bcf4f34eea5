"""What a configuration may say in [protocol]: a range for every key, and what goes together."""

from __future__ import annotations

import msgspec

from liftlog.nodeconfig import NodeConfig
from liftlog.types import LiftlogError

MIB = 1024 * 1024
LEASE_TICKS = 4
"""A heartbeat on each tick, one that is lost, an answer on its way, a look ahead to the next tick (N2)."""
SPANS_OF_UNCOMMITTED = 2
"""All that may be uncommitted before a command, and as much that its author has not applied yet (M3)."""

PROTOCOL_RANGES: dict[str, tuple[int, int]] = {
    "tick_ms": (10, 10_000),
    "election_min_ms": (50, 60_000),
    "election_max_ms": (100, 120_000),
    "suspicion_ms": (20, 60_000),
    "heartbeat_ticks": (1, 100),
    "session_timeout_ms": (200, 120_000),
    "lease_ms": (50, 60_000),
    "fence_margin_ms": (10, 60_000),
    "leader_timeout_ms": (100, 120_000),
    "report_window_ms": (100, 600_000),
    "replica_lag_max_ms": (100, 600_000),
    "replica_slow_ms": (0, 600_000),
    "replica_probation_ms": (100, 3_600_000),
    "replica_probation_max_ms": (100, 24 * 3_600_000),
    "fetch_wait_ms": (1, 60_000),
    "fetch_max_bytes": (1024, 16 * MIB),
    "request_timeout_ms": (100, 600_000),
    "hw_checkpoint_ms": (10, 600_000),
    "tail_cache_bytes": (64 * 1024, 1024 * MIB),
    "batch_max_bytes": (1024, 16 * MIB),
    "inflight_max_bytes": (64 * 1024, 1024 * MIB),
    "parked_reads_max": (1, 100_000),
    "disk_reads_max": (2, 100_000),
    "log_reads_max": (1, 100_000),
    "index_memory_bytes": (64 * 1024, 64 * 1024 * MIB),
    "raft_append_max_bytes": (1024, 8 * MIB),
    "raft_inflight_proposals_max": (1, 100_000),
    "raft_proposal_span": (256, 65_536),
    "raft_snapshot_entries": (16, 1_000_000),
    "raft_chunk_records": (1, 4096),
    "max_voters": (1, 9),
    "spare_after_ms": (0, 86_400_000),
    "step_partitions_max": (1, 100_000),
    "move_bytes_per_s": (0, 16 * 1024 * MIB),
    "retention_check_ms": (100, 3_600_000),
    "compaction_check_ms": (100, 3_600_000),
    "compaction_bytes_per_s": (64 * 1024, 1024 * MIB),
    "scrub_bytes_per_s": (0, 1024 * MIB),
}
"""Accepted range of every key of [protocol], both ends included; the defaults are those of `NodeConfig`."""


def check_protocol(protocol: dict[str, int], source: str) -> None:
    """Settings that only make sense together. Raises LiftlogError."""
    config = msgspec.structs.replace(NodeConfig(node=1, voters=(1,)), **protocol)
    for smaller, larger in (
        ("election_min_ms", "election_max_ms"),
        ("tick_ms", "election_min_ms"),
        ("suspicion_ms", "election_min_ms"),
    ):
        low, high = getattr(config, smaller), getattr(config, larger)
        if low >= high:
            raise LiftlogError(
                f"{source}: [protocol] {smaller} = {low} must be below {larger} = {high}; change one of them"
            )
    first, longest = config.replica_probation_ms, config.replica_probation_max_ms
    if first > longest:
        raise LiftlogError(
            f"{source}: [protocol] replica_probation_ms = {first} is above replica_probation_max_ms = "
            f"{longest}; change one of them"
        )
    uncommitted, span = config.raft_inflight_proposals_max, config.raft_proposal_span
    if span < SPANS_OF_UNCOMMITTED * uncommitted:
        raise LiftlogError(
            f"{source}: [protocol] raft_proposal_span = {span} is below {SPANS_OF_UNCOMMITTED} times "
            f"raft_inflight_proposals_max = {uncommitted}: commands could be too old each time their turn "
            "comes; raise the one or lower the other"
        )
    least = LEASE_TICKS * config.tick_ms
    if config.lease_ms < least:
        raise LiftlogError(
            f"{source}: [protocol] lease_ms = {config.lease_ms}, but a leader needs {least}, {LEASE_TICKS} "
            "times tick_ms, to be heard in time; raise lease_ms or lower tick_ms"
        )
    ends_ms = config.lease_ms + config.fence_margin_ms
    if ends_ms > config.session_timeout_ms:
        raise LiftlogError(
            f"{source}: [protocol] lease_ms and fence_margin_ms are {ends_ms} together, but a session may "
            f"end after session_timeout_ms = {config.session_timeout_ms}; raise that, or lower one of the two"
        )
