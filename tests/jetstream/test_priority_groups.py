"""Priority groups of pull consumers (ADR-42 of NATS): who of those that pull is given the messages."""

from __future__ import annotations

import json
from typing import Any

from tests.jetstream.strict import strange_advisory
from tests.jetstream.table import proves, proves_each
from tests.jetstream.user import DEADLINE_S, SECOND, Pulled, User

L, C = "Pull", "Consumers"
GROUPS = "CONSUMER.MSG.NEXT: priority groups"
UNPIN = "CONSUMER.UNPIN"
SHORT = SECOND // 5


async def grouped(user: User, policy: str, count: int = 0, **config: Any) -> None:
    """A stream with so many messages, `1` and on, and a consumer with the group `g`."""
    await user.stream()
    wanted = {"durable_name": "C", "priority_groups": ["g"], "priority_policy": policy} | config
    assert "error" not in await user.make_consumer(**wanted)

    async def hears() -> bool:
        return (await pull(user, no_wait=True)).status == "404 No Messages"

    # Servers of a cluster hear one after the other that somebody answers pulls of it.
    await user.until(hears)
    await user.publish(*(str(number) for number in range(1, count + 1)))


async def pull(user: User, messages: int = 0, **request: Any) -> Pulled:
    return await user.pull({"batch": 1, "group": "g"} | request, messages=messages)


def pin_of(pulled: Pulled) -> str:
    return (pulled.messages[0].headers or {})["Nats-Pin-Id"]


async def pinned(user: User, count: int, **config: Any) -> str:
    """A consumer with one pinned client, to whom the first message was given: that one's id."""
    await grouped(user, "pinned_client", count, **config)
    return pin_of(await pull(user, 1))


async def unpin(user: User) -> None:
    assert "error" not in await user.api(f"{UNPIN}.{user.name}.C", {"group": "g"})


@proves(L, GROUPS, "400: no group")
async def test_a_grouped_consumer_needs_a_group(user: User) -> None:
    await grouped(user, "overflow", 1)
    told = await pull(user, group="", expires=SECOND)
    assert told.status == "400 Bad Request - Priority Group missing"


@proves(L, GROUPS, "400: another group")
async def test_a_group_has_to_be_one_of_the_consumers(user: User) -> None:
    await grouped(user, "overflow", 1)
    told = await pull(user, group="h", expires=SECOND)
    assert told.status == "400 Bad Request - Invalid Priority Group"


@proves(L, GROUPS, "min_pending")
async def test_overflow_waits_for_so_many_pending(user: User) -> None:
    await grouped(user, "overflow", 2)
    assert (await pull(user, expires=SHORT, min_pending=3)).status == "408 Request Timeout"
    await user.publish("3")
    assert (await pull(user, 1, expires=SECOND, min_pending=3)).data == [b"1"]


@proves(L, GROUPS, "min_ack_pending")
async def test_overflow_waits_for_so_many_that_are_not_acked(user: User) -> None:
    await grouped(user, "overflow", 3)
    assert (await pull(user, expires=SHORT, min_ack_pending=1)).status == "408 Request Timeout"
    assert (await pull(user, 1)).data == [b"1"]
    assert (await pull(user, 1, expires=SECOND, min_ack_pending=1)).data == [b"2"]


@proves(L, GROUPS, "min_pending or min_ack_pending: one is enough")
async def test_one_of_two_minima_is_enough(user: User) -> None:
    await grouped(user, "overflow", 2)
    told = await pull(user, 1, expires=SECOND, min_pending=2, min_ack_pending=9)
    assert told.data == [b"1"]


@proves(L, GROUPS, "min_pending: looked at for each message of a batch")
async def test_a_batch_ends_at_its_minimum(user: User) -> None:
    await grouped(user, "overflow", 5)
    told = await pull(user, batch=5, expires=SECOND, min_pending=4)
    assert (told.data, told.status) == ([b"1", b"2"], "408 Request Timeout")


@proves(L, GROUPS, "a pull below its minimum holds up no other")
async def test_who_waits_for_its_minimum_holds_up_nobody(user: User) -> None:
    await grouped(user, "overflow", 1)
    waits = await user.inbox()
    await user.ask(waits, {"batch": 1, "group": "g", "expires": 9 * SECOND, "min_pending": 5})
    assert (await pull(user, 1, expires=SECOND)).data == [b"1"]


@proves(L, GROUPS, "prioritized: priority")
async def test_who_has_the_lowest_priority_is_first(user: User) -> None:
    await grouped(user, "prioritized")
    late, soon = await user.inbox(), await user.inbox()
    for inbox, priority in ((late, 5), (soon, 1)):
        await user.ask(inbox, {"batch": 1, "group": "g", "expires": 9 * SECOND, "priority": priority})

    async def both_wait() -> bool:
        return (await user.consumer_info()).num_waiting == 2

    await user.until(both_wait)
    await user.publish("1", "2")
    assert (await user.rest(soon, 1)).data == [b"1"]
    assert (await user.rest(late, 1)).data == [b"2"]


@proves(L, GROUPS, "pinned_client: Nats-Pin-Id", "423 Nats-Pin-Id mismatch")
async def test_one_client_is_pinned(user: User) -> None:
    pin = await pinned(user, 2)
    other = await pull(user, id="wrong", expires=SECOND)
    assert other.status == "423 Nats-Pin-Id mismatch"
    again = await pull(user, 1, id=pin)
    assert (again.data, pin_of(again)) == ([b"2"], pin)


