"""The names of all invariants, and what each says.

    OneLeaderPerEpoch    an epoch is led by one incarnation of one node, and has one content (R1)
    LogMatching          logs agree below every HW that anybody claims (R2, R6, R8)
    CommittedOnISR       every member of the committed ISR, and whoever is eligible, has the committed prefix
                         durable (R2, R5, R7, R9, R10, R13)
    NoAckedRecordLost    whoever begins to lead has every record that was acknowledged or committed (R4, R16)
    ConsistentRead       what a reader saw at an offset stays so, and what it saw never goes backward (R3)
    NoSilentGap          a reader misses no offset but those that compaction may take (D2, C1)
    SameVisible          a copy hides exactly what the committed journal names, as far as it heeds it (R21)
    DeletedStaysDeleted  a reader gets nothing that was deleted by what it has seen of the journal (R3, R21)
    NothingElseGone      entries name committed records only that a client wanted to go (R21)
    PurgeTakesAll        when a purge by subject is answered, no more is left than it had to leave (R21)
    RestatedForNews      between two restatements by one leader the journal says something new (R21)
    SameConsumerState    where a copy thinks that consumers stand is what the committed journal says, as far
                         as it heeds it (K2)
    AckStays             an ack that was answered is committed; behind it nothing is delivered (K3)
    DeliveriesBounded    a message is delivered at most once more than its consumer's limit says, and once at
                         most without a record, by the leader of the epoch that wrote it (K4)
    TimeToAck            a message is neither delivered again nor given up while the delivery of it that is
                         being recorded has not left (K4)
    NoneSkipped          a consumer's position passes no message that is there and is not delivered, and none
                         is done that nobody has said to be (K6)
    OfThisIncarnation    answers about a consumer are about the number that was asked for, which was created,
                         and not said to be deleted before (K1)
    PendingExact         with nothing on its way, a leader tells of a consumer what the journal says (K2, K7)
    DeliveriesNumbered   a delivery has the number that its record gives it (K8)
    DeadLettersStored    a message that was delivered for the last time is pending until its letter is
                         committed, which is there once, and only of what is dead, see `truth/letters.py` (K9)
    PinnedAlone          a pin is one client's, and one leader's, and is lost with its time, see
                         `truth/pins.py` (K10)
    NotBelowMinimum      no pull is given a message below its minimum (K10)
    MirrorIsPrefix       what a mirror has committed, its origin has committed at the same offset; where it
                         has no record, the origin's is gone, see `truth/mirrors.py` (R28)
    ActivityInOrder      before each event in an activity stream stands the one before it, or that some are
                         missing; what comes again begins where an epoch does, see `truth/activity.py` (N12)
    TrimmedIsTold        what has left the outbox is committed in the activity stream (N12)
    SourcesExact         what a stream with sources has committed they have, each record once, in their
                         order, and none that passes is left out, see `truth/sources.py` (R29)
    OneOwner             of a group's members one at most works on a partition, and a grant is one's own (G2)
    CommitsFenced        a group's position is moved by its partition's owner, and forward (G3, G4)
    NothingLeftOut       what lies below a group's position was done by somebody (G4)
    StoredAsExpected     a message that expects an offset is acknowledged, and lies, nowhere else (L6); nor is
                         there another record between one and the last of its subject that it expects (L9)
    RefusedTruly         who is refused for another offset is told of what is committed, and at some moment
                         while he waited the log did not end where he expected (L6), or that one was the last
                         of its subject (L9); who is refused since a subject is full, for committed messages
                         that are left (C6)
    StoredOnce           no message id is committed twice within a window, by the times in the log (L7)
    TimesInOrder         where ids are remembered, the times of what is committed never go back (L7)
    AnsweredWithFirst    who sends a message again is told of a committed record with its id (L7)
    ProducedOnce         no message of a producer's run is committed twice, while it is remembered (L2)
    ProducedInOrder      none is committed before the one that precedes it in its run (L2)
    RunsFenced           behind the first message of a run there is none of an older one (L2)
    OutputsOnce          what is committed of a processor is what comes of each position of its input up to
                         its cursor, once, while it is remembered (L10)
    ParcelWhole          what was sent in one parcel is committed at once, as it was sent, or not at all (L8)
    SubjectAnswersTrue   what a client is told of subjects is what the committed log says of the offsets that
                         the answer names, and nothing older than it asked for, see `truth/subjects.py` (S1)
    FilteredExactly      who reads with a filter is sent what is committed and matches, up to where it is told
                         that was looked, and nothing else, see `truth/filtered.py` (S2)
    HeadersHeeded        a message that asks for what is not done here is neither acknowledged nor stored; an
                         ack has the keys that its message asked for (R4, L4)
    LeaderAckDurable     a leader that gives its word for a record has it durably, and it is lost with a later
                         epoch only that began without it (R4)
    OneAnswer            one message is answered by one stream at most (N9)
    NothingHeldBack      a leader has committed whatever its maximal ISR has durably (R2)
    ReadyIsSubscribed    a leader that the group takes for ready has had its subscription in NATS (N1)
    TimeLookup           a lookup by time finds the first record at or after it that is left
    NoFalseDamage        damage is found where something was damaged only: nobody inflicts it on himself (D4)
    FailureHeard         a copy whose log has failed is used again when the group has heard of that (R5)
    FencedInTime         no leader takes or answers later, by its own clock, than its lease after it sent the
                         last heartbeat that was answered (N2)
    SilentBeforeReplaced no session ends before the lease of the node that lives in it is over (N2)
    WholeSessions        no session ends before the session timeout, or, with a hint, the lease and its
                         margin, have passed since it began or was renewed (R15, N2)
    NoFailoverWithoutCause  short pauses, connections that break, and false hints move no office
    PromptFailover       soon after a kill others lead, without the dead one; both in quiet worlds only
    ReadsBounded         no more reads wait for a disk than its node's limits allow (L3)
    AtomicStateFiles     a start finds each state file whole: the old content or the new (D4)
    LogStartMonotone     a log start goes back by a reset only, and what was purged is never read again (C3)
    ReaderSawEveryLastValue  a reader that got from the front to the HW saw the last value of each key (C4)
    Subsequence, FoldPreserved, NoResurrection, CompactionHorizon, TombstoneSafe
                         what a copy may lack, see `truth/contents.py` (C1, C2)
    RetentionKeeps       what retention lets go is no more than its policy allows (C3)
    MetadataReads        what a client is told of streams was so at one moment since it asked (M1)
    CommandOnce          a metadata command takes effect at most once (M3)
    CommandAsMeant       what a client's command changes was there while its author waited (I1, M3), a spare
                         gets the vote of who is gone (M2); both are judged in `truth/authors.py`
    OnlyAsAltered        a stream's configuration is changed by an alteration only, in what that names (R19)
    LevelForAll          the feature level rises when every node can follow, see `watching/levels.py` (U2)
    TimePasses           nothing goes on for ever at one moment (L5); the kernel tells
    Busy                 no node goes round in circles: the steps of one second are bounded, see
                         `watching/busy.py` (L5, M1l)
    PausedTakesNothing   no leader of a stream that it has seen paused takes more than was on its way (N1)
    OnlyItsSubjects      no leader stores messages on subjects that are not its stream's, or no more (N10)
    OneOfGroup           of the streams of a queue group, no two store one message (N11)
    LimitHolds           once all is healed, no subject and no partition has more messages than its stream
                         keeps, nor older ones (R22, R25)
    RollUpHolds          nothing is left before a roll-up of it, where an entry says so, and at the end (R23)
    TtlHolds             nothing is left over its time, where an entry says so, and at the end (R24)
    MarkerLeft           the last message of a subject does not go for its time without a marker (R24)
    MarkerDue            a marker takes nothing that is to stay, nor a marker's place (R24)
    WorkQueueHolds       what a work queue's consumers are done with is gone, see `truth/queues.py` (R26)
    InterestHolds        nothing is left that no consumer is to be given, at the end (R27)
    HoldsNoMore          no leader stores more messages than its partition may hold, nor more bytes (C6)
    ReadOnlyRefused      no leader stores messages of a stream that it has seen made read-only (R19)
    ElectionSafety       a Raft term has one leader (M1)
    RaftLogMatching      Raft entries of equal index and term are equal, with everything before them (M1)
    LeaderCompleteness   a new Raft leader has every committed entry (M1)
    StateMachineSafety   no two nodes commit different entries at one index (M1)
    SnapshotOfCommitted  a snapshot ends with a committed entry, and no log begins behind its end (M1p)
    SnapshotState        who goes on from a snapshot has what the commands up to its end have made (M1p)
    CommittedSurvives    a recovery goes on with all committed commands, if a disk that is left has them (M5)
    RecoveryCompleted    a recovery that was cut short is completed when the same is said again (M5)
    OldMemberKept        a disk that a recovery left out, or of another cluster, takes part in nothing, and
                         keeps what it holds (M5)
    Refinement           every step of a replica is a step of the model (liftlog_spec/refine), if so run
    SlowKeepsMinimum, ProbationServed
                         who is slow does not come and go, see `watching/paces.py` (R17, R18)
    SickIsAlone          one sick node is not everybody's latency, see `runs/sickness.py` (R17, R18)
    HonestHeard          what a working peer sends is not refused (V1 to V4)
    NoInputEndsNode      what a stranger or a broken peer sends ends no node, now or at its next start (V5)
    NodeInvariant        no node finds a condition of its own violated
    NodeError            no node raises anything else

and, once everything has been healed: Convergence (every partition led, writable, with all its replicas in
sync), DamageRepaired (nothing that was damaged is left) and ReplicasEqual (the same bytes on each, or, where
replicas compact on their own, the same values).
"""

