"""Worlds in which messages are deleted, also by subject: partitions have a journal (R21, ADR 0062)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.settings import base_knobs, on_several, small_stream, storing

BUCKET = "KV_b"
"""The stream of a key-value bucket."""
QUEUE_SHARE = 0.4
"""So many of the streams are work queues, where there are consumers (R26)."""
INTEREST_SHARE = 0.5
"""And of so many of the others messages go by interest (R27)."""
RESTLESS_SHARE = 0.25
APART_SHARE = 0.3
PLAIN_SHARE = 0.4
"""In so many worlds with a mirror no message of its origin can be deleted."""

AFAR_SHARE = 0.5
"""In so many of them there is a mirror of another cluster's stream too."""
HEIRS_SHARE = 0.4
"""In so many worlds of a stream without interest whose leaders go, each new one is asked at once."""
SOURCES_SHARE = 0.5
"""In so many of these worlds there is a stream with sources too."""


def removals(draws: Draws) -> Knobs:
    """Leaders change, copies fall behind in one log or the other, and power fails between two syncs.

    Not of all at once: of copies that are all in doubt one may have the longest data and another one the
    longest journal, and then they wait for an operator, who may undo deletions (R14).
    """
    keeps = draws.part("limit").choice((0, 0, 1, 2, 5))
    most = draws.part("front").choice((0, 0, 0, 3, 15))
    size = draws.part("bytes").choice((0, 0, 0, 300, 2000))
    full = draws.part("full").choice((0, 0, 0, 1500, 6000))
    age_ms = draws.part("age").choice((0, 0, 0, 1500, 5000))
    crowded = draws.part("crowded").choice((0, 0, 0, 0, 1, 3))
    rolls_up = draws.part("roll-ups").choice((True, True, msgspec.UNSET))
    plain = (
        small_stream(draws, f"s{number}", compact=False, retention=draws.random() < 0.2)
        for number in range(draws.choice((1, 1, 2)))
    )
    streams = tuple(
        msgspec.structs.replace(
            stream,
            removal=True,
            retention_messages=most or stream.retention_messages,
            retention_bytes=0 if full else size or stream.retention_bytes,
            bytes_max=full or msgspec.UNSET,
            retention_ms=age_ms or stream.retention_ms or (4000 if full or crowded else 0),
            subject=f"{stream.name}.in.*",
            max_messages_per_subject=msgspec.UNSET if crowded else keeps or msgspec.UNSET,
            subject_messages_max=crowded or msgspec.UNSET,
            allow_rollup=msgspec.UNSET if crowded else rolls_up,
            allow_ttl=draws.part("times").choice((True, True, msgspec.UNSET)),
        )
        for stream in plain
    )
    knobs = base_knobs(
        draws,
        nodes=draws.choice((3, 3, 4)),
        streams=streams,
        faults=(
            *(("kill", 4), ("kill_all", 1), ("power", 2), ("crash_inside", 2)),
            *(("isolate", 4), ("partition", 2), ("one_way", 2), ("pause", 2), ("stop", 2)),
            *(("slow_disk", 2), ("sync_failure", 1), ("full_disk", 0.5), ("flip", 0.5), ("sector", 0.5)),
            ("wipe", 0.3),
        ),
        fault_interval_us=draws.choice((1200, 2500)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500, 4000)) * MILLISECOND,
        hunt_leader=draws.choice((0.0, 0.2)),
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        front_again=0.1,
        purge_share=draws.choice((0.0, 0.2)),
        delete_share=0.9,
        purge_subjects_share=draws.part("purges").choice((0.0, 0.2, 0.4)),
        ask_subjects_us=draws.part("questions").choice((200, 500, 1500)) * MILLISECOND,
        restate_entries=draws.part("restated").choice((4, 4, 8, 32)),
        journal_bytes=draws.part("journal").choice((0, 1, 1, 300)),
        fold_bytes=draws.part("folds").choice((0, 300, 1000)),
        expecting_lasts=draws.part("lasts").choice((0.0, 0.5, 0.95)),
        admin_interval_us=draws.choice((200, 500)) * MILLISECOND,
        **storing(draws),
        consumers=draws.choice((0, 2)),
    )
    # Some copies that start take a while to read what is gone, and are asked meanwhile (R21).
    read_us = draws.part("journal", "reads").choice((0, 10, 40)) * MILLISECOND
    # And storage takes a while to say what remains of subjects, while something is deleted (R24).
    index_us = draws.part("journal", "lasts").choice((0, 10, 40)) * MILLISECOND
    # In some, journals and data are synced beside each other, as in production (R5).
    apart = draws.part("journal", "apart").random() < APART_SHARE
    times = msgspec.structs.replace(
        knobs.storage_times, journal_read_us=read_us, index_read_us=index_us, journals_apart=apart
    )
    knobs = msgspec.structs.replace(knobs, storage_times=times)
    marker_ms = draws.part("markers").choice((0, 0, 1000, 2500, 60_000))
    if marker_ms:
        streams = tuple(_leaving_markers(one, marker_ms) for one in knobs.streams)
        knobs = msgspec.structs.replace(knobs, streams=streams)
    return on_several(draws.part("several"), knobs)


