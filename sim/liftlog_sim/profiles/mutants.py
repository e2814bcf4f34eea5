"""The planted bugs: which there are, which rule each breaks, and in which worlds that shows.

A planted bug is a switch in liftlog's own code (`liftlog.types.Mutants`), or one of the guards that a node
can be made to lack (`liftlog/core/guards.py`), by the guard's name. Those of the table below must be caught
by the simulator alone (`sweeps/catching.py`): they are the proof that the invariants can fail.
"""

from __future__ import annotations

import msgspec

from liftlog.core.guards import GUARDS, REMOVABLE
from liftlog.types import NO_MUTANTS, LiftlogError, Mutants


class Mutant(msgspec.Struct, frozen=True):
    """A planted bug: the rule it breaks, and the profiles whose seeds are searched for it; none = all."""

    name: str
    rule: str
    breaks: str
    profiles: tuple[str, ...] = ()
    refine: bool = False
    """Nothing that can be seen at once: the model has to look (`refine/replicas.py`)."""


# fmt: off
_SWITCHES: tuple[tuple[str, str, str, str], ...] = (
    # name, rule, profiles,
    # what is wrong with a node that has it
    ("raft_vote_before_sync", "M1", "elections terms",
     "a vote is answered before it is synced"),
    ("raft_ack_before_sync", "M1", "power elections",
     "entries count before they are synced"),
    ("raft_commit_old_term", "M1", "terms elections",
     "an older term's entry is committed by counting"),
    ("raft_quorum_half", "M1", "partitions terms",
     "half of the voters are a quorum"),
    ("raft_commit_unclamped", "M1", "reorder terms elections partitions",
     "a follower commits what its leader has, beyond what the request shows to be equal"),
    ("raft_ack_whole_log", "M1", "terms elections",
     "an answer acknowledges all that a follower has, whatever of it the leader has compared"),
    ("raft_cuts_what_matches", "M1", "reorder elections terms",
     "a late request cuts off what follows it, although all of that matches"),
    ("raft_length_before_term", "M1", "terms elections",
     "the longer log wins votes, not the newer"),
    ("raft_vote_forgotten", "M1", "elections reorder",
     "a second vote is given in one term"),
    ("truncate_to_hw", "R6", "partitions kills",
     "a new follower cuts its log to its HW"),
    ("end_of_requested_epoch", "R6", "reorder kills partitions",
     "the end of an epoch the leader never had"),
    ("unknown_epoch_gets_leo", "R6", "kills partitions elections",
     "who asks for the end of an epoch that the leader does not know is told the leader's own end"),
    ("hw_before_cut", "R8", "partitions kills",
     "a follower moves its HW by an answer after which it has yet to cut what differs"),
    ("last_epoch_forgotten", "R6", "kills partitions",
     "once compared, a follower asks as if it had no record before the one it asks for"),
    ("hw_not_weighed_again", "R2", "shrinking partitions kills",
     "the HW is not weighed again when the ISR has shrunk"),
    ("fetch_not_fenced", "R6", "partitions kills",
     "fetches count whatever their epoch"),
    ("cut_only_beyond_end", "R6", "partitions kills",
     "a follower cuts its log only if it is longer than the leader's"),
    ("hw_over_shrunk_isr", "R2", "partitions shrinking",
     "a pending removal no longer counts for the HW"),
    ("wiped_replica_rejoins", "I2", "wipes",
     "a wiped disk stays in the ISR"),
    ("any_live_replica_leads", "R16", "wipes disk kills",
     "where nobody is left in sync, any live replica is elected"),
    ("step_down_acks", "N3", "partitions kills",
     "a leader that steps down acknowledges what still waits"),
    ("read_above_hw", "R3", "partitions kills",
     "a read that begins below the HW is given what lies above it as well"),
    ("ack_at_append", "R4", "partitions kills",
     "acks go out when a record is appended"),
    ("hw_checkpoint_in_place", "D4", "power compaction retention disk",
     "the HW checkpoint is written in place, without a sync"),
    ("sync_failure_retried", "R5", "disk",
     "a failed sync is tried again and believed"),
    ("damage_as_torn_tail", "R14", "disk",
     "damage is taken for a torn tail"),
    ("checksum_without_place", "D1", "disk mixed rejoins",
     "a batch's checksum does not say to which log it belongs"),
    ("index_trusted", "D3", "disk mixed",
     "a damaged index is believed"),
    ("hw_not_clamped", "R8", "disk power",
     "a remembered HW above the log is believed"),
    ("tombstone_dropped_by_age", "C2", "compaction",
     "a tombstone goes by its age, although a replica has not compacted past it"),
    ("compaction_above_hw", "C1", "compaction",
     "an uncommitted record supersedes a committed one"),
    ("compaction_swap_not_atomic", "D4", "compaction disk",
     "compacted segments are put in place so that a crash leaves neither old nor new"),
    ("compaction_checkpoint_at_segment_end", "C1", "compaction disk",
     "the clean point is a segment's end although the key map was full before it"),
    ("compacted_hole_out_of_range", "C5", "compaction disk",
     "a fetch at an offset that compaction took is answered as out of range"),
    ("session_by_ticks", "N2", "mixed reorder shrinking",
     "a session ends by a count of ticks, of which a pause is one"),
    ("session_age_kept", "R15", "kills mixed partitions",
     "a session is measured from the silence of the one before it"),
    ("reads_unbounded", "L3", "disk compaction mixed",
     "reads that wait for a slow disk have no limit"),
    ("refused_metadata_counts", "D5", "disk retention",
     "metadata that a full disk refuses counts as stored"),
    ("lost_folder_is_empty", "M4", "disk",
     "a log that is gone is taken for a new one"),
    ("restarted_leader_keeps_epoch", "R1", "kills partitions",
     "a restarted leader goes on in its epoch"),
    ("recovery_reports_unsynced", "R7", "power kills disk",
     "recovery reports what it did not sync"),
    ("pending_ended_by_timeout", "R2", "shrinking reorder",
     "a pending ISR addition ends by a timeout"),
    ("late_addition_of_old_incarnation", "R9", "wipes",
     "an ISR addition of a replaced process is accepted"),
    ("answer_to_earlier_run", "R6", "reorder",
     "an answer to a fetch of the node's earlier run is taken for one of this run's"),
    ("refusal_confirms", "N1", "mixed partitions elections",
     "a subscription that NATS refuses counts as confirmed"),
    ("header_ignored", "L4", "mixed kills partitions",
     "a message whose headers ask for what is not done is stored and acknowledged"),
    ("overlap_answered", "N9", "mixed kills elections",
     "two streams on overlapping subjects may both answer"),
    ("metadata_read_at_once", "R3", "partitions kills",
     "a node tells of streams what it has applied, without asking the group"),
    ("metadata_read_before_applied", "R3", "partitions elections kills",
     "a read of metadata does not wait until the node has applied what the round covers"),
    ("readindex_without_round", "M1", "partitions elections terms",
     "a leader answers a read without asking a quorum whether it still leads"),
    ("readindex_of_earlier_terms", "M1", "partitions elections terms",
     "a leader answers reads before an entry of its own term is committed"),
    ("readindex_of_one", "M1", "partitions elections terms",
     "one answer to a round confirms a read"),
    ("retention_keeps_half", "C3", "retention",
     "retention keeps half of what it promises"),
    ("retention_counts_uncommitted", "C3", "retention",
     "what is not committed counts as kept when older segments go"),
    ("hint_ends_session", "N2", "partitions hiccups mixed",
     "a session ends as soon as it is said that nobody listens there, whatever was granted"),
    ("removal_before_lease", "N2", "partitions mixed shrinking",
     "a node of whom that is said leaves the in-sync sets before what it was granted has run out"),
    ("hint_elects", "M1", "hiccups elections",
     "who is told that nobody listens where the leader was stands, and votes, at once"),
    ("hint_leaves_isr", "R2", "partitions shrinking",
     "a leader commits without a member of which it is told that nobody listens there"),
    ("never_fenced", "N2", "partitions kills mixed",
     "a leader does not feel that its session has ended"),
    ("session_from_answer", "N2", "mixed reorder shrinking",
     "a session is counted from the answer to a heartbeat, not from when that was sent"),
    ("fenced_without_margin", "N2", "partitions kills mixed",
     "a leader falls silent when its session ends, not a margin earlier"),
    ("fenced_leader_answers", "N2", "partitions kills mixed",
     "a leader whose session may have ended still answers what it took before"),
    ("controller_always_in_contact", "N2", "partitions kills mixed",
     "a controller takes itself for in contact although no quorum answers it"),
    ("ready_before_confirmed", "N1", "mixed partitions elections",
     "a leader is ready as soon as it has asked NATS for its subscription"),
    ("creation_never_stale", "M3", "commands",
     "a creation that comes after a deletion of which its author knew nothing takes effect"),
    ("alteration_blind", "R19", "commands",
     "an alteration takes effect although its author knew nothing of a later one"),
    ("fetch_reads_unbounded", "L3", "disk compaction mixed",
     "each repeated fetch of a follower is another read of a slow disk"),
    ("commit_below_minimum", "R2", "disk shrinking",
     "the HW moves although too few replicas are in sync"),
    ("delete_by_name", "I1", "commands",
     "a deletion names a name, and goes on being proposed when its client has gone"),
    ("commands_never_expire", "M3", "commands",
     "a command means something at any index, and is remembered for a number of others only"),
    ("proposals_dropped_when_full", "L3", "commands",
     "what finds no room on its way to the metadata group is dropped for good"),
    ("repair_waits_for_answer", "D2", "commands",
     "a failed replica waits for the answer to its report, which may be forgotten by then"),
    ("commands_not_validated", "V5", "lies",
     "what a peer forwards is proposed, and what a leader sends is stored, without being looked at"),
    ("term_jump_believed", "V4", "lies",
     "a term or an index is believed however far it jumps"),
    ("contradiction_believed", "V3", "lies",
     "a message that contradicts itself, or what is known, is believed as far as it goes"),
    ("frame_tag_ignored", "V1", "lies",
     "a frame between nodes is opened although its tag does not fit: bits flip on the wire"),
    ("peer_batches_not_verified", "D1", "lies",
     "a follower stores batches without verifying them"),
    ("moved_before_in_sync", "R20", "moves",
     "a move is over before all that are to have a copy are in sync"),
    ("moved_within_epoch", "R20", "moves",
     "a move that is over ends no epoch: what a dropped copy had reported still counts"),
    ("drained_until_restart", "R20", "moves",
     "a node that is drained is so no more when its process has started anew"),
    ("moved_back_too_soon", "R20", "moves",
     "a node gets a copy again before it has said that its former one is gone"),
    ("retires_until_restart", "I3", "growing",
     "a node that retires does so no more when its process has started anew"),
    ("replaced_by_another", "I3", "growing",
     "the copies of a node that is replaced go to who keeps least"),
    ("removed_with_copies", "I3", "growing",
     "a node that retires is removed as soon as its copies are on their way to others"),
    ("paused_until_restart", "N1", "commands",
     "a leader whose epoch begins in a pause subscribes"),
    ("slow_leader_stays", "R17", "sick",
     "a leader for whose disk everybody waits does not ask to be relieved"),
    ("probation_not_doubled", "R18", "shrinking sick mixed",
     "whoever was slow again and again comes back as soon as the first time"),
    ("snapshot_of_uncommitted", "M1", "snapshots",
     "a snapshot takes in all that its node's log holds, committed or not"),
    ("snapshot_without_results", "M3", "snapshots",
     "a snapshot forgets which commands have taken effect"),
    ("snapshot_term_forgotten", "M1", "snapshots",
     "who installs a snapshot does not know of which term its last entry is"),
    ("install_of_older", "M1", "snapshots",
     "a snapshot is installed over what is newer"),
    ("install_acked_early", "M1", "snapshots",
     "an install is acknowledged before it is synced"),
    ("append_below_answers_all", "M1", "snapshots",
     "an append from below the log's beginning acknowledges all that the follower has"),
    ("damaged_end_kept", "R6", "failures",
     "a copy refuses to cut what it has lost up to its end, and asks for ever"),
    ("grants_before_office", "N2", "elections partitions kills",
     "a controller grants sessions before an entry of its own term is committed"),
    ("change_before_own_commit", "M2", "replacements",
     "a leader changes the members before it has committed an entry of its own term"),
    ("two_changes", "M2", "replacements",
     "a leader changes the members again before the last change is committed"),
    ("effective_at_commit", "M2", "replacements",
     "a node goes by the last configuration that it knows to be committed"),
    ("quorum_of_election", "M2", "replacements",
     "a leader goes on counting by the configuration that it was elected under"),
    ("learner_counts", "M2", "replacements",
     "votes and acknowledgements of learners count"),
    ("removed_leader_counts", "M2", "replacements",
     "a leader that is no voter any more counts itself"),
    ("removed_leader_stays", "M2", "replacements",
     "a leader that is no voter any more goes on leading"),
    ("wiped_voter_rejoins", "I2", "replacements wipes",
     "a voter comes back with an empty disk as if it were the old one"),
    ("promoted_unready", "M2", "replacements",
     "a learner becomes a voter before it has what is committed"),
    ("change_unreachable", "M2", "replacements",
     "a voter is removed while too few of the others can be reached"),
    ("cluster_born_again", "I2", "replacements",
     "disks that came later found a second cluster, once every first disk is gone"),
    ("renewed_under_old_id", "M4", "replacements",
     "a disk that has lost its promises goes on voting under its old id"),
    ("log_names_nobody", "I3", "growing",
     "a node that starts knows no nodes but those of its configuration until it has applied more"),
    ("start_owes_the_snapshot", "L5", "snapshots",
     "what a start finds in its snapshot counts as touched by the commands of its first step"),
    ("level_raised_too_early", "U2", "kills mixed power",
     "a node that has not said what it can counts as one that can all"),
    ("level_of_earlier_run", "U2", "kills mixed power",
     "what an earlier run of a node could counts for the present one"),
    ("level_forgotten_in_snapshot", "U2", "snapshots",
     "a node that starts from a snapshot is at the first feature level again"),
    ("recovery_keeps_epoch", "M5", "total-loss",
     "a recovered cluster is of the same epoch as before, and hears the disks that it was recovered without"),
)

