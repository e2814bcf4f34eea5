"""Durable consumers of a partition: the fold (K2), and what its leader promises (K1, K3-K7)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.client.consuming import settle_requests
from liftlog.core.consumers.agenda import Agenda
from liftlog.core.consumers.entries import (
    ACKED,
    Altered,
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Dead,
    Delivered,
    Done,
    Rewound,
    SaidAgain,
    UnreadableEntry,
    decode_entry,
    encode_entry,
)
from liftlog.core.consumers.flight import HEAP_MIN, Flight
from liftlog.core.consumers.idle import IdleConsumers
from liftlog.core.consumers.making import CONSUMERS_MAX, PENDING_ALL_MAX
from liftlog.core.consumers.state import Consumer, Consumers, runs_alike
from liftlog.core.diskreads import FOLDS_MAX
from liftlog.core.metadata import levels
from liftlog.format import decode_records
from liftlog.messages import (
    FILTERS_MAX,
    NOTES_BYTES_MAX,
    PENDING_MAX,
    RUNS_MAX,
    SETTLE_MAX,
    TOLD_MAX_DELIVERIES,
    AlterConsumerRequest,
    ClientGone,
    ConsumerConfig,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DoneReply,
    ErrorReply,
    Published,
    PullReply,
    PullRequest,
    PurgeRequest,
    SettledReply,
    SettleRequest,
    SubjectsFolded,
    TellAdvisory,
    offsets_of,
    runs_of,
)
from liftlog.types import ClientRef, EpochStart, Message, PartitionId
from tests.core.node_harness import World

NO_LOSS = ConsumerConfig(ack_wait_ms=60_000)


# -- the fold (K2) -------------------------------------------------------------------------------------------

NUMBERS = st.integers(1, 4)
OFFSETS = st.integers(0, 30)
RUNS = st.lists(OFFSETS, max_size=8, unique=True).map(sorted).map(runs_of)
COUNTED = st.lists(OFFSETS, max_size=8, unique=True).map(
    lambda offsets: runs_alike((offset, 1 + offset % 3) for offset in sorted(offsets))
)
LINES = st.lists(st.builds(EpochStart, st.integers(1, 5), OFFSETS), max_size=3)
ENTRIES: st.SearchStrategy[ConsumerEntry] = st.one_of(
    st.builds(Created, st.sampled_from("ab"), st.just(NO_LOSS), OFFSETS, LINES),
    st.builds(
        Created, st.sampled_from("ab"), st.just(NO_LOSS), OFFSETS, LINES, instead=st.integers(0, 4)
    ),
    st.builds(Altered, NUMBERS, st.just(ConsumerConfig())),
    st.builds(Delivered, NUMBERS, OFFSETS, LINES, COUNTED),
    st.builds(Done, NUMBERS, st.just(ACKED), RUNS),
    st.builds(Dead, NUMBERS, st.sampled_from(("limit", "terminated")), RUNS),
    st.builds(Rewound, NUMBERS, OFFSETS),
    st.builds(ConsumerDeleted, NUMBERS),
    st.builds(
        SaidAgain,
        NUMBERS,
        st.sampled_from("abc"),
        st.just(NO_LOSS),
        st.just(31),
        LINES,
        COUNTED,
        RUNS,
        OFFSETS,
        OFFSETS,
    ),
)


def folded(entries: list[ConsumerEntry], consumers: Consumers | None = None, begin: int = 0) -> Consumers:
    consumers = consumers if consumers is not None else Consumers()
    for offset, entry in enumerate(entries, begin):
        consumers.take(offset, encode_entry(entry))
    return consumers


@given(st.lists(ENTRIES, max_size=30), st.integers(0, 30))
def test_k2_a_fold_in_two_parts_is_the_fold_of_the_whole(entries: list[ConsumerEntry], cut: int) -> None:
    whole, parts = folded(entries), folded(entries[:cut])
    assert folded(entries[cut:], parts, min(cut, len(entries))).snapshot() == whole.snapshot()
    for consumer in whole.by_number.values():
        assert whole.by_name[consumer.name] is consumer
        assert consumer.floor <= consumer.position
        assert all(offset < consumer.position for offset in consumer.pending)
        assert consumer.dead.keys() <= consumer.pending.keys()


@given(st.lists(ENTRIES, max_size=20), st.lists(ENTRIES, max_size=10), st.lists(ENTRIES, max_size=10))
def test_k2_who_begins_at_what_is_said_again_knows_the_same(
    before: list[ConsumerEntry], ahead: list[ConsumerEntry], behind: list[ConsumerEntry]
) -> None:
    """It is said by who has folded `before` alone, of all that stands before it."""
    leader = folded(before)
    pairs = [(offset, encode_entry(entry)) for offset, entry in enumerate(ahead, len(before))]
    whole = folded(ahead, folded(before), len(before))
    said = leader.say_again(leader.by_number, pairs)
    assert said == [whole.by_number[n].say_again() for n in leader.by_number if n in whole.by_number]
    begun = folded([one.say_again() for one in whole.by_number.values()], begin=99)
    assert begun.snapshot() == whole.snapshot()
    place = len(before) + len(ahead)
    assert folded(behind, begun, place).snapshot() == folded(behind, whole, place).snapshot()


@given(ENTRIES)
def test_k2_an_entry_is_read_as_it_was_written(entry: ConsumerEntry) -> None:
    assert decode_entry(encode_entry(entry)) == entry


def test_k2_a_consumer_that_was_made_before_there_was_backoff_is_read() -> None:
    config = [10_000, 5, 7, "new", 0, "orders.*"]
    data = b"\x10" + msgspec.msgpack.encode(["Created", "a", config, 3, []])
    read = decode_entry(data)
    assert read == Created("a", ConsumerConfig(10_000, 5, 7, "new", 0, "orders.*"), 3, [])


@given(st.binary(max_size=40))
def test_k2_what_is_no_entry_is_refused(data: bytes) -> None:
    try:
        entry = decode_entry(data)
    except UnreadableEntry:
        return
    assert decode_entry(encode_entry(entry)) == entry


@given(st.lists(OFFSETS, unique=True).map(sorted))
def test_runs_name_the_offsets_that_they_were_made_of(offsets: list[int]) -> None:
    assert list(offsets_of(runs_of(offsets))) == offsets


def history(*pairs: tuple[int, int]) -> list[EpochStart]:
    return [EpochStart(*pair) for pair in pairs]


def records(line: list[EpochStart], leo: int) -> list[int]:
    """The epoch of each record of a log."""
    return [max(entry.epoch for entry in line if entry.start <= offset) for offset in range(leo)]


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[EpochStart], int]:
    starts = sorted(draw(st.lists(st.integers(1, 12), max_size=4, unique=True)))
    epochs = sorted(draw(st.lists(st.integers(1, 9), min_size=len(starts) + 1, max_size=5, unique=True)))
    line = [EpochStart(epoch, start) for epoch, start in zip(epochs, [0, *starts], strict=False)]
    return line, draw(st.integers(line[-1].start + 1, 16))


@given(logs(), st.integers(0, 16), logs(), st.integers(1, 16))
def test_k5_where_a_consumer_parts_from_the_data_is_the_first_record_that_differs(
    old: tuple[list[EpochStart], int], cut: int, new: tuple[list[EpochStart], int], position: int
) -> None:
    """A log was cut, and later epochs went on: the two agree up to the cut, and nowhere behind it."""
    line, leo = old
    cut, position = min(cut, leo), min(position, leo)
    kept = [entry for entry in line if entry.start < cut]
    newest = line[-1].epoch
    later = [EpochStart(entry.epoch + newest, cut + entry.start) for entry in new[0]]
    consumer = Consumer(1, Created("a", NO_LOSS, 0, []))
    consumer.delivered(Delivered(1, position, [each for each in line if each.start < position], []))
    expected = cut if cut < position else None
    assert consumer.parts_from([*kept, *later], cut + new[1], 0) == expected
    assert consumer.parts_from(kept, cut, 0) == expected


def test_k5_a_line_that_does_not_reach_back_has_all_delivered_again() -> None:
    consumer = Consumer(1, Created("a", NO_LOSS, 6, history((3, 5))))
    assert consumer.parts_from(history((1, 0), (3, 5)), 6, 0) is None
    assert consumer.parts_from(history((1, 0), (4, 4)), 9, 2) == 2
    assert consumer.parts_from(history((1, 0)), 5, 2) == 2, "it ends below"
    assert consumer.parts_from(history((4, 8)), 9, 8) is None, "all that differs is below the log's start"


# -- a leader ------------------------------------------------------------------------------------------------


def ready(count: int = 3, **kwargs: Any) -> tuple[World, PartitionId]:
    """A cluster with a stream that has a journal, on which `count` messages are committed everywhere."""
    world = World(**kwargs)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True)
    assert world.run_until(lambda: partition in world.subscriptions)
    if count:
        world.publish(partition, *(b"%d" % number for number in range(count)))
        assert world.run_until(lambda: world.committed(partition, count))
    return world, partition


def asks(world: World, partition: PartitionId, request: Any) -> Any:
    """What its leader answers; again as long as it may be asked again."""
    for _ in range(40):
        leader = world.leader(partition)
        if leader:
            reply = world.answer(leader, request)
            if not (isinstance(reply, ErrorReply) and reply.retryable):
                return reply
        world.run(0.2)
    raise AssertionError(f"no answer to {request}")


def made(world: World, partition: PartitionId, config: ConsumerConfig = NO_LOSS, name: str = "c") -> int:
    reply = asks(world, partition, CreateConsumerRequest(partition, name, config))
    assert isinstance(reply, ConsumersReply), reply
    return reply.consumers[0].number


def pull(world: World, partition: PartitionId, number: int, messages: int = 10, wait_ms: int = 0) -> Any:
    return asks(world, partition, PullRequest(partition, number, messages, wait_ms=wait_ms))


def settle(world: World, partition: PartitionId, number: int, how: str, *offsets: int, **more: Any) -> Any:
    return asks(world, partition, SettleRequest(partition, number, how, runs_of(offsets), **more))


def info(world: World, partition: PartitionId, name: str = "c") -> Any:
    return asks(world, partition, ConsumersRequest(partition, name)).consumers[0]


def given_to(reply: PullReply) -> dict[int, tuple[bytes | None, int]]:
    """(value, count) by offset of what was delivered."""
    counts = {o: count for offset, length, count in reply.runs for o in range(offset, offset + length)}
    found = [record for frame in reply.batches for record in decode_records(frame)]
    return {each.offset: (each.value, counts[each.offset]) for each in found if each.offset in counts}


def journal_of(world: World, partition: PartitionId, node: int = 0) -> Any:
    return world.replica(node or world.leader(partition), partition.journal)


def test_k3_what_is_acked_never_comes_again_and_the_rest_does() -> None:
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(ack_wait_ms=1000))
    first = pull(world, partition, number)
    assert given_to(first) == {0: (b"0", 1), 1: (b"1", 1), 2: (b"2", 1)}
    acked = settle(world, partition, number, "ack", 0, 2)
    assert isinstance(acked, SettledReply) and acked.unknown == []
    assert acked.journal <= journal_of(world, partition).hw
    assert pull(world, partition, number).runs == []
    again = pull(world, partition, number, wait_ms=5000)
    assert given_to(again) == {1: (b"1", 2)}
    assert again.recorded > 0
    told = info(world, partition)
    assert (told.position, told.floor, told.ack_pending, told.num_pending) == (3, 1, 1, 0)


def test_k2_all_copies_fold_the_same() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number, 2)
    settle(world, partition, number, "ack", 1)
    world.run(2)
    states = [journal_of(world, partition, node).removed.consumers.snapshot() for node in world.nodes]
    assert states[0] == states[1] == states[2]
    assert states[0][0][:4] == (number, "c", 2, ((0, 1),))


def test_k1_who_creates_again_gets_the_same_number_and_writes_nothing() -> None:
    world, partition = ready()
    request = CreateConsumerRequest(partition, "c", NO_LOSS)
    leader = world.leader(partition)
    asked = [world.ask(leader, request) for _ in range(2)]
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    numbers = {world.replies[one].consumers[0].number for one in asked}
    assert numbers == {made(world, partition)} == {1}
    assert journal_of(world, partition).leo == 1
    other = asks(world, partition, CreateConsumerRequest(partition, "c", ConsumerConfig(max_deliver=1)))
    assert (other.code, other.retryable) == ("already-exists", False)


def test_k1_the_number_of_a_deleted_consumer_means_nothing_and_is_not_used_again() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    leader = world.leader(partition)
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=30_000))
    assert isinstance(asks(world, partition, DeleteConsumerRequest(partition, "c")), DoneReply)
    assert world.replies[waits].code == "not-found"
    assert asks(world, partition, DeleteConsumerRequest(partition, "c")).code == "not-found"
    second = made(world, partition)
    assert second > number
    assert asks(world, partition, SettleRequest(partition, number, "ack", [(0, 3)])).code == "not-found"
    assert world.nodes[leader].marks["K1.number"] == 1
    assert asks(world, partition, PullRequest(partition, number)).code == "not-found"
    assert len(given_to(pull(world, partition, second))) == 3


def test_k1_nobody_is_told_of_a_deletion_that_is_not_committed() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=30_000))
    world.run(0.1)
    for node in others:
        world.hold_storage(node)
    asked = [world.ask(leader, DeleteConsumerRequest(partition, "c")) for _ in range(2)]
    world.run(0.2)
    reply = world.answer(leader, SettleRequest(partition, number, "ack", [(0, 1)]))
    assert (reply.code, reply.retryable) == ("not-ready", True)
    reply = world.answer(leader, CreateConsumerRequest(partition, "c", NO_LOSS))
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert not any(one in world.replies for one in [*asked, waits])
    for node in others:
        world.release_storage(node)
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    assert all(isinstance(world.replies[one], DoneReply) for one in asked)
    assert world.replies[waits].code == "not-found"


def test_k3_a_repeated_ack_waits_for_the_entry_of_the_first() -> None:
    world, partition = ready()
    number = made(world, partition)
    pull(world, partition, number)
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    for node in others:
        world.hold_storage(node)
    request = SettleRequest(partition, number, "ack", [(0, 1)])
    asked = [world.ask(leader, request), world.ask(leader, request)]
    world.run(0.3)
    assert not any(one in world.replies for one in asked)
    for node in others:
        world.release_storage(node)
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    first, second = (world.replies[one] for one in asked)
    assert isinstance(first, SettledReply) and first == second
    assert world.nodes[leader].marks["K3.repeat"] == 1
    assert settle(world, partition, number, "ack", 0).journal >= first.journal


def test_k3_acks_that_come_together_are_one_entry() -> None:
    world, partition = ready(4)
    number, other = made(world, partition), made(world, partition, name="other")
    pull(world, partition, number)
    pull(world, partition, other)
    leader = world.leader(partition)
    before = journal_of(world, partition).log.leo
    acks = [(number, 0), (number, 2), (other, 1), (other, 1), (number, 1)]
    asked = [
        world.ask(leader, SettleRequest(partition, to, "ack", [(offset, 1)])) for to, offset in acks
    ]
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    found = [world.replies[one] for one in asked]
    assert all(isinstance(one, SettledReply) and not one.unknown for one in found)
    # Of those behind each other one; whoever repeats is told where the first one's is.
    assert [one.journal - before for one in found] == [1, 1, 2, 2, 3]
    assert journal_of(world, partition).log.leo == before + 3
    marks = world.nodes[leader].marks
    assert (marks["K3.settled"], marks["K3.together"]) == (3, 2)
    assert [info(world, partition, name).ack_pending for name in ("c", "other")] == [1, 3]


def test_k3_what_comes_behind_an_ack_finds_it_taken_up() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    pull(world, partition, number)
    leader = world.leader(partition)
    world.ask(leader, SettleRequest(partition, number, "nak", [(0, 1)]))
    pulled = world.ask(leader, PullRequest(partition, number, 10))
    assert world.run_until(lambda: pulled in world.replies)
    assert given_to(world.replies[pulled]) == {0: (b"0", 2)}
    # Nobody hears that it is done, and it is.
    gone = world.ask(leader, SettleRequest(partition, number, "ack", [(1, 1)]))
    world.post(leader, ClientGone(ClientRef(gone)))
    world.run(1.0)
    assert gone not in world.replies
    assert info(world, partition).ack_pending == 1


def test_k3_acks_that_come_together_are_refused_each() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    other = next(node for node in world.nodes if node != world.leader(partition))
    asked = [world.ask(other, SettleRequest(partition, number, "ack", [(n, 1)])) for n in range(2)]
    asked.append(world.ask(other, SettleRequest(partition.journal, number, "ack", [(0, 1)])))
    assert world.run_until(lambda: all(one in world.replies for one in asked))
    assert [world.replies[one].code for one in asked] == ["not-leader", "not-leader", "not-found"]


def test_k3_nak_brings_a_message_back_at_once_or_later_and_progress_puts_it_off() -> None:
    world, partition = ready(2)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=3000))
    pull(world, partition, number)
    settle(world, partition, number, "nak", 0)
    assert given_to(pull(world, partition, number)) == {0: (b"0", 2)}
    settle(world, partition, number, "nak", 0, delay_ms=1000)
    assert pull(world, partition, number).runs == []
    assert given_to(pull(world, partition, number, wait_ms=2000)) == {0: (b"0", 3)}
    settle(world, partition, number, "ack", 0)
    world.run(1)
    for _ in range(3):
        settle(world, partition, number, "progress", 1)
        world.run(1)
    assert pull(world, partition, number).runs == []
    assert isinstance(settle(world, partition, number, "term", 0, 1), SettledReply)
    assert info(world, partition).floor == 2


def test_k3_an_ack_of_what_was_never_delivered_is_told_and_writes_nothing() -> None:
    world, partition = ready()
    number = made(world, partition)
    leo = journal_of(world, partition).leo
    assert settle(world, partition, number, "ack", 1, 2).unknown == [(1, 2)]
    assert journal_of(world, partition).leo == leo
    assert len(given_to(pull(world, partition, number))) == 3


def test_k6_at_its_limit_a_message_is_given_up_by_an_entry() -> None:
    world, partition = ready(1)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=500, max_deliver=2))
    assert given_to(pull(world, partition, number)) == {0: (b"0", 1)}
    assert given_to(pull(world, partition, number, wait_ms=3000)) == {0: (b"0", 2)}
    assert pull(world, partition, number, wait_ms=3000).runs == []
    told = info(world, partition)
    assert (told.floor, told.ack_pending) == (1, 0)
    assert world.nodes[world.leader(partition)].marks["K6.limit"] == 1
    assert world.advisories == [TellAdvisory(TOLD_MAX_DELIVERIES, "orders", "c", 0, 2)]


def test_k6_no_more_is_given_than_may_be_pending() -> None:
    world, partition = ready(5)
    number = made(world, partition, ConsumerConfig(max_ack_pending=2))
    assert sorted(given_to(pull(world, partition, number))) == [0, 1]
    assert pull(world, partition, number).runs == []
    assert info(world, partition).num_pending == 3
    settle(world, partition, number, "ack", 0)
    assert sorted(given_to(pull(world, partition, number))) == [2]


def test_k7_what_is_gone_is_neither_delivered_nor_counted() -> None:
    world, partition = ready(6)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=60_000))
    asks(world, partition, DeleteMessageRequest(partition, 1))
    asks(world, partition, DeleteMessageRequest(partition, 4))
    assert info(world, partition).num_pending == 4
    assert sorted(given_to(pull(world, partition, number, 2))) == [0, 2]
    asks(world, partition, DeleteMessageRequest(partition, 2))
    told = info(world, partition)
    assert (told.ack_pending, told.num_pending) == (1, 2)
    world.run(1)
    assert world.nodes[world.leader(partition)].marks["K7.written-off"] == 1
    assert journal_of(world, partition).removed.consumers.by_number[number].pending == {0: 1}
    assert sorted(given_to(pull(world, partition, number, 9))) == [3, 5]
    settle(world, partition, number, "nak", 0, 2)
    assert sorted(given_to(pull(world, partition, number, wait_ms=1000))) == [0]
    assert isinstance(asks(world, partition, PurgeRequest(partition, 4)), DoneReply)
    world.run(1)
    told = info(world, partition)
    assert (told.floor, told.ack_pending) == (5, 1)


def mixed(world: World, partition: PartitionId, *subjects: str) -> None:
    """Messages with these subjects, each with its number as value."""
    target = world.subscriptions[partition]
    messages = [Message(each.encode(), b"", b"", b"%d" % place) for place, each in enumerate(subjects)]
    world.post(target[0], Published(partition, target[1], messages, 1_000))
    assert world.run_until(lambda: world.committed(partition, len(subjects)))

def test_k7_a_purged_message_that_was_given_back_is_not_delivered_again() -> None:
    """Its batch is in memory yet, and nobody has looked since at what is pending."""
    world, partition = ready(3)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=60_000))
    assert sorted(given_to(pull(world, partition, number, 1))) == [0]
    settle(world, partition, number, "nak", 0)
    world.run(1)
    leader = world.leader(partition)
    log = world.replica(leader, partition).log
    world.ask(leader, PurgeRequest(partition, 3))
    assert world.run_until(lambda: log.log_start == 3)
    assert log.cache.read(0, 3, 1 << 20), "else there is nothing to give"
    waits = world.ask(leader, PullRequest(partition, number))
    assert world.run_until(lambda: waits in world.replies)
    assert given_to(world.replies[waits]) == {}
    assert world.nodes[leader].marks["K7.start"] == 1
    world.run(1)
    assert info(world, partition).ack_pending == 0
    mixed(world, partition, "a")
    assert given_to(pull(world, partition, number, wait_ms=1000)) == {3: (b"0", 1)}


def test_k6_a_filter_lets_only_what_it_matches_through_also_under_a_new_leader() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "b", "b", "a.x", "b")
    number = made(world, partition, ConsumerConfig(ack_wait_ms=1000, filter="a.*"))
    reply = pull(world, partition, number, 2)
    assert given_to(reply) == {0: (b"0", 1), 2: (b"2", 1)}
    records = [record for frame in reply.batches for record in decode_records(frame)]
    assert [record.offset for record in records] == [0, 2], "the others stay at home"
    settle(world, partition, number, "ack", 0)
    changed_leader(world, partition)
    assert given_to(pull(world, partition, number)) == {5: (b"5", 1)}
    leo = journal_of(world, partition).leo
    assert pull(world, partition, number).runs == []
    assert journal_of(world, partition).leo == leo, "what is passed over is not written each time"
    settle(world, partition, number, "ack", 5)
    assert given_to(pull(world, partition, number, wait_ms=5000)) == {2: (b"2", 2)}
    told = info(world, partition)
    assert (told.position, told.floor, told.ack_pending, told.num_pending) == (7, 2, 1, 0)


def test_k6_of_several_filters_each_lets_through_what_it_matches() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "c.y", "b.z", "c.d.e", "a.x", "b")
    config = ConsumerConfig(filter="a.*", filters=("c.>", "b"), notes=(("owner", "billing"),))
    number = made(world, partition, config)
    assert list(given_to(pull(world, partition, number, 3))) == [0, 1, 2]
    changed_leader(world, partition)
    assert list(given_to(pull(world, partition, number))) == [4, 5, 6]
    assert info(world, partition).config == config


LASTS = ConsumerConfig(ack_wait_ms=60_000, deliver="last-per-subject")


def test_k1_the_last_message_of_each_subject_comes_first_and_then_all_that_is_new() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "a.y", "b", "a.x", "b", "a.y", "c", "a.x")
    asks(world, partition, DeleteMessageRequest(partition, 7))
    narrow = made(world, partition, msgspec.structs.replace(LASTS, filter="a.*"), "narrow")
    wide = made(world, partition, LASTS, "wide")
    again = msgspec.structs.replace(LASTS, filter="a.*")
    assert made(world, partition, again, "narrow") == narrow, "K1"
    asks(world, partition, DeleteMessageRequest(partition, 3))
    world.publish(partition, b"8")
    assert world.run_until(lambda: world.committed(partition, 9))
    assert list(given_to(pull(world, partition, narrow))) == [5], "3 is gone, and was not the last one"
    assert list(given_to(pull(world, partition, wide, 2))) == [4, 5]
    settle(world, partition, wide, "ack", 4, 5)
    changed_leader(world, partition)
    assert list(given_to(pull(world, partition, wide))) == [6, 8], "what it begins with is in the entry"
    assert info(world, partition, "wide").position == 9


def test_k1_who_waits_for_where_his_consumer_begins_shares_the_entry_and_is_told_at_the_end() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a", "b", "a")
    leader = world.leader(partition)
    world.nodes[leader].ctx.reads._folds = FOLDS_MAX
    request = CreateConsumerRequest(partition, "c", LASTS)
    first, second = world.ask(leader, request), world.ask(leader, request)
    other = world.ask(leader, CreateConsumerRequest(partition, "c", NO_LOSS))
    world.run(0.3)
    assert first not in world.replies and "being created" in world.replies[other].description
    world.nodes[leader].ctx.reads._folds = 0
    assert world.run_until(lambda: first in world.replies and second in world.replies)
    numbers = {world.replies[one].consumers[0].number for one in (first, second)}
    assert numbers == {info(world, partition).number}
    world.nodes[leader].ctx.reads._folds = FOLDS_MAX
    late = world.ask(leader, CreateConsumerRequest(partition, "d", LASTS))
    assert world.run_until(lambda: late in world.replies)
    assert "not known yet where consumer 'd' begins" in world.replies[late].description


def test_k1_who_begins_with_the_last_messages_is_told_of_what_somebody_knows_to_be_deleted() -> None:
    world, partition = ready(3)
    leader, journal = world.leader(partition), journal_of(world, partition)
    asks(world, partition, DeleteMessageRequest(partition, 2))
    journal.removed.folded -= 1
    waits = world.ask(leader, CreateConsumerRequest(partition, "c", LASTS))
    world.run(0.01)
    assert world.nodes[leader].marks["K1.unheeded"] == 1
    journal.removed.folded += 1
    assert world.run_until(lambda: waits in world.replies)
    assert list(given_to(pull(world, partition, world.replies[waits].consumers[0].number))) == [1]


def test_k1_too_many_subjects_to_begin_with_the_last_of_each_are_refused(monkeypatch: Any) -> None:
    monkeypatch.setattr("liftlog.core.replica.delivering.consumermaking.LASTS_MAX", 2)
    monkeypatch.setattr("liftlog.core.consumers.making.LASTS_MAX", 2)
    world, partition = ready(0)
    mixed(world, partition, "a", "b", "c")
    reply = asks(world, partition, CreateConsumerRequest(partition, "c", LASTS))
    assert "more than 2 subjects" in reply.description and not reply.retryable
    made(world, partition, msgspec.structs.replace(LASTS, filter="a", filters=("b",)))
    monkeypatch.setattr("liftlog.core.consumers.making.LASTS_ALL_MAX", 3)
    reply = world.answer(world.leader(partition), CreateConsumerRequest(partition, "d", LASTS_OF_C))
    assert isinstance(reply, ConsumersReply)
    reply = world.answer(world.leader(partition), CreateConsumerRequest(partition, "e", LASTS_OF_C))
    assert "3 last messages of subjects yet to be given" in reply.description and reply.retryable


LASTS_OF_C = msgspec.structs.replace(LASTS, filter="c")


def test_k2_what_a_consumer_begins_with_is_said_again_with_it() -> None:
    created = Created("a", LASTS, 2, [], [(2, 2), (7, 1)], 9, 0)
    whole = folded([created, Delivered(1, 4, [], [(2, 2, 1)])])
    said = whole.by_number[1].say_again()
    assert (said.position, said.lasts, said.since) == (4, [(7, 1)], 9)
    begun = folded([said]).by_number[1]
    assert [begun.next_wanted(offset) for offset in (4, 7, 8, 12)] == [7, 7, 9, 12]
    folded([Rewound(1, 7)], whole, 2)
    assert [whole.by_number[1].next_wanted(offset) for offset in (4, 7)] == [7, 7], "all is new there"


def test_a_consumer_begins_with_the_first_message_of_a_time() -> None:
    world, partition = ready(0)
    target = world.subscriptions[partition]
    for at_ms in (1_000, 2_000, 2_000, 3_000):
        message = Message(b"a", b"", b"", b"%d" % at_ms)
        world.post(target[0], Published(partition, target[1], [message], at_ms))
    assert world.run_until(lambda: world.committed(partition, 4))
    for number, (time_ms, first) in enumerate([(0, 0), (1_001, 1), (3_000, 3), (3_001, 4)]):
        config = ConsumerConfig(deliver="time", timestamp_ms=time_ms)
        made(world, partition, config, f"c{number}")
        assert info(world, partition, f"c{number}").position == first


def test_k1_a_consumer_that_nobody_uses_goes() -> None:
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(inactive_ms=2000))
    made(world, partition, NO_LOSS, "stays")
    for _ in range(3):
        world.run(1.5)
        assert isinstance(settle(world, partition, number, "progress", 0), SettledReply)
    waits = world.ask(world.leader(partition), PullRequest(partition, number, 10, wait_ms=3000))
    assert world.run_until(lambda: waits in world.replies)
    waits = world.ask(world.leader(partition), PullRequest(partition, number, 10, wait_ms=3500))
    world.run(3.6)
    assert world.replies[waits].runs == [], "it was there as long as somebody waited"
    changed_leader(world, partition)
    assert world.run_until(lambda: bool(world.leader(partition)))
    world.run(1)
    assert info(world, partition).number == number, "a new leader counts anew"
    world.run(4)
    names = [one.name for one in asks(world, partition, ConsumersRequest(partition)).consumers]
    assert names == ["stays"]
    assert pull(world, partition, number).code == "not-found"


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 9)), max_size=30))
def test_k1_idle_consumers_are_those_not_heard_of_for_so_long(steps: list[tuple[int, int]]) -> None:
    consumers, now, last = Consumers(), [0], {number: 0 for number in range(1, 4)}
    for number in range(1, 4):
        entry = Created(f"c{number}", ConsumerConfig(inactive_ms=number * 3), 0, [])
        consumers.take(number - 1, encode_entry(entry))
    idle = IdleConsumers(lambda wait_ms: now[0] + wait_ms)
    assert list(idle.over(consumers, 0)) == []
    for number, passes in steps:
        now[0] += passes
        over = [one.number for one in idle.over(consumers, now[0])]
        assert over == [each for each, at in last.items() if at + each * 3 <= now[0]]
        if number in last:
            idle.heard(consumers.by_number[number])
            last[number] = now[0]


def test_k1_a_consumer_that_is_altered_stays_for_as_long_as_it_has_now() -> None:
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(inactive_ms=1000))

    def lasts(was_ms: int, stays_ms: int, for_s: float) -> bool:
        was, stays = ConsumerConfig(inactive_ms=was_ms), ConsumerConfig(inactive_ms=stays_ms)
        told = asks(world, partition, AlterConsumerRequest(partition, number, was, stays))
        assert told.consumers[0].config.inactive_ms == stays_ms
        world.run(for_s)
        return bool(asks(world, partition, ConsumersRequest(partition)).consumers)

    assert lasts(1000, 4000, for_s=2.5)
    assert lasts(4000, 0, for_s=6)
    assert not lasts(0, 1500, for_s=2.5)


def test_k1_a_consumer_that_is_being_altered_does_not_go() -> None:
    """Its entry would stand behind that of its alteration, and who is told of that relies on it."""
    world, partition = ready()
    number = made(world, partition, ConsumerConfig(inactive_ms=1000))
    leader = world.leader(partition)
    others = [node for node in (1, 2, 3) if node != leader]
    longer = AlterConsumerRequest(partition, number, ConsumerConfig(inactive_ms=1000), ConsumerConfig())
    for node in others:
        world.hold_storage(node)
    asked = world.ask(leader, longer)
    world.run(1.3)
    for node in others:
        world.release_storage(node)
    assert world.run_until(lambda: asked in world.replies)
    world.run(3)
    assert info(world, partition).config == ConsumerConfig()


def test_k1_a_consumer_is_altered_by_an_entry_and_paused() -> None:
    world, partition = ready(3)
    number = made(world, partition)
    slow = msgspec.structs.replace(NO_LOSS, max_deliver=2, max_ack_pending=1, notes=(("a", "b"),))
    alter = AlterConsumerRequest(partition, number, NO_LOSS, slow)
    leader = world.leader(partition)
    first, second = world.ask(leader, alter), world.ask(leader, alter)
    third = world.ask(leader, AlterConsumerRequest(partition, number, NO_LOSS, NO_LOSS))
    assert world.run_until(lambda: {first, second, third} <= set(world.replies))
    assert world.replies[first].consumers == world.replies[second].consumers
    assert "is being altered" in world.replies[third].description
    changed_leader(world, partition)
    assert info(world, partition).config == slow
    assert asks(world, partition, alter).consumers[0].config == slow, "K1: again"
    assert list(given_to(pull(world, partition, number))) == [0]
    wrong = AlterConsumerRequest(partition, number, NO_LOSS, ConsumerConfig())
    assert "was altered meanwhile" in asks(world, partition, wrong).description
    for config, text in (
        (msgspec.structs.replace(slow, deliver="new"), "deliver of a consumer stays 'all'"),
        (msgspec.structs.replace(slow, backoff_ms=(1, 2, 3)), "leave out waits"),
        (msgspec.structs.replace(slow, notes=(("a", "x" * NOTES_BYTES_MAX),)), "8193 bytes"),
    ):
        refused = asks(world, partition, AlterConsumerRequest(partition, number, slow, config))
        assert text in refused.description
    wall_ms = world.nodes[world.leader(partition)].ctx.wall_ms
    paused = msgspec.structs.replace(slow, max_ack_pending=5, pause_until_ms=wall_ms + 3000)
    asks(world, partition, AlterConsumerRequest(partition, number, slow, paused))
    waits = world.ask(world.leader(partition), PullRequest(partition, number, wait_ms=10_000))
    assert pull(world, partition, number).runs == []
    world.run(2)
    assert waits not in world.replies
    world.run(2)
    assert list(given_to(world.replies[waits])) == [1, 2]
    assert asks(world, partition, AlterConsumerRequest(partition, 99, slow, slow)).code == "not-found"


def test_a_filter_that_is_no_pattern_is_refused() -> None:
    world, partition = ready()
    request = CreateConsumerRequest(partition, "c", ConsumerConfig(filter="a..b"))
    assert "empty token" in asks(world, partition, request).description


def test_what_comes_while_a_pull_waits_goes_to_it() -> None:
    world, partition = ready(0)
    number = made(world, partition, ConsumerConfig(deliver="new"))
    waits = world.ask(world.leader(partition), PullRequest(partition, number, wait_ms=30_000))
    world.run(0.3)
    assert waits not in world.replies
    world.publish(partition, b"x")
    assert world.run_until(lambda: waits in world.replies)
    assert given_to(world.replies[waits]) == {0: (b"x", 1)}
    assert world.replies[waits].recorded == 0, "K4: by the leader of the epoch that wrote it"


@pytest.mark.parametrize(
    ("config", "first"),
    [
        (ConsumerConfig(), 0),
        (ConsumerConfig(deliver="new"), None),
        (ConsumerConfig(deliver="offset", offset=2), 2),
    ],
)
def test_where_a_consumer_begins(config: ConsumerConfig, first: int | None) -> None:
    world, partition = ready()
    reply = pull(world, partition, made(world, partition, config))
    assert (reply.runs[0][0] if reply.runs else None) == first


@pytest.mark.parametrize(
    ("name", "config", "text"),
    [
        ("a b", ConsumerConfig(), "invalid"),
        ("c", ConsumerConfig(deliver="middle"), "not one of all, new, offset, last, time, last-per-subject"),
        ("c", ConsumerConfig(deliver="last", filter="orders.*"), "say deliver 'last-per-subject'"),
        ("c", ConsumerConfig(backoff_ms=(5, 5), max_deliver=1), "leave out waits"),
        ("c", ConsumerConfig(filter="a.*", filters=("b", "a.>")), "'a.*' and 'a.>' match the same subjects"),
        ("c", ConsumerConfig(filters=("a",) * FILTERS_MAX, filter="b"), "may have 16"),
        ("c", ConsumerConfig(deliver="last", filters=("a",)), "say deliver 'last-per-subject'"),
        ("c", ConsumerConfig(notes=(("a", "x"), ("a", "y"))), "two notes of the name 'a'"),
        ("c", ConsumerConfig(notes=(("a", "x" * NOTES_BYTES_MAX),)), "its notes have 8193 bytes"),
        ("c", ConsumerConfig(timestamp_ms=1), "a time means nothing"),
        ("c", ConsumerConfig(offset=1), "means nothing"),
        ("c", ConsumerConfig(deliver="offset", offset=9), "not committed"),
    ],
)
def test_what_no_consumer_can_be_is_refused(name: str, config: ConsumerConfig, text: str) -> None:
    world, partition = ready()
    reply = asks(world, partition, CreateConsumerRequest(partition, name, config))
    assert text in reply.description and not reply.retryable


def test_who_begins_at_the_last_message_begins_at_one_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.consumers.making.LOOKED_AT_ONCE", 2)
    world, partition = ready(8)
    last = ConsumerConfig(deliver="last")
    assert pull(world, partition, made(world, partition, last, "a")).runs == [(7, 1, 1)]
    for offset in (7, 6, 5, 4, 2):
        asks(world, partition, DeleteMessageRequest(partition, offset))
    assert pull(world, partition, made(world, partition, last, "b")).runs == [(3, 1, 1)]
    for offset in (0, 1, 3):
        asks(world, partition, DeleteMessageRequest(partition, offset))
    number = made(world, partition, last, "c")
    assert info(world, partition, "c").position == 8
    world.publish(partition, b"8")
    assert pull(world, partition, number, wait_ms=2000).runs == [(8, 1, 1)]


def test_the_first_deliveries_may_wait_for_their_acks_as_long_as_each_is_said_to() -> None:
    config = ConsumerConfig(ack_wait_ms=60_000, backoff_ms=(500, 3000))
    assert [config.wait_ms(count) for count in range(1, 5)] == [500, 3000, 60_000, 60_000]
    world, partition = ready(1)
    number = made(world, partition, config)
    assert pull(world, partition, number).runs == [(0, 1, 1)]
    assert pull(world, partition, number).runs == []
    world.run(1)
    assert pull(world, partition, number).runs == [(0, 1, 2)]
    world.run(1)
    assert settle(world, partition, number, "progress", 0).unknown == []
    world.run(2.5)
    assert pull(world, partition, number).runs == [], "the second wait has begun anew"
    world.run(1)
    assert pull(world, partition, number).runs == [(0, 1, 3)]
    world.run(10)
    assert pull(world, partition, number).runs == []
    changed_leader(world, partition)
    assert info(world, partition).ack_pending == 1
    world.run(10)
    assert pull(world, partition, number).runs == [], "a new leader knows which wait it is"


def test_the_consumers_of_a_partition_are_bounded() -> None:
    world, partition = ready()
    large = ConsumerConfig(max_ack_pending=PENDING_MAX)
    for number in range(PENDING_ALL_MAX // PENDING_MAX):
        made(world, partition, large, f"large{number}")
    refused = asks(world, partition, CreateConsumerRequest(partition, "one-more", NO_LOSS))
    assert (refused.code, refused.retryable) == ("invalid", False)
    asks(world, partition, DeleteConsumerRequest(partition, "large0"))
    small = ConsumerConfig(max_ack_pending=1)
    for number in range(CONSUMERS_MAX - 3):
        made(world, partition, small, f"small{number}")
    refused = asks(world, partition, CreateConsumerRequest(partition, "one-more", small))
    assert (refused.code, refused.retryable) == ("invalid", False)


def test_a_request_may_not_name_more_than_a_step_can_look_at() -> None:
    world, partition = ready()
    number = made(world, partition)
    request = SettleRequest(partition, number, "ack", [(0, SETTLE_MAX), (SETTLE_MAX, 1)])
    reply = asks(world, partition, request)
    assert "send several" in reply.description and not reply.retryable
    offsets = [*range(0, 5000, 2), *range(5000, 30_000)]
    runs = [each.runs for each in settle_requests(partition, number, "ack", offsets)]
    assert all(len(each) <= RUNS_MAX for each in runs)
    assert all(sum(length for _, length in each) <= SETTLE_MAX for each in runs)
    assert sum(length for each in runs for _, length in each) == 27_500


def test_who_says_in_progress_again_and_again_leaves_nothing_behind() -> None:
    consumer = Consumer(1, Created("a", NO_LOSS, 0, []))
    consumer.delivered(Delivered(1, 3, [], [(0, 3, 1)]))
    flight = Flight(consumer, lambda count: 5)
    for tick in range(10_000):
        flight.set_deadline(1, 100_000 - tick)
    assert len(flight.heap) <= HEAP_MIN + 1
    assert flight.lapse(90_000) == [0, 2]
    assert flight.lapse(90_001) == [1]


def flights(count: int) -> Agenda:
    agenda = Agenda()
    for number in range(1, count + 1):
        agenda.add(Flight(Consumer(number, Created(f"c{number}", NO_LOSS, 0, [])), lambda count: 9))
    return agenda


@given(st.lists(st.tuples(st.integers(1, 4), OFFSETS, st.integers(1, 20)), max_size=30))
def test_an_agenda_misses_no_deadline_and_names_nobody_before_his_first(
    deadlines: list[tuple[int, int, int]],
) -> None:
    agenda = flights(4)
    for number, offset, tick in deadlines:
        agenda.flights[number].set_deadline(offset, tick)
        agenda.set_alarm(agenda.flights[number])
    for now in range(21):
        first = {
            number: min(ticks)
            for number in agenda.flights
            if (ticks := [tick for tick, _ in agenda.flights[number].heap])
        }
        due = agenda.due(now)
        assert {each.consumer.number for each in due} == {n for n, tick in first.items() if tick <= now}
        for each in due:
            each.lapse(now)
            agenda.set_alarm(each)


def test_an_agenda_forgets_who_is_deleted_and_who_puts_off_again_and_again_leaves_nothing() -> None:
    agenda = flights(2)
    one, two = agenda.flights.values()
    for tick in range(4 * HEAP_MIN, 0, -1):
        one.set_deadline(0, tick)
        agenda.set_alarm(one)
    assert len(agenda._alarms) <= HEAP_MIN + 1
    two.set_deadline(0, 1)
    agenda.wrote(two)
    agenda.waits(two)
    agenda.reads(two, 7, 3)
    assert agenda.remove(2) is two and agenda.remove(2) is None
    assert agenda.due(1) == [one] and not agenda.waiting and not agenda.written
    assert agenda.has_read(7) is two and agenda.has_read(7) is None and two.start == 3


def test_a_tick_looks_at_no_consumer_of_whom_nothing_is_due() -> None:
    world, partition = ready()
    idle = [made(world, partition, name=f"idle{number}") for number in range(5)]
    number = made(world, partition, ConsumerConfig(ack_wait_ms=1000), name="busy")
    pull(world, partition, number, messages=2)
    agenda = journal_of(world, partition).roles.consumers._agenda
    assert list(agenda.flights) == [number] and not set(idle) & set(agenda.flights)
    assert len(agenda._alarms) == 1
    world.run(3)
    assert not agenda._alarms, "what is due again waits for who asks"
    assert pull(world, partition, number).runs == [(0, 2, 2)]
    assert not agenda.waiting


def test_a_stream_without_a_journal_has_no_consumers() -> None:
    world = World()
    partition = world.create()
    reply = asks(world, partition, CreateConsumerRequest(partition, "c", NO_LOSS))
    assert "--removal" in reply.description and not reply.retryable


# -- other leaders -------------------------------------------------------------------------------------------


def changed_leader(world: World, partition: PartitionId) -> None:
    old = world.leader(partition)
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))


def test_k4_k5_a_new_leader_knows_what_was_acked_and_delivered_and_gives_the_rest_again() -> None:
    world, partition = ready(4)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=1000))
    pull(world, partition, number, 3)
    settle(world, partition, number, "ack", 1)
    changed_leader(world, partition)
    told = info(world, partition)
    assert (told.number, told.position, told.floor, told.ack_pending) == (number, 3, 0, 2)
    reply = pull(world, partition, number)
    assert given_to(reply) == {3: (b"3", 1)}
    assert reply.recorded > 0, "an earlier leader may have sent it before its record"
    assert world.nodes[world.leader(partition)].marks["K4.own"] == 1
    settle(world, partition, number, "ack", 3)
    assert given_to(pull(world, partition, number, wait_ms=5000)) == {0: (b"0", 2), 2: (b"2", 2)}


def test_k3_k4_who_leads_no_more_answers_nobody() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    pull(world, partition, number)
    old = world.leader(partition)
    world.pause(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old) or len(world.nodes) < 3)
    waits = world.ask(old, SettleRequest(partition, number, "ack", [(0, 1)]))
    pulls = world.ask(old, PullRequest(partition, number, wait_ms=60_000))
    world.resume(old)
    assert world.run_until(lambda: waits in world.replies and pulls in world.replies)
    for one in (waits, pulls):
        assert isinstance(world.replies[one], ErrorReply) and world.replies[one].retryable


def test_k5_a_leader_that_does_not_know_what_it_inherited_serves_nobody() -> None:
    world, partition = ready()
    number = made(world, partition)
    old = world.leader(partition)
    others = [node for node in world.nodes if node != old]
    for node in others:
        world.hold_storage(node)
    world.publish(partition, b"d")
    assert world.run_until(lambda: all(world.replica(node, partition).leo == 4 for node in others))
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    leader = world.leader(partition)
    reply = world.answer(leader, PullRequest(partition, number))
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert world.nodes[leader].marks["K5.inherited"] == 1


def test_k5_a_leader_that_has_not_folded_its_journal_serves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = ready()
    number = made(world, partition)
    leader = world.leader(partition)
    removed = journal_of(world, partition).removed
    epoch_start = journal_of(world, partition).leading.epoch_start
    monkeypatch.setattr(type(removed), "is_known", False)
    assert epoch_start == 0
    reply = world.answer(leader, PullRequest(partition, number))
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert world.nodes[leader].marks["K5.folded"] == 1


def test_k5_where_data_were_lost_a_consumer_is_set_back_before_anybody_is_served() -> None:
    world, partition = ready(4)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "ack", 0, 3)
    world.run(2)
    old = world.leader(partition)
    for node in world.nodes:
        # As if the entries were of a leader whose data were lost from offset 2 on.
        consumer = journal_of(world, partition, node).removed.consumers.by_number[number]
        monotone = [*consumer.line, EpochStart(consumer.line[-1].epoch + 1, 2)]
        consumer.line[:] = monotone
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old))
    assert sorted(given_to(pull(world, partition, number, wait_ms=5000))) == [2, 3]
    assert world.nodes[world.leader(partition)].marks["K5.rewound"] == 1
    assert info(world, partition).floor == 1


def test_k4_a_delivery_that_has_to_be_recorded_waits_for_that() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "nak", 0, 1)
    leader = world.leader(partition)
    others = [node for node in world.nodes if node != leader]
    for node in others:
        world.hold_storage(node)
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=1000))
    world.run(0.3)
    assert waits not in world.replies
    for node in others:
        world.release_storage(node)
    assert world.run_until(lambda: waits in world.replies)
    reply = world.replies[waits]
    assert reply.recorded <= journal_of(world, partition).hw
    assert given_to(reply) == {0: (b"0", 2), 1: (b"1", 2)}


def test_messages_that_are_not_in_memory_are_read_from_disk() -> None:
    world, partition = ready(3)
    number = made(world, partition)
    changed_leader(world, partition)
    leader = world.leader(partition)
    world.replica(leader, partition).log.cache.clear()
    assert sorted(given_to(pull(world, partition, number, wait_ms=2000))) == [0, 1, 2]


def test_k6_what_is_said_to_be_in_work_while_it_is_read_from_disk_is_not_written_off() -> None:
    world, partition = ready(1)
    number = made(world, partition)
    pull(world, partition, number)
    settle(world, partition, number, "nak", 0)
    leader = world.leader(partition)
    world.replica(leader, partition).log.cache.clear()
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=1000))
    world.ask(leader, SettleRequest(partition, number, "progress", [(0, 1)]))
    assert world.run_until(lambda: waits in world.replies)
    assert info(world, partition).ack_pending == 1
    settle(world, partition, number, "nak", 0)
    assert given_to(pull(world, partition, number, wait_ms=2000)) == {0: (b"0", 2)}


def test_k7_a_leader_that_has_yet_to_fold_what_is_committed_delivers_nothing() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    leader = world.leader(partition)
    journal = journal_of(world, partition)
    asks(world, partition, DeleteMessageRequest(partition, 1))
    journal.removed.folded -= 1
    waits = world.ask(leader, PullRequest(partition, number, wait_ms=2000))
    world.run(0.01)
    assert waits not in world.replies
    assert world.nodes[leader].marks["K7.folded"] == 1
    journal.removed.folded += 1
    assert world.run_until(lambda: waits in world.replies)
    assert given_to(world.replies[waits]) == {0: (b"0", 1)}


def test_k8_every_delivery_has_the_next_number_also_under_a_new_leader() -> None:
    world, partition = ready(5)
    number = made(world, partition)
    first, second = pull(world, partition, number, 2), pull(world, partition, number, 2)
    assert (first.sequence, second.sequence) == (1, 3)
    settle(world, partition, number, "nak", 0, 3)
    again = pull(world, partition, number, 2)
    assert (again.runs, again.sequence) == ([(0, 1, 2), (3, 1, 2)], 5)
    told = info(world, partition)
    assert (told.sequence, told.floor_sequence, told.redelivered, told.pulls) == (6, 2, 2, 0)
    settle(world, partition, number, "ack", 0, 1, 3)
    told = info(world, partition)
    assert (told.sequence, told.floor_sequence, told.redelivered) == (6, 5, 0)
    world.kill(world.leader(partition))
    assert world.run_until(lambda: bool(world.leader(partition)))
    assert pull(world, partition, number).sequence == 7
    assert info(world, partition).sequence == 7


def test_a_leader_tells_when_it_gave_a_message_last_and_when_one_was_done() -> None:
    world, partition = ready(2)
    number = made(world, partition)
    told = info(world, partition)
    assert (told.delivered_ms, told.acked_ms) == (0, 0)
    pull(world, partition, number, 2)
    world.run(1)
    settle(world, partition, number, "nak", 0)
    told = info(world, partition)
    assert told.delivered_ms > 0 and told.acked_ms == 0
    settle(world, partition, number, "term", 1)
    assert info(world, partition).acked_ms >= told.delivered_ms + 1000
    world.kill(world.leader(partition))
    assert world.run_until(lambda: bool(world.leader(partition)))
    told = info(world, partition)
    assert (told.delivered_ms, told.acked_ms) == (0, 0), "of another leader nobody knows"


def test_k8_a_journal_that_was_written_before_deliveries_were_counted_is_read() -> None:
    data = b"\x10" + msgspec.msgpack.encode(["SaidAgain", 1, "a", [10_000], 3, [], [[2, 1, 1]]])
    assert decode_entry(data) == SaidAgain(1, "a", ConsumerConfig(10_000), 3, [], [(2, 1, 1)])


def test_k8_what_is_to_come_is_told_with_each_delivery_and_in_the_info() -> None:
    """What is in memory is counted without the index, once."""
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "c", "b", "a.x", "b")
    config = ConsumerConfig(filter="a.*", filters=("c",))
    number, plain = made(world, partition, config), made(world, partition, name="all")
    assert [info(world, partition, name).num_pending for name in ("c", "all")] == [4, 7]
    assert [pull(world, partition, number, most).to_come for most in (1, 2)] == [3, 1]
    asks(world, partition, DeleteMessageRequest(partition, 5))
    assert info(world, partition).num_pending == 0
    settle(world, partition, number, "nak", 0)
    assert pull(world, partition, number).to_come == 0
    assert [pull(world, partition, plain, most).to_come for most in (2, 9)] == [4, 0]
    marks = world.nodes[world.leader(partition)].marks
    assert "K8.counted" in marks and "K8.asked" not in marks


def test_k8_what_is_not_in_memory_the_index_counts_once_and_anew_when_something_is_gone() -> None:
    """A pull that does not wait waits for that."""
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y", "b", "a.x")
    leader = world.leader(partition)
    world.replica(leader, partition).log.cache.clear()

    def asked() -> int:
        return world.nodes[leader].marks["K8.asked"]

    number = made(world, partition, ConsumerConfig(filter="a.*"))
    reply = pull(world, partition, number, 1)
    assert (reply.runs, reply.to_come, asked()) == ([(0, 1, 1)], 2, 1)
    assert (info(world, partition).num_pending, asked()) == (2, 1)
    asks(world, partition, DeleteMessageRequest(partition, 4))
    world.replica(leader, partition).log.cache.clear()
    assert (info(world, partition).num_pending, asked()) == (1, 2)
    assert "K8.counted" not in world.nodes[leader].marks
    reply = pull(world, partition, number, 1)
    assert (reply.runs, reply.to_come, asked()) == ([(2, 1, 1)], 0, 2)


def test_k8_where_the_index_cannot_be_made_nobody_is_told_and_deliveries_go_on() -> None:
    world, partition = ready(0)
    mixed(world, partition, "a.x", "b", "a.y")
    leader = world.leader(partition)
    log = world.disks[leader].logs[partition]
    log.fold_slice = 0
    world.replica(leader, partition).log.cache.clear()
    number = made(world, partition, ConsumerConfig(filter="a.*"))
    waits = world.ask(leader, ConsumersRequest(partition, "c"))
    world.run(0.3)
    counting = journal_of(world, partition).roles.consumers.counting
    assert waits not in world.replies
    counting.folded(SubjectsFolded(partition, 0, False, error="no room", full=True))
    assert world.run_until(lambda: waits in world.replies)
    assert world.replies[waits].consumers[0].num_pending == -1
    reply = pull(world, partition, number, 1, wait_ms=1000)
    assert (reply.runs, reply.to_come) == ([(0, 1, 1)], -1)
    assert world.nodes[leader].marks["K8.paused"] == 1
    log.fold_slice = 100
    world.run(11.0)
    assert info(world, partition).num_pending == 1
