"""Consumers: made in every form, changed, described, listed, paused, deleted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from nats.js import api, errors

from tests.jetstream.table import Case, differs, proves, proves_each
from tests.jetstream.user import SECOND, User

C = "Consumers"
CREATE = "CONSUMER.CREATE"


@proves(C, "CONSUMER.DURABLE.CREATE")
async def test_a_durable_consumer_is_made_in_the_old_form(user: User) -> None:
    await user.stream()
    told = await user.api(
        f"CONSUMER.DURABLE.CREATE.{user.name}.C",
        {"stream_name": user.name, "config": {"durable_name": "C", "ack_policy": "explicit"}},
    )
    assert (told["name"], told["stream_name"]) == ("C", user.name)
    assert told["config"]["durable_name"] == "C"


@proves(C, "CONSUMER.DURABLE.CREATE", "another name in the body")
async def test_the_durable_s_name_must_be_the_subject_s(user: User) -> None:
    await user.stream()
    body = {"stream_name": user.name, "config": {"durable_name": "D", "ack_policy": "explicit"}}
    assert await user.refused(f"CONSUMER.DURABLE.CREATE.{user.name}.C", body) == (400, 10017)


@proves(C, "CONSUMER.DURABLE.CREATE", "no name in the body")
async def test_the_durable_s_name_must_be_there(user: User) -> None:
    await user.stream()
    body = {"stream_name": user.name, "config": {"ack_policy": "explicit"}}
    assert await user.refused(f"CONSUMER.DURABLE.CREATE.{user.name}.C", body) == (400, 10018)


@proves(C, CREATE + ".S")
async def test_an_ephemeral_consumer_gets_a_name(user: User) -> None:
    await user.stream()
    made = await user.consumer("")
    assert made.name and not made.config.durable_name
    assert (await user.consumer_info(made.name)).name == made.name


@proves(C, CREATE + ".S.C")
async def test_a_named_consumer_is_made(user: User) -> None:
    await user.stream()
    made = await user.js.add_consumer(user.name, name="N", durable_name="N")
    assert (made.name, made.config.durable_name) == ("N", "N")


@proves(C, CREATE + ".S.C", "a name without durable_name is ephemeral")
async def test_a_named_consumer_may_be_ephemeral(user: User) -> None:
    await user.stream()
    made = await user.js.add_consumer(user.name, name="N", inactive_threshold=30)
    assert made.name == "N" and not made.config.durable_name
    assert made.config.inactive_threshold == 30


@proves(C, CREATE + ".S.C.FILTER")
async def test_a_filter_stands_in_the_subject(user: User) -> None:
    await user.stream()
    made = await user.js.add_consumer(user.name, name="N", filter_subject=user.subject("a"))
    assert made.config.filter_subject == user.subject("a")


@proves(C, CREATE + ".S.C.FILTER", "another filter in the body")
async def test_the_filters_must_be_the_same(user: User) -> None:
    await user.stream()
    body = {"stream_name": user.name, "config": {"name": "N", "filter_subject": user.subject("b")}}
    call = f"CONSUMER.CREATE.{user.name}.N.{user.subject('a')}"
    assert await user.refused(call, body) == (400, 10131)


@proves(C, CREATE, "another stream in the body")
async def test_the_stream_in_the_body_must_be_the_subject_s(user: User) -> None:
    await user.stream()
    body = {"stream_name": "other", "config": {"name": "N"}}
    assert await user.refused(f"CONSUMER.CREATE.{user.name}.N", body) == (400, 10056)


@proves(C, CREATE, "unknown stream")
async def test_a_consumer_needs_its_stream(user: User) -> None:
    assert await user.consumer_refused() == (404, 10059)


@proves(C, CREATE, "the same again")
async def test_the_same_consumer_again_is_no_error(user: User) -> None:
    await user.stream()
    first = await user.consumer()
    await user.publish("x")
    again = await user.consumer()
    assert again.created == first.created
    assert again.num_pending == 1


@proves(C, CREATE, "action: create")
async def test_create_refuses_another_configuration(user: User) -> None:
    await user.stream()
    await user.make_consumer(durable_name="C", action="create")
    assert "error" not in await user.make_consumer(durable_name="C", action="create")
    assert await user.consumer_refused(durable_name="C", action="create", max_ack_pending=7) == (400, 10148)


@proves(C, CREATE, "action: update")
async def test_update_refuses_a_missing_consumer(user: User) -> None:
    await user.stream()
    assert await user.consumer_refused(durable_name="C", action="update") == (400, 10149)
    await user.make_consumer(durable_name="C")
    told = await user.make_consumer(durable_name="C", action="update", max_ack_pending=7)
    assert told["config"]["max_ack_pending"] == 7


@proves(C, CREATE, "defaults")
async def test_defaults_are_told(user: User) -> None:
    await user.stream()
    config = (await user.make_consumer(durable_name="C"))["config"]
    expected = {
        "durable_name": "C",
        "name": "C",
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": 30 * SECOND,
        "max_deliver": -1,
        "replay_policy": "instant",
        "max_waiting": 512,
        "max_ack_pending": 1000,
    }
    assert {key: config.get(key) for key in expected} == expected
    assert config.get("num_replicas", 0) in (0, user.server.replicas)


@proves(C, CREATE, "defaults of an ephemeral consumer")
async def test_an_ephemeral_consumer_lives_five_seconds_unused(user: User) -> None:
    await user.stream()
    told = await user.make_consumer("N")
    assert told["config"]["inactive_threshold"] == 5 * SECOND


@proves_each(
    C,
    CREATE,
    {
        "description": {"description": "what it is for"},
        "deliver_policy: all": {"deliver_policy": "all"},
        "deliver_policy: last": {"deliver_policy": "last"},
        "deliver_policy: new": {"deliver_policy": "new"},
        "deliver_policy: by_start_sequence": {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
        "deliver_policy: by_start_time": {
            "deliver_policy": "by_start_time",
            "opt_start_time": "2024-01-01T00:00:00Z",
        },
        "deliver_policy: last_per_subject": {
            "deliver_policy": "last_per_subject",
            "filter_subject": "{name}.>",
        },
        "ack_policy: none": {"ack_policy": "none"},
        "ack_policy: all": {"ack_policy": "all"},
        "ack_wait": {"ack_wait": 5 * SECOND},
        "max_deliver": {"max_deliver": 3},
        "backoff": {"backoff": [SECOND, 2 * SECOND], "max_deliver": 5},
        "filter_subject": {"filter_subject": "{name}.a"},
        "filter_subjects": {"filter_subjects": ["{name}.a", "{name}.b"]},
        "replay_policy: original": Case({"replay_policy": "original"}, refused="they come at once"),
        "sample_freq": Case({"sample_freq": "100%"}, refused="there are no samples of acks"),
        "max_waiting": {"max_waiting": 10},
        "max_ack_pending": {"max_ack_pending": 10},
        "headers_only": {"headers_only": True},
        "max_batch": {"max_batch": 10},
        "max_expires": {"max_expires": 10 * SECOND},
        "max_bytes": {"max_bytes": 10_000},
        "inactive_threshold": {"inactive_threshold": 60 * SECOND},
        "num_replicas": {"num_replicas": 1},
        "mem_storage": {"mem_storage": True},
        "metadata": {"metadata": {"owner": "me"}},
        "idle_heartbeat, flow_control": {
            "deliver_subject": "{name}-inbox",
            "idle_heartbeat": SECOND,
            "flow_control": True,
        },
        "deliver_group": {"deliver_subject": "{name}-inbox", "deliver_group": "workers"},
        "rate_limit_bps": {"deliver_subject": "{name}-inbox", "rate_limit_bps": 100_000},
        "priority_groups: overflow": {"priority_groups": ["g"], "priority_policy": "overflow"},
        "priority_groups: pinned_client": {
            "priority_groups": ["g"],
            "priority_policy": "pinned_client",
            "priority_timeout": 60 * SECOND,
        },
    },
)
async def test_a_field_is_accepted_and_told_again(user: User, given: dict[str, Any], refusal: str) -> None:
    await user.stream()

    def named(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace("{name}", user.name)
        return [named(one) for one in value] if isinstance(value, list) else value

    wanted = {key: named(value) for key, value in given.items()}
    told = await user.make_consumer(durable_name="C", **wanted)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10012)
        return
    assert "error" not in told, told
    config = (await user.api(f"CONSUMER.INFO.{user.name}.C"))["config"]
    plain = {key: value for key, value in wanted.items() if key != "metadata"}
    assert {key: config.get(key) for key in plain} == plain
    assert given.get("metadata", {}).items() <= config.get("metadata", {}).items()


@proves_each(
    C,
    CREATE,
    {
        "a filter outside of the stream's subjects: nothing comes": ({"filter_subject": "other.a"}, None),
        "filter_subject and filter_subjects": (
            {"filter_subject": "x", "filter_subjects": ["x", "y"]},
            10136,
        ),
        "filter_subjects that overlap": ({"filter_subjects": ["{name}.>", "{name}.a"]}, 10138),
        "an empty filter in filter_subjects": ({"filter_subjects": ["{name}.a", ""]}, 10139),
        "backoff longer than max_deliver": ({"backoff": [1, 2, 3], "max_deliver": 2}, 10116),
        "flow_control without idle_heartbeat": (
            {"deliver_subject": "d", "flow_control": True},
            10108,
        ),
        "idle_heartbeat below 100 ms": ({"deliver_subject": "d", "idle_heartbeat": 1000}, 10083),
        "idle_heartbeat on a pull consumer": ({"idle_heartbeat": SECOND}, 10088),
        "rate_limit_bps on a pull consumer": ({"rate_limit_bps": 10}, 10086),
        "deliver_subject with wildcards": ({"deliver_subject": "d.*"}, 10079),
        "max_waiting on a push consumer": ({"deliver_subject": "d", "max_waiting": 5}, 10080),
        "opt_start_seq with deliver_policy all": ({"opt_start_seq": 3}, 10094),
        "by_start_sequence without opt_start_seq": ({"deliver_policy": "by_start_sequence"}, 10094),
        "by_start_time without opt_start_time": ({"deliver_policy": "by_start_time"}, 10094),
        "last_per_subject without a filter": ({"deliver_policy": "last_per_subject"}, 10094),
        "a description above 4 KiB": ({"description": "x" * 5000}, 10107),
        "deliver_subject that is the stream's": ({"deliver_subject": "{name}.a"}, 10081),
        "priority_groups on a push consumer": (
            {"deliver_subject": "d", "priority_groups": ["g"], "priority_policy": "overflow"},
            10178,
        ),
        "max_deliver 0 is no limit": ({"max_deliver": 0}, None),
        "an unknown deliver_policy": ({"deliver_policy": "some"}, 10025),
    },
)
async def test_a_field_that_makes_no_sense_is_refused(
    user: User, given: tuple[dict[str, Any], int | None]
) -> None:
    await user.stream()
    config = {
        key: value.replace("{name}", user.name)
        if isinstance(value, str)
        else [one.replace("{name}", user.name) if isinstance(one, str) else one for one in value]
        if isinstance(value, list)
        else value
        for key, value in given[0].items()
    }
    told = await user.make_consumer(durable_name="C", **config)
    assert told.get("error", {}).get("err_code") == given[1], told


@proves(C, CREATE, "two durables on a workqueue")
async def test_consumers_of_a_work_queue_must_not_overlap(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.consumer("C")
    await user.consumer("C")
    assert await user.consumer_refused("D", durable_name="D") == (400, 10099)
    filtered = {"durable_name": "E", "filter_subject": user.subject("a")}
    assert await user.consumer_refused("E", **filtered) == (400, 10100)


@proves(C, CREATE, "filtered consumers of a workqueue")
async def test_consumers_of_a_work_queue_share_its_subjects(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.consumer("C", filter_subject=user.subject("a"))
    await user.consumer("D", filter_subject=user.subject("b"))
    assert await user.consumer_refused(
        "E", durable_name="E", filter_subject=user.subject("a")
    ) == (400, 10100)
    assert await user.consumer_refused("F", durable_name="F") == (400, 10099)
    several = [user.subject("c"), user.subject("*.x")]
    await user.consumer("G", filter_subjects=several)
    assert await user.consumer_refused(
        "H", durable_name="H", filter_subject=user.subject("b.>")
    ) == (400, 10100)


@proves(C, CREATE, "ack_policy none on a workqueue")
async def test_a_work_queue_needs_acks(user: User) -> None:
    await user.stream(retention="workqueue")
    assert await user.consumer_refused(durable_name="C", ack_policy="none") == (400, 10084)
    pushed = {"durable_name": "C", "deliver_subject": "d", "ack_policy": "none"}
    assert await user.consumer_refused(**pushed) == (400, 10098)


@proves(C, CREATE, "deliver_policy new on a workqueue")
async def test_a_consumer_of_a_work_queue_begins_with_all(user: User) -> None:
    await user.stream(retention="workqueue")
    assert await user.consumer_refused(durable_name="C", deliver_policy="last") == (400, 10101)


UPDATED = "CONSUMER.CREATE: changes"


@proves_each(
    C,
    UPDATED,
    {
        "ack_wait": {"ack_wait": 3 * SECOND},
        "max_deliver": {"max_deliver": 9},
        "max_ack_pending": {"max_ack_pending": 99},
        "description": {"description": "new"},
        "filter_subject": {"filter_subject": "{name}.b"},
        "filter_subjects": {"filter_subjects": ["{name}.b", "{name}.c"]},
        "metadata": {"metadata": {"a": "b"}},
        "headers_only": {"headers_only": True},
        "max_batch": {"max_batch": 3},
        "inactive_threshold": {"inactive_threshold": 70 * SECOND},
        "backoff": {"backoff": [SECOND], "max_deliver": 9},
        "sample_freq": Case({"sample_freq": "50%"}, refused="there are no samples of acks"),
    },
)
async def test_a_field_is_changed(user: User, given: dict[str, Any], refusal: str) -> None:
    await user.stream()
    await user.make_consumer(durable_name="C")
    wanted = {k: v.replace("{name}", user.name) if isinstance(v, str) else v for k, v in given.items()}
    told = await user.make_consumer(durable_name="C", **wanted)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10012)
        return
    assert "error" not in told, told
    config = (await user.api(f"CONSUMER.INFO.{user.name}.C"))["config"]
    plain = {key: value for key, value in wanted.items() if key != "metadata"}
    assert {key: config.get(key) for key in plain} == plain


@proves_each(
    C,
    UPDATED,
    {
        "deliver_policy": {"deliver_policy": "new"},
        "ack_policy": {"ack_policy": "none"},
        "replay_policy": {"replay_policy": "original"},
        "pull to push": {"deliver_subject": "d"},
        "max_waiting": {"max_waiting": 3},
    },
)
async def test_what_cannot_be_changed_is_refused(user: User, given: dict[str, Any]) -> None:
    await user.stream()
    await user.make_consumer(durable_name="C")
    assert await user.consumer_refused(**({"durable_name": "C"} | given)) == (500, 10012)


@proves(C, UPDATED, "filter_subject: position, and what is to come")
async def test_another_filter_holds_of_what_comes_next(user: User) -> None:
    await user.stream()
    for number in range(12):
        await user.publish(str(number), to="abc"[number % 3])
    first = await user.make_consumer(filter_subject=user.subject("a"), ack_wait=60 * SECOND)
    assert first["num_pending"] == 4
    given = (await user.pull({"batch": 2}, messages=2)).messages
    await given[0].ack_sync()
    told = await user.make_consumer(filter_subject=user.subject("b"), ack_wait=60 * SECOND)
    assert (told["num_pending"], told["num_ack_pending"], told["delivered"]["stream_seq"]) == (3, 1, 4)
    assert (await user.pull({"batch": 9, "no_wait": True}, messages=3)).data == [b"4", b"7", b"10"]
    assert (await user.consumer_info()).num_pending == 0


@proves(C, UPDATED, "filter_subject: what was delivered comes again")
async def test_what_no_filter_matches_any_more_comes_again(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    await user.make_consumer(filter_subject=user.subject("a"), ack_wait=SECOND)
    assert (await user.pull(messages=1)).data == [b"1"]
    await user.make_consumer(filter_subject=user.subject("b"), ack_wait=SECOND)
    again = await user.pull({"batch": 9, "expires": 3 * SECOND}, messages=1)
    assert again.data == [b"1"]
    await again.messages[0].ack_sync()
    assert (await user.pull({"batch": 9, "no_wait": True})).data == []


@proves(C, UPDATED, "filter_subject: what was passed over is not looked at again")
async def test_what_was_passed_over_stays_so(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a")
    await user.publish("2", to="b")
    await user.make_consumer(filter_subject=user.subject("a"))
    await (await user.pull(messages=1)).messages[0].ack_sync()
    assert (await user.pull({"batch": 9, "expires": SECOND // 2})).data == []
    told = await user.make_consumer(filter_subject=user.subject("b"))
    assert told["num_pending"] == 0
    await user.publish("3", to="b")
    assert (await user.pull(messages=1)).data == [b"3"]


@proves(C, UPDATED, "filter_subject: what was passed over by a pull that does not wait")
@differs("passed over is what a pull has looked at; nats-server looks at nothing for one that does not wait")
async def test_what_a_pull_that_does_not_wait_has_passed_over(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a")
    await user.publish("2", to="b")
    await user.make_consumer(filter_subject=user.subject("a"))
    await (await user.pull(messages=1)).messages[0].ack_sync()
    assert (await user.pull({"batch": 9, "no_wait": True})).data == []
    told = await user.make_consumer(filter_subject=user.subject("b"))
    assert told["num_pending"] == (0 if user.liftlog else 1)


@proves(C, UPDATED, "filter_subject: no filter")
async def test_a_filter_is_taken_away(user: User) -> None:
    await user.stream()
    for number in range(4):
        await user.publish(str(number), to="ab"[number % 2])
    await user.make_consumer(filter_subject=user.subject("a"))
    assert (await user.pull(messages=1)).data == [b"0"]
    told = await user.make_consumer()
    assert (told["num_pending"], told["config"].get("filter_subject")) == (3, None)
    assert (await user.pull({"batch": 9, "no_wait": True}, messages=3)).data == [b"1", b"2", b"3"]


@proves(C, UPDATED, "filter_subject of a stream of interest")
@differs("what it was given waits for its ack; nats-server drops it where no filter matches it any more")
async def test_what_was_delivered_of_interest_stays(user: User) -> None:
    await user.stream(retention="interest")
    await user.make_consumer(filter_subject=user.subject("a"))
    await user.publish("1", "2")
    assert (await user.pull(messages=1)).data == [b"1"]
    await user.make_consumer(filter_subject=user.subject("b"))

    async def is_left() -> bool:
        return (await user.info()).state.messages == (1 if user.liftlog else 0)

    await user.until(is_left)


@proves(C, UPDATED, "filter_subjects that overlap")
async def test_filters_that_overlap_are_refused_later_too(user: User) -> None:
    await user.stream()
    await user.make_consumer(filter_subject=user.subject("a"))
    filters = [user.subject("a"), user.subject("*")]
    assert await user.consumer_refused(filter_subjects=filters) == (400, 10138)


@proves(C, UPDATED, "filter_subject on a workqueue")
async def test_filters_of_a_work_queue_stay_apart(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.make_consumer("C", durable_name="C", filter_subject=user.subject("a"))
    await user.make_consumer("D", durable_name="D", filter_subject=user.subject("b"))
    if user.liftlog or user.server.replicas == 1:
        # Several nats-servers let it pass.
        refused = await user.consumer_refused("D", durable_name="D", filter_subject=user.subject("a"))
        assert refused == (400, 10100)
    told = await user.make_consumer("D", durable_name="D", filter_subject=user.subject("c"))
    assert told["config"]["filter_subject"] == user.subject("c")


@proves(C, UPDATED, "filter_subject on a workqueue, with messages that wait for acks")
@differs("refused until they are acked: another consumer could be given them too")
async def test_filters_of_a_work_queue_stay_where_messages_wait(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.make_consumer(filter_subject=user.subject("a"))
    await user.publish("1")
    (message,) = (await user.pull(messages=1)).messages
    told = await user.make_consumer(filter_subject=user.subject("b"))
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10012)
        await message.ack_sync()
        told = await user.make_consumer(filter_subject=user.subject("b"))
    assert told["config"]["filter_subject"] == user.subject("b")


INFO = "CONSUMER.INFO"


@proves(C, INFO)
async def test_a_consumer_is_described(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    info = await user.consumer()
    assert (info.num_pending, info.num_ack_pending, info.num_redelivered, info.num_waiting) == (3, 0, 0, 0)
    assert info.delivered == api.SequenceInfo(0, 0) and info.ack_floor == api.SequenceInfo(0, 0)


@proves(C, INFO, "unknown consumer")
async def test_an_unknown_consumer_is_not_found(user: User) -> None:
    await user.stream()
    with pytest.raises(errors.NotFoundError) as caught:
        await user.consumer_info("nobody")
    assert caught.value.err_code == 10014


@proves(C, INFO, "unknown stream")
async def test_a_consumer_of_an_unknown_stream_is_not_found(user: User) -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        await user.consumer_info("nobody")
    assert caught.value.err_code == 10059


@proves(C, INFO, "delivered, ack_floor, num_ack_pending, num_pending")
async def test_what_was_delivered_and_acked_is_told(user: User) -> None:
    await user.stream()
    await user.publish(*"12345")
    await user.consumer()
    messages = (await user.pull({"batch": 3}, messages=3)).messages
    await messages[0].ack_sync()
    info = await user.consumer_info()
    assert info.delivered is not None and info.ack_floor is not None
    assert (info.delivered.consumer_seq, info.delivered.stream_seq) == (3, 3)
    assert (info.ack_floor.consumer_seq, info.ack_floor.stream_seq) == (1, 1)
    assert (info.num_ack_pending, info.num_pending) == (2, 2)


@proves(C, INFO, "ack_floor waits for a gap")
async def test_the_ack_floor_waits_for_the_first(user: User) -> None:
    await user.stream()
    await user.publish(*"123")
    await user.consumer()
    messages = (await user.pull({"batch": 3}, messages=3)).messages
    await messages[2].ack_sync()
    await messages[1].ack_sync()
    info = await user.consumer_info()
    assert info.ack_floor is not None and info.ack_floor.stream_seq == 0
    await messages[0].ack_sync()
    info = await user.consumer_info()
    assert info.ack_floor is not None and info.ack_floor.stream_seq == 3


@proves(C, INFO, "num_pending counts what the filter lets through")
async def test_pending_messages_are_those_of_the_filter(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a", "c"):
        await user.publish("x", to=to)
    assert (await user.consumer("C", filter_subject=user.subject("a"))).num_pending == 2
    subjects = [user.subject("a"), user.subject("c")]
    assert (await user.consumer("D", filter_subjects=subjects)).num_pending == 3


@proves(C, INFO, "delivered.last_active, ack_floor.last_active")
async def test_when_it_was_active_last_is_told(user: User) -> None:
    await user.stream()
    await user.publish("1")
    await user.consumer()

    async def told() -> dict[str, Any]:
        return await user.api(f"CONSUMER.INFO.{user.name}.C")

    before = await told()
    assert "last_active" not in before["delivered"] | before["ack_floor"]
    (message,) = (await user.pull(messages=1)).messages
    given = await told()
    last = datetime.fromisoformat(given["delivered"]["last_active"])
    assert last <= datetime.fromisoformat(given["ts"]) and "last_active" not in given["ack_floor"]
    await message.ack_sync()

    async def acked() -> bool:
        return "last_active" in (await told())["ack_floor"]

    await user.until(acked)


@proves(C, INFO, "cluster")
async def test_who_leads_a_consumer_is_told(user: User) -> None:
    await user.stream()
    info = await user.consumer()
    if user.server.replicas > 1:
        assert info.cluster is not None and info.cluster.leader
        assert len(info.cluster.replicas or ()) == user.server.replicas - 1


@proves(C, INFO, "num_waiting")
async def test_waiting_pulls_are_counted(user: User) -> None:
    await user.stream()
    await user.consumer()
    inbox = await user.inbox()
    await user.ask(inbox, {"batch": 1, "expires": 5 * SECOND})

    async def waiting() -> bool:
        return (await user.consumer_info()).num_waiting == 1

    await user.until(waiting)


@proves(C, "CONSUMER.NAMES")
async def test_names_are_listed(user: User) -> None:
    await user.stream()
    for name in "ABC":
        await user.consumer(name)
    told = await user.api(f"CONSUMER.NAMES.{user.name}")
    assert sorted(told["consumers"]) == ["A", "B", "C"]
    assert (told["total"], told["offset"]) == (3, 0)


@proves(C, "CONSUMER.NAMES", "offset")
async def test_names_are_listed_from_an_offset(user: User) -> None:
    await user.stream()
    for name in "ABC":
        await user.consumer(name)
    told = await user.api(f"CONSUMER.NAMES.{user.name}", {"offset": 2})
    assert (told["consumers"], told["offset"]) == (["C"], 2)


@proves(C, "CONSUMER.NAMES", "no consumers")
async def test_without_consumers_the_list_is_empty(user: User) -> None:
    await user.stream()
    told = await user.api(f"CONSUMER.NAMES.{user.name}")
    assert not told["consumers"] and told["total"] == 0


@proves(C, "CONSUMER.NAMES", "unknown stream")
async def test_consumers_of_an_unknown_stream(user: User) -> None:
    assert await user.refused(f"CONSUMER.NAMES.{user.name}") == (404, 10059)


@proves(C, "CONSUMER.LIST")
async def test_consumers_are_listed_with_all_that_is_known(user: User) -> None:
    await user.stream()
    await user.publish("x")
    await user.consumer("A")
    await user.consumer("B", filter_subject=user.subject("z"))
    found = {info.name: info.num_pending for info in await user.js.consumers_info(user.name)}
    assert found == {"A": 1, "B": 0}


@proves(C, "CONSUMER.LIST", "offset")
async def test_consumers_are_listed_from_an_offset(user: User) -> None:
    await user.stream()
    await user.consumer("A")
    await user.consumer("B")
    assert [info.name for info in await user.js.consumers_info(user.name, offset=1)] == ["B"]


@proves(C, "CONSUMER.DELETE")
async def test_a_consumer_is_deleted(user: User) -> None:
    await user.stream()
    await user.consumer()
    assert await user.js.delete_consumer(user.name, "C") is True
    with pytest.raises(errors.NotFoundError):
        await user.consumer_info()
    assert (await user.info()).state.consumer_count == 0


@proves(C, "CONSUMER.DELETE", "unknown consumer")
async def test_an_unknown_consumer_cannot_be_deleted(user: User) -> None:
    await user.stream()
    assert await user.refused(f"CONSUMER.DELETE.{user.name}.nobody") == (404, 10014)


@proves(C, "CONSUMER.DELETE", "and made again")
async def test_a_consumer_that_is_made_again_begins_anew(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    await user.consumer()
    for message in (await user.pull({"batch": 2}, messages=2)).messages:
        await message.ack_sync()
    await user.js.delete_consumer(user.name, "C")
    assert (await user.consumer()).num_pending == 2


@proves(C, "inactive_threshold")
async def test_an_unused_consumer_goes(user: User) -> None:
    await user.stream()
    await user.js.add_consumer(user.name, name="N", inactive_threshold=0.2)

    async def gone() -> bool:
        try:
            await user.consumer_info("N")
        except errors.NotFoundError:
            return True
        return False

    await user.until(gone)


PAUSE = "CONSUMER.PAUSE"


@proves(C, PAUSE)
async def test_a_paused_consumer_delivers_nothing_until_it_is_resumed(user: User) -> None:
    await user.stream()
    await user.consumer()
    until = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    paused = await user.js.pause_consumer(user.name, "C", until)
    assert paused.paused is True and paused.pause_until == until

    async def told() -> bool:
        return (await user.consumer_info()).paused is True

    if user.server.name == "nats-server-3":
        await user.until(told)  # Its members learn it one after the other.
    assert await told()
    await user.publish("x")
    assert (await user.pull({"batch": 1, "expires": SECOND // 5})).status == "408 Request Timeout"
    resumed = await user.js.resume_consumer(user.name, "C")
    assert resumed.paused is False
    assert (await user.pull({"batch": 1, "expires": 9 * SECOND}, messages=1)).data == [b"x"]


@proves(C, PAUSE, "pause_until in a configuration")
async def test_a_consumer_is_made_paused(user: User) -> None:
    await user.stream()
    until = (datetime.now(UTC) + timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = await user.consumer(pause_until=until)
    assert made.paused is True and made.config.pause_until == until


@proves(C, PAUSE, "the end of a pause")
async def test_a_pause_ends_by_itself(user: User) -> None:
    await user.stream()
    await user.publish("x")
    await user.consumer()
    until = (datetime.now(UTC) + timedelta(milliseconds=300)).isoformat().replace("+00:00", "Z")
    await user.js.pause_consumer(user.name, "C", until)
    assert (await user.pull({"batch": 1, "expires": 9 * SECOND}, messages=1)).data == [b"x"]


@proves(C, PAUSE, "unknown consumer")
async def test_an_unknown_consumer_cannot_be_paused(user: User) -> None:
    await user.stream()
    assert await user.refused(f"CONSUMER.PAUSE.{user.name}.nobody", {}) == (404, 10014)


STARTS = "where a consumer begins"


@proves_each(
    C,
    STARTS,
    {
        "all": ({}, [b"1", b"2", b"3", b"4"]),
        "last": ({"deliver_policy": "last"}, [b"4"]),
        "new": ({"deliver_policy": "new"}, [b"5"]),
        "by_start_sequence": ({"deliver_policy": "by_start_sequence", "opt_start_seq": 3}, [b"3", b"4"]),
        "last_per_subject": ({"deliver_policy": "last_per_subject", "filter_subject": ">"}, [b"3", b"4"]),
        "last with a filter": ({"deliver_policy": "last", "filter_subject": "a"}, [b"3"]),
        "by_start_time in the past": (
            {"deliver_policy": "by_start_time", "opt_start_time": "2024-01-01T00:00:00Z"},
            [b"1", b"2", b"3", b"4"],
        ),
    },
)
async def test_a_consumer_begins_where_it_is_told(
    user: User, given: tuple[dict[str, Any], list[bytes]]
) -> None:
    await user.stream()
    for number, to in enumerate(("a", "b", "a", "b"), 1):
        await user.publish(str(number), to=to)
    config = dict(given[0])
    if "filter_subject" in config:
        config["filter_subject"] = user.subject(config["filter_subject"])
    await user.make_consumer(durable_name="C", **config)
    await user.publish("5", to="c") if "filter_subject" not in config else None
    expected = given[1]
    pulled = await user.pull({"batch": len(expected), "expires": 5 * SECOND}, messages=len(expected))
    assert pulled.data == expected


@proves(C, STARTS, "by_start_time between messages")
async def test_a_consumer_begins_at_a_time(user: User) -> None:
    await user.stream()
    await user.publish("1")
    await asyncio.sleep(0.01)
    await user.publish("2", "3")
    second = (await user.api(f"STREAM.MSG.GET.{user.name}", {"seq": 2}))["message"]["time"]
    await user.make_consumer(durable_name="C", deliver_policy="by_start_time", opt_start_time=second)
    assert (await user.pull({"batch": 2}, messages=2)).data == [b"2", b"3"]


async def holds(user: User, count: int, first: int) -> None:
    """In the end the stream has so many messages, and begins with this one."""

    async def so() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq) == (count, first)

    await user.until(so)


@proves(C, "interest")
async def test_a_stream_of_interest_drops_what_all_have_acked(user: User) -> None:
    await user.stream(retention="interest")
    assert [ack.seq for ack in await user.publish("nobody wants this")] == [1]
    await holds(user, 0, 2)
    for name in "AB":
        await user.consumer(name)
    await user.publish("x", "y")
    for name in "AB":
        assert (await user.info()).state.messages == 2
        for message in (await user.pull({"batch": 2}, consumer=name, messages=2)).messages:
            await message.ack_sync()
    await holds(user, 0, 4)


@proves(C, "interest: acked in any order")
async def test_a_stream_of_interest_drops_what_is_acked_in_any_order(user: User) -> None:
    await user.stream(retention="interest")
    for name in "AB":
        await user.consumer(name)
    await user.publish("1", "2", "3")
    given = {name: (await user.pull({"batch": 3}, consumer=name, messages=3)).messages for name in "AB"}
    await given["A"][0].ack_sync()
    await given["A"][1].ack_sync()
    await given["B"][1].ack_sync()
    await holds(user, 2, 1)
    await given["B"][0].ack_sync()
    await holds(user, 1, 3)
    await given["A"][2].term()
    await given["B"][2].ack_sync()
    await holds(user, 0, 4)


@proves(C, "interest: filters")
async def test_a_stream_of_interest_keeps_what_a_filter_matches(user: User) -> None:
    await user.stream(retention="interest")
    await user.consumer("A", filter_subject=user.subject("a"))
    await user.consumer("B", filter_subjects=[user.subject("b"), user.subject("c")])
    for value, to in (("1", "a"), ("2", "z"), ("3", "b"), ("4", "z"), ("5", "c")):
        await user.publish(value, to=to)
    await holds(user, 3, 1)
    for message in (await user.pull({"batch": 2}, consumer="B", messages=2)).messages:
        await message.ack_sync()
    await holds(user, 1, 1)
    [message] = (await user.pull({"batch": 1}, consumer="A", messages=1)).messages
    await message.ack_sync()
    await holds(user, 0, 6)


@proves(C, "interest: a consumer that is deleted")
async def test_a_consumer_that_is_deleted_holds_nothing_by_interest(user: User) -> None:
    await user.stream(retention="interest")
    for name in "AB":
        await user.consumer(name)
    await user.publish("1", "2")
    [message] = (await user.pull({"batch": 1}, consumer="A", messages=1)).messages
    await message.ack_sync()
    await user.api(f"CONSUMER.DELETE.{user.name}.B")
    await holds(user, 1, 2)
    await user.api(f"CONSUMER.DELETE.{user.name}.A")
    await holds(user, 0, 3)


@proves(C, "interest: ack_policy none")
async def test_a_stream_of_interest_drops_what_was_given_to_who_does_not_ack(user: User) -> None:
    await user.stream(retention="interest")
    await user.make_consumer("A", durable_name="A", ack_policy="none")
    await user.publish("1", "2")
    await user.pull({"batch": 1}, consumer="A", messages=1)
    await holds(user, 1, 2)


@proves(C, "interest: max_deliver is reached")
@differs("it goes: no consumer is to be given it; a dead letter is stored first where a consumer has one")
async def test_a_stream_of_interest_and_what_nobody_could_do(user: User) -> None:
    await user.stream(retention="interest")
    await user.consumer("A", max_deliver=1, ack_wait=0.5)
    await user.publish("1", "2")
    first, _ = (await user.pull({"batch": 2}, consumer="A", messages=2)).messages
    await first.ack_sync()
    await holds(user, *((0, 3) if user.liftlog else (1, 2)))


@proves(C, "workqueue")
async def test_a_work_queue_drops_what_is_acked(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.publish("1", "2", "3")
    await user.consumer()
    messages = (await user.pull({"batch": 3}, messages=3)).messages
    await messages[1].ack_sync()
    await holds(user, 2, 1)
    await messages[0].ack_sync()
    await holds(user, 1, 3)
    await messages[2].term()
    await holds(user, 0, 4)


async def made(user: User, name: str) -> bool:
    """Several servers forget the consumer before it a moment after they have said so."""
    return "error" not in await user.make_consumer(name, durable_name=name)


@proves(C, "workqueue: max_deliver is reached")
async def test_a_work_queue_keeps_what_nobody_could_do(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.publish("1", "2")
    await user.consumer(max_deliver=1)
    messages = (await user.pull({"batch": 2}, messages=2)).messages
    await messages[0].nak()
    await messages[1].ack_sync()
    await holds(user, 1, 1)
    await user.js.delete_consumer(user.name, "C")
    await user.until(lambda: made(user, "D"))
    assert (await user.pull({"batch": 2}, consumer="D", messages=1)).data == [b"1"]


@proves(C, "workqueue: several subjects")
async def test_each_consumer_of_a_work_queue_takes_its_own(user: User) -> None:
    await user.stream(retention="workqueue")
    for name in "ab":
        await user.consumer(name, filter_subject=user.subject(name))
    for value, to in (("1", "a"), ("2", "b"), ("3", "c"), ("4", "a")):
        await user.publish(value, to=to)
    for name, count in (("b", 1), ("a", 2)):
        for message in (await user.pull({"batch": 2}, consumer=name, messages=count)).messages:
            await message.ack_sync()
    await holds(user, 1, 3)


@proves(C, "workqueue: pushed")
async def test_a_work_queue_drops_what_was_pushed_and_acked(user: User) -> None:
    await user.stream(retention="workqueue")
    await user.publish("1", "2")
    heard = await user.js.subscribe(user.subject(">"), durable="P", manual_ack=True)
    for value in (b"1", b"2"):
        message = await heard.next_msg(5)
        assert message.data == value
        await message.ack_sync()
    await holds(user, 0, 3)
