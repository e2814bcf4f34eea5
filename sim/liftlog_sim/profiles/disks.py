"""Profiles in which disks suffer, forget and are tidied up: decay, compaction, retention, wipes, returns."""

from __future__ import annotations

import msgspec

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.settings import (
    base_knobs,
    draw_streams,
    small_stream,
    storing,
)


def disk(draws: Draws) -> Knobs:
    """Disks do everything wrong, and then the power goes.

    One stream is always kept whole, the other one may be compacted or lose its front.
    """
    second = draws.choice(("plain", "plain", "compact", "retention"))
    return base_knobs(
        draws,
        streams=(
            small_stream(draws, "s0", compact=False, retention=False),
            small_stream(draws, "s1", compact=second == "compact", retention=second == "retention"),
        ),
        faults=(
            ("sync_failure", 3),
            ("write_failure", 1),
            ("full_disk", 1),
            ("slow_disk", 1),
            ("flip", 2),
            ("sector", 3),
            ("misdirect", 3),
            ("latent", 2),
            ("lost_sync", 2),
            ("lost_folder", 2),
            ("power", 3),
            ("kill_then_power", 2),
            ("power_all", 1),
            ("kill", 2),
            ("crash_inside", 2),
        ),
        fault_interval_us=1200 * MILLISECOND,
        fault_duration_us=draws.choice((500, 2000)) * MILLISECOND,
        ask_time=0.05,
        # Seldom written, so that what else a disk remembers has to tell that a log is gone (M4).
        hw_checkpoint_ticks=draws.part("checkpoint").choice((20, 400)),
        publish_interval_us=draws.choice((250, 500)) * MILLISECOND,
        **storing(draws),
    )


def compaction(draws: Draws) -> Knobs:
    """Few keys, many tombstones, small segments; replicas are away while others compact."""
    streams = [small_stream(draws, "s0", compact=True, retention=draws.random() < 0.15)]
    if draws.random() < 0.3:
        streams.append(small_stream(draws, "s1", compact=True, retention=False))
    return base_knobs(
        draws,
        streams=tuple(streams),
        faults=(
            ("kill", 4),
            ("power", 2),
            ("crash_inside", 5),
            ("kill_all", 1),
            ("isolate", 3),
            ("partition", 1),
            ("slow_disk", 1),
            ("pause", 1),
            ("flip", 0.5),
            ("sector", 0.5),
            ("wipe", 0.3),
        ),
        fault_interval_us=draws.choice((2, 4)) * SECOND,
        fault_duration_us=draws.choice((1, 4, 10)) * SECOND,
        hunt_leader=0.1,
        hunt_compaction=draws.choice((0.01, 0.05)),
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        burst_max=draws.choice((6, 15)),
        keys=draws.choice((3, 12, 60)),
        tombstones=draws.choice((0.1, 0.3, 0.5)),
        front_again=0.15,
        ask_time=0.05,
        purge_share=draws.choice((0.0, 0.0, 0.2)),
        admin_interval_us=4 * SECOND,
        **storing(draws),
    )


def retention(draws: Draws) -> Knobs:
    """Logs lose their front, by policy and by purge, while replicas fall behind it; some trust the kernel."""
    streams = [
        small_stream(draws, "s0", compact=False, retention=True),
        small_stream(draws, "s1", compact=draws.random() < 0.5, retention=True),
    ]
    if draws.random() < 0.4:
        streams[1] = msgspec.structs.replace(streams[1], durability="os")
    return base_knobs(
        draws,
        streams=tuple(streams),
        faults=(
            ("kill", 4),
            ("power", 2),
            ("crash_inside", 3),
            ("isolate", 3),
            ("cut_both", 2),
            ("pause", 2),
            ("slow_node", 1),
            ("full_disk", 0.5),
            ("wipe", 0.3),
        ),
        fault_interval_us=draws.choice((2, 4)) * SECOND,
        fault_duration_us=draws.choice((1, 4, 10)) * SECOND,
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        front_again=0.1,
        ask_time=0.1,
        purge_share=0.5,
        admin_interval_us=2 * SECOND,
        **storing(draws),
    )


def wipes(draws: Draws) -> Knobs:
    """Disks come back empty or old.

    In half of the worlds the disk of a replica is replaced just while its return to the ISR is being decided.
    Everything is quick there, so that the new incarnation is live before the old one's addition arrives.
    """
    hunting: dict[str, object] = {}
    if draws.random() < 0.5:
        hunting = {
            "hunt_joiner": 0.9,
            "tick_ms": 100,
            "raft_append_max_bytes": 256 * 1024,
            "network": NetworkOptions(500, 1_000, 0.0, 0.01, 0.0, 0),
            "storage_times": StorageTimes(50, 300, 1_000, 0, 0.0, 0),
        }
    return base_knobs(
        draws,
        streams=(StreamConfig("s0", "s0.in", 1, 3),),
        nodes=draws.choice((3, 3, 5)),
        faults=(
            ("wipe", 0 if hunting else draws.choice((0, 3))),
            ("rollback", 0 if hunting else draws.choice((0, 3))),
            ("kill", 4),
            ("isolate", 2),
            ("cut_bus", 1),
            ("slow_disk", 1),
        ),
        lag_ticks=6,
        fault_interval_us=2 * SECOND,
        fault_duration_us=2500 * MILLISECOND,
        **hunting,
    )


