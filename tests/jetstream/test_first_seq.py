"""Streams whose first message has another sequence than 1 (`first_seq`)."""

from __future__ import annotations

import pytest
from nats.js import api, errors

from tests.jetstream.table import differs, proves, refused
from tests.jetstream.user import User

S = "Streams"
FIRST_SEQ = "first_seq"


@proves(S, FIRST_SEQ, "an empty stream")
async def test_an_empty_stream_says_where_it_begins(user: User) -> None:
    told = await user.create(first_seq=100)
    assert told["config"]["first_seq"] == 100
    state = (await user.info()).state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 100, 99)


@proves(S, FIRST_SEQ, "publishing")
async def test_the_first_message_gets_that_sequence(user: User) -> None:
    await user.create(first_seq=100)
    assert [ack.seq for ack in await user.publish("1", "2", "3")] == [100, 101, 102]
    state = (await user.info()).state
    assert (state.messages, state.first_seq, state.last_seq) == (3, 100, 102)
    assert state.num_deleted in (None, 0)


@proves(S, FIRST_SEQ, "a great one")
async def test_it_may_be_great(user: User) -> None:
    first = 1 << 40
    await user.create(first_seq=first)
    assert (await user.publish("1"))[0].seq == first
    assert (await user.info()).state.first_seq == first


@proves(S, FIRST_SEQ, "Nats-Expected-Last-Sequence")
async def test_what_comes_before_the_first_message_may_be_expected(user: User) -> None:
    await user.create(first_seq=100)
    to = user.subject("a")
    with pytest.raises(errors.APIError) as refused:
        await user.js.publish(to, b"", headers={"Nats-Expected-Last-Sequence": "50"})
    assert refused.value.err_code == 10071
    ack = await user.js.publish(to, b"", headers={"Nats-Expected-Last-Sequence": "99"})
    assert ack.seq == 100


@proves(S, FIRST_SEQ, "STREAM.MSG.GET")
async def test_messages_are_got_by_their_sequence(user: User) -> None:
    await user.create(first_seq=100, allow_direct=True)
    await user.publish("1", "2")
    for direct in (False, True):
        found = await user.js.get_msg(user.name, 101, direct=direct)
        assert (found.seq, found.data) == (101, b"2")
        with pytest.raises(errors.NotFoundError):
            await user.js.get_msg(user.name, 1, direct=direct)
    found = await user.js.get_msg(user.name, 1, user.subject("a"), next=True)
    assert found.seq == 100


@proves(S, FIRST_SEQ, "a purge")
async def test_a_purge_goes_on_from_there(user: User) -> None:
    await user.create(first_seq=100)
    await user.publish("1", "2", "3")
    assert (await user.api(f"STREAM.PURGE.{user.name}", {"seq": 102}))["purged"] == 2
    assert (await user.info()).state.first_seq == 102
    await user.api(f"STREAM.PURGE.{user.name}")
    state = (await user.info()).state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 103, 102)
    assert (await user.publish("4"))[0].seq == 103


@proves(S, FIRST_SEQ, "a purge of nothing")
async def test_a_purge_of_an_empty_stream_changes_nothing(user: User) -> None:
    await user.create(first_seq=100)
    assert (await user.api(f"STREAM.PURGE.{user.name}"))["purged"] == 0
    assert (await user.publish("1"))[0].seq == 100


@proves(S, FIRST_SEQ, "consumers")
async def test_consumers_begin_there(user: User) -> None:
    await user.create(first_seq=100)
    early = await user.js.pull_subscribe(user.subject(">"), "EARLY", stream=user.name)
    await user.publish("1", "2", "3")
    assert [one.metadata.sequence.stream for one in await early.fetch(3)] == [100, 101, 102]
    info = await early.consumer_info()
    assert (info.delivered.stream_seq, info.num_pending) == (102, 0)
    config = api.ConsumerConfig(deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=101)
    late = await user.js.pull_subscribe(user.subject(">"), "LATE", stream=user.name, config=config)
    assert [one.data for one in await late.fetch(2)] == [b"2", b"3"]
    low = api.ConsumerConfig(deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=5)
    every = await user.js.pull_subscribe(user.subject(">"), "LOW", stream=user.name, config=low)
    assert [one.data for one in await every.fetch(3)] == [b"1", b"2", b"3"]


@proves(S, FIRST_SEQ, "a consumer's state")
async def test_a_consumer_of_an_empty_stream_has_had_nothing(user: User) -> None:
    await user.create(first_seq=100)
    await user.consumer("C")
    info = await user.js.consumer_info(user.name, "C")
    assert (info.num_pending, info.delivered.consumer_seq, info.ack_floor.consumer_seq) == (0, 0, 0)


@proves(S, FIRST_SEQ, "STREAM.UPDATE without it")
async def test_an_update_that_does_not_name_it_leaves_it(user: User) -> None:
    await user.create(first_seq=100)
    told = await user.create("UPDATE", max_msgs=5)
    assert "error" not in told and told["config"]["max_msgs"] == 5
    state = (await user.info()).state
    assert (state.first_seq, state.last_seq) == (100, 99)
    assert (await user.publish("1"))[0].seq == 100


@proves(S, FIRST_SEQ, "STREAM.UPDATE with another one")
@differs("refused (10052): nats-server tells the new number, and sequences go on as before")
async def test_it_cannot_be_changed(user: User) -> None:
    await user.create(first_seq=100)
    told = await user.create("UPDATE", first_seq=200)
    if user.liftlog:
        assert told["error"]["err_code"] == 10052
        assert told["error"]["description"] == "stream configuration update can not change first sequence"
    assert (await user.info()).state.first_seq == 100
    assert (await user.publish("1"))[0].seq == 100


@proves(S, FIRST_SEQ, "1")
@differs("it is what streams have anyway, and is not told again; before the first message `first_seq` is 0")
async def test_one_is_what_streams_have_anyway(user: User) -> None:
    await user.create(first_seq=1)
    state = (await user.info()).state
    assert (state.first_seq, state.last_seq) == (int(not user.liftlog), 0)
    assert (await user.publish("1"))[0].seq == 1


@proves(S, FIRST_SEQ, "beyond 2^52")
@refused("half of the numbers that JSON holds exactly are left for messages")
async def test_the_greatest_numbers_are_refused(user: User) -> None:
    told = await user.create(first_seq=(1 << 52) + 1)
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
    else:
        assert told["state"]["first_seq"] == (1 << 52) + 1
