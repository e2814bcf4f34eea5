"""Push consumers: subscriptions, queue groups, heartbeats, flow control; and ordered consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import nats.errors
import pytest
from nats.aio.msg import Msg
from nats.js import api, errors

from tests.jetstream.table import proves
from tests.jetstream.user import DEADLINE_S, SECOND, User, status_of

H = "Push"
SUBSCRIBE = "subscribe of nats-py"


async def take(subscription: Any, count: int) -> list[bytes]:
    return [(await subscription.next_msg(timeout=DEADLINE_S)).data for _ in range(count)]


@proves(H, SUBSCRIBE, "an ephemeral consumer")
async def test_messages_are_pushed_to_a_subscription(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    sub = await user.js.subscribe(user.subject())
    assert await take(sub, 2) == [b"1", b"2"]
    await user.publish("3")
    assert await take(sub, 1) == [b"3"]
    await sub.unsubscribe()


@proves(H, SUBSCRIBE, "a callback that acks by itself")
async def test_a_callback_acks(user: User) -> None:
    await user.stream()
    got: list[bytes] = []

    async def came(message: Msg) -> None:
        got.append(message.data)

    await user.js.subscribe(user.subject(), durable="D", cb=came)
    await user.publish("1", "2", "3")

    async def all_acked() -> bool:
        info = await user.consumer_info("D")
        return len(got) == 3 and info.num_ack_pending == 0 and info.num_pending == 0

    await user.until(all_acked)
    assert got == [b"1", b"2", b"3"]


@proves(H, SUBSCRIBE, "manual acks")
async def test_a_callback_may_ack_itself(user: User) -> None:
    await user.stream()
    messages: asyncio.Queue[Msg] = asyncio.Queue()
    await user.js.subscribe(user.subject(), durable="D", cb=messages.put, manual_ack=True)
    await user.publish("1")
    async with asyncio.timeout(DEADLINE_S):
        message = await messages.get()
    assert (await user.consumer_info("D")).num_ack_pending == 1
    await message.ack_sync(timeout=5)
    assert (await user.consumer_info("D")).num_ack_pending == 0


@proves(H, SUBSCRIBE, "a durable goes on where it was")
async def test_a_durable_goes_on_where_it_was(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    inbox = f"{user.name}-inbox"
    config = api.ConsumerConfig(durable_name="D", deliver_subject=inbox)
    await user.js.add_consumer(user.name, config)
    sub = await user.js.subscribe_bind(user.name, config, "D")
    for _ in range(2):
        await (await sub.next_msg(timeout=DEADLINE_S)).ack_sync(timeout=5)
    await sub.unsubscribe()
    await user.publish("3")
    again = await user.js.subscribe_bind(user.name, config, "D")
    assert await take(again, 1) == [b"3"]


@proves(H, SUBSCRIBE, "the stream found by the subject")
async def test_nobody_s_subject_is_not_found(user: User) -> None:
    with pytest.raises(errors.NotFoundError):
        await user.js.subscribe("nobody.at.all")


@proves(H, SUBSCRIBE, "a filter")
async def test_only_a_filter_s_messages_are_pushed(user: User) -> None:
    await user.stream()
    for number, to in enumerate(("a", "b", "a"), 1):
        await user.publish(str(number), to=to)
    sub = await user.js.subscribe(user.subject("a"))
    assert await take(sub, 2) == [b"1", b"3"]


@proves(H, SUBSCRIBE, "deliver_policy")
async def test_a_subscription_begins_where_it_is_told(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    last = await user.js.subscribe(user.subject(), deliver_policy=api.DeliverPolicy.LAST)
    assert await take(last, 1) == [b"3"]
    new = await user.js.subscribe(user.subject(), deliver_policy=api.DeliverPolicy.NEW)
    await user.publish("4")
    assert await take(new, 1) == [b"4"]


@proves(H, SUBSCRIBE, "headers_only")
async def test_headers_alone_are_pushed(user: User) -> None:
    await user.stream()
    await user.publish("12345")
    sub = await user.js.subscribe(user.subject(), headers_only=True)
    message = await sub.next_msg(timeout=DEADLINE_S)
    assert message.data == b"" and message.headers == {"Nats-Msg-Size": "5"}


@proves(H, SUBSCRIBE, "a second subscription to a durable")
async def test_a_durable_has_one_subscription(user: User) -> None:
    await user.stream()
    await user.js.subscribe(user.subject(), durable="D")

    async def bound() -> bool:
        return (await user.consumer_info("D")).push_bound is True

    await user.until(bound)
    with pytest.raises(errors.Error, match="already bound"):
        await user.js.subscribe(user.subject(), durable="D")


@proves(H, "push_bound")
async def test_it_is_told_whether_somebody_listens(user: User) -> None:
    await user.stream()
    inbox = f"{user.name}-inbox"
    await user.make_consumer(durable_name="C", deliver_subject=inbox)
    assert not (await user.consumer_info()).push_bound
    await user.nc.subscribe(inbox)

    async def bound() -> bool:
        return (await user.consumer_info()).push_bound is True

    await user.until(bound)


@proves(H, "deliver_subject", "nothing is pushed while nobody listens")
async def test_messages_wait_for_a_listener(user: User) -> None:
    await user.stream()
    inbox = f"{user.name}-inbox"
    await user.make_consumer(durable_name="C", deliver_subject=inbox)
    await user.publish("1", "2")
    info = await user.consumer_info()
    assert (info.num_pending, info.num_ack_pending) == (2, 0)
    sub = await user.nc.subscribe(inbox)
    assert await take(sub, 2) == [b"1", b"2"]


@proves(H, "deliver_subject", "the reply is the ack subject")
async def test_what_is_pushed_is_acked_like_what_is_pulled(user: User) -> None:
    await user.stream()
    await user.publish("1")
    sub = await user.js.subscribe(user.subject(), durable="D", manual_ack=True)
    message = await sub.next_msg(timeout=DEADLINE_S)
    assert message.reply.startswith(f"$JS.ACK.{user.name}.D.1.1.1.")
    await message.ack_sync(timeout=5)
    assert (await user.consumer_info("D")).num_ack_pending == 0


@proves(H, "redelivery")
async def test_what_is_not_acked_is_pushed_again(user: User) -> None:
    await user.stream()
    await user.publish("1")
    config = api.ConsumerConfig(ack_wait=0.2)
    sub = await user.js.subscribe(user.subject(), durable="D", config=config, manual_ack=True)
    assert await take(sub, 1) == [b"1"]
    again = await sub.next_msg(timeout=DEADLINE_S)
    assert again.metadata.num_delivered == 2
    await again.ack_sync(timeout=5)


@proves(H, "max_ack_pending")
async def test_no_more_is_pushed_than_may_be_under_way(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    config = api.ConsumerConfig(max_ack_pending=2)
    sub = await user.js.subscribe(user.subject(), durable="D", config=config, manual_ack=True)
    first = await sub.next_msg(timeout=DEADLINE_S)
    assert await take(sub, 1) == [b"2"]
    with pytest.raises(nats.errors.TimeoutError):
        await sub.next_msg(timeout=0.2)
    await first.ack()
    assert await take(sub, 1) == [b"3"]


@proves(H, "deliver_group", "queue of nats-py")
async def test_a_queue_group_shares_the_messages(user: User) -> None:
    await user.stream()
    got: list[bytes] = []

    async def came(message: Msg) -> None:
        got.append(message.data)

    for _ in range(2):
        await user.js.subscribe(user.subject(), "workers", cb=came)
    await user.publish(*(str(number) for number in range(20)))

    async def every() -> bool:
        return len(got) == 20

    await user.until(every)
    assert sorted(map(int, got)) == list(range(20))
    assert (await user.consumer_info("workers")).config.deliver_group == "workers"


@proves(H, "deliver_group", "a subscription without the group")
async def test_a_queue_s_consumer_needs_the_queue(user: User) -> None:
    await user.stream()
    await user.js.subscribe(user.subject(), "workers")
    with pytest.raises(errors.Error, match="deliver group"):
        await user.js.subscribe(user.subject(), durable="workers")


@proves(H, "100 Idle Heartbeat", "idle_heartbeat")
async def test_an_idle_subscription_has_heartbeats(user: User) -> None:
    await user.stream()
    await user.publish("1")
    inbox = await user.inbox()
    await user.make_consumer(durable_name="C", deliver_subject=inbox.subject, idle_heartbeat=SECOND // 5)
    assert (await inbox.next_msg(timeout=DEADLINE_S)).data == b"1"
    beat = await inbox.next_msg(timeout=DEADLINE_S)
    assert status_of(beat) == "100 Idle Heartbeat"
    assert (beat.headers or {})["Nats-Last-Consumer"] == "1"
    assert (beat.headers or {})["Nats-Last-Stream"] == "1"


@proves(H, "100 FlowControl Request", "flow_control")
async def test_flow_control_waits_for_the_client(user: User) -> None:
    await user.stream()
    for _ in range(60):
        await user.js.publish_async(user.subject(), b"x" * 50_000)
    await user.js.publish_async_completed()
    inbox = await user.inbox()
    config = {"deliver_subject": inbox.subject, "idle_heartbeat": 5 * SECOND, "flow_control": True}
    await user.make_consumer(durable_name="C", ack_policy="none", **config)
    got, controls = 0, 0
    while got < 60:
        message = await inbox.next_msg(timeout=DEADLINE_S)
        if status_of(message).startswith("100 FlowControl Request"):
            controls += 1
            assert message.reply.startswith(f"$JS.FC.{user.name}.C.")
            await user.nc.publish(message.reply, b"")
        elif not status_of(message):
            got += 1
    assert controls >= 1


@proves(H, "after the consumer is deleted")
async def test_a_deleted_consumer_pushes_no_more(user: User) -> None:
    await user.stream()
    inbox = await user.inbox()
    await user.make_consumer(durable_name="C", deliver_subject=inbox.subject)
    await user.publish("1")
    assert await take(inbox, 1) == [b"1"]
    await user.js.delete_consumer(user.name, "C")
    await user.publish("2")
    with pytest.raises(nats.errors.TimeoutError):
        await inbox.next_msg(timeout=0.2)


O = "Ordered consumers"  # noqa: E741


@proves(O, "subscribe of nats-py")
async def test_an_ordered_consumer_has_everything_in_order(user: User) -> None:
    await user.stream()
    await user.publish(*(str(number) for number in range(30)))
    sub = await user.js.subscribe(user.subject(), ordered_consumer=True)
    assert await take(sub, 30) == [str(number).encode() for number in range(30)]
    await sub.unsubscribe()


@proves(O, "its configuration")
async def test_an_ordered_consumer_is_what_clients_ask_for(user: User) -> None:
    await user.stream()
    sub = await user.js.subscribe(user.subject(), ordered_consumer=True)
    config = (await sub.consumer_info()).config
    assert (config.ack_policy, config.max_deliver, config.flow_control) == ("none", 1, True)
    assert config.idle_heartbeat == 5 and config.mem_storage is True and config.num_replicas == 1
    await sub.unsubscribe()


@proves(O, "messages that come later")
async def test_an_ordered_consumer_goes_on(user: User) -> None:
    await user.stream()
    sub = await user.js.subscribe(user.subject(), ordered_consumer=True)
    await user.publish("1", "2")
    assert await take(sub, 2) == [b"1", b"2"]
    await sub.unsubscribe()


@proves(O, "made anew after it was lost")
async def test_an_ordered_consumer_is_made_anew(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    sub = await user.js.subscribe(user.subject(), ordered_consumer=True, idle_heartbeat=0.3)
    assert await take(sub, 2) == [b"1", b"2"]
    await user.js.delete_consumer(user.name, (await sub.consumer_info()).name)
    await user.publish("3")
    assert await take(sub, 1) == [b"3"]
    await sub.unsubscribe()


@proves(O, "num_pending falls to 0")
async def test_pending_counts_down(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    sub = await user.js.subscribe(user.subject(), ordered_consumer=True)
    pending = [(await sub.next_msg(timeout=DEADLINE_S)).metadata.num_pending for _ in range(3)]
    assert pending == [2, 1, 0]
    await sub.unsubscribe()


@proves(O, "last_per_subject")
async def test_an_ordered_consumer_of_last_values(user: User) -> None:
    await user.stream()
    for number, to in enumerate(("a", "b", "a"), 1):
        await user.publish(str(number), to=to)
    sub = await user.js.subscribe(
        user.subject(">"), ordered_consumer=True, deliver_policy=api.DeliverPolicy.LAST_PER_SUBJECT
    )
    assert await take(sub, 2) == [b"2", b"3"]
    await sub.unsubscribe()
