"""K9: what was delivered for the last time is published, and is pending until a stream has stored it."""

from __future__ import annotations

import pytest

from liftlog.core.consumers.entries import Created
from liftlog.core.consumers.letters import letter_headers, letter_problem
from liftlog.core.consumers.state import Consumer
from liftlog.messages import (
    AlterConsumerRequest,
    ConsumerConfig,
    ConsumersReply,
    CreateConsumerRequest,
    ErrorReply,
    LetterAnswered,
    PublishLetter,
    PurgeRequest,
    SettledReply,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, Record
from tests.core.node_harness import World
from tests.core.test_consumers import (
    asks,
    changed_leader,
    given_to,
    info,
    journal_of,
    made,
    pull,
    ready,
    settle,
)

CONFIG = ConsumerConfig(ack_wait_ms=500, max_deliver=1, dead_letter="dead")


def letters(world: World, by: int = 0) -> list[PublishLetter]:
    return [letter for node, letter in world.letters if by in (0, node)]


def answer(world: World, letter: PublishLetter, problem: str = "") -> None:
    """As whoever listens on the letter's subject would, to whoever leads."""
    event = LetterAnswered(letter.partition, letter.epoch, letter.token, problem)
    world.post(world.leader(letter.partition), event)
    world.run(0.5)


def died(world: World, partition: PartitionId, config: ConsumerConfig = CONFIG) -> tuple[int, PublishLetter]:
    """The first message was delivered for the last time: the consumer, and the letter."""
    number = made(world, partition, config)
    assert given_to(pull(world, partition, number, 1))[0][1] == 1
    assert world.run_until(lambda: bool(world.letters))
    return number, letters(world)[-1]


def test_k9_a_message_is_done_when_its_letter_is_stored_and_not_before() -> None:
    world, partition = ready(2)
    number, letter = died(world, partition)
    assert (letter.subject, letter.value) == ("dead", b"0")
    lines = letter.headers.split(b"\r\n")
    assert lines[0] == b"NATS/1.0" and lines[-2:] == [b"", b""]
    assert {b"Dead-Letter-Offset: 0", b"Dead-Letter-Reason: limit"} <= set(lines)
    assert b"Dead-Letter-Deliveries: 1" in lines
    assert pull(world, partition, number, wait_ms=1500).runs == [(1, 1, 1)], "it is not delivered again"
    told = info(world, partition)
    assert (told.floor, told.dead, told.dead_problem) == (0, 1, "")
    answer(world, letter)
    told = info(world, partition)
    assert (told.floor, told.dead) == (1, 1)
    assert world.nodes[world.leader(partition)].marks["K9.stored"] == 1


def test_k9_a_letter_that_is_refused_is_published_again_ever_more_seldom_under_its_id() -> None:
    world, partition = ready(1)
    _, letter = died(world, partition)
    answer(world, letter, "the dead-letter stream has no quorum")
    told = info(world, partition)
    assert (told.ack_pending, told.dead_problem) == (1, "the dead-letter stream has no quorum")
    world.run(30)
    again = letters(world)
    assert 3 <= len(again) <= 6
    assert len({(one.headers, one.token) for one in again}) == 1
    answer(world, letter)
    told = info(world, partition)
    assert (told.ack_pending, told.dead, told.dead_problem) == (0, 0, "")
    published = len(letters(world))
    world.run(60)
    assert len(letters(world)) == published


def test_k9_dead_messages_take_the_place_of_what_may_be_pending() -> None:
    world, partition = ready(3)
    number, letter = died(world, partition, ConsumerConfig(500, 1, 1, dead_letter="dead"))
    assert pull(world, partition, number, wait_ms=1000).runs == []
    answer(world, letter)
    assert given_to(pull(world, partition, number, wait_ms=1000)) == {1: (b"1", 1)}


def test_k9_what_was_terminated_is_answered_when_that_is_committed_and_a_new_leader_publishes_it() -> None:
    world, partition = ready(1)
    number = made(world, partition, ConsumerConfig(ack_wait_ms=500, dead_letter="dead"))
    pull(world, partition, number)
    settled = settle(world, partition, number, "term", 0)
    assert isinstance(settled, SettledReply)
    assert journal_of(world, partition).hw >= settled.journal > 0
    first = world.leader(partition)
    assert world.run_until(lambda: bool(letters(world, first)))
    changed_leader(world, partition)
    second = world.leader(partition)
    assert second != first
    assert world.run_until(lambda: bool(letters(world, second)))
    one, other = letters(world, first)[0], letters(world, second)[0]
    assert one.headers == other.headers and b"Dead-Letter-Reason: terminated" in one.headers
    assert pull(world, partition, number, wait_ms=2000).runs == []
    answer(world, other)
    assert info(world, partition).ack_pending == 0


def test_k9_a_planted_leader_leaves_the_letters_that_it_inherits() -> None:
    world, partition = ready(1, mutants=Mutants(inherited_letters_left=True))
    died(world, partition)
    first = world.leader(partition)
    changed_leader(world, partition)
    second = world.leader(partition)
    world.run(30)
    assert second != first and not letters(world, second)
    assert info(world, partition).dead == 1


def test_k9_an_ack_of_what_is_dead_changes_nothing() -> None:
    """Else it could be acked, and be among the dead letters too."""
    world, partition = ready(1)
    number, letter = died(world, partition)
    settled = settle(world, partition, number, "ack", 0)
    assert (settled.unknown, info(world, partition).dead) == ([], 1)
    settle(world, partition, number, "nak", 0)
    assert pull(world, partition, number, wait_ms=1000).runs == []
    answer(world, letter)
    assert info(world, partition).ack_pending == 0


def test_k9_nothing_is_published_before_it_is_committed_that_it_is_dead() -> None:
    world, partition = ready(1)
    number = made(world, partition, CONFIG)
    pull(world, partition, number)
    leader = world.leader(partition)
    world.run(0.2)
    consumer = journal_of(world, partition).removed.consumers.by_number[number]
    fetches = "Fetch", "FetchProgress"
    world.drop = lambda sender, to, message: to == leader and type(message).__name__ in fetches
    assert world.run_until(lambda: world.nodes[leader].marks.get("K9.dead", 0) > 0)
    world.run(0.2)
    assert consumer.pending and not consumer.dead
    assert not world.letters
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: bool(world.letters))


