"""Acknowledgements of every kind, and what is delivered again."""

from __future__ import annotations

import json
from typing import Any

import nats.errors
import pytest
from nats.aio.msg import Msg

from tests.jetstream.strict import strange_advisory
from tests.jetstream.table import differs, proves, proves_each
from tests.jetstream.user import DEADLINE_S, SECOND, User

K = "Acknowledgements"


async def delivered(user: User, count: int = 1, **config: Any) -> list[Msg]:
    """So many messages, `1` and on, delivered to consumer C."""
    await user.stream()
    await user.publish(*(str(number) for number in range(1, count + 1)))
    await user.make_consumer(durable_name="C", **config)
    return (await user.pull({"batch": count}, messages=count)).messages


async def next_one(user: User, expires: int = 9 * SECOND) -> Msg:
    return (await user.pull({"batch": 1, "expires": expires}, messages=1)).messages[0]


@proves(K, "ack_sync")
async def test_a_synchronous_ack_is_answered_when_it_is_kept(user: User) -> None:
    message = (await delivered(user))[0]
    answer = await message.ack_sync(timeout=5)
    assert answer.data == b""
    info = await user.consumer_info()
    assert info.num_ack_pending == 0
    assert info.ack_floor is not None and info.ack_floor.stream_seq == 1


@proves(K, "ack")
async def test_an_ack_is_kept(user: User) -> None:
    await (await delivered(user))[0].ack()

    async def acked() -> bool:
        return (await user.consumer_info()).num_ack_pending == 0

    await user.until(acked)


@proves_each(K, "payload", {"empty": b"", "`+ACK`": b"+ACK", "`+OK`": b"+OK"})
async def test_payloads_that_ack(user: User, given: bytes) -> None:
    message = (await delivered(user))[0]
    assert (await user.nc.request(message.reply, given, timeout=DEADLINE_S)).data == b""
    assert (await user.consumer_info()).num_ack_pending == 0


@proves(K, "twice")
async def test_an_ack_that_comes_twice_does_nothing(user: User) -> None:
    message = (await delivered(user, 2))[0]
    for _ in range(2):
        await user.nc.request(message.reply, b"+ACK", timeout=DEADLINE_S)
    assert (await user.consumer_info()).num_ack_pending == 1


@proves(K, "-NAK")
async def test_a_nak_has_the_message_again_at_once(user: User) -> None:
    first = (await delivered(user))[0]
    await first.nak()
    again = await next_one(user)
    assert again.data == b"1"
    assert again.metadata.num_delivered == 2
    assert (again.metadata.sequence.stream, again.metadata.sequence.consumer) == (1, 2)