def rejoins(draws: Draws) -> Knobs:
    """Replicas are away, come back and join while logs lose their front by purges and damage is mended."""
    compact = draws.random() < 0.5
    return base_knobs(
        draws,
        streams=(
            small_stream(draws, "s0", compact=False, retention=draws.random() < 0.3),
            small_stream(draws, "s1", compact=compact, retention=not compact),
        ),
        lag_ticks=draws.choice((3, 6)),
        faults=(
            *(("isolate", 4), ("slow_node", 3), ("kill", 3), ("link", 2), ("pause", 2), ("stop", 1)),
            *(("flip", 2), ("sector", 3), ("latent", 2), ("misdirect", 1), ("wipe", 0.3), ("power", 1)),
        ),
        fault_interval_us=draws.choice((800, 1500)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500, 4000)) * MILLISECOND,
        hunt_joiner=draws.choice((0.0, 0.3)),
        hunt_joiner_kind="silence",
        hunt_leader=draws.choice((0.0, 0.2)),
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        front_again=0.1,
        ask_time=0.05,
        purge_share=0.6,
        admin_interval_us=draws.choice((1, 2)) * SECOND,
        **storing(draws),
    )


def failures(draws: Draws) -> Knobs:
    """Copies fail one just after the other: a report of one failure overtakes another, and a leader that was
    damaged where its epoch began is left alone, or a follower loses its end (`faults/copyhunter.py`).
    """
    reports = draws.random() < 0.5
    tails = draws.part("tail").random() < 0.4
    reports = reports and not tails
    stream = small_stream(draws, "s0", compact=False, retention=False)
    damage = (("flip", 3), ("sector", 4), ("latent", 3), ("sync_failure", 1)) if reports else ()
    return base_knobs(
        draws,
        nodes=3,
        streams=(msgspec.structs.replace(stream, segment_records=draws.choice((10, 30)), segment_ms=0),),
        lag_ticks=draws.choice((3, 6)),
        network=NetworkOptions(500, draws.choice((1_000, 10_000)), 0.0, 0.01, 0.01, 200_000),
        storage_times=StorageTimes(50, 300, draws.choice((1_000, 10_000)), 0, 0.0, 0),
        faults=(("kill", 3), ("stop", 2), ("isolate", 1), ("pause", 1), *damage),
        fault_interval_us=(1 if reports else 3 if tails else 5) * SECOND,
        fault_duration_us=draws.choice((500, 1500)) * MILLISECOND,
        hunt_report=0.9,
        hunt_boundary=0.0 if reports or tails else 0.9,
        hunt_tail=0.9 if tails else 0.0,
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        burst_max=draws.choice((6, 15)),
        **storing(draws),
    )


CONTESTED_SHARE = 0.25
"""In so many of the worlds that grow, two operators contend for the nodes that joined."""


ORPHANED_SHARE = 0.25
"""In so many of the others, controllers die that have just admitted a node."""


def growing(draws: Draws) -> Knobs:
    """Nodes that were not there are added, get copies and votes, and are removed again, while processes die,
    disks are lost and the network falls apart (I3, M2). After the whole room has lost power, an election may
    need a node that only a log names.
    """
    joiners = draws.choice((1, 2))
    knobs = base_knobs(
        draws,
        nodes=3 + joiners,
        joiners=joiners,
        streams=draw_streams(draws, 3, 1),
        network=NetworkOptions(
            *(1_000, draws.choice((2_000, 20_000)), draws.choice((0.0, 0.05)), draws.choice((0.0, 0.1))),
            *(draws.choice((0.0, 0.1)), draws.choice((200, 1000)) * MILLISECOND),
        ),
        faults=(
            *(("isolate", 3), ("link", 2), ("pause", 2), ("kill", 4), ("power", 2), ("stop", 2)),
            ("power_all", 3),
        ),
        tick_ms=draws.choice((50, 100)),
        fault_interval_us=draws.choice((1, 2)) * SECOND,
        fault_duration_us=draws.choice((500, 1500)) * MILLISECOND,
        publish_interval_us=SECOND,
        hunt_controller=draws.choice((0.0, 0.0, 0.3)),
        admin_interval_us=draws.choice((300, 1000)) * MILLISECOND,
        node_share=draws.choice((0.3, 0.6)),
        voter_share=draws.choice((0.0, 0.3, 0.5)),
    )
    contested, orphaned = draws.part("contested"), draws.part("orphaned")
    if contested.random() < CONTESTED_SHARE:
        return _contested(contested, knobs)
    return _orphaned(orphaned, knobs) if orphaned.random() < ORPHANED_SHARE else knobs


