"""The simulator's truth about consumers (K1 to K7) finds what it should, and nothing where all is well."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liftlog.core.consumers.entries import (
    Altered,
    ConsumerDeleted,
    ConsumerEntry,
    Created,
    Dead,
    Delivered,
    Done,
    Rewound,
    SaidAgain,
    encode_entry,
)
from liftlog.core.consumers.letters import letter_id
from liftlog.format import encode_values
from liftlog.messages import ConsumerConfig, ConsumerInfo, ConsumersReply, PullReply
from liftlog.types import PartitionId, Record
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.consumers import ConsumerTruth
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.letters import DeadMessage, LetterTruth
from liftlog_sim.truth.removals import DeletionTruth
from liftlog_sim.truth.sought import KnownThen
from tests.sim.told import PARTITION, ToldLogs

CONFIG = ConsumerConfig(max_deliver=2)


class Told(ToldLogs):
    """Three messages of epoch 1, and a journal whose entries are of the epochs given."""

    def __init__(self) -> None:
        values = b"a", b"b", b"c"
        super().__init__(*((b"", value) for value in values))
        self.frame = encode_values(PARTITION, 0, 1, 5, list(values))
        self.start = 0
        self.truth = ConsumerTruth(self.data, DeletionTruth(self.data, self.journal), lambda: self.start)

    def wrote(self, entry: ConsumerEntry, epoch: int = 1) -> int:
        return self.put(encode_entry(entry), epoch)

    def begun(self) -> int:
        number = self.wrote(Created("work", CONFIG, 0, []))
        assert list(self.truth.known()) == [number]
        return number

    def given(
        self, number: int, first: int, count: int, recorded: int, epoch: int = 1, sequence: int = 1
    ) -> PullReply:
        return PullReply(
            partition=PARTITION,
            consumer=number,
            epoch=epoch,
            recorded=recorded,
            runs=[(first, 1, count)],
            batches=[self.frame.data],
            sequence=sequence,
        )

    def pulled(self, number: int, reply: PullReply) -> None:
        self.truth.pulled(number, reply, self.truth.ended(), 0, self.truth.purged())


def violated(name: str) -> Any:
    return pytest.raises(Violation, match=f"^{name}: ")


def test_a_message_that_is_given_acked_and_passed_is_well() -> None:
    world = Told()
    number = world.begun()
    world.pulled(number, world.given(number, 0, 1, 0))
    recorded = world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    again = world.wrote(Delivered(number, 1, [], [(0, 1, 2)]), epoch=2)
    world.pulled(number, world.given(number, 0, 2, again, epoch=2, sequence=2))
    world.truth.says(number, [0])
    end = world.wrote(Done(number, "acked", [(0, 1)]), epoch=2)
    world.truth.settled(number, [0], end)
    assert recorded < again < end
    world.truth.exact(ConsumerInfo("work", number, CONFIG, 1, 1, 0, 2, sequence=2, floor_sequence=2), 0)
    world.truth.deleted([])
    world.wrote(ConsumerDeleted(number), epoch=2)
    world.truth.deleted([number])
    assert world.truth.ended() == {number}


def test_an_ack_that_is_answered_and_not_committed_is_found() -> None:
    """K3."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    world.truth.known()
    with violated("AckStays"):
        world.truth.settled(number, [0], 3)


def test_a_delivery_behind_its_ack_is_found() -> None:
    """K3, K4: recorded behind it, or without a record by a later epoch."""
    world = Told()
    number = world.begun()
    world.truth.says(number, [0])
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    world.wrote(Done(number, "acked", [(0, 1)]))
    world.truth.known()
    world.pulled(number, world.given(number, 0, 1, 0))
    world.wrote(Delivered(number, 1, [], [(0, 1, 2)]))
    with violated("AckStays"):
        world.truth.known()