@proves(K, "-NAK", "delay")
async def test_a_nak_with_a_delay_has_it_later(user: User) -> None:
    first = (await delivered(user, 2))[0]
    await first.nak(delay=0.4)
    pulled = await user.pull({"batch": 1, "expires": SECOND // 10})
    assert pulled.status == "408 Request Timeout"
    again = await next_one(user)
    assert again.data == b"1" and again.metadata.num_delivered == 2


@proves(K, "-NAK", "several that were not acked")
@differs("the lowest sequence comes first, not what was refused first")
async def test_naks_of_several_messages_have_them_all_again(user: User) -> None:
    first, second = await delivered(user, 2)
    for message in (second, first):
        await user.nc.request(message.reply, b"-NAK", timeout=DEADLINE_S)
    again = (await user.pull({"batch": 2}, messages=2)).messages
    assert [one.data for one in again] == ([b"1", b"2"] if user.liftlog else [b"2", b"1"])


@proves(K, "+TERM")
async def test_a_terminated_message_never_comes_again(user: User) -> None:
    message = (await delivered(user, ack_wait=SECOND // 5))[0]
    await message.term()

    async def acked() -> bool:
        return (await user.consumer_info()).num_ack_pending == 0

    await user.until(acked)
    assert (await user.pull({"batch": 1, "expires": SECOND // 2})).status == "408 Request Timeout"


@proves(K, "+TERM", "reason")
async def test_a_termination_may_have_a_reason(user: User) -> None:
    message = (await delivered(user))[0]
    assert (await user.nc.request(message.reply, b"+TERM no use", timeout=DEADLINE_S)).data == b""
    assert (await user.consumer_info()).num_ack_pending == 0


@proves(K, "+TERM", "advisory MSG_TERMINATED")
async def test_an_advisory_tells_of_a_message_that_was_terminated(user: User) -> None:
    advisories = await user.nc.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.{user.name}.C")
    message = (await delivered(user))[0]
    assert (await user.nc.request(message.reply, b"+TERM no use", timeout=DEADLINE_S)).data == b""
    told = json.loads((await advisories.next_msg(timeout=DEADLINE_S)).data)
    assert not strange_advisory(told)
    assert told["type"] == "io.nats.jetstream.advisory.v1.terminated"
    assert (told["stream"], told["consumer"], told["reason"]) == (user.name, "C", "no use")
    assert (told["stream_seq"], told["consumer_seq"], told["deliveries"]) == (1, 1, 1)


@proves(K, "+WPI")
async def test_work_in_progress_holds_the_message(user: User) -> None:
    message = (await delivered(user, ack_wait=SECOND // 2))[0]
    for _ in range(4):
        await message.in_progress()
        assert (await user.pull({"batch": 1, "expires": SECOND // 4})).status == "408 Request Timeout"
    await message.ack_sync(timeout=5)


@proves(K, "a payload that nobody knows")
async def test_an_unknown_payload_does_nothing(user: User) -> None:
    message = (await delivered(user))[0]
    await user.nc.publish(message.reply, b"+DANCE")
    await user.nc.flush()
    assert (await user.consumer_info()).num_ack_pending in (0, 1)


@proves(K, "ack_wait")
async def test_what_is_not_acked_comes_again(user: User) -> None:
    await delivered(user, ack_wait=SECOND // 5)
    again = await next_one(user)
    assert again.data == b"1" and again.metadata.num_delivered == 2
    assert (await user.consumer_info()).num_redelivered == 1


@proves(K, "ack_wait", "redelivered messages before new ones")
async def test_what_comes_again_comes_before_new_messages(user: User) -> None:
    first = (await delivered(user, 1))[0]
    await user.publish("2")
    await first.nak()
    await user.nc.flush()

    async def waiting() -> bool:
        return True

    await user.until(waiting)
    pulled = await user.pull({"batch": 2, "expires": 5 * SECOND}, messages=2)
    assert sorted(pulled.data) == [b"1", b"2"]


@proves(K, "max_deliver")
async def test_a_message_is_delivered_so_often_and_no_more(user: User) -> None:
    message = (await delivered(user, max_deliver=2))[0]
    await message.nak()
    again = await next_one(user)
    await again.nak()
    assert (await user.pull({"batch": 1, "expires": SECOND // 3})).status == "408 Request Timeout"


@proves(K, "max_deliver", "advisory MAX_DELIVERIES")
async def test_an_advisory_tells_of_a_message_that_was_delivered_too_often(user: User) -> None:
    advisories = await user.nc.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{user.name}.C")
    message = (await delivered(user, max_deliver=1, ack_wait=SECOND // 5))[0]
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 1, "expires": 5 * SECOND})
    told = json.loads((await advisories.next_msg(timeout=DEADLINE_S)).data)
    assert not strange_advisory(told)
    assert told["type"] == "io.nats.jetstream.advisory.v1.max_deliver"
    assert (told["stream"], told["consumer"]) == (user.name, "C")
    assert (told["stream_seq"], told["deliveries"]) == (1, 1)
    assert message.data == b"1"


@proves(K, "backoff")
async def test_the_waits_grow_as_told(user: User) -> None:
    config = {"backoff": [SECOND // 5, SECOND // 2, 60 * SECOND], "max_deliver": 5}
    await delivered(user, **config)
    assert (await next_one(user)).metadata.num_delivered == 2
    assert (await next_one(user)).metadata.num_delivered == 3
    assert (await user.pull({"batch": 1, "expires": SECOND // 4})).status == "408 Request Timeout"


@proves(K, "ack_policy all")
async def test_an_ack_of_all_acks_what_is_before(user: User) -> None:
    messages = await delivered(user, 3, ack_policy="all")
    await messages[1].ack_sync(timeout=5)
    info = await user.consumer_info()
    assert info.num_ack_pending == 1
    assert info.ack_floor is not None and info.ack_floor.stream_seq == 2


@proves(K, "ack_policy none")
async def test_without_acks_nothing_is_under_way(user: User) -> None:
    await delivered(user, 3, ack_policy="none")
    info = await user.consumer_info()
    assert (info.num_ack_pending, info.num_pending) == (0, 0)


@proves(K, "nats-py", "an ack that comes twice is an error of the client's")
async def test_nats_py_refuses_to_ack_twice(user: User) -> None:
    message = (await delivered(user))[0]
    await message.ack_sync(timeout=5)
    with pytest.raises(nats.errors.MsgAlreadyAckdError):
        await message.ack()


@proves(K, "after a new delivery")
async def test_an_old_delivery_s_ack_counts(user: User) -> None:
    first = (await delivered(user, ack_wait=SECOND // 5))[0]
    again = await next_one(user)
    assert again.metadata.num_delivered == 2
    await user.nc.request(first.reply, b"+ACK", timeout=DEADLINE_S)
    assert (await user.consumer_info()).num_ack_pending == 0


@proves(K, "of a consumer that is gone")
async def test_an_ack_for_a_deleted_consumer_is_not_answered(user: User) -> None:
    message = (await delivered(user))[0]
    await user.js.delete_consumer(user.name, "C")
    with pytest.raises((nats.errors.NoRespondersError, TimeoutError, nats.errors.TimeoutError)):
        await user.nc.request(message.reply, b"+ACK", timeout=0.3)
