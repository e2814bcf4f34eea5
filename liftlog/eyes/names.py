"""Every metric that a node tells: its name, kind, labels and help text, and who in JetStream means the same.

Names follow Prometheus' conventions: base units (seconds, bytes), `_total` on what only grows, `_info` on
what is text. They are kept: a name that was once told means the same for ever, or is told no more (ADR 0037).
The table of docs/operating/metrics.md is made from this list (`scripts/metrics_page.py`), and a test compares
them.
"""

from __future__ import annotations

from typing import NamedTuple

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"

LATENCY_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper ends of the buckets of what waits for disks, other nodes and clients."""
STEP_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
"""Of what should not wait."""
STEP_CPU_S = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.06, 0.1, 0.25, 1.0)
"""Of work that nobody else can do meanwhile: a step is to take at most 20 ms of it."""


class Family(NamedTuple):
    """One metric. `like`: the name in prometheus-nats-exporter, or the field of jsz, with this meaning."""

    name: str
    kind: str
    text: str
    labels: tuple[str, ...] = ()
    like: str = ""
    buckets: tuple[float, ...] = ()


PARTITION = ("stream", "partition")


def _gauge(name: str, text: str, *labels: str, like: str = "") -> Family:
    return Family(f"liftlog_{name}", GAUGE, text, labels, like)


def _counter(name: str, text: str, *labels: str, like: str = "") -> Family:
    return Family(f"liftlog_{name}_total", COUNTER, text, labels, like)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Family:
    return Family(f"liftlog_{name}_seconds", HISTOGRAM, text, labels, buckets=buckets)


# -- the node and its place in the cluster -------------------------------------------------------------------

NODE_INFO = _gauge("node_info", "Always 1; the labels say who this is.", "node", "cluster", "version")
FEATURE_LEVEL = _gauge(
    "feature_level", "Which commands the cluster may use; it rises by 'liftlog cluster level --raise'."
)
READY = _gauge(
    "ready", "1 if /readyz says that nothing is missing.", like="gnatsd_healthz_status (0 = ok there)"
)
SESSION_VALID = _gauge(
    "session_valid", "1 while the node may lead and take messages; 0: it is fenced, or not registered yet."
)
SESSION_AGE = _gauge(
    "session_contact_age_seconds", "Since the last heartbeat was sent that the controller answered."
)
LEAVING = _gauge("leaving", "1 during an orderly stop.")
SESSION_LIVE = _gauge(
    "session_live", "For each node of the cluster, 1 if its session is live as this node knows it.", "node"
)
CONTROLLER_ACTIVE = _gauge(
    "controller_active", "1 on the controller, else 0.", like="label is_meta_leader of jetstream_*"
)
CONTROLLER_HEARD = _gauge("controller_heard", "1 while a controller is heard that hears a quorum.")
CONTROLLER_AGE = _gauge(
    "controller_contact_age_seconds",
    "Since a controller was heard: so old may be what this node says of the cluster.",
)
CONTROLLER_ELECTIONS = _counter("controller_elections", "How often this node became the controller.")
RAFT_TERM = _gauge("raft_term", "Term of the metadata group.")
VOTE_COUNTS = _gauge(
    "vote_counts",
    "0 while this node is to vote and its vote does not count: its disk is new, or was set back; else 1.",
)
METADATA_LAST = _gauge("metadata_last_index", "Index of the last entry of this node's metadata log.")
METADATA_APPLIED = _gauge("metadata_applied_index", "Index up to which this node has applied the metadata.")
METADATA_REFUSED = _gauge(
    "metadata_refused", "1 while the disk takes no metadata: the node reads on and leads nothing new."
)
ACTIVITY_WAITING = _gauge(
    "activity_waiting", "Events that the activity stream does not tell yet, as this node knows; 4,096 fit."
)

# -- partitions of the cluster, as this node knows them ------------------------------------------------------

STREAMS = _gauge(
    "streams", "Streams of the cluster, as this node knows them.", like="jetstream_server_total_streams"
)
PARTITIONS = _gauge("partitions", "Partitions of the cluster, as this node knows them.")
OFFLINE = _gauge("partitions_offline", "Partitions without a leader: nothing is taken.")
UNDER_REPLICATED = _gauge("partitions_under_replicated", "Partitions with a replica that is not in sync.")
BELOW_MINIMUM = _gauge(
    "partitions_below_minimum", "Partitions with fewer replicas in sync than the minimum: nothing is acked."
)
AT_MINIMUM = _gauge(
    "partitions_at_minimum",
    "Partitions under-replicated and just at their minimum: one more loss stops acks.",
)
NOT_READY = _gauge(
    "partitions_not_ready", "Partitions whose leader is not subscribed at NATS: nothing arrives."
)
ISR_SHRINKS = _counter(
    "isr_shrinks", "Times that replicas left an in-sync set, told by the partition's leader alone."
)
ISR_EXPANDS = _counter(
    "isr_expands", "Times that replicas joined an in-sync set, told by the partition's leader alone."
)
LEADER_ELECTIONS = _counter("leader_elections", "How often this node became the leader of a partition.")
UNCLEAN_ELECTIONS = _counter(
    "unclean_elections", "Of these, with an operator's consent to lose committed records."
)

# -- copies on this node -------------------------------------------------------------------------------------

COPIES = _gauge("copies", "Copies on this node: opening, ready, or failed (its disk refuses).", "state")
COPIES_LEADING = _gauge("copies_leading", "Copies of this node that lead.")
COPIES_DAMAGED = _gauge("copies_damaged", "Copies with offsets that cannot be read, under repair.")
COPIES_BROKEN = _gauge("copies_broken", "Copies stopped for good since their state contradicts itself.")
WITHOUT_SERIES = _gauge(
    "copies_without_series", "Copies that have no series of their own: [metrics] partitions_max."
)
PARTITION_LEADING = _gauge(
    "partition_leading",
    "1 if this copy leads its partition.",
    *PARTITION,
    like="label is_stream_leader of jetstream_stream_*",
)
PARTITION_IN_SYNC = _gauge(
    "partition_in_sync_replicas", "Replicas in sync, told by the leader alone.", *PARTITION
)
LOG_START = _gauge(
    "partition_log_start_offset", "First offset of this copy.", *PARTITION, like="jetstream_stream_first_seq"
)
LOG_END = _gauge(
    "partition_log_end_offset",
    "Offset that this copy writes next (LEO).",
    *PARTITION,
    like="jetstream_stream_last_seq (the last one, which is one less)",
)
HIGH_WATERMARK = _gauge(
    "partition_high_watermark_offset",
    "First offset that is not committed, as this copy knows it (HW).",
    *PARTITION,
)
LOG_BYTES = _gauge(
    "partition_log_bytes", "Bytes of this copy's segments.", *PARTITION, like="jetstream_stream_total_bytes"
)
LAG = _gauge(
    "replica_lag_records",
    "Records that a replica has not yet on disk, told by the leader alone; the whole log until it was heard.",
    *PARTITION,
    "replica",
    like="jsz: account_details[].stream_detail[].cluster.replicas[].lag",
)
MIRROR_LAG = _gauge(
    "mirror_lag_records",
    "Offsets that a mirror has not of what its origin has committed, as that said last, told by the mirror's "
    "leader alone.",
    *PARTITION,
    like="STREAM.INFO: mirror.lag",
)
MIRROR_STANDS = _gauge(
    "mirror_standing_still",
    "1 if a mirror copies nothing, for a reason that 'liftlog stream lag' tells: it is paused, say, or its "
    "origin was removed, or is of another cluster that does not answer; told by the mirror's leader alone.",
    *PARTITION,
    like="STREAM.INFO: mirror.error",
)
SOURCE_LAG = _gauge(
    "source_lag_records",
    "Offsets that a stream with sources has not looked at of what a source has committed, as that said last, "
    "told by the stream's leader alone.",
    *PARTITION,
    "source",
    like="STREAM.INFO: sources[].lag",
)

LOOKED_AT = _counter("filtered_offsets_looked_at", "Offsets that were looked at for readers with a filter.")
LOOKED_SENT = _counter("filtered_records_sent", "Records that were sent to readers with a filter.")

# -- how long things take ------------------------------------------------------------------------------------

COMMIT_TIME = _histogram(
    "commit_duration", "For each message, from its read off NATS until it is committed.", LATENCY_S
)
SYNC_TIME = _histogram(
    "storage_sync_duration",
    "Sync of a group of writes; with its writing where a thread does both.",
    LATENCY_S,
)
GROUP_TIME = _histogram("storage_group_duration", "A group of storage jobs, from begin to sync.", LATENCY_S)
REQUEST_TIME = _histogram(
    "request_duration",
    "Clients' requests until they are answered; `tail` are reads that may wait for records.",
    LATENCY_S,
    "request",
)
STEP_TIME = _histogram("step_duration", "A step of the core, by the wall clock.", STEP_S)
STEP_CPU = _histogram(
    "step_cpu",
    "A step with all that is carried out for it, by the CPU time of its thread: others' load is not in it.",
    STEP_CPU_S,
)
LOOP_DELAY = _histogram(
    "loop_delay", "How much later than it should a task runs that sleeps 0.1 s, over and over.", STEP_S
)

# -- storage -------------------------------------------------------------------------------------------------

STORAGE_GROUPS = _counter("storage_groups", "Groups of storage jobs, with one sync each.")
STORAGE_JOBS = _counter("storage_jobs", "Storage jobs in these groups.")
STORAGE_SLICES = _counter("storage_background_slices", "Slices of compaction, retention, scrubbing, repair.")
GROUP_AGE = _gauge(
    "storage_group_age_seconds", "How long the group in work has been so; 0 if none: a disk that hangs."
)
DISK_FREE = _gauge("disk_free_bytes", "Free on the file system of the data folder, for this user.")
DISK_SIZE = _gauge("disk_size_bytes", "Size of the file system of the data folder.")

# -- queues and pressure -------------------------------------------------------------------------------------

QUEUE_BYTES = _gauge("queue_bytes", "What waits in a queue, or is held by connections.", "queue")
QUEUE_BYTES_MAX = _gauge("queue_max_bytes", "Its bound.", "queue")
QUEUE_ENTRIES = _gauge("queue_entries", "What waits in a queue, by number.", "queue")
QUEUE_ENTRIES_MAX = _gauge("queue_max_entries", "Its bound.", "queue")
OVERLOADS = _counter("overload_refusals", "What was refused or put off since a queue was full.", "queue")

# -- NATS and the network ------------------------------------------------------------------------------------

NATS_CONNECTED = _gauge("nats_connected", "1 while this node is connected to NATS.")
NATS_CONNECTS = _counter("nats_connects", "Connections to NATS that were made.")
NATS_RECEIVED = _counter("nats_messages_received", "Messages for streams that came from NATS.")
NATS_REFUSED = _counter(
    "nats_refused",
    "Messages refused (too large, headers that do not work here), and what NATS refused to this node.",
    "what",
)
NATS_ERRORS = _counter("nats_errors", "Errors that the NATS server sent.")
NATS_DROPPED = _counter("nats_answers_dropped", "Answers to publishers dropped since NATS does not read.")
PEERS = _gauge("peer_connections", "Connections of other nodes to this one.", like="gnatsd_varz_routes")
CLIENTS = _gauge(
    "client_connections", "Clients' TCP connections to this node.", like="gnatsd_varz_connections"
)
PEER_SENT = _counter("peer_messages_sent", "Messages to other nodes that were queued.")
PEER_RECEIVED = _counter("peer_messages_received", "Messages of other nodes.")
PEER_DROPPED = _counter(
    "peer_messages_dropped", "Messages to other nodes dropped: not connected, or the queue was full."
)
PEER_REFUSED = _counter("peer_messages_refused", "Messages that no working node sends (V2 to V4).")
CONNECTIONS_REFUSED = _counter("connections_refused", "Connections refused at the two TCP doors.")
RIGHTS_REFUSED = _counter("client_requests_not_allowed", "Requests refused for want of a right (V9).")
RIGHTS_MISTAKEN = _gauge("rights_mistaken", "1: the files of clients have a mistake, older rights stay.")
TLS_LEFT = _gauge("tls_certificate_left_seconds", "So long this node's certificate is still valid.")
TLS_MISTAKEN = _gauge("tls_mistaken", "1: the files of certificates have a mistake, the older one is shown.")
TLS_PLAIN = _gauge("plain_connections", "Connections without TLS, of a node that has a certificate.", "of")
CONNECTIONS_CUT = _counter("connections_cut", "Connections hung up on: idle, silent, or too greedy.")
HTTP_ANSWERS = _counter("http_answers", "Answers of this port, by status.", "code")
HTTP_CUT = _counter("http_connections_cut", "Connections to this port hung up on.")

# -- the last scrape -----------------------------------------------------------------------------------------

SCRAPE_TIME = _gauge("scrape_duration_seconds", "How long the scrape before this one was collected.")
SCRAPE_SLICE = _gauge("scrape_longest_slice_seconds", "Its longest stretch of work, by thread CPU time.")
SCRAPE_CPU = _gauge("scrape_cpu_seconds", "Its thread CPU time.")
SCRAPE_BYTES = _gauge("scrape_size_bytes", "Its size, not compressed.")

FAMILIES: tuple[Family, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Family))
"""All of them, in the order in which they are told."""

PROCESS = (
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_virtual_memory_bytes",
)
"""Told by prometheus-client of every process under Linux, by the names that all its users know."""

SECTIONS: tuple[tuple[str, Family], ...] = (
    ("The node and its place", NODE_INFO),
    ("Partitions of the cluster", STREAMS),
    ("Copies on this node", COPIES),
    ("How long things take", COMMIT_TIME),
    ("Storage", STORAGE_GROUPS),
    ("Queues and pressure", QUEUE_BYTES),
    ("NATS and the network", NATS_CONNECTED),
    ("The scrape itself", SCRAPE_TIME),
)
"""Headings of the page, each before its first metric."""


def series_of(family: Family) -> tuple[str, ...]:
    """Names by which a family is asked for in an expression."""
    if family.kind == HISTOGRAM:
        return tuple(f"{family.name}{suffix}" for suffix in ("_bucket", "_sum", "_count"))
    return (family.name,)


def tables() -> str:
    """The tables of docs/operating/metrics.md."""
    heads = dict((family.name, title) for title, family in SECTIONS)
    lines: list[str] = []
    for family in FAMILIES:
        if family.name in heads:
            lines += ["", f"### {heads[family.name]}", "", "| metric | kind, labels | it says | JetStream |"]
            lines += ["|---|---|---|---|"]
        kind = ", ".join((family.kind, *(f"`{label}`" for label in family.labels)))
        lines.append(f"| `{family.name}` | {kind} | {family.text} | {family.like} |")
    return "\n".join(lines[1:]) + "\n"
