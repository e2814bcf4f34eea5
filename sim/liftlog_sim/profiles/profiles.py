"""Swarm testing: each seed draws its own world, and each profile stresses another part of the protocol.

A simulator that always mixes everything finds little, because faults hide one another: a cluster that has no
leader most of the time commits nothing that could get lost. So a seed first draws a profile, and the profile
draws all knobs: how many nodes and streams, how fast disks and links are, which faults strike and how often.
The default sweep draws every profile; mutants say which profile catches them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from liftlog.types import LiftlogError, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles import disks
from liftlog_sim.profiles.begun import begun
from liftlog_sim.profiles.lasting import kept_short
from liftlog_sim.profiles.lying import LIES_GROUP, lies_interval_us
from liftlog_sim.profiles.overlap import with_copy, with_mate
from liftlog_sim.profiles.quiet import QUIET_PROFILES, failover, hiccups, hints_of, sick
from liftlog_sim.profiles.recounts import ACTIVITY, activity, with_recounts
from liftlog_sim.profiles.removals import JOURNALS
from liftlog_sim.profiles.settings import (
    answers_of,
    base_knobs,
    bounded,
    draw_streams,
    expecting_of,
    index_decay_us,
    lets_through,
    of_size,
    parcels_of,
    questions_of,
    remembering,
    small_stream,
    squeezed,
    storing,
    with_other_minima,
    with_snapshots,
)

NO_HUNT: dict[str, object] = {
    "hunt_controller": 0.0,
    "hunt_leader": 0.0,
    "hunt_voter": 0.0,
    "hunt_failed": 0.0,
    "hunt_follower": 0.0,
    "hunt_report": 0.0,
    "hunt_boundary": 0.0,
    "hunt_tail": 0.0,
    **dict.fromkeys(("hunt_joiner", "hunt_contact"), 0.0),
    "hunt_compaction": 0.0,
    "hunt_alternate": False,
}

DISK_GROUP = "disk"
"""Alone it is the profile; among other kinds it stands for everything that a disk does wrong."""


def profile_of(seed: int) -> str:
    """The profile that a seed draws."""
    return _profile_of(seed, Draws(seed, "knobs"))


def _profile_of(seed: int, draws: Draws) -> str:
    drawn = draws.choices([name for name, _ in WEIGHTS], [weight for _, weight in WEIGHTS])[0]
    swarm = Draws(seed, "swarm").random()  # Apart, so that the other seeds stay what they are.
    for name, share in APART:
        swarm -= share
        if swarm < 0:
            return name
    return drawn


def draw_knobs(
    seed: int,
    *,
    profile: str = "",
    nodes: int = 0,
    streams: int = 0,
    duration_s: float = 0,
    faults: str = "all",
) -> Knobs:
    """The world of a seed. Arguments that are given replace what the seed would draw.

    `faults`: "all", "none", a profile, or a comma-separated list of fault kinds (`faults.KINDS`),
    in which "disk" stands for all disk faults and "lies" for strangers and broken peers. Raises LiftlogError
    for a name that does not exist.
    """
    draws = Draws(seed, "knobs")
    drawn = _profile_of(seed, draws)
    wanted = [part.strip() for part in faults.split(",") if part.strip()]
    if not profile and len(wanted) == 1 and wanted[0] in PROFILES:
        profile = wanted[0]
        wanted = ["all"]
    if profile and profile not in PROFILES:
        raise LiftlogError(
            f"there is no fault profile '{profile}'; choose from {', '.join(sorted(PROFILES))}"
        )
    knobs = PROFILES[profile or drawn](draws)
    if not knobs.sick_from_us:
        knobs = squeezed(seed, knobs)
        if not knobs.takes_snapshots:
            knobs = with_snapshots(seed, knobs)
    knobs = msgspec.structs.replace(knobs, profile=profile or drawn)
    changes: dict[str, object] = of_size(knobs, nodes) if nodes else {}
    if streams:
        changes["streams"] = draw_streams(draws, nodes or knobs.nodes, streams)
    elif nodes and any(config.replication_factor > nodes for config in knobs.streams):
        changes["streams"] = draw_streams(draws, nodes, len(knobs.streams))
    if duration_s:
        changes["duration_us"] = int(duration_s * SECOND)
    if (profile or drawn) not in QUIET_PROFILES:
        changes["lies_interval_us"] = lies_interval_us(seed)
        changes["hints"] = hints_of(seed)
        mixed = Draws(seed, "releases").random() < MIXED_RELEASES
        changes["mixed_releases"] = mixed and (profile or drawn) not in NEWEST_ONLY
        if not knobs.sick_from_us:
            changes.update(answers_of(seed))
            changes["expecting"] = expecting_of(seed)
            changes["parcels"] = parcels_of(seed)
            streams_drawn = changes.get("streams", knobs.streams)
            assert isinstance(streams_drawn, tuple)
            if not changes["mixed_releases"]:
                changes["streams"] = streams_drawn = bounded(seed, streams_drawn)
            changes.update(questions_of(seed, streams_drawn))
        if Draws(seed, "slices").random() < SMALL_STEPS:
            changes["step_partitions"] = 1
        if (profile or drawn) != REORDERED:
            changes["alter_interval_us"] = knobs.alter_interval_us or _alter_interval_us(seed)
            changes["partitions_max"] = PARTITIONS_MAX if Draws(seed, "growth").random() < GROWN else 0
    if (profile or drawn) == DISK_GROUP:
        changes["index_decay_us"] = index_decay_us(seed)
    if wanted != ["all"]:
        changes.update(_only(knobs, wanted))
    knobs = msgspec.structs.replace(knobs, **changes, **_read_limits(Draws(seed, "reads")))
    knobs = with_recounts(seed, with_other_minima(Draws(seed, "minimum"), lets_through(kept_short(knobs))))
    knobs = msgspec.structs.replace(knobs, streams=_with_ids(Draws(seed, "ids"), knobs))
    knobs = msgspec.structs.replace(knobs, streams=with_copy(Draws(seed, "overlap"), begun(seed, knobs)))
    if knobs.profile in QUIET_PROFILES or knobs.mixed_releases or knobs.sick_from_us or knobs.expecting_lasts:
        return knobs
    return msgspec.structs.replace(knobs, streams=with_mate(Draws(seed, "shared"), knobs.streams))


IDS_SHARE = 0.2
"""In so many worlds streams remember message ids (L7), which no older release can."""


def _with_ids(draws: Draws, knobs: Knobs) -> tuple[StreamConfig, ...]:
    if knobs.profile in QUIET_PROFILES or knobs.mixed_releases or knobs.sick_from_us:
        return knobs.streams
    if knobs.profile not in REMEMBERING and draws.random() >= IDS_SHARE:
        return knobs.streams
    return remembering(draws, knobs.streams)


REPEATS, PROCESSORS = "repeats", "processors"
REMEMBERING = (REPEATS, PROCESSORS)
"""Worlds that are about what a window remembers."""
NEWEST_ONLY = (*REMEMBERING, *JOURNALS, ACTIVITY)
"""Profiles about what no older release can."""
SMALL_STEPS = 0.1
"""In so many worlds what grows with the number of partitions is split at each of them (ADR 0044)."""
MIXED_RELEASES = 0.25
"""In so many worlds a rolling upgrade is under way, or taken back (U2)."""
GROWN, PARTITIONS_MAX = 0.5, 4
"""In so many of the worlds in which streams are altered they get more partitions; up to so many (R19)."""
REORDERED = "reorder"
"""Worlds in which answers come late are about a few of them: nobody alters anything beside."""

def _alter_interval_us(seed: int) -> int:
    """In half of the worlds an operator alters streams, now and then or all the time (R19)."""
    return Draws(seed, "alter").choice((0, 0, 1, 6)) * SECOND


def _read_limits(draws: Draws) -> dict[str, int]:
    """Places for reads that wait for a disk (L3): as in production, or so few that they run out."""
    if draws.random() < 0.3:
        return {}
    return {"disk_reads_max": draws.choice((2, 2, 4, 32)), "log_reads_max": draws.choice((1, 1, 2, 4))}


def _only(knobs: Knobs, wanted: Sequence[str]) -> dict[str, object]:
    """Restrict the faults to those named."""
    from liftlog_sim.chance.fault_plan import DISK_KINDS, KINDS, LIAR_KINDS

    if list(wanted) == ["none"]:
        return {"faults": (), "lies_interval_us": 0, "index_decay_us": 0, **NO_HUNT}
    for group, kinds in ((DISK_GROUP, DISK_KINDS), (LIES_GROUP, LIAR_KINDS)):
        if group in wanted:
            wanted = [*(name for name in wanted if name != group), *kinds]
    for name in wanted:
        if name not in KINDS:
            known = ", ".join((*KINDS, *sorted(PROFILES)))
            raise LiftlogError(f"there is no fault '{name}'; choose 'all', 'none' or from {known}")
    return {
        "faults": tuple((kind, 1.0) for kind in KINDS if kind in wanted),
        "lies_interval_us": 0,
        "index_decay_us": 0,
        **NO_HUNT,
    }


def _mixed(draws: Draws) -> Knobs:
    """A random choice of fault kinds, each with a random weight."""
    from liftlog_sim.chance.fault_plan import BESIDE_KINDS, KINDS

    kinds = [kind for kind in KINDS if kind not in BESIDE_KINDS]
    faults = tuple((kind, draws.random()) for kind in kinds if draws.random() < 0.5)
    knobs = base_knobs(
        draws,
        faults=faults,
        fault_interval_us=draws.choice((1, 2, 4)) * SECOND,
        fault_duration_us=draws.choice((1, 3, 6)) * SECOND,
        hunt_controller=draws.choice((0.0, 0.0, 0.3)),
        hunt_leader=draws.choice((0.0, 0.0, 0.3)),
    )
    return _kept_up(draws, knobs) if draws.random() < 0.35 else knobs


def _kept_up(draws: Draws, knobs: Knobs) -> Knobs:
    """The same world, in which logs are compacted, lose their front and are purged.

    The profiles that are about this have few kinds of faults, so that one is seen; what all others make of
    such logs comes up here.
    """
    retention = draws.random() < 0.5
    return msgspec.structs.replace(
        knobs,
        streams=(
            small_stream(draws, "s0", compact=True, retention=retention),
            small_stream(draws, "s1", compact=False, retention=True),
        ),
        front_again=0.1,
        ask_time=0.1,
        purge_share=0.4,
        admin_interval_us=2 * SECOND,
        **storing(draws),
    )


def _kills(draws: Draws) -> Knobs:
    """Processes die, one and all, and machines lose power after their process died."""
    return base_knobs(
        draws,
        faults=(
            ("kill", 5),
            ("kill_all", 1),
            ("kill_then_power", 2),
            ("stop", 3),
            ("stop_all", 1),
            ("crash_inside", 3),
            ("isolate", 1),
            ("accuse", 1),
        ),
        fault_interval_us=draws.choice((1500, 2500)) * MILLISECOND,
        fault_duration_us=draws.choice((300, 1500, 4000)) * MILLISECOND,
        hunt_leader=0.3,
    )


def _power(draws: Draws) -> Knobs:
    """Power losses, of one machine and of the room, with slow disks so that much is un-synced."""
    return base_knobs(
        draws,
        faults=(
            ("power", 5),
            ("power_all", 2),
            ("kill_then_power", 4),
            ("stop_then_power", 3),
            ("crash_inside", 2),
            ("slow_disk", 2),
        ),
        storage_times=StorageTimes(200, 5_000, 60_000, 2_000, 0.2, 400_000),
        fault_interval_us=draws.choice((1500, 2500)) * MILLISECOND,
        fault_duration_us=draws.choice((300, 1500, 4000)) * MILLISECOND,
        hunt_leader=0.2,
    )


def _partitions(draws: Draws) -> Knobs:
    """The network falls apart in every shape, and NATS with it."""
    return base_knobs(
        draws,
        faults=(
            ("partition", 4),
            ("isolate", 3),
            ("one_way", 3),
            ("cut_bus", 2),
            ("deny", 2),
            ("cut_both", 2),
            ("pause", 2),
            ("kill", 1),
            ("accuse", 3),
            ("flap", 1),
        ),
        fault_interval_us=draws.choice((1500, 2500, 4000)) * MILLISECOND,
        fault_duration_us=draws.choice((1, 4, 7)) * SECOND,
        hunt_leader=0.2,
    )


def _elections(draws: Draws) -> Knobs:
    """Whoever is elected is struck, whoever votes dies: the metadata group goes through many short terms.

    There is much metadata traffic, sent an entry at a time, so that logs differ in length and in their last
    term.
    """
    return base_knobs(
        draws,
        nodes=draws.choice((3, 3, 3, 3, 5)),
        streams=draw_streams(draws, 3, 1),
        faults=(
            ("kill", 2),
            ("isolate", 3),
            ("link", 3),
            ("one_way", 1),
            ("partition", 2),
            ("power", 2),
            ("slow_disk", 1),
            ("accuse", 2),
        ),
        tick_ms=draws.choice((100, 150)),
        election_spread_ticks=draws.choice((1, 5)),
        raft_append_max_bytes=1,
        network=NetworkOptions(
            draws.choice((1_000, 20_000)), draws.choice((1_000, 30_000)), 0.0, 0.01, 0.01, 300_000
        ),
        storage_times=StorageTimes(
            100, 1_000, draws.choice((5_000, 40_000)), 0, 0.2, draws.choice((50_000, 600_000))
        ),
        fault_interval_us=draws.choice((1000, 2000)) * MILLISECOND,
        fault_duration_us=draws.choice((300, 1000, 2500)) * MILLISECOND,
        hunt_controller=draws.choice((0.5, 0.9)),
        hunt_within_us=draws.choice((30, 150, 600)) * MILLISECOND,
        hunt_voter=draws.choice((0.0, 0.3)),
        publish_interval_us=1500 * MILLISECOND,
        read_interval_us=2 * SECOND,
        admin_interval_us=draws.choice((300, 1000)) * MILLISECOND,
        admin_to_controller=0.7,
    )


def _terms(draws: Draws) -> Knobs:
    """Every Raft leader is cut off at about the moment its first entry spreads (Figure 8 of the Raft paper).

    The cut lasts about as long as an election, in most worlds exactly until the next leader is cut off, so
    that a leader comes back with an entry that nobody else has while another holds one of a newer term.
    """
    alternate = draws.random() < 0.7
    return base_knobs(
        draws,
        nodes=3,
        streams=draw_streams(draws, 3, 1),
        faults=(("isolate", 2), ("link", 1), ("kill", 1)),
        tick_ms=100,
        election_spread_ticks=draws.choice((2, 5)),
        raft_append_max_bytes=1,
        network=NetworkOptions(
            draws.choice((5_000, 10_000)),
            20_000,
            draws.choice((0.1, 0.25)) if alternate else 0.0,
            0.0,
            0.0,
            0,
        ),
        storage_times=StorageTimes(
            100, 1_000, draws.choice((10_000, 50_000)), 0, 0.3, draws.choice((100_000, 400_000))
        ),
        fault_interval_us=4 * SECOND,
        fault_duration_us=draws.choice((1000, 1500)) * MILLISECOND,
        hunt_controller=draws.choice((0.9, 1.0)),
        hunt_kinds=draws.choice((("isolate",), ("isolate",), ("isolate", "isolate", "kill"))),
        hunt_within_us=draws.choice((100, 150, 400)) * MILLISECOND,
        hunt_alternate=alternate,
        publish_interval_us=3 * SECOND,
        publishers=1,
        readers=1,
        read_interval_us=3 * SECOND,
        admin_interval_us=draws.choice((300, 1000)) * MILLISECOND,
        admin_to_controller=0.7,
    )


def _reorder(draws: Draws) -> Knobs:
    """Messages come late, twice and out of order, while leaders change."""
    return base_knobs(
        draws,
        network=NetworkOptions(
            1_000,
            20_000,
            0.02,
            0.1,
            draws.choice((0.05, 0.15)),
            draws.choice((1, 3)) * SECOND,
            draws.choice((0.0, 0.5)),
        ),
        faults=(
            *(("storm", 3), ("slow_node", 3), ("kill", 2), ("isolate", 2), ("pause", 2), ("power", 1)),
            *(("accuse", 1), ("flap", 1)),
        ),
        fault_interval_us=2 * SECOND,
        fault_duration_us=draws.choice((1, 3)) * SECOND,
        hunt_leader=0.3,
        hunt_follower=0.5,
    )


def _shrinking(draws: Draws) -> Knobs:
    """The ISR shrinks and grows all the time, while the metadata group is slow to say so."""
    nodes = draws.choice((3, 3, 5))
    return base_knobs(
        draws,
        nodes=nodes,
        streams=draw_streams(draws, nodes, 2),
        lag_ticks=draws.choice((3, 6)),
        network=NetworkOptions(1_000, 5_000, 0.0, 0.02, 0.02, 500_000),
        faults=(
            ("slow_node", 4),
            ("slow_disk", 4),
            ("isolate", 3),
            ("pause", 2),
            ("kill", 2),
            ("one_way", 2),
            ("power", 2),
            ("accuse", 2),
            ("flap", 1),
        ),
        fault_interval_us=1200 * MILLISECOND,
        fault_duration_us=draws.choice((1, 2)) * SECOND,
        hunt_leader=0.3,
        hunt_joiner=draws.choice((0.0, 0.4)),
        hunt_joiner_kind="silence",
        publish_interval_us=300 * MILLISECOND,
        read_interval_us=1200 * MILLISECOND,
    )


def _commands(draws: Draws) -> Knobs:
    """Streams come and go under few names, asked for at every node by whoever does not wait for long.

    What is asked for arrives late and twice; there is room for few proposals, and many partitions want some
    at once; the group forgets soon what it has decided.
    """
    return base_knobs(
        draws,
        nodes=draws.choice((3, 3, 5)),
        streams=draw_streams(draws, 3, 1),
        names=draws.choice((1, 2, 3)),
        proposals_max=draws.choice((2, 3, 1024)),
        proposal_span=draws.choice((12, 12, 40, 4096)),
        network=NetworkOptions(
            *(1_000, draws.choice((2_000, 20_000)), draws.choice((0.0, 0.03)), draws.choice((0.05, 0.2))),
            *(draws.choice((0.03, 0.15)), draws.choice((1, 4)) * SECOND),
        ),
        faults=(
            *(("isolate", 5), ("one_way", 3), ("link", 2), ("partition", 2), ("storm", 1), ("slow_node", 1)),
            *(("pause", 2), ("kill", 2), ("cut_bus", 1), ("sync_failure", 4)),
        ),
        tick_ms=draws.choice((100, 150)),
        fault_interval_us=draws.choice((800, 2000)) * MILLISECOND,
        fault_duration_us=draws.choice((1, 3, 6)) * SECOND,
        publish_interval_us=2 * SECOND,
        publishers=1,
        readers=1,
        read_interval_us=3 * SECOND,
        admin_interval_us=draws.choice((150, 400)) * MILLISECOND,
        admin_patience_us=draws.choice((500, 2000, 8000)) * MILLISECOND,
        hunt_failed=draws.choice((0.0, 0.7)),
        admin_to_controller=draws.choice((0.0, 0.3)),
        alter_interval_us=draws.part("alter").choice((200, 600)) * MILLISECOND,
    )


def _snapshots(draws: Draws) -> Knobs:
    """Streams come and go, snapshots are taken after every few commands, and whoever is away for a moment has
    to install one, out of chunks that come late, twice or never, from leaders that change meanwhile (M1p,
    M1q).
    """
    return base_knobs(
        draws,
        nodes=draws.choice((3, 3, 5)),
        streams=draw_streams(draws, 3, 1),
        names=draws.choice((2, 3)),
        snapshot_entries=draws.choice((2, 2, 3, 6, 12)),
        chunk_records=draws.choice((1, 1, 2, 3)),
        proposal_span=draws.choice((12, 40, 4096)),
        network=NetworkOptions(
            *(1_000, draws.choice((2_000, 20_000)), draws.choice((0.0, 0.05)), draws.choice((0.05, 0.2))),
            *(draws.choice((0.03, 0.15)), draws.choice((200, 1000, 4000)) * MILLISECOND),
        ),
        storage_times=StorageTimes(
            sync_us=draws.choice((300, 5_000)), sync_jitter_us=draws.choice((1_000, 50_000))
        ),
        faults=(
            *(("isolate", 6), ("one_way", 3), ("link", 4), ("storm", 2), ("slow_disk", 2), ("pause", 4)),
            *(("kill", 3), ("power", 3), ("kill_then_power", 1), ("crash_inside", 2), ("full_disk", 1)),
        ),
        tick_ms=draws.choice((100, 150)),
        fault_interval_us=draws.choice((1500, 3000)) * MILLISECOND,
        fault_duration_us=draws.choice((1000, 2500)) * MILLISECOND,
        publish_interval_us=2 * SECOND,
        publishers=1,
        readers=1,
        read_interval_us=3 * SECOND,
        admin_interval_us=draws.choice((100, 200, 400)) * MILLISECOND,
        admin_patience_us=draws.choice((500, 2000, 8000)) * MILLISECOND,
        hunt_controller=draws.choice((0.0, 0.0, 0.2)),
    )


def _moves(draws: Draws) -> Knobs:
    """Copies are moved from node to node all the time, while those are struck who have them, are to have
    them, or have just given them up (R20).
    """
    nodes = draws.choice((4, 4, 5, 3))
    compact = draws.random() < 0.3
    streams = tuple(
        msgspec.structs.replace(
            small_stream(draws, f"s{number}", compact=compact, retention=False),
            replication_factor=draws.choice((2, 3, 3, 1)),
        )
        for number in range(draws.choice((1, 1, 2)))
    )
    return base_knobs(
        draws,
        nodes=nodes,
        streams=streams,
        faults=(
            *(("kill", 4), ("power", 4), ("pause", 3), ("isolate", 4), ("one_way", 2), ("partition", 2)),
            *(("wipe", 2), ("stop", 2), ("sync_failure", 3), ("full_disk", 1), ("slow_disk", 2)),
        ),
        tick_ms=draws.choice((100, 150)),
        fault_interval_us=draws.choice((1500, 3000, 6000)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500, 4000)) * MILLISECOND,
        move_interval_us=draws.choice((500, 1500, 4000)) * MILLISECOND,
        move_bytes_per_s=draws.choice((0, 0, 40_000)),
        voters=3 if nodes > 3 and draws.random() < 0.5 else 0,
        hunt_joiner=draws.choice((0.0, 0.4)),
        hunt_joiner_kind=draws.choice(("wipe", "silence", "stop")),
        admin_interval_us=draws.choice((4, 8)) * SECOND,
    )


def _repeats(draws: Draws) -> Knobs:
    """Messages with ids are sent again and again, while leaders change whose clocks differ, and logs lose
    their front (L7).
    """
    streams = tuple(
        msgspec.structs.replace(
            small_stream(draws, f"s{number}", compact=False, retention=False),
            segment_records=draws.choice((2, 5, 10)),
            retention_messages=draws.choice((0, 1, 10)),
        )
        for number in range(draws.choice((1, 1, 2)))
    )
    return base_knobs(
        draws,
        nodes=3,
        streams=streams,
        faults=(
            *(("kill", 4), ("kill_all", 1), ("power", 2), ("isolate", 5), ("partition", 3), ("one_way", 2)),
            *(("pause", 3), ("stop", 2), ("cut_bus", 1), ("slow_disk", 1)),
        ),
        fault_interval_us=draws.choice((1200, 2500)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500, 4000)) * MILLISECOND,
        hunt_leader=draws.choice((0.0, 0.3, 0.6)),
        clock_skew_ms=draws.choice((0, 1000, 5000, 20_000)),
        publish_interval_us=draws.choice((150, 300, 600)) * MILLISECOND,
        burst_max=draws.choice((2, 6)),
        # Slow, so that a new leader reads its log for a while.
        storage_times=StorageTimes(200, 1_000, 20_000, 2_000, draws.choice((0.02, 0.3)), 400_000),
        tick_ms=draws.choice((100, 150, 200)),
        admin_interval_us=draws.choice((2, 4)) * SECOND,
        purge_share=draws.choice((0.0, 0.5)),
        **{**storing(draws), "retention_check_ms": draws.choice((300, 500))},
    )


def _processors(draws: Draws) -> Knobs:
    """The same worlds with processors, whose runs replace each other (L10)."""
    return msgspec.structs.replace(_repeats(draws), processors=draws.part("processors").choice((1, 2, 4)))


def _calm(draws: Draws) -> Knobs:
    """No faults at all: what is lost here is lost by mere operation."""
    return base_knobs(draws, faults=())


PROFILES: dict[str, Callable[[Draws], Knobs]] = {
    "mixed": _mixed,
    "kills": _kills,
    "power": _power,
    "partitions": _partitions,
    "elections": _elections,
    "terms": _terms,
    "reorder": _reorder,
    "shrinking": _shrinking,
    "disk": disks.disk,
    "compaction": disks.compaction,
    "retention": disks.retention,
    "wipes": disks.wipes,
    "commands": _commands,
    "snapshots": _snapshots,
    "replacements": disks.replacements,
    "moves": _moves,
    "growing": disks.growing,
    "rejoins": disks.rejoins,
    "total-loss": disks.total_loss,
    "failures": disks.failures,
    "sick": sick,
    "hiccups": hiccups,
    "failover": failover,
    "repeats": _repeats,
    PROCESSORS: _processors,
    **JOURNALS,
    ACTIVITY: activity,
    "calm": _calm,
}

APART: tuple[tuple[str, float], ...] = (
    *(("rejoins", 0.06), ("failures", 0.014)),
    *(("hiccups", 0.02), ("failover", 0.02), ("sick", 0.02), ("snapshots", 0.03)),
    *(("replacements", 0.05), ("moves", 0.05)),
    *(("total-loss", 0.02), ("growing", 0.03), ("repeats", 0.03)),
    *(("removals", 0.04), ("consumers", 0.03), (PROCESSORS, 0.02), ("groups", 0.02), ("mirrors", 0.02)),
    *(("doors", 0.015), (ACTIVITY, 0.03), ("inherited", 0.01)),
)
"""Shares of the profiles that are drawn before the others."""
WEIGHTS: tuple[tuple[str, float], ...] = (
    ("mixed", 4.0),
    ("kills", 2.0),
    ("power", 2.0),
    ("partitions", 2.0),
    ("elections", 2.0),
    ("terms", 2.0),
    ("reorder", 2.0),
    ("shrinking", 2.0),
    ("disk", 1.5),
    ("compaction", 1.5),
    ("retention", 1.0),
    ("wipes", 1.5),
    ("commands", 2.0),
    ("calm", 0.3),
)
