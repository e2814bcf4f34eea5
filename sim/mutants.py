"""The planted bugs and how the simulator catches them: the proof that the invariants can fail.

Each mutant is a switch in liftlog's own code (`liftlog.types.Mutants`), off everywhere but here. It counts
as caught when a *named* invariant is violated, not when the node merely raises, in a seed that is clean
without the mutant. Seeds are those of the default sweep, from 0 on, restricted to the profiles that stress
what the mutant breaks; so each is found within the first thousand seeds that everybody sweeps.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from liftlog.types import LiftlogError, Mutants
from sim.invariants import OWN_CHECKS
from sim.lying import LIES_GROUP, with_lies
from sim.profiles import profile_of
from sim.runner import Options, run_seed

SEARCH_SEEDS = 1000


class Mutant(msgspec.Struct, frozen=True):
    """`row`: number in the catalogue that `liftlog.types.Mutants` follows, or the rule it breaks."""

    name: str
    row: str
    breaks: str
    profiles: tuple[str, ...]
    refine: bool = False
    """Nothing that can be seen at once: the model has to look (`sim/refining.py`)."""


class Caught(msgspec.Struct, kw_only=True):
    """How one mutant fared. `invariant` empty = it survived `searched` seeds."""

    name: str
    row: str
    breaks: str
    caught: bool
    invariant: str
    seed: int
    seconds: float
    searched: int
    profile: str
    finding: str
    replay: str


MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "raft_vote_before_sync", "1", "a vote is answered before it is synced (M1)", ("elections", "terms")
    ),
    Mutant("raft_ack_before_sync", "2", "entries count before they are synced (M1)", ("power", "elections")),
    Mutant(
        "raft_commit_old_term",
        "3",
        "an older term's entry is committed by counting (M1)",
        ("terms", "elections"),
    ),
    Mutant("raft_quorum_half", "4", "half of the voters are a quorum (M1)", ("partitions", "terms")),
    Mutant(
        "raft_commit_unclamped",
        "9",
        "a follower commits what its leader has, beyond what the request shows to be equal (M1)",
        ("reorder", "terms", "elections", "partitions"),
        refine=True,
    ),
    Mutant(
        "raft_length_before_term",
        "11",
        "the longer log wins votes, not the newer (M1)",
        ("terms", "elections"),
    ),
    Mutant("raft_vote_forgotten", "12", "a second vote is given in one term (M1)", ("elections", "reorder")),
    Mutant("truncate_to_hw", "15", "a new follower cuts its log to its HW (R6)", ("partitions", "kills")),
    Mutant(
        "end_of_requested_epoch",
        "16",
        "the end of an epoch the leader never had (R6)",
        ("reorder", "kills", "partitions"),
    ),
    Mutant("fetch_not_fenced", "22", "fetches count whatever their epoch (R6)", ("partitions", "kills")),
    Mutant(
        "hw_over_shrunk_isr",
        "24",
        "a pending removal no longer counts for the HW (R2)",
        ("partitions", "shrinking"),
    ),
    Mutant("wiped_replica_rejoins", "27", "a wiped disk stays in the ISR (I2)", ("wipes",)),
    Mutant("ack_at_append", "29", "acks go out when a record is appended (R4)", ("partitions", "kills")),
    Mutant(
        "hw_checkpoint_in_place",
        "34",
        "the HW checkpoint is written in place, without a sync (D4)",
        ("power", "compaction", "retention", "disk"),
    ),
    Mutant("sync_failure_retried", "35", "a failed sync is tried again and believed (R5)", ("disk",)),
    Mutant("damage_as_torn_tail", "36", "damage is taken for a torn tail (R14)", ("disk",)),
    Mutant(
        "checksum_without_place",
        "37",
        "a batch's checksum does not say to which log it belongs (D1)",
        ("disk", "mixed", "rejoins"),
    ),
    Mutant("index_trusted", "38", "a damaged index is believed (D3)", ("disk",)),
    Mutant("hw_not_clamped", "39", "a remembered HW above the log is believed (R8)", ("disk", "power")),
    Mutant(
        "tombstone_dropped_by_age",
        "40",
        "a tombstone goes by its age, although a replica has not compacted past it (C2)",
        ("compaction",),
    ),
    Mutant(
        "compaction_above_hw",
        "41",
        "an uncommitted record supersedes a committed one (C1)",
        ("compaction",),
    ),
    Mutant(
        "compaction_swap_not_atomic",
        "42",
        "compacted segments are put in place so that a crash leaves neither old nor new (D4)",
        ("compaction", "disk"),
    ),
    Mutant(
        "compaction_checkpoint_at_segment_end",
        "43",
        "the clean point is a segment's end although the key map was full before it (C1)",
        ("compaction", "disk"),
    ),
    Mutant(
        "compacted_hole_out_of_range",
        "44",
        "a fetch at an offset that compaction took is answered as out of range (C5)",
        ("compaction", "disk"),
    ),
    Mutant(
        "session_by_ticks",
        "N2",
        "a session ends by a count of ticks, of which a pause is one (N2)",
        ("mixed", "reorder", "shrinking"),
    ),
    Mutant(
        "reads_unbounded",
        "L3",
        "reads that wait for a slow disk have no limit (L3)",
        ("disk", "compaction", "mixed"),
    ),
    Mutant("lost_folder_is_empty", "M4", "a log that is gone is taken for a new one (M4)", ("disk",)),
    Mutant(
        "restarted_leader_keeps_epoch",
        "R1",
        "a restarted leader goes on in its epoch",
        ("kills", "partitions"),
    ),
    Mutant(
        "recovery_reports_unsynced", "R7", "recovery reports what it did not sync", ("power", "kills", "disk")
    ),
    Mutant(
        "pending_ended_by_timeout", "R2", "a pending ISR addition ends by a timeout", ("shrinking", "reorder")
    ),
    Mutant(
        "late_addition_of_old_incarnation",
        "R9",
        "an ISR addition of a replaced process is accepted",
        ("wipes",),
    ),
    Mutant(
        "answer_to_earlier_run",
        "R6",
        "an answer to a fetch of the node's earlier run is taken for one of this run's",
        ("reorder",),
    ),
    Mutant(
        "refusal_confirms",
        "N1",
        "a subscription that NATS refuses counts as confirmed",
        ("mixed", "partitions", "elections"),
    ),
    Mutant(
        "header_ignored",
        "L4",
        "a message whose headers ask for what is not done is stored and acknowledged",
        ("mixed", "kills", "partitions"),
    ),
    Mutant(
        "overlap_answered",
        "N9",
        "two streams on overlapping subjects may both answer",
        ("mixed", "kills", "elections"),
    ),
    Mutant(
        "metadata_read_at_once",
        "R3",
        "a node tells of streams what it has applied, without asking the group",
        ("partitions", "kills"),
    ),
    Mutant(
        "metadata_read_before_applied",
        "R3",
        "a read of metadata does not wait until the node has applied what the round covers",
        ("partitions", "elections", "kills"),
    ),
    Mutant(
        "readindex_without_round",
        "M1j",
        "a leader answers a read without asking a quorum whether it still leads",
        ("partitions", "elections", "terms"),
    ),
    Mutant(
        "readindex_of_earlier_terms",
        "M1j",
        "a leader answers reads before an entry of its own term is committed",
        ("partitions", "elections", "terms"),
    ),
    Mutant(
        "readindex_of_one",
        "M1j",
        "one answer to a round confirms a read",
        ("partitions", "elections", "terms"),
    ),
    Mutant(
        "retention_counts_what_goes",
        "C3",
        "retention counts a segment among what is left after it has gone",
        ("retention",),
    ),
    Mutant(
        "commit_below_minimum",
        "R2",
        "the HW moves although too few replicas are in sync",
        ("disk", "shrinking"),
        refine=True,
    ),
    Mutant(
        "delete_by_name",
        "I1",
        "a deletion names a name, and goes on being proposed when its client has gone",
        ("commands",),
    ),
    Mutant(
        "commands_never_expire",
        "M3",
        "a command means something at any index, and is remembered for a number of others only",
        ("commands",),
    ),
    Mutant(
        "proposals_dropped_when_full",
        "L3",
        "what finds no room on its way to the metadata group is dropped for good",
        ("commands",),
    ),
    Mutant(
        "repair_waits_for_answer",
        "D2",
        "a failed replica waits for the answer to its report, which may be forgotten by then",
        ("commands",),
    ),
    Mutant(
        "commands_not_validated",
        "V5",
        "what a peer forwards is proposed, and what a leader sends is stored, without being looked at",
        ("lies",),
    ),
    Mutant("term_jump_believed", "V4", "a term or an index is believed however far it jumps", ("lies",)),
    Mutant(
        "contradiction_believed",
        "V3",
        "a message that contradicts itself, or what is known, is believed as far as it goes",
        ("lies",),
    ),
    Mutant(
        "frame_tag_ignored",
        "V1",
        "a frame between nodes is opened although its tag does not fit: bits flip on the wire",
        ("lies",),
    ),
    Mutant(
        "peer_batches_not_verified", "D1", "a follower stores batches without verifying them", ("lies",)
    ),
)


def mutant_named(name: str) -> Mutant:
    """Raises LiftlogError for a name that is not in the registry."""
    for mutant in MUTANTS:
        if mutant.name == name:
            return mutant
    raise LiftlogError(f"there is no mutant '{name}'; see 'liftlog sim mutants --list'")


def catch(mutant: Mutant, seeds: Sequence[int] = range(SEARCH_SEEDS)) -> Caught:
    """Search the seeds of the mutant's profiles until one catches it."""
    started = time.monotonic()
    searched = 0
    for seed in seeds:
        lies = LIES_GROUP in mutant.profiles and with_lies(seed)
        if not lies and profile_of(seed) not in mutant.profiles:
            continue
        searched += 1
        result = run_seed(Options(seed=seed, mutant=mutant.name, refine=mutant.refine))
        clean = Options(seed=seed, refine=mutant.refine)
        if result.good or result.invariant in OWN_CHECKS or not run_seed(clean).good:
            continue
        return Caught(
            name=mutant.name,
            row=mutant.row,
            breaks=mutant.breaks,
            caught=True,
            invariant=result.invariant,
            seed=seed,
            seconds=round(time.monotonic() - started, 3),
            searched=searched,
            profile=result.profile,
            finding=result.finding,
            replay=result.replay,
        )
    return Caught(
        name=mutant.name,
        row=mutant.row,
        breaks=mutant.breaks,
        caught=False,
        invariant="",
        seed=-1,
        seconds=round(time.monotonic() - started, 3),
        searched=searched,
        profile="",
        finding="",
        replay="",
    )


def catch_all(
    mutants: Sequence[Mutant], jobs: int, progress: Callable[[Caught], None] | None = None
) -> list[Caught]:
    """`catch` for each, `jobs` at a time; results in the order of `mutants`."""
    import multiprocessing

    found: list[Caught] = []
    if jobs <= 1 or len(mutants) <= 1:
        for mutant in mutants:
            found.append(catch(mutant))
            if progress is not None:
                progress(found[-1])
        return found
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(mutants))) as pool:
        for caught in pool.imap(catch, mutants, chunksize=1):
            found.append(caught)
            if progress is not None:
                progress(caught)
    return found


def unregistered() -> list[str]:
    """Switches of `Mutants` that the registry does not know: a test keeps this empty."""
    known = {mutant.name for mutant in MUTANTS}
    return [name for name in Mutants.__struct_fields__ if name not in known and name != "without"]
