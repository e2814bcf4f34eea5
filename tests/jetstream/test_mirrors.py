"""Streams that are a copy of another one (`mirror`), with the same sequences."""

from __future__ import annotations

import asyncio
from typing import Any

import nats.errors
import pytest
from nats.js import api
from nats.js.errors import NoStreamResponseError, NotFoundError

from tests.jetstream.table import Case, differs, proves, proves_each, refused
from tests.jetstream.test_sources import holds, source
from tests.jetstream.user import SECOND, User

S = "Streams"
MIRROR = "mirror"


async def mirror(user: User, of: str, **config: Any) -> dict[str, Any]:
    told = await user.create(mirror={"name": of}, **config)
    assert "error" not in told, told
    return told


@proves(S, MIRROR)
async def test_a_mirror_has_what_its_origin_has(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.js.publish(f"{name}.y", b"3", headers={"Colour": "red"})
    assert (await mirror(user, name))["did_create"] is True
    await holds(user, 3)
    await user.js.publish(f"{name}.x", b"4")
    await holds(user, 4)
    for seq in range(1, 5):
        one = (await user.api(f"STREAM.MSG.GET.{user.name}", {"seq": seq}))["message"]
        assert one == (await user.api(f"STREAM.MSG.GET.{name}", {"seq": seq}))["message"]


@proves(S, MIRROR, "its configuration")
async def test_its_configuration_is_told(user: User) -> None:
    name = await source(user, "A")
    config = (await mirror(user, name))["config"]
    assert config["mirror"] == {"name": name}
    assert "subjects" not in config and "duplicate_window" not in config and "sources" not in config
    assert (await user.api(f"STREAM.INFO.{user.name}"))["config"]["mirror"] == {"name": name}


@proves(S, MIRROR, "the same again", "another configuration")
async def test_it_is_created_once(user: User) -> None:
    name = await source(user, "A")
    await mirror(user, name)
    await mirror(user, name)
    assert await user.create_refused(mirror={"name": name}, max_msgs=9) == (400, 10058)


@proves(S, MIRROR, "STREAM.INFO: mirror")
async def test_how_far_it_is_is_told(user: User) -> None:
    name = await source(user, "A", "1", "2")
    assert (await mirror(user, name))["mirror"]["name"] == name
    await holds(user, 2)

    async def heard() -> bool:
        one = (await user.api(f"STREAM.INFO.{user.name}"))["mirror"]
        assert "error" not in one
        return bool(one["active"] >= 0 and one["lag"] == 0)

    await user.until(heard)
    assert "mirror" not in await user.api(f"STREAM.INFO.{name}")


@proves(S, MIRROR, "nats-py")
async def test_nats_py_makes_one(user: User) -> None:
    name = await source(user, "A", "1")
    made = await user.stream(mirror=api.StreamSource(name=name))
    assert made.config.mirror is not None and made.config.mirror.name == name
    await holds(user, 1)
    told = await user.info()
    assert told.mirror is not None and (told.mirror.name, told.mirror.lag) == (name, 0)


@proves(S, MIRROR, "what is deleted at the origin before")
async def test_sequences_stay_where_messages_are_gone(user: User) -> None:
    name = await source(user, "A", "1", "2", "3", "4", "5", "6")
    await user.api(f"STREAM.PURGE.{name}", {"seq": 3})
    await user.api(f"STREAM.MSG.DELETE.{name}", {"seq": 5})
    await mirror(user, name)

    async def there() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (3, 3, 6)

    await user.until(there)
    assert (await user.info()).state.num_deleted == 1
    with pytest.raises(NotFoundError):
        await user.js.get_msg(user.name, 5)
    await user.consumer()
    pulled = await user.pull({"batch": 3, "expires": 3 * SECOND}, messages=3)
    assert [one.metadata.sequence.stream for one in pulled.messages] == [3, 4, 6]
    for one in pulled.messages:
        await one.ack_sync()
    info = await user.consumer_info()
    assert (info.num_pending, info.num_ack_pending, info.ack_floor.stream_seq) == (0, 0, 6)


@proves(S, MIRROR, "what is deleted at the origin later")
async def test_what_was_copied_stays(user: User) -> None:
    name = await source(user, "A", "1", "2", "3")
    await mirror(user, name)
    await holds(user, 3)
    await user.api(f"STREAM.MSG.DELETE.{name}", {"seq": 1})
    await user.js.publish(f"{name}.x", b"4")
    await holds(user, 4)


@proves(S, MIRROR, "STREAM.MSG.DELETE")
async def test_a_message_is_deleted_here_alone(user: User) -> None:
    name = await source(user, "A", "1", "2", "3")
    await mirror(user, name)
    await holds(user, 3)
    assert (await user.api(f"STREAM.MSG.DELETE.{user.name}", {"seq": 2}))["success"] is True
    await user.js.publish(f"{name}.x", b"4")
    state = (await holds(user, 3))["state"]
    assert (state["first_seq"], state["last_seq"], state["num_deleted"]) == (1, 4, 1)
    assert (await user.info(name)).state.messages == 4


@proves(S, MIRROR, "a purge")
async def test_a_purge_brings_nothing_again(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await mirror(user, name)
    await holds(user, 2)
    assert (await user.api(f"STREAM.PURGE.{user.name}"))["purged"] == 2
    await user.js.publish(f"{name}.x", b"3")
    state = (await holds(user, 1))["state"]
    assert (state["first_seq"], state["last_seq"]) == (3, 3)


@proves(S, MIRROR, "max_msgs")
async def test_old_messages_go_where_it_is_limited(user: User) -> None:
    name = await source(user, "A", "1", "2", "3", "4", "5")
    await mirror(user, name, max_msgs=2)

    async def shortened() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (2, 4, 5)

    await user.until(shortened)


@proves(S, MIRROR, "an origin with first_seq")
async def test_it_begins_where_its_origin_does(user: User) -> None:
    name = await source(user, "A", "1", "2", first_seq=100)
    await mirror(user, name)

    async def there() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (2, 100, 101)

    await user.until(there)


@proves(S, MIRROR, "consumers")
async def test_consumers_get_messages_under_the_origins_subjects(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.js.publish(f"{name}.y", b"3")
    await mirror(user, name)
    await holds(user, 3)
    await user.consumer(filter_subject=f"{name}.y")
    pulled = await user.pull({"batch": 1, "expires": 3 * SECOND}, messages=1)
    assert [(one.subject, one.data) for one in pulled.messages] == [(f"{name}.y", b"3")]
    await user.js.publish(f"{name}.y", b"4")
    assert (await user.pull({"batch": 1, "expires": 3 * SECOND}, messages=1)).data == [b"4"]


@proves(S, MIRROR, "DIRECT.GET")
async def test_messages_are_got_directly(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await mirror(user, name, allow_direct=True)
    await holds(user, 2)
    assert (await user.js.get_msg(user.name, 2, direct=True)).data == b"2"


@proves(S, MIRROR, "publishing to it")
async def test_nobody_answers_who_publishes_to_it(user: User) -> None:
    name = await source(user, "A", "1")
    await mirror(user, name)
    await holds(user, 1)
    with pytest.raises((NoStreamResponseError, nats.errors.NoRespondersError)):
        await user.js.publish(user.name, b"x")
    assert (await user.info()).state.messages == 1


@proves(S, MIRROR, "a mirror of a mirror")
async def test_they_may_be_in_a_row(user: User) -> None:
    name = await source(user, "A", "1", "2")
    middle = user.name + "M"
    await user.create(name=middle, mirror={"name": name})
    await mirror(user, middle)
    await holds(user, 2)
    assert (await user.js.get_msg(user.name, 2)).data == b"2"


@proves(S, MIRROR, "the origin is deleted")
async def test_it_stays_when_its_origin_is_deleted(user: User) -> None:
    name = await source(user, "A", "1")
    await mirror(user, name)
    await holds(user, 1)
    await user.js.delete_stream(name)
    told = await holds(user, 1)
    assert told["mirror"]["name"] == name


@proves(S, MIRROR, "an origin that is not there")
@differs("refused (10052): a name means one stream for ever; nats-server waits until there is one")
async def test_an_origin_is_there_before(user: User) -> None:
    told = await user.create(mirror={"name": user.name + "none"})
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "there is no such stream" in told["error"]["description"]
    else:
        assert told["mirror"]["name"] == user.name + "none"


@proves_each(
    S,
    MIRROR,
    {
        "subjects": ({"subjects": ["of.its.own"]}, (400, 10034)),
        "first_seq": ({"first_seq": 5}, (400, 10143)),
        "sources": ({"sources": [{"name": "elsewhere"}]}, (400, 10031)),
        "a name that none can have": ({"mirror": {"name": "a.b"}}, (400, 10142)),
        "an unknown field": ({"mirror": {"name": "a", "dance": True}}, (400, 10025)),
    },
)
async def test_mirrors_that_make_no_sense_are_refused(
    user: User, given: tuple[dict[str, Any], tuple[int, int]]
) -> None:
    config, codes = given
    name = await source(user, "A")
    assert await user.create_refused(**({"mirror": {"name": name}} | config)) == codes


@proves_each(
    S,
    MIRROR,
    {
        "external that is no domain": {"external": {"api": "elsewhere", "deliver": ""}},
        "subject_transforms": {"subject_transforms": [{"src": ">", "dest": "copy.>"}]},
    },
)
@refused("subjects stay what they are, and it is read as readers read it")
async def test_what_a_mirror_cannot_have_here_is_refused(user: User, given: dict[str, Any]) -> None:
    name = await source(user, "A")
    told = await user.create(mirror={"name": name} | given)
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert next(iter(given)) in told["error"]["description"]
    else:
        assert "error" not in told


async def sequences(user: User, end: int, name: str = "") -> list[int]:
    """Those at which there is a message."""
    answers = [await user.api(f"STREAM.MSG.GET.{name or user.name}", {"seq": seq}) for seq in range(1, end)]
    return [one["message"]["seq"] for one in answers if "error" not in one]


async def reaches(user: User, last: int) -> dict[str, Any]:
    """Wait until there is a message at this sequence; the stream's state."""

    async def there() -> bool:
        return "error" not in await user.api(f"STREAM.MSG.GET.{user.name}", {"seq": last})

    await user.until(there)
    state: dict[str, Any] = (await user.api(f"STREAM.INFO.{user.name}"))["state"]
    return state


@proves(S, MIRROR, "opt_start_seq")
async def test_it_begins_at_a_sequence(user: User) -> None:
    name = await source(user, "A", "1", "2", "3")
    told = await user.create(mirror={"name": name, "opt_start_seq": 2})
    assert told["config"]["mirror"] == {"name": name, "opt_start_seq": 2}
    state = await reaches(user, 3)
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, 2, 3)
    assert await sequences(user, 4) == [2, 3]


@proves(S, MIRROR, "opt_start_time")
async def test_it_begins_at_a_time(user: User) -> None:
    name = await source(user, "A", "1")
    await asyncio.sleep(0.01)  # Times have milliseconds.
    await user.js.publish(f"{name}.x", b"2")
    at = (await user.api(f"STREAM.MSG.GET.{name}", {"seq": 2}))["message"]["time"]
    told = await user.create(mirror={"name": name, "opt_start_time": at})
    assert told["config"]["mirror"] == {"name": name, "opt_start_time": at}
    state = await reaches(user, 2)
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (1, 2, 2)


@proves(S, MIRROR, "filter_subject")
async def test_it_has_some_subjects_at_their_sequences(user: User) -> None:
    name = await source(user, "A", "1")
    for to in ("y", "x", "y"):
        await user.js.publish(f"{name}.{to}", to.encode())
    wanted = {"name": name, "filter_subject": f"{name}.y"}
    assert (await user.create(mirror=wanted))["config"]["mirror"] == wanted
    state = await reaches(user, 4)
    assert (state["messages"], state["first_seq"], state["last_seq"]) == (2, 2, 4)
    assert await sequences(user, 5) == [2, 4]
    await user.consumer()
    pulled = await user.pull({"batch": 2, "expires": 3 * SECOND}, messages=2)
    assert pulled.data == [b"y", b"y"]


@proves(S, MIRROR, "filter_subject: what does not match at the end")
@differs("last_seq is the origin's; nats-server has that of the last message that matches")
async def test_its_end_is_the_origins(user: User) -> None:
    name = await source(user, "A", "1")
    await user.js.publish(f"{name}.y", b"2")
    await user.create(mirror={"name": name, "filter_subject": f"{name}.x"})
    state = await reaches(user, 1)

    async def passed() -> bool:
        nonlocal state
        state = (await user.api(f"STREAM.INFO.{user.name}"))["state"]
        return bool(state["last_seq"] == (2 if user.liftlog else 1))

    await user.until(passed)
    assert state["messages"] == 1


@proves(S, MIRROR, "external: an unknown domain")
@refused("the nodes' configurations name other clusters")
async def test_it_is_of_a_domain_that_is_known(user: User) -> None:
    far = {"name": "orders", "external": {"api": "$JS.elsewhere.API", "deliver": ""}}
    told = await user.create(mirror=far)
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "[clusters.elsewhere]" in told["error"]["description"]
    else:
        assert told["config"]["mirror"] == far


@proves_each(
    S,
    MIRROR,
    {
        field: Case(config, refused="a mirror has what its origin has, and nothing else")
        for field, config in {
            "mirror_direct": {"mirror_direct": True},
            "duplicate_window": {"duplicate_window": 10 * SECOND},
            "max_msg_size": {"max_msg_size": 100},
            "max_msgs_per_subject": {"max_msgs_per_subject": 1},
            "discard new": {"discard": "new", "max_msgs": 2},
        }.items()
    },
)
async def test_what_goes_by_publishing_is_refused(user: User, given: dict[str, Any], refusal: str) -> None:
    name = await source(user, "A")
    told = await user.create(mirror={"name": name}, **given)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "mirror" in told["error"]["description"]
    else:
        assert "error" not in told


UPDATE = "STREAM.UPDATE: mirror"


@proves(S, UPDATE, "stays what it is")
async def test_other_fields_are_changed(user: User) -> None:
    name = await source(user, "A", "1")
    await mirror(user, name)
    told = await user.create("UPDATE", mirror={"name": name}, description="all of it", max_msgs=10)
    assert told["config"]["mirror"] == {"name": name}
    assert (told["config"]["description"], told["config"]["max_msgs"]) == ("all of it", 10)
    await user.js.publish(f"{name}.x", b"2")
    await holds(user, 2)


@proves(S, UPDATE, "none any more")
async def test_it_ends(user: User) -> None:
    name = await source(user, "A", "1")
    await mirror(user, name)
    await holds(user, 1)
    told = await user.create("UPDATE", subjects=[user.subject(">")])
    assert "mirror" not in told["config"] and "mirror" not in told
    assert told["config"]["subjects"] == [user.subject(">")]
    assert told["config"]["duplicate_window"] == 120 * SECOND
    assert (await user.publish("2"))[0].seq == 2
    await user.js.publish(f"{name}.x", b"of the former origin")
    assert (await user.publish("3"))[0].seq == 3


@proves(S, UPDATE, "another filter, another start")
async def test_what_it_has_is_not_altered(user: User) -> None:
    name = await source(user, "A")
    await mirror(user, name)
    for more in ({"filter_subject": f"{name}.x"}, {"opt_start_seq": 2}):
        assert (await user.create_refused("UPDATE", mirror={"name": name} | more))[1] in (10052, 10055)


@proves(S, UPDATE, "none any more: with a filter and a start")
async def test_it_ends_with_its_filter(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(mirror={"name": name, "filter_subject": f"{name}.x", "opt_start_seq": 2})
    await reaches(user, 2)
    told = await user.create("UPDATE", subjects=[user.subject(">")])
    assert "mirror" not in told["config"]
    assert (await user.publish("3"))[0].seq == 3


@proves(S, UPDATE, "another one", "of a stream that was none")
async def test_it_is_not_altered(user: User) -> None:
    one, other = await source(user, "A"), await source(user, "B")
    await mirror(user, one)
    assert (await user.create_refused("UPDATE", mirror={"name": other}))[1] in (10052, 10055)
    told = await user.api(
        f"STREAM.UPDATE.{other}",
        {"name": other, "num_replicas": user.server.replicas, "mirror": {"name": one}},
    )
    assert told["error"]["err_code"] in (10052, 10055)
