"""The guards of the rules: every place where a rule says no, by name, and what would happen without it.

A node counts how often a guard was *decisive*: everything else said yes, this one alone said no, so that a
node without it would have done something else. Where one condition is asked for, the refusal itself is
counted; where several are, `decides` counts the one that stands alone. A simulator whose sweeps never see a
guard decide would not miss it: `liftlog sim sweep --coverage` prints the table.

A guard's name is its rule's and a short one of its own. Counting is all that happens here; nothing depends
on it, unless a bug is planted.
"""

from __future__ import annotations

from liftlog.types import NO_MUTANTS, Mutants

GUARDS: dict[str, str] = {
    "I1.deleted-before": "a late deletion takes another stream of that name",
    "I1.unknown-kept": "a folder is trashed by a process that has not yet applied its registration",
    "I2.stale-registration": "a delayed registration of an earlier run replaces a later one",
    "I2.two-disks": "two disks that both run count as one node, in turn",
    "I2.other-disk": "a replaced disk counts for what the one before it had",
    "I2.rolled-back": "a disk that was set back counts for what it has forgotten",
    "I2.stale-confirmation": "an earlier run, or an earlier session, is confirmed",
    "I2.superseded": "two processes go on as one node",
    "I2.other-incarnation": "a fetch of an earlier run counts",
    "I2.vote-withheld": "a disk that has forgotten its votes votes",
    "I2.uncounted-ack": "a disk that has forgotten its votes helps to commit",
    "I2.stale-heartbeat": "a heartbeat of an earlier run renews a session",
    "R1.other-incarnation": "a restarted node goes on in the epoch of its earlier run",
    "R1.barred": "a leader whose log failed leads the same epoch again",
    "R1.new-incarnation": "the epoch of an earlier run goes on after a registration",
    "R2.pending-addition": "the HW passes a replica that may be in the ISR already",
    "R2.pending-removal": "the HW passes a replica whose removal was only proposed",
    "R2.below-minimum": "a commit with too few in sync",
    "R2.unheard": "a member of the ISR of which nothing was heard in this epoch counts for nothing",
    "R2.own-sync": "the leader counts itself before its own sync",
    "R3.earlier-round": "a read is answered by a round that began before it",
    "R3.behind": "a reader is answered by a replica that knows less than the reader has seen",
    "R3.above-hw": "a reader gets what is not committed",
    "R3.inherited": "the latest offset is told before what was inherited is committed",
    "R3.not-leader": "the latest offset is told by a node that leads no more",
    "R5.stale-failure": "a failure that was told before takes a mended copy out again",
    "R5.still-rebuilding": "a second rebuild of a log is begun while one is under way",
    "R5.failed-log": "a log that has failed takes part before it is rebuilt",
    "R6.fetch-epoch": "a fetch of another epoch is served",
    "R6.mismatch": "records are sent to a log that they do not continue",
    "R6.progress-mismatch": "progress of a log counts that is no prefix of the leader's",
    "R6.late-answer": "an answer to an earlier request is used",
    "R6.other-leader": "an answer of another leader, or of another epoch, is used",
    "R6.answer-to-earlier-run": "an answer to an earlier run of the node is used",
    "R6.duplicate-answer": "an answer is used twice",
    "R6.committed": "a follower gives up what it knows to be committed",
    "R7.unverified": "a follower reports what it has in an epoch in which the leader has not yet compared it",
    "R7.reported-durable": "a fetch reports as durable what was only fetched",
    "R8.beyond-own-log": "a follower's HW passes its own log",
    "R8.checkpoint": "a HW is remembered that passes what is durable",
    "R9.version": "a change of the ISR takes effect on another record than it was meant for",
    "R9.leader": "a change of the ISR by a replaced leader takes effect",
    "R9.joiner": "a replica joins in another run, or after its session was lost",
    "R10.hw": "a replica joins that lacks committed records",
    "R10.epoch-start": "a replica joins that lacks what the epoch began with",
    "R10.log-start": "a replica joins that would bring purged records back",
    "R10.live": "a replica without a session joins",
    "R10.one-pending": "a replica joins while another change is under way",
    "R11.caught-up": "a follower is removed although it follows under load",
    "R12.not-live": "a stream begins with an ISR of nodes that are away",
    "R12.none-live": "a stream that nobody could hold at its creation has an empty ISR for ever",
    "R13.eligible": "who left the ISR below the minimum is not eligible",
    "R13.eligibility-ends": "who left the ISR stays eligible although commits go on without it",
    "R13.elected": "nobody leads although an eligible replica lives",
    "R14.suspect": "a copy with a doubtful end stays in the ISR",
    "R14.unsynced": "a copy that never synced stays in the ISR after an unclean stop",
    "R14.failed-log": "a copy whose log has failed stays in the ISR",
    "R14.last-known": "nobody leads although every last copy has reported",
    "R14.wait-for-all": "a copy is elected while another that may reach further has not reported",
    "R14.greatest": "a copy is elected although a greater one is known",
    "R15.epoch": "a report about an earlier leader counts against the present one",
    "R15.reporter": "a report of a replica out of sync, or of its earlier run, counts",
    "R15.majority": "one follower's suspicion replaces a leader",
    "R15.stale-expiry": "a session is ended although the node came back",
    "R15.reports-expire": "reports that are long apart replace a leader together",
    "R16.not-live": "a node without a session is elected",
    "R16.nobody": "a leader goes on although no replica may follow it",
    "R16.stale-election": "an operator's election takes effect on another record than he saw",
    "R16.may-lack": "an operator elects a copy that may lack committed records, without saying so",
    "R17.minimum": "a slow replica is removed without which nothing can be committed",
    "R18.probation": "a replica that held up the others is back before it keeps up",
    "N1.refused": "a subscription that NATS has refused counts as confirmed",
    "N2.fenced-publish": "a leader takes messages after its session may have ended",
    "N2.fenced-ack": "a leader answers after its session may have ended",
    "N2.fenced-subscribe": "a leader subscribes after its session may have ended",
    "N2.unanswered": "a node that was expired is answered before it knows what became of its partitions",
    "N2.unsure": "a controller that may be replaced renews sessions",
    "N2.expiring": "a controller renews a session whose end it has asked for",
    "N3.unanswered": "publishes that may yet be committed are answered when their leader steps down",
    "N4.too-few": "messages are taken that cannot be committed at present",
    "N5.still-fenced": "a leader asks to be relieved of an office that it may not have any more",
    "N5.stale-resignation": "a leader is relieved of an office that it has been given anew",
    "N5.nobody-else": "a leader without NATS is relieved although nobody could follow it",
    "N6.overload": "messages are taken beyond the limit",
    "N7.collision": "two streams share subjects that they must not share",
    "M1.sticky": "an election disturbs a leader that others hear",
    "M1.voted": "a second vote is given in one term",
    "M1.up-to-date": "a vote is given to a log that lacks entries",
    "M1.pre-vote-term": "a pre-vote is given for a term that cannot win",
    "M1.vote-term": "a vote is given for a term that is over",
    "M1.late-vote": "a vote for an earlier candidacy is counted",
    "M1.stale-leader": "entries of a leader of the past are taken",
    "M1.mismatch": "entries are taken that do not continue the log",
    "M1.truncate": "entries that contradict the leader's stay",
    "M1.commit-beyond-match": "a follower commits what the request does not show to be equal",
    "M1.ack-synced": "a heartbeat's answer claims what is not synced",
    "M1.held-back": "an acknowledgement leaves before the sync",
    "M1.own-sync": "the leader counts itself before its own sync",
    "M1.old-term": "an entry of an older term is committed by counting",
    "M1.late-reply": "an answer to an earlier term counts",
    "M1.checkquorum": "a leader that nobody hears goes on",
    "M1.read-wait": "a read is served before an entry of the term is committed",
    "M1.late-transfer": "a voter takes over for a leader of the past",
    "M2.own-entry": "a change of an earlier leader, which this one does not know, is passed over (2015)",
    "M2.one-at-a-time": "two changes under way part the group",
    "M2.vote": "the vote of a learner, or of a disk that is gone, elects a leader",
    "M2.other-disk": "what a disk had that is gone counts for the one in its place",
    "M2.reachable": "a change leaves a group of which too few can be reached to go on",
    "M2.back": "a voter that is back loses its vote to a spare",
    "M2.stale-wish": "an operator's word about a vote overrules a later one that he has not seen",
    "M2.removed-leader": "a leader that is no member any more goes on",
    "R19.stale": "an operator's alteration of a stream overrules a later one that he has not seen",
    "M3.repeat": "a command that was sent again takes effect again",
    "M3.late": "a command takes effect after its bound",
    "M3.stale-creation": "a delayed creation brings a deleted stream back",
    "M4.lost": "a log whose folder is gone counts as empty",
    "D2.blurred": "a follower is told to cut where the leader's own copy is damaged",
    "D2.shortfall": "a copy that has less than it reported takes part before the group knows",
    "D2.hole": "a replica reports what lies behind its damage",
    "D2.late-answer": "an answer to an earlier request mends a range",
    "D5.follower-stays": "a follower whose write was refused leaves the ISR with all that is durable",
    "C1.settled": "compaction touches what is not committed, or not durable",
    "C2.tombstones": "a tombstone is dropped that a replica has not compacted past",
    "C3.settled": "a log start moves past what is committed and durable here",
    "C3.below-start": "a follower is served from below the log start",
    "C3.purge-above-hw": "a purge takes what is not committed",
    "C3.purge-waits": "a purge is called done before every replica in sync has done it",
    "C4.compacted-past": "a reader misses a deletion that was dropped while it read",
    "C5.cut": "records of a compacted batch are taken twice",
    "C5.hw-inside": "a reader gets the part of a compacted batch that lies above the HW",
    "L3.requests-full": "requests of clients pile up that the group does not take",
    "L3.reads": "reads of clients pile up that the disk does not serve",
    "L3.fetch-again": "each repeated fetch of a follower is another read of a slow disk",
    "L3.fetches": "reads of followers pile up that the disk does not serve",
    "L4.refused": "a message is stored as if its header had been honoured",
}
"""By name, in the order of the rules: what happens without it."""