_GUARDS: tuple[tuple[str, str], ...] = (
    # A node lacks the guard: its name says which rule, `GUARDS` what happens without it.
    ("I2.stale-registration", "reorder kills"),
    ("I2.rolled-back", "wipes"),
    ("I2.other-incarnation", "power kills shrinking"),
    ("R3.inherited", "power kills partitions"),
    ("R6.fetch-epoch", "partitions elections compaction"),
    ("R9.version", "shrinking reorder"),
    ("R9.joiner", "wipes"),
    ("R10.hw", "shrinking partitions"),
    ("R10.epoch-start", "shrinking partitions kills"),
    ("R10.live", "elections kills wipes"),
    ("R10.one-pending", "kills shrinking elections"),
    ("R17.minimum", "sick"),
    ("R18.probation", "sick shrinking"),
    ("N2.expiring", "kills mixed partitions"),
    ("M1.late-vote", "elections"),
    ("M1.late-reply", "terms elections reorder"),
    ("M5.other-epoch", "total-loss"),
)
# fmt: on

_REFINED = (
    "change_before_own_commit",
    "two_changes",
    "effective_at_commit",
    "quorum_of_election",
    "learner_counts",
    "removed_leader_counts",
    "wiped_voter_rejoins",
    "promoted_unready",
    "cluster_born_again",
    "renewed_under_old_id",
    "install_of_older",
    "install_acked_early",
    "append_below_answers_all",
    "pending_ended_by_timeout",
    "commit_below_minimum",
    "raft_commit_unclamped",
    "raft_cuts_what_matches",
    "refused_metadata_counts",
    "I2.other-incarnation",
    "R6.fetch-epoch",
    "R9.version",
    "R10.live",
    "R10.one-pending",
    "M1.late-vote",
)