def test_a_delivery_of_what_was_purged_before_it_was_asked_for_is_found() -> None:
    """K7. Who leads an earlier epoch than the purge was seen in need not know of it."""
    world = Told()
    number = world.begun()
    world.data.purge_done(1, {})
    world.data.purged_in = {2: 1}
    world.pulled(number, world.given(number, 0, 1, 0))
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    again = world.wrote(Delivered(number, 1, [], [(0, 1, 2)]), epoch=2)
    with violated("LogStartMonotone"):
        world.pulled(number, world.given(number, 0, 2, again, epoch=2, sequence=2))


def test_a_dead_message_whose_letter_is_nowhere_or_that_was_not_dead_is_found() -> None:
    """K9."""
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(max_deliver=1, dead_letter="dead"), 0, []))
    world.wrote(Delivered(number, 2, [], [(0, 2, 1)]))
    with violated("DeadLettersStored"):
        world.truth.letter(DeadMessage(PARTITION, number, 0, 1))
    world.wrote(Dead(number, "limit", [(0, 2)]))
    assert world.truth.known()[number].dead == {0: "limit", 1: "limit"}
    assert world.truth.unburied(number) == [0, 1]
    world.truth.letter(DeadMessage(PARTITION, number, 0, 1))
    with violated("DeadLettersStored"):
        world.truth.letter(DeadMessage(PARTITION, number, 1, 2))
    world.wrote(Done(number, "limit", [(0, 1)]))
    assert world.truth.known()[number].pending == {1: 1}
    world.wrote(Done(number, "limit", [(1, 1)]))
    with violated("DeadLettersStored"):
        world.truth.known()


def test_a_message_that_dies_before_its_time_is_found() -> None:
    """K9."""
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(max_deliver=2, dead_letter="dead"), 0, []))
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    world.wrote(Dead(number, "limit", [(0, 1)]))
    with violated("NoneSkipped"):
        world.truth.known()


def test_a_letter_that_is_stored_twice_or_speaks_of_another_message_is_found() -> None:
    """K9."""
    truth, named = LetterTruth(), DeadMessage(PARTITION, 3, 1, 1)
    id = letter_id("s", *named)

    def stored(place: int, offset: int = 1) -> Record:
        block = f"NATS/1.0\r\nNats-Msg-Id: {id}\r\nDead-Letter-Offset: {offset}\r\n\r\n"
        return Record(place, 5, b"dead", b"", block.encode(), None, b"b")

    log = PartitionId(9, 0)
    assert truth.grown(log, [None, stored(1)]) == [named] == truth.grown(log, [stored(1)])
    with violated("DeadLettersStored"):
        truth.grown(log, [stored(2)])
    with violated("DeadLettersStored"):
        LetterTruth().grown(log, [stored(1, 2)])


def test_a_delivery_that_is_not_recorded_as_it_says_is_found() -> None:
    """K4."""
    world = Told()
    number = world.begun()
    with violated("DeliveriesBounded"):
        world.pulled(number, world.given(number, 0, 1, 2))


def test_a_second_delivery_without_a_record_and_one_of_another_epoch_are_found() -> None:
    """K4."""
    world = Told()
    number = world.begun()
    world.pulled(number, world.given(number, 0, 1, 0))
    with violated("DeliveriesBounded"):
        world.pulled(number, world.given(number, 0, 1, 0))
    with violated("DeliveriesBounded"):
        world.pulled(number, world.given(number, 1, 1, 0, epoch=2))


def test_more_deliveries_than_the_limit_are_found() -> None:
    """K4, K6."""
    world = Told()
    number = world.begun()
    for count in (1, 2, 3):
        world.wrote(Delivered(number, 1, [], [(0, 1, count)]))
    with violated("DeliveriesBounded"):
        world.truth.known()