REMOVABLE: tuple[str, ...] = (
    "I2.stale-registration",
    "I2.two-disks",
    "I2.other-disk",
    "I2.rolled-back",
    "I2.stale-confirmation",
    "I2.other-incarnation",
    "I2.stale-heartbeat",
    "R1.other-incarnation",
    "R3.inherited",
    "R5.stale-failure",
    "R6.fetch-epoch",
    "R6.progress-mismatch",
    "R6.late-answer",
    "R6.other-leader",
    "R9.version",
    "R9.leader",
    "R9.joiner",
    "R10.hw",
    "R10.epoch-start",
    "R10.log-start",
    "R10.live",
    "R10.one-pending",
    "R15.epoch",
    "R15.reporter",
    "R15.stale-expiry",
    "R16.stale-election",
    "R17.minimum",
    "R18.probation",
    "N2.unsure",
    "N2.expiring",
    "N5.still-fenced",
    "N5.stale-resignation",
    "M1.late-vote",
    "M1.late-reply",
    "M1.read-wait",
    "M1.late-transfer",
    "M2.own-entry",
    "M2.one-at-a-time",
    "M2.vote",
    "M2.reachable",
    "M2.back",
    "M2.stale-wish",
    "R19.stale",
    "C3.purge-above-hw",
)
"""Guards that a node can be made to lack (`Mutants.without`): those that are asked by `decides`."""


class Guards:
    """What one part of a node has counted, and which bugs are planted in it."""

    __slots__ = ("marks", "mutants")

    def __init__(self, mutants: Mutants = NO_MUTANTS) -> None:
        self.mutants = mutants
        self.marks: dict[str, int] = {}

    def mark(self, name: str) -> None:
        """Count that a rule's case was reached; simulator sweeps fail when one is never reached."""
        self.marks[name] = self.marks.get(name, 0) + 1

    def decides(self, *conditions: tuple[str, bool]) -> bool:
        """Whether all hold; a guard that alone says no is counted. One that the node lacks says nothing."""
        without = self.mutants.without
        failed = [name for name, holds in conditions if not holds and name != without]
        if len(failed) == 1:
            self.mark(failed[0])
        return not failed