from __future__ import annotations

STEP_INVARIANTS = (
    "OneLeaderPerEpoch",
    "LogMatching",
    "CommittedOnISR",
    "NoAckedRecordLost",
    "ConsistentRead",
    "NoSilentGap",
    "SameVisible",
    "DeletedStaysDeleted",
    "NothingElseGone",
    "PurgeTakesAll",
    "RestatedForNews",
    "LimitHolds",
    "RollUpHolds",
    "TtlHolds",
    "MarkerLeft",
    "MarkerDue",
    "WorkQueueHolds",
    "InterestHolds",
    "SameConsumerState",
    "AckStays",
    "DeliveriesBounded",
    "TimeToAck",
    "NoneSkipped",
    "OfThisIncarnation",
    "PendingExact",
    "DeliveriesNumbered",
    "DeadLettersStored",
    "PinnedAlone",
    "NotBelowMinimum",
    "MirrorIsPrefix",
    "ActivityInOrder",
    "TrimmedIsTold",
    "SourcesExact",
    "StoredAsExpected",
    "RefusedTruly",
    "StoredOnce",
    "TimesInOrder",
    "AnsweredWithFirst",
    "ProducedOnce",
    "ProducedInOrder",
    "RunsFenced",
    "OutputsOnce",
    "ParcelWhole",
    "FastAcksHold",
    "SubjectAnswersTrue",
    "FilteredExactly",
    "HeadersHeeded",
    "LeaderAckDurable",
    "OneAnswer",
    "NothingHeldBack",
    "ReadyIsSubscribed",
    "TimeLookup",
    "LogStartMonotone",
    "NoFalseDamage",
    "AtomicStateFiles",
    "FailureHeard",
    "FencedInTime",
    "SilentBeforeReplaced",
    "WholeSessions",
    "NoFailoverWithoutCause",
    "PromptFailover",
    "ReadsBounded",
    "CommandOnce",
    "CommandAsMeant",
    "OnlyAsAltered",
    "LevelForAll",
    "TimePasses",
    "Busy",
    "PausedTakesNothing",
    "OnlyItsSubjects",
    "OneOfGroup",
    "HoldsNoMore",
    "ReadOnlyRefused",
    "ElectionSafety",
    "RaftLogMatching",
    "LeaderCompleteness",
    "StateMachineSafety",
    "MetadataReads",
    "RetentionKeeps",
    "Refinement",
    "SlowKeepsMinimum",
    "ProbationServed",
    "HonestHeard",
    "NoInputEndsNode",
)
RARE_INVARIANTS = (
    *("SameVisible", "DeletedStaysDeleted", "NothingElseGone", "PurgeTakesAll", "LimitHolds"),
    "RestatedForNews",
    *("RollUpHolds", "TtlHolds", "WorkQueueHolds", "InterestHolds", "SameConsumerState", "AckStays"),
    *("DeliveriesBounded", "NoneSkipped", "OfThisIncarnation", "PendingExact", "DeliveriesNumbered"),
    *("MarkerLeft", "MarkerDue", "TimeToAck"),
    *("DeadLettersStored", "PinnedAlone", "NotBelowMinimum"),
    *("MirrorIsPrefix", "SourcesExact", "ActivityInOrder", "TrimmedIsTold"),
    *("OutputsOnce", "NoFailoverWithoutCause", "PromptFailover", "HoldsNoMore", "RetentionKeeps"),
    *("OnlyItsSubjects", "OneOfGroup"),
)
"""Those of `STEP_INVARIANTS` that one seed in ten checks, or fewer: some dozens of seeds may miss them."""
COMPACTION_INVARIANTS = (
    "ReaderSawEveryLastValue",
    "Subsequence",
    "FoldPreserved",
    "NoResurrection",
    "CompactionHorizon",
    "TombstoneSafe",
)
"""Checked where streams are compacted only."""
FINAL_INVARIANTS = ("Convergence", "DamageRepaired", "ReplicasEqual")
SNAPSHOT_INVARIANTS = ("SnapshotOfCommitted", "SnapshotState")
"""Checked where the metadata group takes snapshots."""
GROUP_INVARIANTS = ("OneOwner", "CommitsFenced", "NothingLeftOut")
"""Checked where consumer groups share partitions."""
RECOVERY_INVARIANTS = ("CommittedSurvives", "RecoveryCompleted", "OldMemberKept")
"""Checked where clusters are recovered from a total loss."""
SICK_INVARIANTS = ("SickIsAlone",)
"""Checked where nothing happens but that one node is sick."""
OWN_CHECKS = ("NodeInvariant", "NodeError")
