"""Which rule of spec/README.md stands behind an invariant, and its sentence, word for word.

The sentences stand here as well, since an installed liftlog has no spec/README.md; a test compares them.
"""

from __future__ import annotations

_R2 = "The HW is the least durable LEO over the *maximal* ISR: the committed ISR and every addition that may already have been granted; a removal that was only proposed removes nobody."  # noqa: E501
_M1 = "acknowledgement after the sync, commit by counting of entries of the present term only"
_SNAPSHOT = "A node from time to time writes down what it has applied, and drops the commands behind it once that is synced; a start goes on from snapshot and log."  # noqa: E501
RAFT = "votes and terms synced before they are answered, up-to-date check, pre-vote, stickiness, which a hint (N2) shortens and never waives, check-quorum, log matching, acknowledgement after the sync, commit by counting of entries of the present term only"  # noqa: E501
"""Of M1: what a step that the Raft model does not explain may break."""
_N2 = "An answered heartbeat grants a *lease*, counted from when it was sent: a leader whose lease is over unsubscribes, drops what it holds and answers nobody."  # noqa: E501
_HINT = "That a host refuses connections to a node's port is a *hint* that its process is gone, never a proof: it ends a session once the lease and a margin have passed in silence, and no sooner, so that a false one moves an office from who is cut off, and never lets two serve at once."  # noqa: E501
_D4 = "A change of several files may be cut short after any call to the disk, by a kill, by a power loss, or by one after the other, and is complete or undone at the next start: segment roll, rebuild, state files, folders."  # noqa: E501
_C1 = "Compaction keeps the last record of each key below the clean point, all keyless records, all offsets and the end of each batch; it leaves the active segment and everything at or above the HW alone."  # noqa: E501
_C2 = "A tombstone outlives both its retention time and the slowest replica's compaction past it, so that no deleted key returns."  # noqa: E501
_R3 = "Readers get only what is below the HW, and their view never goes backward, whichever server answers."
_R17 = "Neither happens where the ISR would be left below the minimum, or where most are as slow."
_R6 = "If the record before does not match, the leader names the end of its greatest epoch that is not above the follower's; the follower cuts there and asks again, for as many rounds as it takes."  # noqa: E501
_L2 = "So the messages of a run lie in the log once, in order and without a gap, and behind the first one of a run there is none of an older one."  # noqa: E501
_D2 = "At a start only a torn tail is cut."

