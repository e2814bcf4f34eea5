"""Streams that have what other streams have (`sources`)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import nats.errors
import pytest
from nats.js import api, errors
from nats.js.errors import NoStreamResponseError

from tests.jetstream.table import Case, differs, proves, proves_each, refused
from tests.jetstream.user import SECOND, User

S = "Streams"
SOURCES = "sources"


async def source(user: User, which: str, *values: str, **config: Any) -> str:
    """A stream with messages of the subject that ends in `.x`; its name."""
    name = user.name + which
    told = await user.create(name=name, **config)
    assert "error" not in told, told

    async def first_is_stored() -> bool:
        """Members of a cluster of nats-server hear of the subject one after the other."""
        try:
            await user.js.publish(f"{name}.x", values[0].encode())
        except NoStreamResponseError:
            return False
        return True

    if values:
        await user.until(first_is_stored)
    for value in values[1:]:
        await user.js.publish(f"{name}.x", value.encode())
    return name


async def holds(user: User, messages: int, name: str = "") -> dict[str, Any]:
    """Wait until the stream has so many messages; STREAM.INFO."""
    told: dict[str, Any] = {}

    async def there() -> bool:
        nonlocal told
        told = await user.api(f"STREAM.INFO.{name or user.name}")
        state = told["state"]
        return bool(state["messages"] == messages and state["last_seq"] >= messages)

    await user.until(there)
    return told


async def contents(user: User, count: int, name: str = "") -> list[api.RawStreamMsg]:
    """The first messages."""
    return [await user.js.get_msg(name or user.name, seq) for seq in range(1, count + 1)]


@proves(S, SOURCES)
async def test_a_stream_has_what_its_sources_have(user: User) -> None:
    first, second = await source(user, "A", "a1", "a2", "a3"), await source(user, "B", "b1", "b2")
    told = await user.create(sources=[{"name": first}, {"name": second}])
    assert told["did_create"] is True
    await holds(user, 5)
    await user.js.publish(f"{first}.y.z", b"a4", headers={"Colour": "red"})
    await holds(user, 6)
    found = await contents(user, 6)
    assert [one.data for one in found if one.subject == f"{first}.x"] == [b"a1", b"a2", b"a3"]
    assert [one.data for one in found if one.subject == f"{second}.x"] == [b"b1", b"b2"]
    assert (found[5].subject, found[5].data) == (f"{first}.y.z", b"a4")
    assert (found[5].headers or {})["Colour"] == "red"


@proves(S, SOURCES, "its configuration")
async def test_its_configuration_is_told(user: User) -> None:
    name = await source(user, "A")
    wanted = [{"name": name, "filter_subject": f"{name}.x"}]
    config = (await user.create(sources=wanted))["config"]
    assert config["sources"] == wanted
    assert "subjects" not in config and "duplicate_window" not in config
    assert (await user.api(f"STREAM.INFO.{user.name}"))["config"]["sources"] == wanted


@proves(S, SOURCES, "the same again", "another configuration")
async def test_it_is_created_once(user: User) -> None:
    name = await source(user, "A")
    await user.create(sources=[{"name": name}])
    assert "error" not in await user.create(sources=[{"name": name}])
    assert await user.create_refused(sources=[{"name": name, "filter_subject": "b"}]) == (400, 10058)


@proves(S, SOURCES, "filter_subject")
async def test_a_filter_lets_some_pass(user: User) -> None:
    name = await source(user, "A", "1", "2")
    for to in ("y", "z", "y"):
        await user.js.publish(f"{name}.{to}", to.encode())
    await user.create(sources=[{"name": name, "filter_subject": f"{name}.y"}])
    told = await holds(user, 2)
    assert [one.subject for one in await contents(user, 2)] == [f"{name}.y"] * 2
    assert told["state"]["num_subjects"] == 1


@proves(S, SOURCES, "Nats-Stream-Source")
@differs("the sixth word, which changes when a source is made again, is left out")
async def test_a_header_says_where_a_message_comes_from(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.js.publish(f"{name}.y", b"3")
    await user.create(sources=[{"name": name}])
    await holds(user, 3)
    last = (await user.js.get_msg(user.name, 3)).headers or {}
    assert last["Nats-Stream-Source"].split()[:5] == [name, "3", ">", ">", f"{name}.y"]
    filtered = user.name + "F"
    await user.create(name=filtered, sources=[{"name": name, "filter_subject": f"{name}.*"}])
    await holds(user, 3, filtered)
    last = (await user.js.get_msg(filtered, 3)).headers or {}
    words = last["Nats-Stream-Source"].split()
    assert words[:5] == [name, "3", f"{name}.*", ">", f"{name}.y"]
    assert len(words) == (5 if user.liftlog else 6)


@proves(S, SOURCES, "STREAM.INFO: sources")
async def test_how_far_it_is_is_told(user: User) -> None:
    name = await source(user, "A", "1", "2")
    told = await user.create(sources=[{"name": name, "filter_subject": f"{name}.x"}])
    assert told["sources"][0]["name"] == name
    await holds(user, 2)

    async def heard() -> bool:
        (one,) = (await user.api(f"STREAM.INFO.{user.name}"))["sources"]
        assert one["filter_subject"] == f"{name}.x" and "error" not in one
        return bool(one["active"] >= 0 and one["lag"] == 0)

    await user.until(heard)
    assert "sources" not in await user.api(f"STREAM.INFO.{name}")


@proves(S, SOURCES, "STREAM.LIST, STREAM.NAMES")
async def test_it_is_listed_and_has_no_subjects(user: User) -> None:
    name = await source(user, "A")
    await user.create(sources=[{"name": name}])
    listed = (await user.api("STREAM.LIST"))["streams"]
    assert user.name in [one["config"]["name"] for one in listed]
    named = await user.api("STREAM.NAMES", {"subject": f"{name}.x"})
    assert named["streams"] == [name]
    if user.liftlog or user.server.replicas == 1:  # A cluster of nats-server names it under its name.
        assert (await user.api("STREAM.NAMES", {"subject": user.name}))["total"] == 0


@proves(S, SOURCES, "nats-py")
async def test_nats_py_makes_one(user: User) -> None:
    name = await source(user, "A", "1")
    made = await user.stream(sources=[api.StreamSource(name=name)])
    assert made.config.sources is not None and made.config.sources[0].name == name
    await holds(user, 1)
    told = await user.info()
    assert told.sources is not None and (told.sources[0].name, told.sources[0].lag) == (name, 0)


@proves(S, SOURCES, "ids that several sources have")
async def test_ids_of_several_sources_are_not_compared(user: User) -> None:
    names = [await source(user, which) for which in "AB"]
    for name in names:
        await user.js.publish(f"{name}.x", b"", headers={"Nats-Msg-Id": "one"})
    await user.create(sources=[{"name": name} for name in names])
    await holds(user, 2)


@proves(S, SOURCES, "Nats-Expected-Last-Sequence of a message")
async def test_what_a_message_expected_holds_of_its_source_alone(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(sources=[{"name": name, "filter_subject": f"{name}.y"}])
    await user.js.publish(f"{name}.y", b"3", headers={"Nats-Expected-Last-Sequence": "2"})
    await holds(user, 1)


@proves(S, SOURCES, "publishing to it")
async def test_nobody_answers_who_publishes_to_it(user: User) -> None:
    name = await source(user, "A", "1")
    await user.create(sources=[{"name": name}])
    await holds(user, 1)
    with pytest.raises((NoStreamResponseError, nats.errors.NoRespondersError)):
        await user.js.publish(user.name, b"x")
    assert (await user.info()).state.messages == 1


@proves(S, SOURCES, "consumers")
async def test_consumers_get_messages_under_the_sources_subjects(user: User) -> None:
    first, second = await source(user, "A", "a1", "a2"), await source(user, "B", "b1")
    await user.create(sources=[{"name": first}, {"name": second}])
    await user.consumer()
    pulled = await user.pull({"batch": 3, "expires": 3 * SECOND}, messages=3)
    assert sorted(pulled.data) == [b"a1", b"a2", b"b1"]
    assert {one.subject for one in pulled.messages} == {f"{first}.x", f"{second}.x"}
    for one in pulled.messages:
        await one.ack_sync()
    info = await user.consumer_info()
    assert (info.num_pending, info.num_ack_pending) == (0, 0)
    await user.consumer("F", filter_subject=f"{second}.>")
    assert (await user.pull({"batch": 1}, "F", messages=1)).data == [b"b1"]


@proves(S, SOURCES, "first_seq")
async def test_it_may_begin_elsewhere(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(sources=[{"name": name}], first_seq=100)
    state = (await holds(user, 2))["state"]
    assert (state["first_seq"], state["last_seq"]) == (100, 101)


@proves(S, SOURCES, "max_msgs")
async def test_old_messages_go_where_it_is_limited(user: User) -> None:
    name = await source(user, "A", "1", "2", "3", "4", "5")
    await user.create(sources=[{"name": name}], max_msgs=2)

    async def shortened() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (2, 4, 5)

    await user.until(shortened)


@proves(S, SOURCES, "STREAM.MSG.DELETE")
async def test_a_message_is_deleted_here_alone(user: User) -> None:
    name = await source(user, "A", "1", "2", "3")
    await user.create(sources=[{"name": name}])
    await holds(user, 3)
    for seq in (1, 3):
        assert (await user.api(f"STREAM.MSG.DELETE.{user.name}", {"seq": seq}))["success"] is True
    await user.js.publish(f"{name}.x", b"4")
    state = (await holds(user, 2))["state"]
    assert (state["first_seq"], state["last_seq"]) == (2, 4)
    assert (await user.info(name)).state.messages == 4


@proves(S, SOURCES, "a message that is deleted at the source")
async def test_what_was_copied_stays(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(sources=[{"name": name}])
    await holds(user, 2)
    await user.api(f"STREAM.PURGE.{name}")
    await user.js.publish(f"{name}.x", b"3")
    await holds(user, 3)


@proves(S, SOURCES, "a purge")
async def test_a_purge_brings_nothing_again(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(sources=[{"name": name}])
    await holds(user, 2)
    assert (await user.api(f"STREAM.PURGE.{user.name}"))["purged"] == 2
    assert (await user.info()).state.messages == 0
    await user.js.publish(f"{name}.x", b"3")
    state = (await holds(user, 1))["state"]
    assert (state["first_seq"], state["last_seq"]) == (3, 3)


@proves(S, SOURCES, "a source that has sources")
async def test_they_may_be_in_a_row(user: User) -> None:
    name = await source(user, "A", "1", "2")
    middle = user.name + "M"
    await user.create(name=middle, sources=[{"name": name}])
    await user.create(sources=[{"name": middle}])
    await holds(user, 2)
    last = await user.js.get_msg(user.name, 2)
    assert (last.headers or {})["Nats-Stream-Source"].split()[:5] == [middle, "2", ">", ">", f"{name}.x"]


@proves(S, SOURCES, "a source is deleted")
async def test_it_stays_when_a_source_is_deleted(user: User) -> None:
    first, second = await source(user, "A", "a1"), await source(user, "B", "b1")
    await user.create(sources=[{"name": first}, {"name": second}])
    await holds(user, 2)
    await user.js.delete_stream(first)
    await user.js.publish(f"{second}.x", b"b2")
    told = await holds(user, 3)
    assert {one["name"] for one in told["sources"]} == {first, second}


@proves(S, SOURCES, "a source that is not there")
@differs("refused (10052): a name means one stream for ever; nats-server waits until there is one")
async def test_a_source_is_there_before(user: User) -> None:
    told = await user.create(sources=[{"name": user.name + "none"}])
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "there is no such stream" in told["error"]["description"]
    else:
        assert told["sources"] == [{"name": user.name + "none", "lag": 0, "active": -1}]


@proves(S, SOURCES, "cycles")
async def test_a_cycle_is_refused(user: User) -> None:
    assert await user.create_refused(sources=[{"name": user.name}]) == (500, 10052)
    name = await source(user, "A")
    await user.create(sources=[{"name": name}])
    told = await user.create("UPDATE", name=name, sources=[{"name": user.name}])
    assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)


@proves_each(
    S,
    SOURCES,
    {
        "the same twice": ([{"name": "A"}, {"name": "A"}], (400, 10140)),
        "no name": ([{"filter_subject": "a"}], (400, 10141)),
        "a name that none can have": ([{"name": "A.b"}], (400, 10141)),
        "a filter that is none": ([{"name": "A", "filter_subject": "a..b"}], (500, 10049)),
        "an unknown field": ([{"name": "A", "dance": True}], (400, 10025)),
    },
)
async def test_sources_that_make_no_sense_are_refused(user: User, given: tuple[Any, tuple[int, int]]) -> None:
    sources, codes = given
    await source(user, "A")
    wanted = json.loads(json.dumps(sources).replace('"A"', f'"{user.name}A"'))
    told = await user.create(sources=wanted)
    if "error" not in told:
        # Three nats-servers make it, remove it again for its filter, and answer with that.
        assert codes == (500, 10049) and not user.liftlog and user.server.replicas == 3
        assert told["type"] == "io.nats.jetstream.api.v1.stream_delete_response"
        return
    assert (told["error"]["code"], told["error"]["err_code"]) == codes


@proves(S, SOURCES, "mirror too")
async def test_a_mirror_has_no_sources(user: User) -> None:
    name = await source(user, "A")
    assert await user.create_refused(sources=[{"name": name}], mirror={"name": name}) == (400, 10031)


@proves_each(
    S,
    SOURCES,
    {
        "external that is no domain": {"external": {"api": "elsewhere", "deliver": ""}},
        "external with deliver": {"external": {"api": "$JS.elsewhere.API", "deliver": "a"}},
        "opt_start_seq and opt_start_time": {"opt_start_seq": 2, "opt_start_time": "2020-01-01T00:00:00Z"},
        "subject_transforms": {"subject_transforms": [{"src": ">", "dest": "copy.>"}]},
    },
)
@refused("subjects stay what they are, and it is read as readers read it, of one place and from one place on")
async def test_what_a_source_cannot_have_here_is_refused(user: User, given: dict[str, Any]) -> None:
    name = await source(user, "A")
    told = await user.create(sources=[{"name": name} | given])
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert next(iter(given)) in told["error"]["description"]
    else:
        assert "error" not in told


@proves(S, SOURCES, "opt_start_seq")
async def test_a_source_begins_at_a_sequence(user: User) -> None:
    name = await source(user, "A", "1", "2", "3")
    wanted = [{"name": name, "opt_start_seq": 2}]
    told = await user.create(sources=wanted)
    assert told["config"]["sources"] == wanted
    await holds(user, 2)
    assert [one.data for one in await contents(user, 2)] == [b"2", b"3"]
    assert "error" not in await user.create(sources=wanted)
    assert await user.create_refused(sources=[{"name": name, "opt_start_seq": 3}]) == (400, 10058)


@proves(S, SOURCES, "opt_start_time")
async def test_a_source_begins_at_a_time(user: User) -> None:
    name = await source(user, "A", "1")
    await asyncio.sleep(0.01)  # Times have milliseconds.
    await user.js.publish(f"{name}.x", b"2")
    told = (await user.api(f"STREAM.MSG.GET.{name}", {"seq": 2}))["message"]
    wanted = [{"name": name, "opt_start_time": told["time"]}]
    assert (await user.create(sources=wanted))["config"]["sources"] == wanted
    await user.js.publish(f"{name}.x", b"3")
    await holds(user, 2)
    assert [one.data for one in await contents(user, 2)] == [b"2", b"3"]


@proves(S, SOURCES, "external: an unknown domain")
@refused("the nodes' configurations name other clusters")
async def test_a_source_is_of_a_domain_that_is_known(user: User) -> None:
    far = {"name": "orders", "external": {"api": "$JS.elsewhere.API", "deliver": ""}}
    told = await user.create(sources=[far])
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "[clusters.elsewhere]" in told["error"]["description"]
    else:
        assert told["config"]["sources"] == [far]


@proves(S, SOURCES, "one stream with several filters")
@refused("for now: make a stream for each filter")
async def test_a_source_has_one_filter(user: User) -> None:
    name = await source(user, "A")
    filters = [f"{name}.x", f"{name}.y"]
    told = await user.create(sources=[{"name": name, "filter_subject": one} for one in filters])
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "name each stream once" in told["error"]["description"]
    else:
        assert "error" not in told


ONLY = "such a stream has what its sources have, and nothing else"


@proves_each(
    S,
    SOURCES,
    {
        field: Case(config, refused=ONLY)
        for field, config in {
            "subjects": {"subjects": ["of.its.own"]},
            "duplicate_window": {"duplicate_window": 10 * SECOND},
            "max_msg_size": {"max_msg_size": 100},
            "max_msgs_per_subject": {"max_msgs_per_subject": 1},
            "allow_rollup_hdrs": {"allow_rollup_hdrs": True},
            "allow_msg_ttl": {"allow_msg_ttl": True},
            "allow_atomic": {"allow_atomic": True},
            "discard new": {"discard": "new", "max_msgs": 2},
            "retention": {"retention": "workqueue"},
        }.items()
    },
)
async def test_what_goes_by_publishing_is_refused(user: User, given: dict[str, Any], refusal: str) -> None:
    name = await source(user, "A")
    told = await user.create(sources=[{"name": name}], **given)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "sources" in told["error"]["description"]
    else:
        assert "error" not in told


UPDATE = "STREAM.UPDATE: sources"


@proves(S, UPDATE, "stay what they are")
async def test_other_fields_are_changed(user: User) -> None:
    name = await source(user, "A", "1")
    wanted = [{"name": name}]
    await user.create(sources=wanted)
    told = await user.create("UPDATE", sources=wanted, description="all of it", max_msgs=10)
    assert told["config"]["sources"] == wanted
    assert (told["config"]["description"], told["config"]["max_msgs"]) == ("all of it", 10)
    await user.js.publish(f"{name}.x", b"2")
    await holds(user, 2)


@proves(S, UPDATE, "none any more")
async def test_they_end(user: User) -> None:
    name = await source(user, "A", "1")
    await user.create(sources=[{"name": name}])
    await holds(user, 1)
    told = await user.create("UPDATE", subjects=[user.subject(">")])
    assert "sources" not in told["config"] and "sources" not in told
    assert told["config"]["subjects"] == [user.subject(">")]
    assert told["config"]["duplicate_window"] == 120 * SECOND
    assert (await user.publish("2"))[0].seq == 2
    await user.js.publish(f"{name}.x", b"of the former source")
    assert (await user.publish("3"))[0].seq == 3


@proves(S, UPDATE, "none any more: its subject is its name")
async def test_it_gets_its_name_for_a_subject(user: User) -> None:
    name = await source(user, "A", "1")
    await user.create(sources=[{"name": name}])
    await holds(user, 1)
    told = await user.api(
        f"STREAM.UPDATE.{user.name}", {"name": user.name, "num_replicas": user.server.replicas}
    )
    assert told["config"]["subjects"] == [user.name]
    assert (await user.js.publish(user.name, b"2")).seq == 2


@proves_each(
    S,
    UPDATE,
    {
        "one more": lambda one, other: [{"name": one}, {"name": other}],
        "another one": lambda one, other: [{"name": other}],
    },
)
async def test_they_are_altered(user: User, given: Any) -> None:
    one, other = await source(user, "A", "a1", "a2"), await source(user, "B", "b1")
    await user.create(sources=[{"name": one}])
    await holds(user, 2)
    told = await user.create("UPDATE", sources=given(one, other))
    assert told["config"]["sources"] == given(one, other)
    await holds(user, 3)
    assert [said.data for said in await contents(user, 3)] == [b"a1", b"a2", b"b1"]


@proves(S, UPDATE, "one that was created later")
async def test_a_younger_stream_is_given(user: User) -> None:
    one = await source(user, "A", "a1")
    await user.create(sources=[{"name": one}])
    await holds(user, 1)
    young = await source(user, "B", "b1")
    await user.create("UPDATE", sources=[{"name": one}, {"name": young}])
    told = await holds(user, 2)
    assert not [said for said in told["sources"] if "error" in said]


@proves(S, UPDATE, "taken away, and given again: it goes on where it was")
async def test_one_is_taken_away_and_given_again(user: User) -> None:
    one, other = await source(user, "A", "a1", "a2"), await source(user, "B", "b1")
    both = [{"name": one}, {"name": other}]
    await user.create(sources=both)
    await holds(user, 3)
    await user.create("UPDATE", sources=[{"name": other}])
    await user.js.publish(f"{one}.x", b"a3")
    await user.js.publish(f"{other}.x", b"b2")
    await holds(user, 4)
    await user.create("UPDATE", sources=both)
    await holds(user, 5)
    found = [said.data for said in await contents(user, 5)]
    assert found[3:] == [b"b2", b"a3"] and sorted(found[:3]) == [b"a1", b"a2", b"b1"]


@proves(S, UPDATE, "another filter")
@differs("it goes on where the source was; nats-server copies it anew, with what it has copied already")
async def test_another_filter(user: User) -> None:
    name = await source(user, "A", "1", "2")
    await user.create(sources=[{"name": name}])
    await holds(user, 2)
    wanted = [{"name": name, "filter_subject": f"{name}.x"}]
    told = await user.create("UPDATE", sources=wanted)
    assert told["config"]["sources"] == wanted
    await user.js.publish(f"{name}.y", b"dropped")
    await user.js.publish(f"{name}.x", b"3")
    await holds(user, 3 if user.liftlog else 5)


@proves(S, UPDATE, "a cycle")
async def test_nothing_goes_round(user: User) -> None:
    one = await source(user, "A")
    await user.create(sources=[{"name": one}])
    await user.create(name=user.name + "C", sources=[{"name": user.name}])
    wanted = [{"name": one}, {"name": user.name + "C"}]
    assert (await user.create_refused("UPDATE", sources=wanted))[1] == 10052


@proves(S, UPDATE, "an unknown stream")
@refused("a source is there when it is given; one of another cluster need not be")
async def test_a_source_is_there_when_it_is_given(user: User) -> None:
    one = await source(user, "A")
    await user.create(sources=[{"name": one}])
    told = await user.create("UPDATE", sources=[{"name": one}, {"name": "nobody"}])
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        assert "no such stream" in told["error"]["description"]
    else:
        assert "error" not in told


@proves(S, UPDATE, "of a stream that had none")
@refused("what lies in it does not say how far they are copied; create another stream, with it as a source")
async def test_a_stream_that_has_messages_gets_no_sources(user: User) -> None:
    name = await source(user, "A", "1")
    await user.create()
    told = await user.api(
        f"STREAM.UPDATE.{user.name}",
        {"name": user.name, "num_replicas": user.server.replicas, "sources": [{"name": name}]},
    )
    if user.liftlog:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
    else:
        await holds(user, 1)


@proves(S, SOURCES, "unknown stream")
async def test_what_was_refused_is_not_there(user: User) -> None:
    await user.create_refused(sources=[{"name": "a.b"}])
    with pytest.raises(errors.NotFoundError):
        await user.info()