def _emptied(draws: Draws, stream: StreamConfig) -> StreamConfig:
    """This stream, perhaps as one that consumers take messages out of (R26, R27)."""
    if draws.part("queues").part(stream.name).random() < QUEUE_SHARE:
        return msgspec.structs.replace(stream, work_queue=True, max_messages_per_subject=msgspec.UNSET)
    if draws.part("interest").part(stream.name).random() < INTEREST_SHARE:
        return msgspec.structs.replace(stream, interest=True, max_messages_per_subject=msgspec.UNSET)
    return stream


def _leaving_markers(stream: StreamConfig, marker_ms: int) -> StreamConfig:
    """R24: unless it refuses messages while it is full (C6)."""
    if stream.holds_most or stream.holds_bytes or stream.holds_of_subject:
        return stream
    return msgspec.structs.replace(stream, allow_rollup=True, allow_ttl=True, marker_ttl_ms=marker_ms)


def groups(draws: Draws) -> Knobs:
    """A consumer group whose register lies in a compacted stream, of which the leader dies (G1 to G5)."""
    data = small_stream(draws, "s0", compact=False, retention=False)
    register = small_stream(draws, "groups", compact=True, retention=False)
    register = msgspec.structs.replace(register, subject="groups.*", partitions=1)
    return base_knobs(
        draws,
        nodes=draws.choice((3, 3, 4)),
        streams=(msgspec.structs.replace(data, partitions=draws.choice((1, 2, 3))), register),
        faults=(
            *(("kill", 4), ("kill_all", 1), ("power", 2), ("crash_inside", 2)),
            *(("isolate", 4), ("partition", 2), ("one_way", 2), ("pause", 2), ("stop", 2)),
            *(("slow_disk", 2), ("sync_failure", 1), ("wipe", 0.3)),
        ),
        fault_interval_us=draws.choice((2000, 4000)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500)) * MILLISECOND,
        hunt_leader=draws.choice((0.0, 0.1)),
        publish_interval_us=draws.choice((250, 400)) * MILLISECOND,
        members=draws.choice((2, 3, 4)),
        **storing(draws),
    )


def consumers(draws: Draws) -> Knobs:
    """The same worlds with durable consumers, fewer messages that are deleted, and time to consume the others
    (K1 to K8), and a stream for dead letters (K9).
    """
    knobs, restless = removals(draws), draws.part("restless")
    is_restless = restless.random() < RESTLESS_SHARE
    streams = knobs.streams if is_restless else tuple(_emptied(draws, one) for one in knobs.streams)
    letters = small_stream(draws.part("dead"), "dead", compact=False, retention=False)
    letters = msgspec.structs.replace(letters, subject="dead.letters", dedupe_window_ms=600_000)
    knobs = msgspec.structs.replace(
        knobs,
        streams=(*streams, letters),
        delete_share=draws.choice((0.0, 0.3)),
        admin_interval_us=draws.choice((500, 2000)) * MILLISECOND,
        consumers=draws.choice((3, 5)),
        consume_interval_us=draws.choice((100, 200, 400)) * MILLISECOND,
        fault_interval_us=draws.choice((1500, 3000, 6000)) * MILLISECOND,
        publish_interval_us=draws.choice((500, 1000)) * MILLISECOND,
        duration_us=40 * SECOND,
        hunt_leader=draws.choice((0.0, 0.3)),
        grouped=draws.part("grouped").choice((0, 3)),
    )
    return _restless(restless, knobs) if is_restless else knobs


def _restless(draws: Draws, knobs: Knobs) -> Knobs:
    """Consumers are deleted and created all the time, and journals are read slowly: a leader
    makes and serves consumers that has not heeded yet what somebody was told (K1, K7).
    """
    read_us = draws.choice((60, 150)) * MILLISECOND
    return msgspec.structs.replace(
        knobs,
        storage_times=msgspec.structs.replace(knobs.storage_times, journal_read_us=read_us),
        tail_cache_bytes=1,
        value_filler=0,
        delete_share=0.6,
        admin_interval_us=200 * MILLISECOND,
        consumers=3,
        grouped=0,
        consumers_anew=0.3,
        consume_interval_us=100 * MILLISECOND,
        publish_interval_us=500 * MILLISECOND,
    )


