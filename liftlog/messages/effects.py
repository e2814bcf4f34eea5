"""Effects: what the core asks the driver to do. A driver carries them out in list order."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from liftlog.messages.clients import ClientReply, ReadReply
from liftlog.messages.filespan import FileSpan
from liftlog.messages.peers import PeerMessage
from liftlog.offsets import OffsetSet
from liftlog.types import (
    NO_OFFSET,
    NO_TICKET,
    NUMBER_MAX,
    Batch,
    ClientRef,
    CompactionPolicy,
    EpochStart,
    HardState,
    Identity,
    LogOptions,
    OffsetRange,
    PartitionId,
    RetentionPolicy,
    Snapshot,
    Ticket,
)


class Effect(msgspec.Struct, gc=False):
    """Base of effects. A driver carries them out in list order. None is ever part of a cycle."""


class Send(Effect):
    """Give `message` to the network once ticket `after` is durable (0 = at once); drop it if that fails."""

    to: int
    message: PeerMessage
    after: Ticket = NO_TICKET


class SetTimer(Effect):
    """Fire `TimerFired(kind)` once, after a time drawn from [min_ms, max_ms]; one timer a kind."""

    kind: str
    min_ms: int
    max_ms: int


TIMER_ACKS = "acks"
"""Acks that have come are taken up together: due at once, behind what has come meanwhile."""
TIMER_ELECTION = "election"
TIMER_REST = "rest"
"""What a step has left to do goes on: due at once, behind what has come meanwhile."""
TIMER_SELF = "self"
"""What a node has said to itself is to be taken in: due at once."""
TIMER_TICK = "tick"


class StorageJob(Effect):
    """Base of effects for the storage thread, which carries them out in the order of submission."""


class OpenLog(StorageJob):
    """Open, or create empty, a partition's log -> `LogOpened`. `fresh`: trash what is there first (I2).

    `first`: where a log begins that is created (C7).
    """

    log: PartitionId
    fresh: bool = False
    options: LogOptions = LogOptions()
    first: int = 0


class ConfigureLog(StorageJob):
    """Use these options for an open log from now on. No answer."""

    log: PartitionId
    options: LogOptions


class AppendLog(StorageJob):
    """Append at the LEO, then sync -> `Durable(ticket)` or `StorageFailed(ticket)`. Group-committed.

    `dropped_below`: the batches come from a replica that has thinned them, and that may have dropped
    tombstones below this offset (C4): to be remembered durably first. -1 = they are whole.
    """

    log: PartitionId
    batches: list[Batch]
    ticket: Ticket
    dropped_below: int = -1


class TruncateLog(StorageJob):
    """Remove everything at or above `offset`, durably, before any later job -> `Durable(ticket)`."""

    log: PartitionId
    offset: int
    ticket: Ticket


class RebuildLog(StorageJob):
    """After a failed sync (R5): keep only what lies below `keep_below`, copied into a new file and synced.

    -> `LogOpened` with tail DAMAGED if anything was cut, or `StorageFailed`.
    """

    log: PartitionId
    keep_below: int
    in_doubt: bool = True
    """False: a write was refused, nothing that was synced is in doubt (D5). The rest is cut off where it
    lies, which takes no space, and what is kept can be read all the while."""


class ResetLog(StorageJob):
    """Forget every record and begin again at `start`, durably, before any later job -> `Durable(ticket)`.

    For a follower whose LEO lies below its leader's log start (C3). `epochs`: the history before `start`.
    """

    log: PartitionId
    start: int
    epochs: tuple[EpochStart, ...]
    ticket: Ticket


class MoveLogStart(StorageJob):
    """C3: remove what lies below `offset`, durably -> `LogStartMoved`. Never goes back; an offset inside a
    segment hides the records before it. `offset` is at most the LEO.
    """

    log: PartitionId
    offset: int


class RetainLog(StorageJob):
    """C3: let whole sealed segments below `limit` go that the policy does not keep -> `LogStartMoved`.

    What lies at or above `needed_from` stays, whatever the policy says (L7): it has message ids. Below
    `gone_below` everything is gone (R25), and no policy is asked.
    """

    log: PartitionId
    policy: RetentionPolicy
    limit: int
    now_ms: int
    needed_from: int = NUMBER_MAX
    gone_below: int = 0


class CompactLog(StorageJob):
    """One slice of a key compaction (C1, C2), about `max_bytes` of reading and writing -> `Compacted`.

    Touches only sealed segments whose records all lie below `below`. Tombstones below `tombstones_below` that
    this replica compacted past at least `tombstone_retention_ms` before `now_ms` may be dropped.
    """

    log: PartitionId
    policy: CompactionPolicy
    below: int
    tombstones_below: int
    now_ms: int
    max_bytes: int


class ScrubLog(StorageJob):
    """Verify about `max_bytes` of what is synced from `offset` on -> `Scrubbed` (D2)."""

    log: PartitionId
    offset: int
    max_bytes: int


class RepairLog(StorageJob):
    """D2: put refetched `batches` into the damaged range they belong to -> `LogRepaired` once durable.

    They begin where the range begins, or where the last such job ended, and are cut to the range. When the
    whole range is covered, the segment is replaced and the damaged bytes are in quarantine/. `dropped_below`
    as in `AppendLog`.
    """

    log: PartitionId
    range: OffsetRange
    batches: list[Batch]
    dropped_below: int = -1


class CheckpointHw(StorageJob):
    """Remember the HW, atomically; never above the durable LEO (R8). No answer."""

    log: PartitionId
    hw: int


class SaveHardState(StorageJob):
    """Replace the Raft hard state atomically and durably -> `Durable(ticket)`."""

    state: HardState
    ticket: Ticket


class SaveIdentity(StorageJob):
    """Replace the identity file atomically and durably -> `Durable(ticket)`."""

    identity: Identity
    ticket: Ticket


class SaveSnapshot(StorageJob):
    """M1p: a snapshot of what this node has applied takes the place of the one before -> `Durable`, or
    `SnapshotRefused`: then the one before stays.
    """

    snapshot: Snapshot
    ticket: Ticket


class InstallSnapshot(StorageJob):
    """M1q: the leader's snapshot takes the place of the one before, and with `reset` of every entry of the
    group's log too, in this order -> `Durable`.
    """

    snapshot: Snapshot
    reset: bool
    ticket: Ticket


class RetryMetadata(StorageJob):
    """D5: try again to write the metadata that was refused -> `MetadataStalled("")` once all is written."""


class TrashLog(StorageJob):
    """I1: move the log's folder to the trash, where it is kept for a time; it need not be there.

    With a ticket -> `Durable(ticket)`, or `StorageFailed(ticket)`; without one there is no answer.
    """

    log: PartitionId
    ticket: Ticket = NO_TICKET


class Picked(NamedTuple):
    """S2: which records, as `FilteredReadRequest` says it; all of them below `below`."""

    subjects: tuple[str, ...]
    keys: tuple[bytes, ...]
    below: int


class ReadLog(StorageJob):
    """Read whole batches from the one that holds `offset`, below `limit` -> `LogRead`. At least one batch.

    `spans`: the answer may name where the batches lie in files instead of holding them, verified by nobody;
    the first of them may then lie wholly below `offset`. `picked`: what is wanted of them, and nothing else,
    of so much of the log as one job may look at; perhaps nothing.
    """

    log: PartitionId
    request: int
    offset: int
    limit: int
    max_bytes: int
    spans: bool = False
    picked: Picked | None = None


class LookupTime(StorageJob):
    """First offset whose timestamp is at or after `timestamp_ms`, else the LEO -> `TimeFound`."""

    log: PartitionId
    request: int
    timestamp_ms: int


class FoldSubjects(StorageJob):
    """S1: enter about `max_bytes` of what lies below `below`, all committed, into the log's subject index ->
    `SubjectsFolded`. `memory_max`: bytes that all indexes of the node may take. `begin`: if there is none it
    is begun; one that nobody waits for, and that had to make room for another, is not.
    """

    log: PartitionId
    below: int
    max_bytes: int
    memory_max: int
    begin: bool = True


class AskSubjects(StorageJob):
    """S1: a question about subjects, with the fields of a `SubjectRequest`, to be answered if the log's index
    has everything below `least` -> `SubjectsTold`, or `SubjectsFolded` with the request's number if not.
    `gone`: offsets that are to be in no answer (R21).

    A leader asks five questions more, about offsets below `until`. `MATCHING_RUNS`: which ones from `offset`
    on match, one of the `patterns` if there are any, about `limit` runs of them; `place`: from where on it is
    not known yet. `NEWEST_MATCHES`: where the `limit` newest that match begin; if there are fewer at `place`
    and above, how many. `BEYOND_NEWEST`: which ones from `offset` on are not among the newest `keep` of their
    subject, about `limit` runs of them; all such ones below `offset` are gone. `NEWEST_BYTES`: at `place`
    where the newest ones begin that have no more than `limit` bytes; 0: all together have no more. `size`:
    the bytes of all below `until`. And two about all that the index has. `LAST_OF_EACH`: the last one of each
    subject that one of the `patterns` matches, at `offset` and above; `messages`: how many, about `limit` + 1
    if there are more. `MATCHES_FROM`: how many from `offset` on match one of the `patterns`, of which no two
    match the same.
    """

    log: PartitionId
    request: int
    least: int
    what: str
    pattern: str
    offset: int
    limit: int
    until: int = 0
    gone: OffsetSet | None = None
    keep: int = 0
    patterns: tuple[str, ...] = ()


MATCHES_FROM = "matches"
MATCHING_RUNS = "runs"
NEWEST_MATCHES = "newest"
NEWEST_BYTES = "bytes"
BEYOND_NEWEST = "beyond"
LAST_OF_EACH = "lasts"


class AskLasts(StorageJob):
    """L9: the last record of each of these subjects, if the log's index has everything below `least` ->
    `LastsTold`, or `SubjectsFolded` with the request's number if not. `gone`: offsets of records that are not
    there any more (R21). `counted`: how many there are of each is to be told too (C6).
    """

    log: PartitionId
    request: int
    least: int
    subjects: list[bytes]
    gone: OffsetSet | None = None
    counted: bool = False


STORAGE_JOBS: tuple[type[StorageJob], ...] = (
    OpenLog,
    AppendLog,
    TruncateLog,
    RebuildLog,
    CheckpointHw,
    SaveHardState,
    SaveIdentity,
    SaveSnapshot,
    InstallSnapshot,
    RetryMetadata,
    TrashLog,
    ReadLog,
    LookupTime,
    ConfigureLog,
    ResetLog,
    MoveLogStart,
    RetainLog,
    CompactLog,
    ScrubLog,
    RepairLog,
    FoldSubjects,
    AskSubjects,
    AskLasts,
)
"""What a driver hands to its `StorageRunner`."""


class Subscribe(Effect):
    """Subscribe at NATS -> `Subscribed(partition, epoch, number)` once the server confirmed it, or
    `SubscriptionRefused` (N1). A partition has one for each of its subjects: they differ in their numbers
    (N10). The first of an epoch ends those of earlier ones.
    """

    partition: PartitionId
    epoch: int
    subject: str
    max_payload_bytes: int
    ack_reply: bool
    stream: str = ""
    number: int = 0
    queue: str = ""
    """N11: the queue group; empty: none."""


class Unsubscribe(Effect):
    """Unsubscribe from all subjects and drop what is buffered for this partition, unanswered (N2, N3)."""

    partition: PartitionId


class Drain(Effect):
    """End one subscription, but go on delivering what NATS has sent already -> `Drained(partition, epoch,
    number)` after it (N3). Nothing follows if the connection is lost meanwhile: `BusDown` tells."""

    partition: PartitionId
    number: int = 0


class EnvelopeAnswer(NamedTuple):
    """What an answer in Liftbridge's envelope repeats of its message, which came in one (R4).

    `policy`: as the envelope has it. `subject`: on which the message came; `attached_to`: the partition's.
    """

    correlation_id: str
    policy: int
    subject: bytes
    attached_to: str
    received_ms: int


class AckPublishes(Effect):
    """Answer publishers: message i of the list has offset `offsets_from + i`; an empty reply gets nothing.

    `full`: which of them asked for more than JetStream's keys (R4); None = nobody did. `enveloped`: which of
    them came in an envelope, and are answered in one; None = none. `by_leader`: they asked for the leader's
    word alone, and what they hear says so: their records are durable there, and may not be committed.
    `records`: the one message is a parcel of so many, which lie from `offsets_from` on (L8); 0 = none is one.
    """

    partition: PartitionId
    stream: str
    epoch: int
    incarnation: int
    offsets_from: int
    replies: list[bytes]
    full: list[bool] | None = None
    enveloped: list[EnvelopeAnswer | None] | None = None
    by_leader: bool = False
    duplicate: bool = False
    """L7, L2: the messages were not stored: this is where the first ones with their ids, or numbers, lie."""
    records: int = 0
    cursor: int = NO_OFFSET
    """L10: the one message opened a run, which begins with this offset of its input."""
    batch: bytes = b""
    """L11: the `records` came one by one, in the batch of this id; empty: as a parcel."""

    @property
    def end(self) -> int:
        """The offset behind the last one that is answered for."""
        return self.offsets_from + (self.records or len(self.replies))


class TellStaged(Effect):
    """Tell publishers that their messages wait for the end of their batches (L11): an empty answer each."""

    partition: PartitionId
    replies: list[bytes]


class TellFast(Effect):
    """Tell the publisher of a fast batch how it is with that (L12).

    `word`: ack, all up to `number` are committed, and the next ack is for `other` more; gap, message `number`
    came when `other` was due; err, `number` is not stored: `code` and `text`; end, nothing more is taken: all
    up to `number` are committed, the last one with offset `other`.
    """

    partition: PartitionId
    stream: str
    batch: bytes
    reply: bytes
    word: str
    number: int
    other: int = 0
    code: str = ""
    text: str = ""

    @property
    def replies(self) -> list[bytes]:
        """Where it goes."""
        return [self.reply]


class RefusePublishes(Effect):
    """Tell publishers that this epoch did not store their message (N4, N6, L4).

    An empty reply stands for a message that is gone without anybody being told. `full` and `enveloped` as in
    `AckPublishes`.
    """

    partition: PartitionId
    stream: str
    epoch: int
    code: str
    description: str
    replies: list[bytes]
    full: list[bool] | None = None
    enveloped: list[EnvelopeAnswer | None] | None = None
    next_offset: int = -1
    """L6: where the message would have come to lie, for who expected another place; -1: not said."""
    last_offset: int | None = None
    """L9: where the last record of its subject lies, for who expected another one; NO_OFFSET: there is none;
    None: not said."""
    next_sequence: int = -1
    """L2: which number of its run is due, for a producer that has sent another one; -1: not said."""
    newest_run: int = -1
    """L2: the newest run of the producer, for one that is of an older run; -1: not said."""


class PublishLetter(Effect):
    """K9: publish a dead letter -> `LetterAnswered` with the same partition, epoch and token, if anybody
    answers it.
    """

    partition: PartitionId
    epoch: int
    token: int
    subject: str
    headers: bytes
    value: bytes


class AskOrigin(Effect):
    """R28, R29: ask another cluster for what a stream there has from `offset` on -> `OriginAnswered`, late,
    never, or more than once. One question of a partition about a stream is under way: another one meanwhile
    is dropped.
    """

    partition: PartitionId
    """The copy's; the same of its origin is meant."""
    origin: str
    """What the copy calls it: `stream`, "@" and `cluster`."""
    cluster: str
    """As the node's configuration calls it."""
    stream: str
    offset: int
    max_bytes: int