@proves(L, GROUPS, "pinned_client: others wait")
async def test_who_is_not_pinned_waits(user: User) -> None:
    pin = await pinned(user, 2)
    assert (await pull(user, expires=SHORT)).status == "408 Request Timeout"
    assert (await pull(user, 1, id=pin)).data == [b"2"]


@proves(L, GROUPS, "pinned_client: priority_timeout", "advisory PINNED", "advisory UNPINNED: timeout")
async def test_a_pin_is_lost_when_its_client_does_not_pull(user: User) -> None:
    subject = f"$JS.EVENT.ADVISORY.CONSUMER.*.{user.name}.C"
    advisories = await user.nc.subscribe(subject)
    pin = await pinned(user, 2, priority_timeout=SECOND // 2)
    next_one = await pull(user, 1, expires=4 * SECOND)
    assert next_one.data == [b"2"]
    assert pin_of(next_one) != pin
    told = []
    while len(told) < 3:
        message = await advisories.next_msg(timeout=DEADLINE_S)
        if "PINNED" in message.subject:
            told.append(json.loads(message.data))
            assert not strange_advisory(told[-1])
    kinds = [one["type"].removeprefix("io.nats.jetstream.advisory.v1.") for one in told]
    assert kinds == ["consumer_group_pinned", "consumer_group_unpinned", "consumer_group_pinned"]
    assert [one.get("pinned_id") for one in told] == [pin, None, pin_of(next_one)]
    assert told[1]["reason"] == "timeout"
    assert {(one["stream"], one["consumer"], one["group"]) for one in told} == {(user.name, "C", "g")}


@proves(L, GROUPS, "pinned_client: a pull that waits does not hold the pin")
async def test_a_pull_that_waits_does_not_hold_its_pin(user: User) -> None:
    pin = await pinned(user, 1, priority_timeout=SECOND // 2)
    holds, waits = await user.inbox(), await user.inbox()
    await user.ask(holds, {"batch": 1, "group": "g", "expires": 9 * SECOND, "id": pin})
    await user.ask(waits, {"batch": 1, "group": "g", "expires": 9 * SECOND})

    async def lost() -> bool:
        told = await user.api(f"CONSUMER.INFO.{user.name}.C")
        return not told["priority_groups"][0].get("pinned_client_id")

    await user.until(lost)
    await user.publish("2")
    assert (await user.rest(holds)).status == "423 Nats-Wrong-Pin-Id"
    assert (await user.rest(waits, 1)).data == [b"2"]


@proves(C, UNPIN, "group")
@proves(L, GROUPS, "423 Nats-Wrong-Pin-Id", "advisory UNPINNED: admin")
async def test_a_pin_is_taken_away(user: User) -> None:
    advisories = await user.nc.subscribe(f"$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.{user.name}.C")
    pin = await pinned(user, 2)
    await unpin(user)
    told = json.loads((await advisories.next_msg(timeout=DEADLINE_S)).data)
    assert (told["group"], told["reason"]) == ("g", "admin")
    assert (await pull(user, id=pin, expires=SECOND)).status == "423 Nats-Wrong-Pin-Id"
    other = await pull(user, 1)
    assert (other.data, pin_of(other) != pin) == ([b"2"], True)


@proves(L, GROUPS, "pinned_client: an ack of one that is pinned no more")
async def test_acks_of_who_was_pinned_count(user: User) -> None:
    await grouped(user, "pinned_client", 1)
    message = (await pull(user, 1)).messages[0]
    await unpin(user)
    await message.ack_sync(timeout=5)
    assert (await user.consumer_info()).num_ack_pending == 0


@proves(C, "CONSUMER.INFO", "priority_groups")
async def test_a_consumer_tells_who_is_pinned(user: User) -> None:
    pin = await pinned(user, 1)
    told = (await user.api(f"CONSUMER.INFO.{user.name}.C"))["priority_groups"]
    assert [(one["group"], one["pinned_client_id"]) for one in told] == [("g", pin)]
    assert told[0]["pinned_ts"].endswith("Z")


@proves(C, "CONSUMER.CREATE", "priority_timeout: default")
async def test_a_pin_lasts_two_minutes_without_a_pull(user: User) -> None:
    await grouped(user, "pinned_client")
    told = (await user.api(f"CONSUMER.INFO.{user.name}.C"))["config"]
    assert told["priority_timeout"] == 120 * SECOND


@proves_each(
    C,
    UNPIN,
    {
        "no group": ({}, (400, 10025)),
        "a name that no group can have": ({"group": "a b"}, (400, 10162)),
        "another group": ({"group": "h"}, (400, 10160)),
    },
)
async def test_what_cannot_be_unpinned(user: User, given: tuple[dict[str, Any], tuple[int, int]]) -> None:
    request, error = given
    await grouped(user, "pinned_client")
    assert await user.refused(f"{UNPIN}.{user.name}.C", request) == error


@proves_each(
    C,
    "CONSUMER.CREATE: no priority group",
    {
        "policy without a group": ({"priority_policy": "overflow"}, 10159),
        "a group without a name": ({"priority_policy": "overflow", "priority_groups": [""]}, 10161),
        "a name of 17 letters": ({"priority_policy": "overflow", "priority_groups": ["g" * 17]}, 10162),
        "a group without a policy": ({"priority_groups": ["g"]}, 10196),
        "priority_timeout without a policy": ({"priority_timeout": SECOND}, 10197),
    },
)
async def test_what_is_no_priority_group(user: User, given: tuple[dict[str, Any], int]) -> None:
    config, error = given
    await user.stream()
    told = await user.consumer_refused(durable_name="C", **config)
    assert told == (400, error)