RULES: dict[str, tuple[str, str]] = {
    "OneLeaderPerEpoch": ("R1", "An epoch belongs to one run of one node."),
    "LogMatching": ("R6", _R6),
    "CommittedOnISR": ("R2", _R2),
    "NothingHeldBack": ("R2", _R2),
    "NoAckedRecordLost": ("R4", "an ack is sent once, when the record is committed (policy `all`)"),
    "ConsistentRead": ("R3", _R3),
    "NoSilentGap": (
        "D2",
        "All the while other ranges are read and replicated; reads of the range are an error that names file and byte, never a gap.",  # noqa: E501
    ),
    "LeaderAckDurable": (
        "R4",
        "Such a record stays while that epoch lasts, and is lost with a later epoch only whose leader began without it.",  # noqa: E501
    ),
    "StoredAsExpected": ("L6", "A message that expects an offset is stored there, or not at all."),
    "RefusedTruly": (
        "L6",
        "A refusal names where the message would have come to lie, and is told when everything below that is committed, or never: what is not committed may be cut, and nobody has read it then.",  # noqa: E501
    ),
    "SameVisible": ("R21", "All copies that heed the journal as far hide the same messages."),
    "DeletedStaysDeleted": (
        "R21",
        "Whoever has seen so much of the journal does not get a message that was deleted in it.",
    ),
    "RestatedForNews": ("R21", "A leader does not begin another one for what it has written itself."),
    "NothingElseGone": (
        "R21",
        "It is written by a leader that knows as committed all that both logs had when it was elected, and names only what is committed",  # noqa: E501
    ),
    "PurgeTakesAll": ("R21", "A *purge by subject* deletes what a filter matches below an offset that the client names, but for the newest so many."),  # noqa: E501
    "SameConsumerState": ("K2", "Copies that have folded as far have the same."),
    "AckStays": ("K3", "Behind that entry no delivery of the message is decided"),
    "DeliveriesBounded": (
        "K4",
        "So a message is delivered at most once more than `max_deliver` says, whatever fails.",
    ),
    "TimeToAck": (
        "K4",
        "The time to ack begins when a delivery leaves: before that its message is neither due again nor given up.",  # noqa: E501
    ),
    "NoneSkipped": (
        "K6",
        "Below a consumer's position each message that one of its filters matches, if it has any, and "
        "that it is to be given (K1), is pending, done, or gone.",
    ),
    "OfThisIncarnation": ("K1", "Pulls, acks, deliveries and entries name the number"),
    "LimitHolds": ("R22", "of each subject the newest so many messages of a partition stay"),
    "RollUpHolds": ("R23", "the older ones of its subject"),
    "TtlHolds": ("R24", "a message with `Nats-TTL` goes when it is so old"),
    "MarkerLeft": ("R24", "a marker stays in its place"),
    "MarkerDue": ("R24", "expects that to be the last of its subject"),
    "WorkQueueHolds": ("R26", "so both are committed together"),
    "InterestHolds": ("R27", "when every consumer that is to be given it is done with it"),
    "OneOwner": ("G2", "A partition is granted when its last owner has confirmed that it gave it up"),
    "CommitsFenced": ("G3", "A commit counts if member and generation are those of the partition's present"),
    "NothingLeftOut": ("G4", "What lies below a committed position is done by a member"),
    "PendingExact": (
        "K8",
        "With each answer a leader tells how many committed messages that match are neither deleted nor "
        "delivered behind it",
    ),
    "DeliveriesNumbered": ("K8", "Each delivery has a number of its consumer"),
    "DeadLettersStored": ("K9", "it is done when a stream has acknowledged its letter"),
    "PinnedAlone": ("K10", "at most one client is pinned, and it alone is given messages"),
    "NotBelowMinimum": ("K10", "No pull is given a message below its minimum"),
    "MirrorIsPrefix": ("R28", "A *mirror* has what another stream, its origin, has committed"),
    "ActivityInOrder": (
        "N12",
        "before each event that is committed there stands the one before it, or that some are missing.",
    ),
    "TrimmedIsTold": (
        "N12",
        "An event leaves the metadata when it is committed in the stream, or is told there to be missing, and that is committed.",  # noqa: E501
    ),
    "SourcesExact": ("R29", "A stream with *sources* has what several other streams have committed"),
    "StoredOnce": ("L7", "Where a stream has a window, a message with an id is stored once within it."),
    "TimesInOrder": (
        "L7",
        "The window is measured by the times in the log, which never go back: a leader stamps with its clock or the latest time that its log has had, whichever is later.",  # noqa: E501
    ),
    "AnsweredWithFirst": (
        "L7",
        "A leader knows the ids that are in its log, to its end, and younger than the window; what comes again is not stored, and is answered with the first one's offset, when that is committed, or, for who wants the leader's word alone, durable there.",  # noqa: E501
    ),
    "ProducedOnce": ("L2", _L2),
    "ProducedInOrder": ("L2", _L2),
    "RunsFenced": ("L2", _L2),
    "OutputsOnce": (
        "L10",
        "So who goes on from there stores what comes of each record of its input once, whatever older runs do, and whenever they hear that they are replaced.",  # noqa: E501
    ),
    "ParcelWhole": (
        "L8",
        "One parcel becomes one batch, between what came before and behind it, under one checksum, and logs end, are cut and are committed between batches only.",  # noqa: E501
    ),
    "FastAcksHold": (
        "L12",
        "Each ack names a number: all up to there are committed, but for gaps that were told.",
    ),
    "SubjectAnswersTrue": (
        "S1",
        "An answer about subjects (the last record of one, the next one that a filter matches, how many each has) is what the committed records at offsets [log start, HW) of one copy say, and names both ends.",  # noqa: E501
    ),
    "FilteredExactly": (
        "S2",
        "A reader that names subjects or keys is sent the committed records that match and no others",
    ),
    "HeadersHeeded": (
        "L4",
        "A message whose headers ask for what is not done here (deduplication where no ids are remembered, a comparison with the id of the last message, TTL, rollup, batches, schedules, counters, a `Liftlog-` header that does not exist) is refused, finally, with JetStream's error where one fits, and is not stored, with a reply subject or without.",  # noqa: E501
    ),
    "OneAnswer": (
        "N9",
        "One message is answered by one stream at most: of streams whose subjects overlap one has `ack_reply`.",  # noqa: E501
    ),
    "ReadyIsSubscribed": (
        "N1",
        "What NATS refuses, then or later, is no subscription: the group is told in the words of NATS, the creator and `stream info` with it, and the leader tries again.",  # noqa: E501
    ),
    "TimeLookup": ("R3", _R3),
    "NoFalseDamage": ("D4", _D4),
    "AtomicStateFiles": ("D4", _D4),
    "FailureHeard": (
        "R5",
        "When a sync fails, what the file holds beyond the last good sync is not believed again, even if it can be read: the replica stops, gives up leadership and ISR, and continues in a new file that holds only what was synced, once the metadata group has heard of this failure: by its number, which is in the partition's record.",  # noqa: E501
    ),
    "FencedInTime": ("N2", _N2),
    "SilentBeforeReplaced": ("N2", _HINT),
    "WholeSessions": (
        "R15",
        "A session is a whole one from its beginning: what the controller measured of the one before says nothing of it.",  # noqa: E501
    ),
    "NoFailoverWithoutCause": ("N2", _HINT),
    "PromptFailover": ("N2", _HINT),
    "ReadsBounded": (
        "L3",
        "Reads that wait for a disk are bounded for each log and for the node; a follower has one under way, however often it asks.",  # noqa: E501
    ),
    "LogStartMonotone": (
        "C3",
        "A purge returns when the new log start is durable on the maximal ISR and that is at its minimum; no election brings back what was purged.",  # noqa: E501
    ),
    "RetentionKeeps": (
        "C3",
        "What is not committed counts for nothing in what is kept, since it may be cut off.",
    ),
    "ReaderSawEveryLastValue": (
        "C4",
        'A reader that gets from the front to the HW within the tombstones\' retention time sees the last value of each key; a slower one is told "compacted past your start, restart": each answer says below which offset tombstones may be gone, and the reader repeats the first.',  # noqa: E501
    ),
    "Subsequence": ("C1", _C1),
    "FoldPreserved": ("C1", _C1),
    "CompactionHorizon": ("C1", _C1),
    "NoResurrection": ("C2", _C2),
    "TombstoneSafe": ("C2", _C2),
    "MetadataReads": ("M1", "read-index from leader and followers"),
    "CommandOnce": (
        "M3",
        "A metadata command may reach the log late and more than once; it takes effect at most once, on what its author meant, and all nodes judge that alike from the log alone.",  # noqa: E501
    ),
    "CommandAsMeant": ("M3", "A client's command is proposed while its client waits, and no longer;"),
    "OnlyAsAltered": ("R19", "a configuration changes by one command of the group"),
    "PausedTakesNothing": ("N1", "A leader of a *paused* stream ends its subscription"),
    "OnlyItsSubjects": ("N10", "A stream of one partition can listen on several subjects"),
    "OneOfGroup": ("N11", "NATS gives each message to one of them"),
    "HoldsNoMore": ("C6", "A partition of a stream with `messages_max` holds at most so many"),
    "ReadOnlyRefused": ("R19", "A leader takes no message of a read-only stream"),
    "ElectionSafety": ("M1", "votes and terms synced before they are answered"),
    "RaftLogMatching": ("M1", "log matching, acknowledgement after the sync"),
    "LeaderCompleteness": ("M1", _M1),
    "StateMachineSafety": ("M1", _M1),
    "SnapshotOfCommitted": ("M1", _SNAPSHOT),
    "SnapshotState": ("M1", _SNAPSHOT),
    "SlowKeepsMinimum": ("R17", _R17),
    "SickIsAlone": (
        "R17",
        "A leader whose own disk it is asks to be relieved, follows, and leaves in the same way.",
    ),
    "ProbationServed": (
        "R18",
        "Whoever was removed for being slow comes back when it has kept up for a probation, out of the ISR, by half of what is allowed inside; each removal doubles that, up to a limit.",  # noqa: E501
    ),
    "LevelForAll": (
        "U2",
        "The level rises, and never falls, by one command (`RaiseLevel`) that names, for every registered node, what its present run has said that it can; it means nothing if one of them can less, or runs anew.",  # noqa: E501
    ),
    "TimePasses": (
        "L5",
        "Each step takes something off what is left, whatever came before it",
    ),
    "Busy": (
        "M1",
        "Messages do not make more of themselves: a refusal that says nothing new is not answered",
    ),
    "HonestHeard": (
        "V3",
        "The sender is asked again, or counts as silent.",
    ),
    "NoInputEndsNode": (
        "V5",
        "Nothing but a broken invariant of a node's *own* state ends a partition or a process.",
    ),
    "DamageRepaired": ("D2", _D2),
    "ReplicasEqual": ("R6", _R6),
}
"""By invariant. Those that are not here (Convergence, NodeError, ...) stand for no single rule."""


def rule_of(invariant: str) -> tuple[str, str]:
    """(number, sentence without emphasis) of an invariant's rule; empty if there is no single one."""
    number, sentence = RULES.get(invariant, ("", ""))
    return number, sentence.replace("*", "")