TOLD_MAX_DELIVERIES = "max-deliveries"
"""A message was delivered as often as it may be: `offset`, `count`."""
TOLD_PINNED = "pinned"
"""A client is pinned (K10): `group`, `pin`."""
TOLD_UNPINNED = "unpinned"
"""It is so no more: `group`, `reason`."""

TOLD_BATCH = "batch-abandoned"
"""A batch of messages that come one by one is given up (L11): `batch`, `reason`."""


class TellAdvisory(Effect):
    """Tell whoever listens what this leader knows, and no door of JetStream's that is asked. Nobody keeps it,
    and it may be lost. `kind`: one of the words above; the rest as that says.
    """

    kind: str
    stream: str
    consumer: str = ""
    offset: int = NO_OFFSET
    count: int = 0
    group: str = ""
    pin: str = ""
    reason: str = ""
    batch: str = ""


class SpannedRead(msgspec.Struct, frozen=True):
    """A `ReadReply` whose batches still lie in files. On the wire their bytes stand in `reply.batches`.

    Whoever takes it off the driver's hands closes the spans' files.
    """

    reply: ReadReply
    spans: list[FileSpan]


class ReplyClient(Effect):
    client: ClientRef
    reply: ClientReply | SpannedRead


class KnowPeers(Effect):
    """I3: these are the other nodes of the cluster, and where they are called: call them, let them in, and
    nobody else.
    """

    peers: dict[int, str]


class StopNode(Effect):
    """The node cannot go on (its Raft state cannot be stored, say): end the process with this text."""

    reason: str