def test_a_message_that_is_passed_or_done_without_a_word_is_found() -> None:
    """K6."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 2, [], [(1, 1, 1)]))
    with violated("NoneSkipped"):
        world.truth.known()
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    world.wrote(Done(number, "acked", [(0, 1)]))
    with violated("NoneSkipped"):
        world.truth.known()


def test_what_is_gone_may_be_passed_and_written_off() -> None:
    """K7."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    world.truth.known()
    world.start = 2
    world.wrote(Done(number, "gone", [(0, 1)]))
    world.wrote(Delivered(number, 3, [], [(2, 1, 1)]))
    told = ConsumerInfo("work", number, CONFIG, 3, 2, 1, 0, sequence=2, floor_sequence=1)
    world.truth.exact(told, 2)
    for wrong in ({"ack_pending": 2}, {"sequence": 1}, {"floor_sequence": 2}, {"redelivered": 1}):
        with violated("PendingExact"):
            world.truth.exact(msgspec.structs.replace(told, **wrong), 2)


def test_a_delivery_with_another_number_than_its_record_gives_it_is_found() -> None:
    """K8: by its record, by one that comes later, and where two have one number."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 1, [], [(0, 1, 1)]))
    recorded = world.wrote(Delivered(number, 2, [], [(1, 1, 1)]))
    with violated("DeliveriesNumbered"):
        world.pulled(number, world.given(number, 1, 1, recorded, sequence=1))
    with violated("DeliveriesNumbered"):
        world.pulled(number, world.given(number, 1, 1, recorded, sequence=3))
    world.pulled(number, world.given(number, 1, 1, recorded, sequence=2))
    world.pulled(number, world.given(number, 2, 1, 0, sequence=3))
    world.wrote(Delivered(number, 2, [], [(0, 1, 2)]))
    with violated("DeliveriesNumbered"):
        world.truth.known()
    world = Told()
    number = world.begun()
    world.pulled(number, world.given(number, 0, 1, 0))
    with violated("DeliveriesNumbered"):
        world.pulled(number, world.given(number, 1, 1, 0))


def test_another_one_under_the_name_and_one_that_nobody_made_are_found() -> None:
    """K1."""
    world = Told()
    number = world.begun()
    with violated("OfThisIncarnation"):
        world.truth.settled(number + 1, [0], 1)
    with violated("OfThisIncarnation"):
        world.truth.deleted([number])
    world.wrote(ConsumerDeleted(number))
    world.truth.deleted([number])
    info = ConsumerInfo("work", number, CONFIG, 0, 0, 0, 3)
    world.truth.created("work", ConsumersReply(PARTITION, 1, [info]), world.truth.ended())
    with violated("OfThisIncarnation"):
        world.truth.created("work", ConsumersReply(PARTITION, 2, [info]), world.truth.ended())


def test_another_message_than_the_committed_one_is_found() -> None:
    world = Told()
    number = world.begun()
    world.frame = encode_values(PARTITION, 0, 1, 5, [b"x", b"b", b"c"])
    with violated("ConsistentRead"):
        world.pulled(number, world.given(number, 0, 1, 0))


def test_what_was_lost_may_be_delivered_anew() -> None:
    """K5."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 2, [], [(0, 2, 1)]))
    world.wrote(Rewound(number, 1), epoch=2)
    world.wrote(Delivered(number, 2, [], [(1, 1, 1)]), epoch=2)
    assert world.truth.known()[number].stands() == (number, "work", 2, ((0, 1), (1, 1)), 3, ())


def test_what_a_filter_leaves_out_may_be_passed_and_nothing_else() -> None:
    """K6."""
    world = Told()
    committed = world.data.contents.committed
    for offset, subject in enumerate((b"orders.eu", b"orders.us", b"orders.eu")):
        record = committed[offset]
        assert record is not None
        committed[offset] = record._replace(subject=subject)
    number = world.wrote(Created("work", ConsumerConfig(filter="orders.eu"), 0, []))
    world.wrote(Delivered(number, 2, [], [(0, 1, 1)]))
    world.truth.known()
    world.wrote(Delivered(number, 3, [], []))
    with violated("NoneSkipped"):
        world.truth.known()