def test_k9_who_wants_no_letters_any_more_gets_none_and_what_is_gone_is_none() -> None:
    world, partition = ready(2)
    number, letter = died(world, partition)
    assert isinstance(asks(world, partition, PurgeRequest(partition, 1)), object)
    world.run(1)
    assert info(world, partition).dead == 0
    pull(world, partition, number)
    assert world.run_until(lambda: len(letters(world)) > 1)
    request = AlterConsumerRequest(partition, number, CONFIG, ConsumerConfig(500, 1))
    assert isinstance(asks(world, partition, request), ConsumersReply)
    world.run(5)
    assert info(world, partition).ack_pending == 0
    answer(world, letter)


def test_k9_a_message_that_is_not_in_memory_is_read_from_disk() -> None:
    world, partition = ready(1)
    number = made(world, partition, CONFIG)
    pull(world, partition, number)
    world.replica(world.leader(partition), partition).log.cache.clear()
    assert world.run_until(lambda: bool(world.letters))
    assert letters(world)[0].value == b"0"


@pytest.mark.parametrize(
    ("subject", "filter", "listened", "says"),
    [
        ("dead", "", ["work"], ""),
        ("", "", ["work"], ""),
        ("work.dead", "work.new", ["work.>"], ""),
        ("work.dead", "", ["work.>"], "this very consumer"),
        ("work.dead", "work.*", ["other", "work.>"], "this very consumer"),
        ("dead.*", "", ["work"], "dead_letter 'dead.*'"),
    ],
)
def test_k9_where_dead_letters_can_go(subject: str, filter: str, listened: list[str], says: str) -> None:
    found = letter_problem(ConsumerConfig(filter=filter, dead_letter=subject), listened)
    assert says in found and bool(says) == bool(found)


def test_k9_a_consumer_that_would_be_given_its_own_dead_letters_is_not_made() -> None:
    world, partition = ready(0)
    subject = world.listened[partition][0]
    request = CreateConsumerRequest(partition, "c", ConsumerConfig(dead_letter=subject))
    reply = asks(world, partition, request)
    assert isinstance(reply, ErrorReply) and "name another subject" in reply.description


def test_k9_headers_that_ask_for_something_are_left_out() -> None:
    """A message with an expected offset of its own stream would be refused."""
    consumer = Consumer(3, Created("c", CONFIG, 0, []))
    consumer.pending[7], consumer.dead[7] = 2, "limit"
    block = b"NATS/1.0\r\nNats-Msg-Id: a\r\nColour: red\r\nliftlog-expected-offset: 4\r\n"
    record = Record(7, 0, b"work", b"", block + b"dead-letter-offset: 2\r\n\r\n", None, b"x")
    found = letter_headers("S", PartitionId(4, 1), consumer, record, "id")
    assert found.split(b"\r\n")[:3] == [b"NATS/1.0", b"Colour: red", b"Nats-Msg-Id: id"]
    assert found.count(b"Offset") == 1 and b"expected" not in found