MUTANTS: tuple[Mutant, ...] = (
    *(
        Mutant(name, rule, breaks, tuple(profiles.split()), name in _REFINED)
        for name, rule, profiles, breaks in _SWITCHES
    ),
    *(
        Mutant(name, name.partition(".")[0], GUARDS[name], tuple(profiles.split()), name in _REFINED)
        for name, profiles in _GUARDS
    ),
)
"""Those that the simulator catches."""

_BY_NAME = {
    **{name: Mutant(name, name.partition(".")[0], GUARDS[name]) for name in REMOVABLE},
    **{mutant.name: mutant for mutant in MUTANTS},
}


def mutant_named(name: str) -> Mutant:
    """A planted bug, whether or not the simulator is known to catch it. LiftlogError if there is none."""
    mutant = _BY_NAME.get(name)
    if mutant is None:
        raise LiftlogError(f"there is no mutant '{name}'; see 'liftlog sim mutants --list'")
    return mutant


def planted(name: str) -> Mutants:
    """The switches of a world with this bug; none for an empty name. Raises LiftlogError."""
    if not name:
        return NO_MUTANTS
    known = mutant_named(name).name
    change = {"without": known} if known in REMOVABLE else {known: True}
    return msgspec.structs.replace(NO_MUTANTS, **change)