def test_once_healed_each_leader_tells_of_its_consumers_exactly() -> None:
    """Whatever clients happened to ask before: a world that creates consumers is judged in the end."""
    result = run_seed(RunOptions(seed=1, profile="consumers", duration_s=20))
    assert result.good, result.finding
    assert result.counters["consumers created"] > 0 and result.checks["PendingExact"] > 0


def test_what_a_consumer_has_yet_to_give_is_left_until_it_is_done_gone_or_unwanted() -> None:
    """K6, end to end."""
    world = Told()
    number = world.begun()
    assert world.truth.left(number) == [0, 1, 2]
    world.wrote(Delivered(number, 2, [], [(0, 2, 1)]))
    world.truth.says(number, [0])
    world.wrote(Done(number, "acked", [(0, 1)]))
    assert world.truth.left(number) == [1, 2]
    world.start = 2
    assert world.truth.left(number) == [2]
    world.wrote(ConsumerDeleted(number))
    assert world.truth.left(number) == []


def test_a_message_that_was_passed_and_is_neither_pending_nor_done_is_found() -> None:
    """K6: by an entry that says so, and end to end where a state has forgotten it."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 2, [], [(0, 2, 1)]))
    assert world.truth.left(number) == [0, 1, 2]
    del world.truth.consumers[number].pending[1]
    with violated("NoneSkipped"):
        world.truth.left(number)


def reset(world: Told, number: int, start: int) -> int:
    """Another one takes its place, as somebody wanted."""
    world.truth.resets("work")
    return world.wrote(Created("work", CONFIG, start, [], instead=number))


def told_of(number: int) -> ConsumersReply:
    return ConsumersReply(PARTITION, 1, [ConsumerInfo("work", number, CONFIG, 0, 0, 0, 0)])


@pytest.mark.parametrize(
    ("asked", "begins", "wrong"),
    [(0, 0, False), (2, 2, False), (2, 3, True), (2, 1, True), (-1, 1, False), (-1, 0, False), (-1, 2, True)],
)
def test_a_consumer_that_is_reset_begins_where_somebody_wanted(asked: int, begins: int, wrong: bool) -> None:
    """K1. -1: at the floor, which is 1, or below it, where a leader knows no better."""
    world = Told()
    number = world.begun()
    world.wrote(Delivered(number, 2, [], [(0, 2, 1)]))
    world.truth.says(number, [0])
    world.wrote(Done(number, "acked", [(0, 1)]))
    there = world.truth.there("work")
    second = reset(world, number, begins)
    if wrong:
        with violated("NoneSkipped"):
            world.truth.was_reset(told_of(second), asked, there)
        return
    world.truth.was_reset(told_of(second), asked, there)
    assert world.truth.there("work") == [second] and number in world.truth.ended()
    world.truth.no_more(number, 0)
    world.start = 3
    later = reset(world, second, 3)
    world.truth.was_reset(told_of(later), 1, [second])


def test_a_reset_that_nobody_wanted_or_that_is_not_committed_is_found() -> None:
    """K1."""
    world = Told()
    number = world.begun()
    with violated("OfThisIncarnation"):
        world.truth.was_reset(told_of(number), 0, [number])
    world.wrote(Created("work", CONFIG, 0, [], instead=number))
    with violated("OfThisIncarnation"):
        world.truth.known()


@pytest.mark.parametrize("how", ["deleted", "altered"])
def test_a_reset_of_one_that_is_not_there_or_was_altered_with_it_is_found(how: str) -> None:
    """K1."""
    world = Told()
    number = world.begun()
    world.wrote(ConsumerDeleted(number) if how == "deleted" else Altered(number, OF_B))
    reset(world, number, 0)
    with violated("OfThisIncarnation"):
        world.truth.known()


def test_one_that_ends_by_itself_while_it_is_reset_is_found() -> None:
    """K1: there is no moment without one."""
    world = Told()
    number = world.begun()
    world.truth.resets("work")
    world.wrote(ConsumerDeleted(number))
    with violated("OfThisIncarnation"):
        world.truth.no_more(number, 0)


@pytest.mark.parametrize(
    ("config", "latest"),
    [(CONFIG, 0), (ConsumerConfig(deliver="offset", offset=2), 2), (ConsumerConfig(deliver="new"), 3)],
)
def test_a_consumer_that_begins_behind_where_it_is_to_begin_is_found(
    config: ConsumerConfig, latest: int
) -> None:
    """K6."""
    for start in range(latest + 1):
        world = Told()
        world.wrote(Created("work", config, start, []))
        assert world.truth.known()
    world = Told()
    world.wrote(Created("work", config, latest + 1, []))
    with violated("NoneSkipped"):
        world.truth.known()


def test_what_a_filter_leaves_out_may_be_passed_without_a_word() -> None:
    """PendingExact: a leader is ahead of what is written there, and of nothing else."""
    world = Told()
    config = ConsumerConfig(filter="other")
    number = world.wrote(Created("work", config, 0, []))
    for to_come in (-1, 0):
        world.truth.exact(ConsumerInfo("work", number, config, 3, 3, 0, to_come), 0)
    with violated("PendingExact"):
        world.truth.exact(ConsumerInfo("work", number, config, 3, 3, 0, 1), 0)
    plain = world.wrote(Created("plain", CONFIG, 0, []))
    with violated("PendingExact"):
        world.truth.exact(ConsumerInfo("plain", plain, CONFIG, 3, 3, 0, 0), 0)


def test_who_begins_with_what_is_new_is_not_given_what_was_acknowledged_before() -> None:
    """K5."""
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(deliver="new"), 1, []))
    world.truth.begun("work", number, KnownThen(number, 3, 0))  # It was written before somebody asked for it.
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(deliver="new"), 1, []))
    world.truth.begun("work", number, KnownThen(0, 1, 0))
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(deliver="new"), 1, []))
    with violated("NoneSkipped"):
        world.truth.begun("work", number, KnownThen(0, 2, 0))


def test_of_several_who_ask_for_a_consumer_at_a_time_the_first_counts() -> None:
    """K1: they share its entry, which says what was so when the first of them was heard."""
    first, late, refused = KnownThen(0, 1, 0), KnownThen(0, 2, 0), KnownThen(0, 0, 0)
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(deliver="new"), 1, []))
    for asked in (refused, first, late):
        world.truth.sought.wants("work", asked)
    world.truth.sought.refused("work", refused)
    world.truth.begun("work", number, late)
    world.truth.begun("work", number, first)
    world.truth.sought.refused("work", first)  # That is over.
    world = Told()
    number = world.wrote(Created("work", ConsumerConfig(deliver="new"), 1, []))
    for asked in (first, late):
        world.truth.sought.wants("work", asked)
    world.truth.sought.refused("work", first)
    with violated("NoneSkipped"):
        world.truth.begun("work", number, late)


@pytest.mark.parametrize(
    ("lasts", "since"), [([(1, 1)], 3), ([(1, 2)], 3), ([], 3), ([(2, 1)], 2), ([(2, 1)], 4)]
)
def test_who_begins_with_other_messages_than_the_last_of_each_subject_is_found(
    lasts: list[tuple[int, int]], since: int
) -> None:
    """K1."""
    config = ConsumerConfig(deliver="last-per-subject")
    world = Told()
    number = world.wrote(Created("work", config, 2, [], [(2, 1)], 3, 0))
    world.truth.begun("work", number, KnownThen(0, 3, 0))
    for acked, told in ((4, 0), (3, 1)):
        world = Told()
        number = world.wrote(Created("work", config, 2, [], [(2, 1)], 3, 0))
        with violated("NoneSkipped"):
            world.truth.begun("work", number, KnownThen(0, acked, told))
    world = Told()
    world.wrote(Created("work", config, 2, [], lasts, since, 0))
    with violated("NoneSkipped"):
        world.truth.known()


def test_what_a_consumer_begins_with_is_to_be_said_again_with_it() -> None:
    """K2."""
    config = ConsumerConfig(deliver="last-per-subject")
    for lasts in ([(2, 1)], []):
        world = Told()
        number = world.wrote(Created("work", config, 2, [], [(2, 1)], 3, 0))
        assert world.truth.known()
        world.wrote(SaidAgain(number, "work", config, 2, [], [], lasts, 3))
        if not lasts:
            with violated("SameConsumerState"):
                world.truth.known()


def test_the_newest_leader_is_asked_and_not_who_began_last() -> None:
    """A paused node began an older epoch later; nobody else was asked any more: the world never healed."""
    result = run_seed(RunOptions(seed=108, profile="consumers"))
    assert result.good, result.finding


def test_another_number_of_messages_to_come_is_found() -> None:
    """PendingExact: in the info, and behind what is given."""
    world = Told()
    number = world.begun()
    with violated("PendingExact"):
        world.truth.exact(ConsumerInfo("work", number, CONFIG, 0, 0, 0, 2), 0)
    with violated("PendingExact"):
        world.truth.exact(ConsumerInfo("work", number, CONFIG, 0, 0, 0, -1), 0)
    reply = world.given(number, 0, 1, 0)
    for to_come, committed in ((-1, 3), (2, 3), (1, 2), (2, 2), (0, 0)):
        world.truth.behind(msgspec.structs.replace(reply, to_come=to_come), committed, 0)
    for to_come, committed in ((1, 3), (3, 3), (3, 0), (0, 2)):
        with violated("PendingExact"):
            world.truth.behind(msgspec.structs.replace(reply, to_come=to_come), committed, 0)


def with_subjects(world: Told, *subjects: bytes) -> None:
    committed = world.data.contents.committed
    for offset, subject in enumerate(subjects):
        record = committed[offset]
        assert record is not None
        committed[offset] = record._replace(subject=subject)


OF_A, OF_B = ConsumerConfig(filter="a"), ConsumerConfig(filter="b")


def test_other_filters_hold_from_where_a_consumer_is() -> None:
    """What the former ones left out below that may stay so, and what is pending is to be acked."""
    world = Told()
    with_subjects(world, b"a", b"b", b"b")
    number = world.wrote(Created("work", OF_A, 0, []))
    world.wrote(Delivered(number, 2, [], [(0, 1, 1)]))
    world.wrote(Altered(number, OF_B))
    assert world.truth.left(number) == [0, 2]
    world.wrote(Delivered(number, 3, [], [(2, 1, 1)]))
    world.truth.says(number, (0, 2))
    world.wrote(Done(number, "acked", [(0, 1), (2, 1)]))
    assert world.truth.left(number) == []


@pytest.mark.parametrize("runs", [[], [(0, 1, 1)]])
def test_who_goes_by_filters_that_are_altered_is_found(runs: list[tuple[int, int, int]]) -> None:
    """It passes what the others match, or gives what none does. NoneSkipped."""
    world = Told()
    with_subjects(world, b"a", b"b", b"b")
    number = world.wrote(Created("work", OF_A, 0, []))
    world.wrote(Altered(number, OF_B))
    world.wrote(Delivered(number, 3, [], runs))
    with violated("NoneSkipped"):
        world.truth.known()


def test_a_count_by_filters_that_are_altered_meanwhile_is_not_judged() -> None:
    world = Told()
    number = world.begun()
    reply = msgspec.structs.replace(world.given(number, 0, 1, 0), to_come=1)
    asked = world.truth.refiltered()
    with violated("PendingExact"):
        world.truth.behind(reply, 3, asked)
    world.wrote(Altered(number, OF_B))
    world.truth.behind(reply, 3, asked)