def inherited(draws: Draws) -> Knobs:
    """Leaders go one after the other, else all is well, and consumers stay: what a leader leaves undone its
    successor does, and nothing else has it done. Messages go by interest (R27), dead ones are published (K9).
    """
    names = draws.choice((("s0",), ("s0", "s1"), ("s1",)))
    by_interest = {"s0": True}
    streams = [
        StreamConfig(name, f"{name}.in.*", 1, 3, removal=True, interest=by_interest.get(name, msgspec.UNSET))
        for name in names
    ]
    letters = StreamConfig("dead", "dead.letters", 1, 3, dedupe_window_ms=600_000)
    knobs = base_knobs(
        draws,
        nodes=3,
        streams=(*streams, letters),
        network=NetworkOptions(500, draws.choice((1_000, 5_000)), 0.0, 0.01, 0.0, 0),
        storage_times=StorageTimes(50, 300, draws.choice((1_000, 10_000)), 0, 0.0, 0),
        tick_ms=150,
        faults=(("kill", 4), ("isolate", 2), ("stop", 2), ("power", 1), ("pause", 1)),
        fault_interval_us=draws.choice((2000, 3000)) * MILLISECOND,
        fault_duration_us=1500 * MILLISECOND,
        publish_interval_us=draws.choice((500, 1000)) * MILLISECOND,
        burst_max=draws.choice((2, 6)),
        value_filler=0,
        consumers=draws.choice((3, 4)),
        consumers_stay=True,
        consume_interval_us=draws.choice((100, 200)) * MILLISECOND,
        duration_us=40 * SECOND,
        **storing(draws),
    )
    asked = "s1" in names and draws.part("heirs").random() < HEIRS_SHARE
    return _asked_at_once(knobs) if asked else knobs


def _asked_at_once(knobs: Knobs) -> Knobs:
    """Messages come all the time and take their time, so that whoever begins to lead has some of which it
    does not know that they were acknowledged, and clients are there at once (K5).
    """
    return msgspec.structs.replace(
        knobs,
        asks_heirs=True,
        network=NetworkOptions(500, 5_000, 0.0, 0.01, 0.0, 0),
        publish_interval_us=40 * MILLISECOND,
        burst_max=6,
        fault_interval_us=1000 * MILLISECOND,
        fault_duration_us=1000 * MILLISECOND,
        duration_us=20 * SECOND,
    )


def doors(draws: Draws) -> Knobs:
    """JetStream's doors, which die and come back, and clients of a key-value bucket (ADR 0088)."""
    plain = small_stream(draws, BUCKET, compact=False, retention=False)
    bucket = msgspec.structs.replace(plain, subject="$KV.b.*", removal=True, dedupe_window_ms=2000)
    knobs = base_knobs(
        draws,
        nodes=draws.choice((3, 3, 4)),
        streams=(bucket,),
        faults=(
            *(("kill", 4), ("kill_all", 1), ("power", 2), ("crash_inside", 2)),
            *(("isolate", 4), ("partition", 2), ("one_way", 2), ("pause", 2), ("stop", 2)),
            *(("slow_disk", 2), ("sync_failure", 1), ("full_disk", 0.5)),
        ),
        fault_interval_us=draws.choice((2000, 4000)) * MILLISECOND,
        fault_duration_us=draws.choice((500, 1500)) * MILLISECOND,
        hunt_leader=draws.choice((0.0, 0.3)),
        publishers=1,
        publish_interval_us=draws.choice((1000, 3000)) * MILLISECOND,
        ask_subjects_us=draws.choice((500, 1500)) * MILLISECOND,
        expecting_lasts=0.5,
        admin_interval_us=0,
        door_clients=draws.choice((2, 3)),
        door_interval_us=draws.choice((100, 250)) * MILLISECOND,
        **storing(draws),
    )
    return msgspec.structs.replace(knobs, duration_us=40 * SECOND)


def mirrors(draws: Draws) -> Knobs:
    """A mirror is made, removed and made again, of a stream whose messages are deleted or of another one,
    while leaders on both sides go (R28).
    """
    knobs = removals(draws)
    if draws.part("plain").random() < PLAIN_SHARE:
        plain = small_stream(draws.part("origin"), "s0", compact=False, retention=draws.random() < 0.5)
        knobs = msgspec.structs.replace(knobs, streams=(plain,))
    if draws.part("sources").random() < SOURCES_SHARE:
        knobs = sources(draws.part("sources"), knobs)
    afar = draws.part("afar")
    return msgspec.structs.replace(
        knobs,
        afar_interval_us=afar.choice((250, 500)) * MILLISECOND if afar.random() < AFAR_SHARE else 0,
        consumers=draws.part("consuming").choice((0, 2)),
        mirror_interval_us=draws.choice((500, 1000, 2000)) * MILLISECOND,
        publish_interval_us=draws.choice((100, 250)) * MILLISECOND,
    )


def sources(draws: Draws, knobs: Knobs) -> Knobs:
    """A stream that copies two others, or a mirror beside, is made and removed too (R29)."""
    more = small_stream(draws.part("more"), "more", compact=False, retention=draws.random() < 0.3)
    return msgspec.structs.replace(
        knobs,
        streams=(*knobs.streams, more),
        sources_interval_us=draws.choice((500, 1000, 2000)) * MILLISECOND,
    )


JOURNALS: dict[str, Callable[[Draws], Knobs]] = {
    "removals": removals,
    "consumers": consumers,
    "inherited": inherited,
    "groups": groups,
    "mirrors": mirrors,
    "doors": doors,
}
"""These profiles, by name."""
