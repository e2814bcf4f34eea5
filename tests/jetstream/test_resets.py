"""Consumers that are reset: to a sequence, or to what is not acked; who waits at one goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats import errors

from tests.jetstream.table import differs, proves, proves_each
from tests.jetstream.user import SECOND, User

C = "Consumers"
RESET = "CONSUMER.RESET"
LATER = "2199-01-01T00:00:00Z"


async def reset(user: User, **body: Any) -> dict[str, Any]:
    return await user.api(f"{RESET}.{user.name}.C", body)


@proves(C, RESET)
async def test_a_consumer_is_set_back_to_a_sequence(user: User) -> None:
    await user.stream()
    await user.publish(*"123")
    await user.consumer()
    for message in (await user.pull({"batch": 3}, messages=3)).messages:
        await message.ack_sync()
    assert (await user.js.reset_consumer(user.name, "C", seq=2)).reset_seq == 2
    told = await user.consumer_info()
    assert (told.num_pending, told.num_ack_pending) == (2, 0)
    messages = (await user.pull({"batch": 2}, messages=2)).messages
    assert [message.data for message in messages] == [b"2", b"3"]
    numbers = [message.metadata for message in messages]
    assert [one.sequence.consumer for one in numbers] == [1, 2]
    assert [one.num_delivered for one in numbers] == [1, 1]


@proves(C, RESET, "no seq: to the first that is not acked")
async def test_a_consumer_is_set_back_to_its_ack_floor(user: User) -> None:
    await user.stream()
    await user.publish(*"1234")
    made = await user.consumer()
    messages = (await user.pull({"batch": 3}, messages=3)).messages
    await messages[0].ack_sync()
    await messages[2].ack_sync()
    told = await reset(user)
    assert (told["reset_seq"], told["num_pending"], told["num_ack_pending"]) == (2, 3, 0)
    assert (told["delivered"]["consumer_seq"], told["delivered"]["stream_seq"]) == (0, 1)
    assert (told["ack_floor"]["consumer_seq"], told["ack_floor"]["stream_seq"]) == (0, 1)
    assert told["config"]["deliver_policy"] == "all"
    assert (await user.consumer_info()).created == made.created
    assert (await user.pull({"batch": 3}, messages=3)).data == [b"2", b"3", b"4"]


@proves(C, RESET, "forward")
async def test_a_consumer_is_set_forward(user: User) -> None:
    await user.stream()
    await user.publish(*"123")
    await user.consumer()
    assert (await reset(user, seq=4))["num_pending"] == 0
    await user.publish("4")
    assert (await user.pull(messages=1)).data == [b"4"]


@proves(C, RESET, "below the first sequence")
async def test_a_consumer_is_set_back_to_what_is_gone(user: User) -> None:
    await user.stream()
    await user.publish(*"123")
    await user.js.purge_stream(user.name, seq=3)
    await user.consumer()
    assert (await reset(user, seq=1))["reset_seq"] == 1
    assert (await user.pull(messages=1)).data == [b"3"]


@proves(C, RESET, "with a pull that waits")
async def test_a_pull_that_waits_is_given_what_comes_again(user: User) -> None:
    await user.stream()
    await user.publish("1")
    await user.consumer()
    await (await user.pull(messages=1)).messages[0].ack_sync()
    waits = asyncio.create_task(user.pull({"batch": 1, "expires": 20 * SECOND}, messages=1))

    async def is_waiting() -> bool:
        return (await user.consumer_info()).num_waiting == 1

    await user.until(is_waiting)
    await reset(user, seq=1)
    assert (await waits).data == [b"1"]


@proves(C, RESET, "of a push consumer")
async def test_a_push_consumer_is_set_back(user: User) -> None:
    await user.stream()
    await user.publish(*"12")
    inbox = await user.inbox()
    await user.consumer(deliver_subject=inbox.subject)
    for _ in range(2):
        await (await inbox.next_msg(20)).ack_sync()
    await reset(user, seq=1)
    assert [(await inbox.next_msg(20)).data for _ in range(2)] == [b"1", b"2"]


@proves(C, RESET, "in a stream that keeps by interest")
async def test_what_a_reset_passes_is_wanted_no_more(user: User) -> None:
    await user.stream(retention="interest")
    await user.consumer()
    await user.publish(*"123")
    await reset(user, seq=3)

    async def is_left() -> bool:
        return (await user.info()).state.messages == 1

    await user.until(is_left)
    assert (await user.pull(messages=1)).data == [b"3"]


@proves(C, RESET, "in a workqueue, to what is not acked")
async def test_a_consumer_of_a_workqueue_is_set_back(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.publish(*"123")
    await user.consumer()
    messages = (await user.pull({"batch": 3}, messages=3)).messages
    await messages[1].ack_sync()
    await reset(user)
    assert (await user.pull({"batch": 2}, messages=2)).data == [b"1", b"3"]


@proves(C, RESET, "in a workqueue, forward")
@differs("refused: what it passed would be given to nobody, and stay")
async def test_a_consumer_of_a_workqueue_is_not_set_forward(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.publish(*"123")
    await user.consumer()
    if user.liftlog:
        assert await user.refused(f"{RESET}.{user.name}.C", {"seq": 3}) == (400, 10204)
    else:
        assert (await reset(user, seq=3))["reset_seq"] == 3


@proves(C, RESET, "beyond the last sequence")
@differs("refused: nobody knows yet what that will be")
async def test_a_consumer_is_not_set_beyond_the_end(user: User) -> None:
    await user.stream()
    await user.publish("1")
    await user.consumer()
    if user.liftlog:
        assert await user.refused(f"{RESET}.{user.name}.C", {"seq": 9}) == (400, 10204)
    else:
        assert (await reset(user, seq=9))["reset_seq"] == 9


@proves_each(
    C,
    RESET,
    {
        "a seq with deliver_policy new": ({"deliver_policy": "new"}, 2),
        "a seq with deliver_policy last": ({"deliver_policy": "last"}, 2),
        "below opt_start_seq": ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2}, 1),
        "below opt_start_time": ({"deliver_policy": "by_start_time", "opt_start_time": LATER}, 1),
    },
)
async def test_a_reset_that_is_not_allowed(user: User, given: tuple[dict[str, Any], int]) -> None:
    config, seq = given
    await user.stream()
    await user.publish(*"123")
    await user.make_consumer(**config)
    assert await user.refused(f"{RESET}.{user.name}.C", {"seq": seq}) == (400, 10204)


@proves(C, RESET, "at opt_start_seq, and behind")
async def test_a_reset_to_where_it_began(user: User) -> None:
    await user.stream()
    await user.publish(*"123")
    await user.make_consumer(deliver_policy="by_start_sequence", opt_start_seq=2)
    for seq in (3, 2):
        assert (await reset(user, seq=seq))["reset_seq"] == seq
    assert (await user.pull(messages=1)).data == [b"2"]


@proves(C, RESET, "unknown consumer")
@differs("consumer not found (10014); in nats-server the consumer itself would answer, and nobody does")
async def test_an_unknown_consumer_cannot_be_reset(user: User) -> None:
    await user.stream()
    if user.liftlog:
        assert await user.refused(f"{RESET}.{user.name}.nobody", {}) == (404, 10014)
        return
    with pytest.raises(errors.TimeoutError):
        await user.nc.request(f"$JS.API.{RESET}.{user.name}.nobody", b"", timeout=1)
