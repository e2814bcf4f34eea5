"""A message with an id is stored once for the length of a window, whoever leads, and a repetition is answered
with the first one's offset (L7).
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from nats.aio.msg import Msg

from liftlog.client.publisher import identified, result_of
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered
from liftlog.core.metadata.subjects import config_problem
from liftlog.core.replica.publishing.message_ids import RememberedIds
from liftlog.format import decode_records
from liftlog.messages import (
    AckPublishes,
    AlterStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    FetchReply,
    Published,
    PurgeRequest,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.options.envelope import Envelope, seal
from liftlog.options.headers import stored_id
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Terms
from liftlog.real import nats_wire
from liftlog.types import LiftlogError, Message, OffsetRange, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, split
from tests.core.test_headers import block
from tests.core.test_replication import others

WINDOW_MS = 1000
T0 = 1_000_000


def world_with_ids(mutants: str = "", most: int = 1000, **settings: Any) -> tuple[World, PartitionId]:
    named: dict[str, Any] = {"without": mutants} if "." in mutants else {mutants: True} if mutants else {}
    world = World(mutants=Mutants(**named))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(dedupe_window_ms=WINDOW_MS, dedupe_ids_max=most, **settings)
    return world, partition


def with_id(id: str, reply: bytes = b"", value: bytes = b"x", *lines: str) -> Message:
    return Message(b"orders", reply, block(f"Nats-Msg-Id: {id}", *lines), value)


def publish(world: World, partition: PartitionId, *messages: Message, at_ms: int = T0) -> int:
    """Hand these to the leader, whose clock says this; returns where its log ended before."""
    leader, epoch = world.subscriptions[partition]
    leo = world.replica(leader, partition).leo
    world.step(leader, Published(partition, epoch, list(messages), at_ms))
    return leo


def stored(world: World, partition: PartitionId) -> list[tuple[bytes | None, int]]:
    """The id, or without one the value, and the time of each record of the leader."""
    log = world.disks[world.leader(partition)].logs[partition]
    records = [record for batch in log.batches for record in decode_records(batch)]
    return [(stored_id(record.headers) or record.value, record.timestamp_ms) for record in records]


def ids(world: World, partition: PartitionId) -> RememberedIds:
    roles = world.replica(world.leader(partition), partition).roles
    assert roles is not None
    return roles.leader.ids


def marks(world: World, partition: PartitionId) -> dict[str, int]:
    return world.nodes[world.leader(partition)].marks


def told(world: World, reply: bytes) -> list[tuple[int, bool]]:
    """(offset, whether it was there before) of each answer."""
    return [(ack.offsets_from + ack.replies.index(reply), ack.duplicate) for ack in acks_for(world, reply)]


def hold_others(world: World, partition: PartitionId) -> None:
    for node in others(world, partition):
        world.hold_storage(node)


def fail_over(world: World, partition: PartitionId) -> None:
    """The leader dies; another one leads and takes messages."""
    first = world.leader(partition)
    world.kill(first)
    for node in list(world.nodes):
        if node in world.held:
            world.release_storage(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    assert world.run_until(lambda: partition in world.subscriptions)


# -- what a message asks for -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "id"),
    [
        (["Nats-Msg-Id: a b"], b"a b"),
        (["Nats-Msg-Id:a"], b"a"),
        (["nats-msg-id: a"], None),
        (["Nats-Msg-Id: "], None),
        (["Nats-Msg-Id: a", "Nats-Msg-Id: b"], b"a"),
        (["Nats-Msg-Id: " + "i" * 256], b"i" * 256),
    ],
)
def test_L7_a_header_names_the_id_and_it_is_found_again_in_what_is_stored(
    lines: list[str], id: bytes | None
) -> None:
    headers = block("Other: x", *lines)
    for message in (
        Message(b"orders", b"", headers, b"x"),
        Message(b"orders", b"", headers, seal(Envelope(value=b"x"))),
    ):
        wish = wishes_of(message, "orders", terms=Terms(remembers=True))
        assert (wish.id, wish.refusal) == (id, None)
    assert stored_id(headers) == id


def test_L7_an_id_is_refused_where_none_are_remembered_or_if_it_is_too_long() -> None:
    message = with_id("a")
    refusal = wishes_of(message, "orders").refusal
    assert refusal is not None and refusal.code == "header-not-honoured"
    assert "liftlog stream alter orders --dedupe-window 2m" in refusal.text
    long = wishes_of(with_id("i" * 257), "orders", terms=Terms(remembers=True)).refusal
    assert long is not None and "256" in long.text


# -- stored once -------------------------------------------------------------------------------------------


def test_L7_a_message_is_stored_once_and_a_repetition_hears_where() -> None:
    world, partition = world_with_ids()
    base = publish(
        world,
        partition,
        with_id("a", b"_INBOX.1", b"first"),
        Message(b"orders", b"_INBOX.p", b"", b"plain"),
        with_id("a", b"_INBOX.2", b"again in the same read"),
        with_id("b", b"_INBOX.3", b"other"),
    )
    assert world.run_until(lambda: bool(told(world, b"_INBOX.2")))
    assert told(world, b"_INBOX.1") == [(base, False)]
    assert told(world, b"_INBOX.p") == [(base + 1, False)]
    assert told(world, b"_INBOX.2") == [(base, True)]
    assert told(world, b"_INBOX.3") == [(base + 2, False)]
    publish(world, partition, with_id("b", b"_INBOX.4"), with_id("b"))
    assert told(world, b"_INBOX.4") == [(base + 2, True)], "that is committed: at once"
    assert [what for what, _ in stored(world, partition)][base:] == [b"a", b"plain", b"b"]
    counted = marks(world, partition)
    assert counted["L7.known"] == 3 and counted["L7.dropped"] == 1 and counted["L7.answered"] == 2


def test_L7_a_repetition_hears_nothing_before_the_first_is_committed() -> None:
    world, partition = world_with_ids()
    hold_others(world, partition)
    base = publish(world, partition, with_id("a", b"_INBOX.1"))
    publish(world, partition, with_id("b", b"_INBOX.3"))
    publish(world, partition, with_id("b", b"_INBOX.4"), with_id("a", b"_INBOX.2"))
    world.run(0.3)
    assert not any(told(world, b"_INBOX.%d" % number) for number in range(1, 5))
    assert marks(world, partition)["L7.uncommitted"] == 2
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: bool(told(world, b"_INBOX.4")))
    assert (told(world, b"_INBOX.2"), told(world, b"_INBOX.4")) == ([(base, True)], [(base + 1, True)])


def test_L7_nobody_hears_of_a_first_one_that_was_cut() -> None:
    world, partition = world_with_ids()
    world.drop = lambda sender, to, message: isinstance(message, FetchReply) and bool(message.batches)
    publish(world, partition, with_id("a", b"_INBOX.1"))
    publish(world, partition, with_id("a", b"_INBOX.2"))
    world.run(0.1)
    fail_over(world, partition)
    world.drop = lambda sender, to, message: False
    world.run(1.0)
    assert not told(world, b"_INBOX.2") and not world.refusals
    assert world.run_until(lambda: ids(world, partition).whole)
    base = publish(world, partition, with_id("a", b"_INBOX.3"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.3")))
    assert told(world, b"_INBOX.3") == [(base, False)], "it was never stored"


def test_L7_R4_who_wants_the_leaders_word_alone_hears_of_the_first_when_that_is_durable_there() -> None:
    world, partition = world_with_ids()
    leader = world.leader(partition)
    hold_others(world, partition)
    world.hold_storage(leader)
    word = "Liftlog-Ack-Policy: leader"
    base = publish(world, partition, with_id("a", b"_INBOX.1"), with_id("a", b"_INBOX.2", b"x", word))
    publish(world, partition, with_id("a", b"_INBOX.3", b"x", "Liftlog-Ack-Policy: none"))
    world.run(0.1)
    assert not told(world, b"_INBOX.2")
    world.release_storage(leader)
    assert world.run_until(lambda: bool(told(world, b"_INBOX.2")))
    (ack,) = acks_for(world, b"_INBOX.2")
    assert ack.by_leader and told(world, b"_INBOX.2") == [(base, True)]
    assert not told(world, b"_INBOX.1") and not told(world, b"_INBOX.3")


@pytest.mark.parametrize("answers", [False, True])
def test_L7_N2_a_fenced_leader_tells_nobody_and_what_waits_is_bounded(answers: bool) -> None:
    world, partition = world_with_ids("fenced_leader_answers" if answers else "")
    hold_others(world, partition)
    base = publish(world, partition, with_id("a", b"", b"first"))
    publish(world, partition, with_id("a", b"_INBOX.2"))
    roles = world.replica(world.leader(partition), partition).roles
    assert roles is not None
    leader = roles.leader
    assert leader.inflight_bytes > len(b"_INBOX.2" + b"x")
    leader.fence()
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: world.committed(partition, base + 1))
    assert bool(told(world, b"_INBOX.2")) == answers
    assert leader.inflight_bytes == 0
    assert answers or world.nodes[world.leader(partition)].marks["L7.silenced"] == 1


def test_L7_a_known_id_comes_before_an_expected_offset_and_what_is_refused_is_not_known() -> None:
    world, partition = world_with_ids()
    base = publish(
        world,
        partition,
        with_id("a", b"_INBOX.1", b"wrong", "Liftlog-Expected-Offset: 99"),
        with_id("a", b"_INBOX.2", b"right"),
        with_id("a", b"_INBOX.3", b"again", "Liftlog-Expected-Offset: 99"),
        Message(b"orders", b"_INBOX.4", block("Liftlog-Expected-Offset: 1"), b"behind"),
    )
    assert base == 0 and world.run_until(lambda: bool(told(world, b"_INBOX.3")))
    assert [refusal.replies for refusal in world.refusals] == [[b"_INBOX.1"]]
    assert told(world, b"_INBOX.2") == [(0, False)] and told(world, b"_INBOX.3") == [(0, True)]
    assert told(world, b"_INBOX.4") == [(1, False)]


# -- the window --------------------------------------------------------------------------------------------


def test_L7_an_id_is_free_again_when_it_is_a_window_old_by_the_times_in_the_log() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), at_ms=T0)
    publish(world, partition, with_id("a"), at_ms=T0 + WINDOW_MS - 1)
    publish(world, partition, with_id("a"), at_ms=T0 + WINDOW_MS)
    publish(world, partition, with_id("a"), at_ms=T0 + 2 * WINDOW_MS - 1)
    assert stored(world, partition) == [(b"a", T0), (b"a", T0 + WINDOW_MS)]


def test_L7_times_never_go_back_whatever_the_clock_says_and_whoever_leads() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), at_ms=T0 + 500)
    publish(world, partition, Message(b"orders", b"", b"", b"p"), at_ms=T0)
    assert world.run_until(lambda: world.committed(partition, 2))
    assert marks(world, partition)["L7.further-back"] == 1
    fail_over(world, partition)
    publish(world, partition, Message(b"orders", b"", b"", b"q"), at_ms=T0 - 10_000)
    assert stored(world, partition) == [(b"a", T0 + 500), (b"p", T0 + 500), (b"q", T0 + 500)]


def test_L7_a_refused_message_has_moved_the_time_on() -> None:
    """What a leader has let go of once is not young again when its clock is set back."""
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), at_ms=T0)
    publish(world, partition, with_id("b", b"", b"x", "Liftlog-Expected-Offset: 99"), at_ms=T0 + WINDOW_MS)
    publish(world, partition, with_id("a"), at_ms=T0 + 10)
    assert stored(world, partition) == [(b"a", T0), (b"a", T0 + WINDOW_MS)]


def test_L7_a_full_table_refuses_what_has_an_id_until_others_are_too_old() -> None:
    world, partition = world_with_ids(most=2)
    publish(world, partition, with_id("a"), with_id("b"), with_id("c", b"_INBOX.c"))
    publish(world, partition, Message(b"orders", b"", b"", b"plain"), with_id("a", b"_INBOX.a"))
    assert [(one.code, one.replies) for one in world.refusals] == [("overload", [b"_INBOX.c"])]
    assert "--dedupe-ids-max" in world.refusals[0].description
    assert marks(world, partition)["L7.full"] == 1
    publish(world, partition, with_id("c"), at_ms=T0 + WINDOW_MS)
    assert [what for what, _ in stored(world, partition)] == [b"a", b"b", b"plain", b"c"]


# -- who leads next ----------------------------------------------------------------------------------------


def test_L7_the_next_leader_finds_the_ids_in_its_log_to_the_end_and_all_start_anew_as_well() -> None:
    world, partition = world_with_ids()
    base = publish(world, partition, with_id("a"), with_id("b"))
    assert world.run_until(lambda: world.committed(partition, base + 2))
    fail_over(world, partition)
    publish(world, partition, with_id("a", b"_INBOX.early"), Message(b"orders", b"", b"", b"plain"))
    assert [(one.code, one.replies) for one in world.refusals] == [("not-ready", [b"_INBOX.early"])]
    assert marks(world, partition)["L7.unread"] == 1, "plain messages are taken meanwhile"
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, with_id("a", b"_INBOX.1"), with_id("b", b"_INBOX.2"), with_id("c"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.2")))
    assert told(world, b"_INBOX.1") == [(base, True)] and told(world, b"_INBOX.2") == [(base + 1, True)]
    assert [what for what, _ in stored(world, partition)] == [b"a", b"b", b"plain", b"c"]
    assert world.run_until(lambda: world.committed(partition, base + 4))
    nodes = list(world.disks)
    for node in nodes:
        if node in world.nodes:
            world.kill(node)
    for node in nodes:
        world.restart(node)
    assert world.run_until(lambda: partition in world.subscriptions and ids(world, partition).whole)
    publish(world, partition, with_id("c", b"_INBOX.3"))
    assert world.run_until(lambda: bool(told(world, b"_INBOX.3")))
    assert told(world, b"_INBOX.3") == [(base + 3, True)]


def test_L7_a_log_that_cannot_be_read_refuses_ids_until_it_can_be_or_is_too_old() -> None:
    world, partition = world_with_ids(replicas=1)
    publish(world, partition, with_id("a"))
    assert world.run_until(lambda: world.committed(partition, 1))
    log = world.disks[world.leader(partition)].logs[partition]
    log.bad = [OffsetRange(0, 1)]
    node = world.leader(partition)
    world.kill(node)
    world.restart(node)
    assert world.run_until(lambda: partition in world.subscriptions)
    world.run(3.0)
    assert not ids(world, partition).whole and marks(world, partition)["L7.unreadable"] >= 2
    publish(world, partition, with_id("a", b"_INBOX.1"))
    assert world.refusals[-1].code == "not-ready"
    log.bad, log.damage = [], []
    assert world.run_until(lambda: ids(world, partition).whole)


def test_L7_a_longer_window_with_too_many_ids_takes_no_more_memory_than_the_stream_allows() -> None:
    world, partition = world_with_ids(most=2)
    began_ms = world.nodes[1].ctx.wall_ms
    for number in range(5):
        publish(world, partition, with_id(f"id-{number}"), at_ms=began_ms + number * WINDOW_MS)
    assert world.run_until(lambda: world.committed(partition, 5))

    def alter(**changes: Any) -> None:
        reply = world.answer(1, AlterStreamRequest("orders", StreamChanges(**changes)))
        assert isinstance(reply, DoneReply), reply
        world.run(1.0)

    alter(dedupe_window_ms=10 * WINDOW_MS)
    assert marks(world, partition)["L7.too-many"] == 1 and not ids(world, partition).whole
    publish(world, partition, with_id("id-0", b"_INBOX.0"), at_ms=began_ms + 5 * WINDOW_MS)
    refusal = world.refusals[-1]
    assert refusal.code == "overload" and "--dedupe-ids-max" in refusal.description
    alter(dedupe_ids_max=10)
    assert world.run_until(lambda: ids(world, partition).whole, 40.0)
    publish(world, partition, with_id("id-0", b"_INBOX.1"), at_ms=began_ms + 5 * WINDOW_MS)
    assert world.run_until(lambda: bool(told(world, b"_INBOX.1")))
    assert told(world, b"_INBOX.1") == [(0, True)]


def test_L7_the_window_can_be_altered_and_a_longer_one_is_read_anew() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), at_ms=T0)
    publish(world, partition, with_id("b"), at_ms=T0 + WINDOW_MS)
    assert world.run_until(lambda: world.committed(partition, 2))

    def alter(**changes: Any) -> None:
        reply = world.answer(1, AlterStreamRequest("orders", StreamChanges(**changes)))
        assert isinstance(reply, DoneReply), reply
        world.run(0.5)

    alter(dedupe_window_ms=10 * WINDOW_MS)
    assert world.run_until(lambda: ids(world, partition).whole)
    base = publish(world, partition, with_id("a", b"_INBOX.1"), at_ms=T0 + WINDOW_MS)
    assert world.run_until(lambda: bool(told(world, b"_INBOX.1")))
    assert told(world, b"_INBOX.1") == [(0, True)] and base == 2
    alter(dedupe_window_ms=0)
    publish(world, partition, with_id("a", b"_INBOX.2"))
    assert world.refusals[-1].code == "header-not-honoured"
    config = world.nodes[1].metadata.streams["orders"].config
    assert config.remembers_ms == 0


# -- what the log keeps ------------------------------------------------------------------------------------


def test_L7_retention_keeps_what_is_younger_than_the_window_by_committed_time() -> None:
    world, partition = world_with_ids(retention_messages=1)
    replica = world.replica(world.leader(partition), partition)
    publish(world, partition, with_id("a"), at_ms=T0)
    publish(world, partition, Message(b"orders", b"", b"", b"p"), at_ms=T0 + 10)
    publish(world, partition, with_id("b"), at_ms=T0 + WINDOW_MS - 1)
    assert world.run_until(lambda: world.committed(partition, 3))
    assert replica.leading is not None and replica.leading.needed_from == 0
    world.run(31.0)
    assert replica.log_start == 0 and marks(world, partition)["L7.kept"] == 1
    hold_others(world, partition)
    publish(world, partition, with_id("c"), at_ms=T0 + 5 * WINDOW_MS)
    world.run(0.5)
    assert replica.leading.needed_from == 0, "what is not committed has not passed"
    for other in others(world, partition):
        world.release_storage(other)
    assert world.run_until(lambda: world.committed(partition, 4))
    assert replica.leading.needed_from == 3
    assert world.run_until(lambda: replica.log_start == 3, 31.0)


def test_L7_a_purge_of_what_may_still_be_needed_is_refused() -> None:
    world, partition = world_with_ids()
    publish(world, partition, Message(b"orders", b"", b"", b"p"), with_id("a"), at_ms=T0)
    assert world.run_until(lambda: world.committed(partition, 2))
    refused = world.answer(world.leader(partition), PurgeRequest(partition, 2))
    assert isinstance(refused, ErrorReply) and "--dedupe-window 0" in refused.description
    assert marks(world, partition)["L7.purge"] == 1
    assert isinstance(world.answer(world.leader(partition), PurgeRequest(partition, 1)), DoneReply)
    publish(world, partition, with_id("b"), at_ms=T0 + WINDOW_MS)
    assert world.run_until(lambda: world.committed(partition, 3))
    assert isinstance(world.answer(world.leader(partition), PurgeRequest(partition, 2)), DoneReply)


def test_L7_a_new_leader_keeps_what_is_young_by_committed_time_though_its_log_has_later_ones() -> None:
    """What it reads begins a window before the newest time of its log, which may be cut off yet."""
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"), at_ms=T0)
    assert world.run_until(lambda: world.committed(partition, 1))
    hold_others(world, partition)
    publish(world, partition, with_id("b"), at_ms=T0 + 5 * WINDOW_MS)
    world.run(0.1)
    first = world.leader(partition)
    reply = world.answer(first, ElectLeaderRequest("orders", 0, others(world, partition)[0], False))
    assert isinstance(reply, DoneReply), reply
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    assert world.run_until(lambda: ids(world, partition).whole)
    replica = world.replica(world.leader(partition), partition)
    assert (replica.leo, replica.hw) == (2, 1)
    assert replica.leading is not None and replica.leading.needed_from == 0
    for node in list(world.held):
        world.release_storage(node)
    assert world.run_until(lambda: replica.hw == 2)
    assert replica.leading.needed_from == 1


# -- the stream's options ----------------------------------------------------------------------------------


def test_L7_what_a_configuration_may_say_of_ids() -> None:
    plain = StreamConfig("s", "s", 1, 3)
    for settings, words in (
        ({"dedupe_window_ms": 1}, "must be 100 to"),
        ({"dedupe_window_ms": 2000, "compact": True}, "exclude each other"),
        ({"dedupe_ids_max": 5}, "set that too"),
        ({"dedupe_window_ms": 2000, "dedupe_ids_max": 0}, "must be 1 to"),
    ):
        assert words in config_problem(StreamConfig("s", "s", 1, 3, **settings))
    config = StreamConfig("s", "s", 1, 3, dedupe_window_ms=2000)
    assert not config_problem(config) and config.remembers_max == 1_000_000
    assert "exclude" in alteration_problem(config, StreamChanges(compact=True))
    assert "set that too" in alteration_problem(plain, StreamChanges(dedupe_ids_max=3))
    assert not alteration_problem(plain, StreamChanges(dedupe_ids_max=3, dedupe_window_ms=2000))
    assert altered(config, StreamChanges(dedupe_window_ms=0)) == plain


def test_L7_on_the_wire_a_repetition_has_jetstreams_word() -> None:
    acks = AckPublishes(PartitionId(5, 2), "s", 7, 9, 4, [b"a", b"b"], [False, True], duplicate=True)
    (_, plain), (_, full) = split(nats_wire.acknowledgements(acks))
    assert json.loads(plain) == {"stream": "s", "seq": 5, "duplicate": True}
    assert json.loads(full)["duplicate"] is True and json.loads(full)["offset"] == 5


@pytest.mark.parametrize("id", ["", " a", "a\r\nb: c", "i" * 257, "\udcff"])
def test_L7_a_program_is_told_of_an_id_that_cannot_travel(id: str) -> None:
    with pytest.raises(LiftlogError, match="cannot travel in a NATS header"):
        identified(id)


def test_L7_a_program_gives_an_id_and_reads_that_it_was_there() -> None:
    assert identified(None) == {} and identified("a b") == {"Nats-Msg-Id": "a b"}
    acks = AckPublishes(PartitionId(5, 2), "s", 7, 9, 4, [b"a"], [True], duplicate=True)
    ((_, payload),) = split(nats_wire.acknowledgements(acks))
    result = result_of(3, Msg(_client=None, data=payload))  # type: ignore[arg-type]
    assert (result.outcome, result.offset, result.duplicate) == ("ok", 4, True)


# -- planted bugs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bug", ["L7.known", "ids_of_own_epoch", "L7.unread", "full_table_forgets"])
def test_L7_planted_bugs_store_an_id_twice(bug: str) -> None:
    world, partition = world_with_ids(bug, most=1 if bug == "full_table_forgets" else 1000)
    publish(world, partition, with_id("a"))
    assert world.run_until(lambda: world.committed(partition, 1))
    if bug == "full_table_forgets":
        publish(world, partition, with_id("b"))
    if bug in ("ids_of_own_epoch", "L7.unread"):
        fail_over(world, partition)
    publish(world, partition, with_id("a"))
    assert [what for what, _ in stored(world, partition)].count(b"a") == 2
