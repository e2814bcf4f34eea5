"""Pulls: every field of a request, and every status that ends one."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import nats.errors
import pytest
from nats.js import errors

from tests.jetstream.table import differs, proves, proves_each
from tests.jetstream.user import DEADLINE_S, SECOND, User, status_of

L = "Pull"
NEXT = "CONSUMER.MSG.NEXT"


async def ready(user: User, count: int = 0, **config: Any) -> None:
    """A stream with so many messages, `1` and on, and a consumer."""
    await user.stream()
    await user.publish(*(str(number) for number in range(1, count + 1)))
    await user.make_consumer(durable_name="C", **config)


@proves(L, NEXT, "an empty request: one message")
async def test_an_empty_request_gives_one_message(user: User) -> None:
    await ready(user, 2)
    message = (await user.pull(b"", messages=1)).messages[0]
    assert (message.subject, message.data) == (user.subject(), b"1")


@proves(L, NEXT, "a bare number: batch")
async def test_a_bare_number_is_a_batch(user: User) -> None:
    await ready(user, 3)
    assert (await user.pull(b"2", messages=2)).data == [b"1", b"2"]


@proves(L, NEXT, "batch")
async def test_a_batch_is_at_most_as_long_as_asked(user: User) -> None:
    await ready(user, 5)
    assert (await user.pull({"batch": 3}, messages=3)).data == [b"1", b"2", b"3"]
    assert (await user.pull({"batch": 2}, messages=2)).data == [b"4", b"5"]


@proves(L, NEXT, "subject, reply and headers of a message")
async def test_a_message_comes_as_it_was_published(user: User) -> None:
    await user.stream()
    await user.publish("x", to="a.b", headers={"Colour": "red"})
    await user.consumer()
    message = (await user.pull({"batch": 1}, messages=1)).messages[0]
    assert (message.subject, message.data) == (user.subject("a.b"), b"x")
    assert message.headers == {"Colour": "red"}
    assert message.reply.startswith(f"$JS.ACK.{user.name}.C.1.1.1.")


@proves(L, "ack subject", "v1: nine tokens")
async def test_the_ack_subject_has_nine_tokens(user: User) -> None:
    await ready(user, 3)
    messages = (await user.pull({"batch": 2}, messages=2)).messages
    words = messages[1].reply.split(".")
    assert words[:7] == ["$JS", "ACK", user.name, "C", "1", "2", "2"]
    assert len(words) == 9 and words[8] == "1"
    assert abs(int(words[7]) / SECOND - time.time()) < 3600


@proves(L, "ack subject", "metadata in nats-py")
async def test_nats_py_reads_the_metadata(user: User) -> None:
    await ready(user, 3)
    metadata = (await user.pull({"batch": 1}, messages=1)).messages[0].metadata
    assert (metadata.stream, metadata.consumer) == (user.name, "C")
    assert (metadata.sequence.stream, metadata.sequence.consumer) == (1, 1)
    assert (metadata.num_delivered, metadata.num_pending) == (1, 2)


@proves(L, NEXT, "404 No Messages")
async def test_no_wait_and_nothing_there(user: User) -> None:
    await ready(user)
    assert (await user.pull({"batch": 1, "no_wait": True})).status == "404 No Messages"


@proves(L, NEXT, "no_wait gives what is there")
async def test_no_wait_gives_what_is_there(user: User) -> None:
    await ready(user, 2)
    pulled = await user.pull({"batch": 5, "no_wait": True})
    assert pulled.data == [b"1", b"2"]
    assert pulled.status.split()[0] in ("404", "408")


@proves(L, NEXT, "no_wait with expires waits")
async def test_no_wait_with_expires_waits_for_the_first(user: User) -> None:
    await ready(user)
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 2, "no_wait": True, "expires": 5 * SECOND})
    await user.nc.flush()
    await user.publish("x")
    assert (await inbox.next_msg(timeout=DEADLINE_S)).data == b"x"


@proves(L, NEXT, "408 Request Timeout", "Nats-Pending-Messages, Nats-Pending-Bytes")
async def test_an_expired_pull_says_what_was_not_delivered(user: User) -> None:
    await ready(user, 1)
    pulled = await user.pull({"batch": 5, "expires": SECOND // 5})
    assert pulled.data == [b"1"] and pulled.status == "408 Request Timeout"
    assert pulled.headers["Nats-Pending-Messages"] == "4"
    assert pulled.headers["Nats-Pending-Bytes"] == "0"


@proves(L, NEXT, "expires: waits for messages")
async def test_a_pull_waits_for_messages(user: User) -> None:
    await ready(user)
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 2, "expires": 9 * SECOND})
    await user.nc.flush()
    await user.publish("1", "2")
    assert (await user.rest(inbox, 2)).data == [b"1", b"2"]


@proves(L, NEXT, "waiting pulls are served in turn")
@differs("with several doors each serves its own in turn")
async def test_pulls_are_served_in_the_order_in_which_they_came(user: User) -> None:
    await ready(user)
    first, second = await user.inbox(), await user.inbox()
    await user.ask(first, {"batch": 1, "expires": 9 * SECOND})
    await user.ask(second, {"batch": 1, "expires": 9 * SECOND})

    async def both() -> bool:
        return (await user.consumer_info()).num_waiting == 2

    await user.until(both)
    await user.publish("1", "2")
    got = [(await inbox.next_msg(timeout=DEADLINE_S)).data for inbox in (first, second)]
    assert sorted(got) == [b"1", b"2"]
    if not user.server.several_doors:
        assert got == [b"1", b"2"]


@proves(L, NEXT, "100 Idle Heartbeat", "idle_heartbeat")
async def test_an_idle_pull_has_heartbeats(user: User) -> None:
    await ready(user)
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 1, "expires": 5 * SECOND, "idle_heartbeat": SECOND // 5})
    beat = await inbox.next_msg(timeout=DEADLINE_S)
    assert status_of(beat) == "100 Idle Heartbeat"
    assert {"Nats-Last-Consumer", "Nats-Last-Stream"} <= set(beat.headers or {})


@proves(L, NEXT, "400 Bad Request: heartbeat value too large")
async def test_a_heartbeat_must_come_twice_before_the_end(user: User) -> None:
    await ready(user)
    pulled = await user.pull({"batch": 1, "expires": SECOND, "idle_heartbeat": SECOND})
    assert pulled.status == "400 Bad Request - heartbeat value too large"


@proves(L, NEXT, "400 Bad Request: no JSON")
async def test_a_request_that_is_no_json(user: User) -> None:
    await ready(user, 1)
    pulled = await user.pull(b"{no json")
    assert pulled.status.startswith("400 Bad Request")


@proves(L, NEXT, "max_bytes", "409 Message Size Exceeds MaxBytes")
async def test_a_message_that_is_larger_than_max_bytes(user: User) -> None:
    await user.stream()
    await user.publish("x" * 1000)
    await user.consumer()
    pulled = await user.pull({"batch": 1, "expires": SECOND, "max_bytes": 100})
    assert pulled.status == "409 Message Size Exceeds MaxBytes"
    assert {"Nats-Pending-Messages", "Nats-Pending-Bytes"} <= pulled.headers.keys()


@proves(L, NEXT, "max_bytes: some messages")
async def test_a_pull_ends_at_so_many_bytes(user: User) -> None:
    await user.stream()
    await user.publish(*("x" * 500 for _ in range(5)))
    await user.consumer()
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 5, "expires": 2 * SECOND, "max_bytes": 1500}, "C")
    pulled = await user.rest(inbox)
    assert pulled.status.startswith("409 ")
    given = 5 - int(pulled.headers["Nats-Pending-Messages"])
    if user.server.name == "nats-server-3" and len(pulled.messages) < given:
        # There the status overtakes what it counts.
        pulled.messages += (await user.rest(inbox, given - len(pulled.messages))).messages
    assert 1 <= given <= 2 and len(pulled.messages) == given


@proves(L, NEXT, "409 Exceeded MaxRequestBatch of N", "max_batch")
async def test_a_batch_above_the_consumer_s_limit(user: User) -> None:
    await ready(user, 1, max_batch=2)
    assert (await user.pull({"batch": 3})).status == "409 Exceeded MaxRequestBatch of 2"


@proves(L, NEXT, "409 Exceeded MaxRequestExpires of D", "max_expires")
async def test_a_wait_above_the_consumer_s_limit(user: User) -> None:
    await ready(user, 1, max_expires=SECOND)
    pulled = await user.pull({"batch": 3, "expires": 5 * SECOND})
    assert pulled.status == "409 Exceeded MaxRequestExpires of 1s"


@proves(L, NEXT, "409 Exceeded MaxRequestMaxBytes of N", "max_bytes of the consumer")
async def test_bytes_above_the_consumer_s_limit(user: User) -> None:
    await ready(user, 1, max_bytes=1000)
    pulled = await user.pull({"batch": 3, "expires": SECOND, "max_bytes": 2000})
    assert pulled.status == "409 Exceeded MaxRequestMaxBytes of 1000"


@proves(L, NEXT, "409 Exceeded MaxWaiting", "max_waiting")
@differs("each door counts the pulls that wait at it")
async def test_more_pulls_than_may_wait(user: User) -> None:
    await ready(user, max_waiting=1)
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 1, "expires": 9 * SECOND})

    async def waiting() -> bool:
        return (await user.consumer_info()).num_waiting == 1

    await user.until(waiting)
    status = (await user.pull({"batch": 1, "expires": SECOND})).status
    if user.server.several_doors and status == "408 Request Timeout":
        return
    assert status == "409 Exceeded MaxWaiting"


@proves(L, NEXT, "409 Consumer Deleted")
async def test_a_waiting_pull_hears_that_the_consumer_is_gone(user: User) -> None:
    await ready(user)
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 1, "expires": 9 * SECOND})

    async def waiting() -> bool:
        return (await user.consumer_info()).num_waiting == 1

    await user.until(waiting)
    await user.js.delete_consumer(user.name, "C")
    assert (await user.rest(inbox)).status == "409 Consumer Deleted"


@proves(L, NEXT, "409 Consumer is push based")
async def test_a_push_consumer_cannot_be_pulled_from(user: User) -> None:
    await ready(user, 1, deliver_subject=f"{user.name}-inbox")
    assert (await user.pull({"batch": 1, "expires": SECOND})).status == "409 Consumer is push based"


@proves(L, NEXT, "503 no responders: unknown consumer")
async def test_an_unknown_consumer_answers_nothing(user: User) -> None:
    await user.stream()
    sub = await user.js.pull_subscribe_bind("nobody", user.name)
    with pytest.raises((errors.APIError, nats.errors.Error, TimeoutError)):
        await sub.fetch(1, timeout=0.5)


@proves(L, NEXT, "a batch above 1000")
async def test_a_large_batch(user: User) -> None:
    await user.stream()
    for number in range(300):
        await user.js.publish_async(user.subject(), str(number).encode())
    await user.js.publish_async_completed()
    await user.consumer(ack_policy="none")
    pulled = await user.pull({"batch": 300, "expires": 5 * SECOND}, messages=300)
    assert pulled.data == [str(number).encode() for number in range(300)]


@proves(L, NEXT, "max_ack_pending")
async def test_no_more_than_max_ack_pending_are_under_way(user: User) -> None:
    await ready(user, 5, max_ack_pending=2)
    pulled = await user.pull({"batch": 5, "expires": SECOND // 5})
    assert pulled.data == [b"1", b"2"] and pulled.status == "408 Request Timeout"
    await pulled.messages[0].ack_sync()
    assert (await user.pull({"batch": 1, "expires": SECOND}, messages=1)).data == [b"3"]


@proves(L, NEXT, "filter_subject")
async def test_only_what_the_filter_lets_through_is_delivered(user: User) -> None:
    await user.stream()
    for number, to in enumerate(("a", "b", "a", "c"), 1):
        await user.publish(str(number), to=to)
    await user.consumer(filter_subject=user.subject("a"))
    pulled = await user.pull({"batch": 9, "expires": SECOND // 5})
    assert pulled.data == [b"1", b"3"]
    assert [one.metadata.num_pending for one in pulled.messages] == [1, 0]


@proves(L, NEXT, "filter_subjects")
async def test_several_filters_let_through_what_any_does(user: User) -> None:
    await user.stream()
    for number, to in enumerate(("a", "b", "a", "c.d"), 1):
        await user.publish(str(number), to=to)
    await user.consumer(filter_subjects=[user.subject("a"), user.subject("c.*")])
    assert (await user.pull({"batch": 9, "expires": SECOND // 5})).data == [b"1", b"3", b"4"]


@proves(L, NEXT, "headers_only", "Nats-Msg-Size")
async def test_headers_alone_are_delivered(user: User) -> None:
    await user.stream()
    await user.publish("12345", headers={"Colour": "red"})
    await user.consumer(headers_only=True)
    message = (await user.pull({"batch": 1}, messages=1)).messages[0]
    assert message.data == b""
    assert message.headers == {"Colour": "red", "Nats-Msg-Size": "5"}


@proves(L, NEXT, "deleted messages are passed over")
async def test_what_is_deleted_is_not_delivered(user: User) -> None:
    await user.stream()
    await user.publish(*"1234")
    await user.js.delete_msg(user.name, 2)
    await user.consumer()
    pulled = await user.pull({"batch": 9, "expires": SECOND // 5})
    assert pulled.data == [b"1", b"3", b"4"]


@proves(L, NEXT, "after a purge")
async def test_what_is_purged_is_not_delivered(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    await user.consumer()
    await user.js.purge_stream(user.name)
    await user.publish("3")
    assert (await user.pull({"batch": 1, "expires": 5 * SECOND}, messages=1)).data == [b"3"]


@proves(L, "fetch of nats-py", "one message")
async def test_nats_py_fetches_one(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    sub = await user.js.pull_subscribe(user.subject(), durable="D")
    message = (await sub.fetch())[0]
    assert message.data == b"1"
    await message.ack()


@proves(L, "fetch of nats-py", "several messages")
async def test_nats_py_fetches_several(user: User) -> None:
    await user.stream()
    await user.publish(*"12345")
    sub = await user.js.pull_subscribe(user.subject(), durable="D")
    assert [one.data for one in await sub.fetch(3)] == [b"1", b"2", b"3"]
    assert [one.data for one in await sub.fetch(3)] == [b"4", b"5"]


@proves(L, "fetch of nats-py", "nothing there")
async def test_nats_py_s_fetch_times_out(user: User) -> None:
    await user.stream()
    sub = await user.js.pull_subscribe(user.subject(), durable="D")
    with pytest.raises(nats.errors.TimeoutError):
        await sub.fetch(1, timeout=0.2)
    with pytest.raises((nats.errors.TimeoutError, TimeoutError)):
        await sub.fetch(5, timeout=0.2)
    await user.publish("x")
    assert [one.data for one in await sub.fetch(1, timeout=5)] == [b"x"]


@proves(L, "fetch of nats-py", "messages that come later")
async def test_nats_py_s_fetch_waits(user: User) -> None:
    await user.stream()
    sub = await user.js.pull_subscribe(user.subject(), durable="D")
    fetching = asyncio.create_task(sub.fetch(2, timeout=5))

    async def waiting() -> bool:
        return (await user.consumer_info("D")).num_waiting == 1

    await user.until(waiting)
    await user.publish("1", "2")
    assert (await fetching)[0].data == b"1"


@proves(L, "fetch of nats-py", "heartbeats")
async def test_nats_py_s_fetch_with_heartbeats(user: User) -> None:
    await user.stream()
    sub = await user.js.pull_subscribe(user.subject(), durable="D")
    with pytest.raises(errors.FetchTimeoutError):
        await sub.fetch(1, timeout=0.5, heartbeat=0.1)


@proves(L, "pull_subscribe of nats-py", "an ephemeral consumer")
async def test_nats_py_pulls_from_an_ephemeral_consumer(user: User) -> None:
    await user.stream()
    await user.publish("1")
    sub = await user.js.pull_subscribe(user.subject())
    assert (await sub.fetch(1))[0].data == b"1"
    info = await sub.consumer_info()
    assert not info.config.durable_name


@proves(L, "pull_subscribe of nats-py", "two programs share a durable")
async def test_two_subscriptions_share_a_consumer(user: User) -> None:
    await user.stream()
    await user.publish(*"1234")
    first = await user.js.pull_subscribe(user.subject(), durable="D")
    second = await user.js.pull_subscribe(user.subject(), durable="D")
    got = [one.data for one in [*await first.fetch(2), *await second.fetch(2)]]
    assert sorted(got) == [b"1", b"2", b"3", b"4"]


@proves(L, NEXT, "+NXT", "the next message with an ack")
async def test_an_ack_asks_for_the_next(user: User) -> None:
    await ready(user, 2)
    message = (await user.pull({"batch": 1}, messages=1)).messages[0]
    second = await user.nc.request(message.reply, b"+NXT", timeout=DEADLINE_S, old_style=True)
    assert second.data == b"2"
    info = await user.consumer_info()
    assert info.ack_floor is not None and info.ack_floor.stream_seq == 1


@proves_each(
    L,
    NEXT,
    {
        "batch 0: one message": {"batch": 0},
        "expires 0, no_wait false": {"batch": 1, "expires": 0},
        "unknown fields": {"batch": 1, "dance": True},
    },
)
async def test_a_request_is_understood(user: User, given: dict[str, Any]) -> None:
    await ready(user, 2)
    assert (await user.pull(given, messages=1)).data == [b"1"]