def _orphaned(draws: Draws, knobs: Knobs) -> Knobs:
    """Who admits a node that knows him alone dies at once, and comes back as a follower. Little else goes
    wrong: nobody starts the new node again. Whoever leads is known to one of three.
    """
    return msgspec.structs.replace(
        knobs,
        nodes=6,
        joiners=3,
        faults=(("isolate", 2), ("pause", 1)),
        fault_interval_us=10 * SECOND,
        hunt_controller=0.0,
        hunt_contact=0.9,
        nodes_stay=True,
        node_share=draws.choice((0.3, 0.6)),
        voter_share=0.0,
    )


def _contested(draws: Draws, knobs: Knobs) -> Knobs:
    """Few things go wrong, and messages take their time, in order: what two operators want at once is all
    under way.
    """
    return msgspec.structs.replace(
        knobs,
        nodes=6,
        joiners=3,
        network=NetworkOptions(8_000, 0, 0.0, 0.0, 0.0, 0),
        faults=(("kill", 4), ("isolate", 2), ("stop", 2), ("pause", 1)),
        fault_interval_us=5 * SECOND,
        fault_duration_us=700 * MILLISECOND,
        hunt_controller=0.0,
        node_share=0.0,
        voter_share=0.1,
        contest_interval_us=draws.choice((300, 600)) * MILLISECOND,
    )


def replacements(draws: Draws) -> Knobs:
    """Disk after disk is lost, each as soon as the last one's node votes again, while whoever has to see to
    that is struck: the group's members change all the time (M2).
    """
    nodes = draws.choice((3, 3, 3, 5))
    spares = nodes > 3 and draws.random() < 0.9
    return base_knobs(
        draws,
        nodes=nodes,
        streams=draw_streams(draws, nodes, 1),
        network=NetworkOptions(
            *(1_000, draws.choice((2_000, 20_000)), draws.choice((0.0, 0.05)), draws.choice((0.0, 0.1))),
            *(draws.choice((0.0, 0.1)), draws.choice((200, 1000, 4000)) * MILLISECOND),
        ),
        storage_times=StorageTimes(
            sync_us=draws.choice((300, 5_000)), sync_jitter_us=draws.choice((1_000, 50_000))
        ),
        faults=(
            *(("wipe", 12), ("lost_promises", 4), ("isolate", 3), ("one_way", 1), ("link", 3), ("pause", 2)),
            *(("kill", 3), ("power", 1), ("stop", 1)),
        ),
        tick_ms=draws.choice((50, 100)),
        fault_interval_us=draws.choice((500, 1000)) * MILLISECOND,
        fault_duration_us=draws.choice((4000,) if spares else (200, 500, 1500)) * MILLISECOND,
        publish_interval_us=2 * SECOND,
        publishers=1,
        readers=1,
        read_interval_us=3 * SECOND,
        hunt_controller=draws.choice((0.0, 0.0, 0.3)),
        admin_interval_us=draws.choice((400, 2000)) * MILLISECOND,
        voter_share=draws.choice((0.0, 0.0, 0.5, 0.9)),
        voters=3 if spares else 0,
        spare_ticks=draws.choice((20, 40)) if spares else 0,
    )


def total_loss(draws: Draws) -> Knobs:
    """Most voters' disks are destroyed at once, again and again, and the cluster is recovered from those that
    are left; a disk that was taken for destroyed may come back (M5).
    """
    nodes = draws.choice((3, 3, 5, 5))
    return base_knobs(
        draws,
        nodes=nodes,
        streams=draw_streams(draws, nodes, draws.choice((1, 2))),
        network=NetworkOptions(
            *(1_000, draws.choice((2_000, 20_000)), draws.choice((0.0, 0.02)), draws.choice((0.0, 0.05))),
            *(draws.choice((0.0, 0.05)), draws.choice((200, 1000)) * MILLISECOND),
        ),
        faults=(("total_loss", 4), ("kill", 2), ("isolate", 6), ("pause", 1), ("stop", 1), ("wipe", 1)),
        tick_ms=draws.choice((50, 100)),
        snapshot_entries=draws.choice((6, 20, 8192)),
        proposal_span=draws.choice((40, 4096)),
        fault_interval_us=draws.choice((3, 5)) * SECOND,
        fault_duration_us=draws.choice((500, 2000, 6000)) * MILLISECOND,
        publish_interval_us=draws.choice((250, 500)) * MILLISECOND,
        admin_interval_us=draws.choice((0, 4)) * SECOND,
    )
