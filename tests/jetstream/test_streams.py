"""Streams: made, changed, described, listed, emptied, deleted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from nats.js import api, errors

from tests.jetstream.table import Case, differs, proves, proves_each, refused
from tests.jetstream.user import SECOND, User

S = "Streams"
CREATE = "STREAM.CREATE"


@proves(S, CREATE)
async def test_a_stream_is_made_and_empty(user: User) -> None:
    made = await user.stream()
    assert made.did_create is True
    assert made.config.name == user.name and made.config.subjects == [f"{user.name}.>"]
    state = made.state
    assert (state.messages, state.bytes, state.first_seq, state.last_seq, state.consumer_count) == (0,) * 5


@proves(S, CREATE, "created")
async def test_it_is_told_when_a_stream_was_made(user: User) -> None:
    made = await user.stream()
    assert made.created is not None
    assert (await user.info()).created == made.created


@proves(S, CREATE, "the same again")
async def test_the_same_stream_again_is_no_error(user: User) -> None:
    await user.stream()
    await user.publish("x")
    again = await user.stream()
    assert again.state.messages == 1


@proves(S, CREATE, "another configuration")
async def test_another_configuration_under_the_same_name_is_refused(user: User) -> None:
    await user.stream()
    assert await user.create_refused(max_msgs=7) == (400, 10058)


@proves(S, CREATE, "a name that differs from the subject's")
async def test_the_name_in_the_body_must_be_the_subject_s(user: User) -> None:
    assert await user.refused(f"STREAM.CREATE.{user.name}", {"name": "other"}) == (400, 10056)


@proves(S, CREATE, "overlapping subjects")
async def test_overlapping_subjects_are_refused(user: User) -> None:
    await user.stream()
    told = await user.api(
        f"STREAM.CREATE.{user.name}B", {"name": f"{user.name}B", "subjects": [user.subject("*")]}
    )
    assert (told["error"]["code"], told["error"]["err_code"]) == (400, 10065)


@proves(S, CREATE, "subjects of its own that overlap")
async def test_subjects_of_one_stream_must_not_overlap(user: User) -> None:
    code, err_code = await user.create_refused(subjects=[user.subject("*"), user.subject("a")])
    assert (code, err_code) == (500, 10052)


@proves(S, CREATE, "several subjects")
async def test_a_stream_has_several_subjects(user: User) -> None:
    await user.stream([user.subject("a"), user.subject("b.>")])
    await user.publish("1")
    await user.publish("2", to="b.c.d")
    assert (await user.info()).state.messages == 2
    with pytest.raises(errors.NoStreamResponseError):
        await user.publish("3", to="c")


@proves(S, CREATE, "no subjects: the name")
async def test_without_subjects_the_name_is_the_subject(user: User) -> None:
    told = await user.create(subjects=[])
    assert told["config"]["subjects"] == [user.name]
    ack = await user.js.publish(user.name, b"x")
    assert (ack.stream, ack.seq) == (user.name, 1)


@proves_each(
    S,
    CREATE,
    {
        "subjects: empty token": "{name}..a",
        "subjects: `>` in the middle": "{name}.>.a",
        "subjects: a space": "{name}.a b",
    },
)
async def test_subjects_that_are_none_are_refused(user: User, given: str) -> None:
    code, err_code = await user.create_refused(subjects=[given.format(name=user.name)])
    assert code in (400, 500) and err_code == 10052


@proves(S, CREATE, "subjects: `$JS.API.>`")
async def test_the_api_s_own_subjects_are_refused(user: User) -> None:
    assert (await user.create_refused(subjects=["$JS.API.>"]))[1] == 10052


@proves(S, CREATE, "defaults")
async def test_defaults_are_told(user: User) -> None:
    config = (await user.create())["config"]
    expected = {
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "discard": "old",
        "storage": "file",
        "num_replicas": user.server.replicas,
        "duplicate_window": 120 * SECOND,
        "allow_direct": False,
        "mirror_direct": False,
        "sealed": False,
        "deny_delete": False,
        "deny_purge": False,
        "allow_rollup_hdrs": False,
        "compression": "none",
    }
    assert {key: config.get(key) for key in expected} == expected


@proves_each(
    S,
    CREATE,
    {
        "max_consumers": {"max_consumers": 3},
        "max_msgs": {"max_msgs": 10},
        "max_bytes": {"max_bytes": 10_000_000},
        "max_age": {"max_age": 3600 * SECOND},
        "max_msgs_per_subject": {"max_msgs_per_subject": 4},
        "max_msg_size": {"max_msg_size": 1000},
        "discard: new": {"discard": "new", "max_msgs": 10},
        "discard_new_per_subject": {
            "discard": "new",
            "discard_new_per_subject": True,
            "max_msgs_per_subject": 1,
            "max_msgs": 10,
        },
        "discard_new_per_subject with allow_rollup_hdrs": Case({
            "discard": "new",
            "discard_new_per_subject": True,
            "max_msgs_per_subject": 1,
            "allow_rollup_hdrs": True,
        }, refused="for now: what a message rolls up goes a moment after it was stored"),
        "retention: workqueue": {"retention": "workqueue"},
        "retention: interest": {"retention": "interest"},
        "no_ack": {"no_ack": True},
        "duplicate_window": {"duplicate_window": 10 * SECOND},
        "description": {"description": "What it is for"},
        "metadata": {"metadata": {"owner": "me"}},
        "allow_direct": {"allow_direct": True},
        "deny_delete": {"deny_delete": True},
        "deny_purge": {"deny_purge": True},
        "allow_rollup_hdrs": {"allow_rollup_hdrs": True},
        "allow_msg_ttl": {"allow_msg_ttl": True},
        "subject_delete_marker_ttl": {
            "allow_msg_ttl": True,
            "allow_rollup_hdrs": True,
            "subject_delete_marker_ttl": 60 * SECOND,
        },
        "allow_atomic": {"allow_atomic": True},
        "first_seq": {"first_seq": 100},
        "consumer_limits": {
            "consumer_limits": {"max_ack_pending": 10, "inactive_threshold": 60 * SECOND},
        },
        "compression: s2": {"compression": "s2"},
    },
)
async def test_a_field_is_accepted_and_told_again(user: User, given: dict[str, Any], refusal: str) -> None:
    told = await user.create(**given)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        return
    assert "error" not in told, told
    config = (await user.api(f"STREAM.INFO.{user.name}"))["config"]
    echoed = {key: config.get(key) for key in given if key != "metadata"}
    assert echoed == {key: value for key, value in given.items() if key != "metadata"}
    assert given.get("metadata", {}).items() <= config.get("metadata", {}).items()


@proves_each(
    S,
    CREATE,
    {
        "storage: memory": {"storage": "memory"},
        "republish": {"republish": {"src": ">", "dest": "copy.>"}},
        "subject_transform": {"subject_transform": {"src": ">", "dest": "other.>"}},
        "persist_mode: async": {"persist_mode": "async"},
        "allow_msg_counter": {"allow_msg_counter": True},
        "allow_msg_schedules": {"allow_msg_schedules": True},
        "placement": {"placement": {"tags": ["ssd"]}},
    },
)
@refused("this would change what is stored, where and how: not silently ignored")
async def test_what_is_not_here_is_refused_with_a_sentence(user: User, given: dict[str, Any]) -> None:
    if user.liftlog:
        assert (await user.create_refused(**given))[1] in (10052, 10005)


@proves(S, CREATE, "placement that names nothing")
async def test_a_placement_that_names_nothing_is_none(user: User) -> None:
    """What the `nats` tool sends for a bucket of objects."""
    told = await user.create(placement={"cluster": ""})
    assert told["config"]["name"] == user.name


@proves_each(
    S,
    CREATE,
    {
        "max_age below 100 ms": ({"max_age": 1000}, 10052),
        "duplicate_window above max_age": (
            {"max_age": 10 * SECOND, "duplicate_window": 20 * SECOND},
            10052,
        ),
        "duplicate_window below 0": ({"duplicate_window": -1}, 10052),
        "discard_new_per_subject without discard new": (
            {"discard_new_per_subject": True, "max_msgs_per_subject": 1},
            10052,
        ),
        "discard_new_per_subject without max_msgs_per_subject": (
            {"discard": "new", "discard_new_per_subject": True, "max_msgs": 3},
            10052,
        ),
        "num_replicas above 5": ({"num_replicas": 6}, 10052),
        "num_replicas below 0": ({"num_replicas": -1}, 10133),
        "subject_delete_marker_ttl below a second": ({"subject_delete_marker_ttl": 10}, 10052),
        "subject_delete_marker_ttl below 0": ({"subject_delete_marker_ttl": -1}, 10052),
        "description above 4 KiB": ({"description": "x" * 5000}, 10052),
        "metadata above 128 KiB": ({"metadata": {"k": "x" * 140_000}}, 10052),
    },
)
async def test_a_field_that_makes_no_sense_is_refused(user: User, given: tuple[dict[str, Any], int]) -> None:
    config, err_code = given
    assert (await user.create_refused(**config))[1] == err_code


@proves_each(S, CREATE, {"a name with a dot": "a.b", "a name with `*`": "a*", "a name above 255": "x" * 256})
async def test_names_that_are_none_are_refused(user: User, given: str) -> None:
    told = None
    try:
        told = await user.api(f"STREAM.CREATE.{given}", {"name": given, "subjects": [user.subject()]})
    except Exception:
        return
    assert told["error"]["code"] in (400, 500)


@proves(S, CREATE, "unknown fields")
async def test_a_field_that_nobody_knows_is_told(user: User) -> None:
    told = await user.create(dance=True)
    if "error" in told:
        assert told["error"]["code"] == 400


@proves(S, CREATE, "what nats-py sends of itself")
async def test_defaults_that_nats_py_sends_are_accepted(user: User) -> None:
    config = api.StreamConfig(name=user.name, subjects=[user.subject()], num_replicas=user.server.replicas)
    made = await user.js.add_stream(config)
    assert made.config.discard == "old"
    assert made.config.max_msgs_per_subject == -1


@proves(S, CREATE, "metadata `_nats.*`")
@differs("the version in `_nats.ver` is liftlog's")
async def test_levels_stand_in_the_metadata(user: User) -> None:
    await user.stream(metadata={"owner": "me"})
    metadata = (await user.info()).config.metadata or {}
    assert metadata["owner"] == "me"
    assert all(key.startswith("_nats.") for key in metadata if key != "owner")


UPDATE = "STREAM.UPDATE"


@proves(S, UPDATE)
async def test_a_stream_is_changed(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    changed = await user.js.update_stream(
        name=user.name, subjects=[user.subject(">")], max_msgs=3, num_replicas=user.server.replicas
    )
    assert changed.config.max_msgs == 3 and changed.state.messages == 3
    assert (await user.info()).config.max_msgs == 3


@proves(S, UPDATE, "max_msgs_per_subject: shortened at once")
async def test_a_smaller_limit_shortens_the_stream(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    await user.create("UPDATE", max_msgs_per_subject=2)

    async def shortened() -> bool:
        return (await user.info()).state.first_seq == 2

    await user.until(shortened)


@proves(S, UPDATE, "unknown stream")
async def test_an_unknown_stream_cannot_be_changed(user: User) -> None:
    assert await user.create_refused("UPDATE") == (404, 10059)


@proves_each(
    S,
    UPDATE,
    {
        "max_consumers": {"max_consumers": 4},
        "max_msgs": {"max_msgs": 5},
        "max_bytes": {"max_bytes": 5_000_000},
        "max_age": {"max_age": 60 * SECOND, "duplicate_window": 30 * SECOND},
        "max_msgs_per_subject": {"max_msgs_per_subject": 2},
        "max_msg_size": {"max_msg_size": 500},
        "discard": {"discard": "new"},
        "duplicate_window": {"duplicate_window": 5 * SECOND},
        "description": {"description": "new"},
        "metadata": {"metadata": {"a": "b"}},
        "deny_delete: off to on": {"deny_delete": True},
        "allow_rollup_hdrs": {"allow_rollup_hdrs": True},
        "allow_msg_ttl: off to on": {"allow_msg_ttl": True},
        "allow_direct": {"allow_direct": True},
    },
)
async def test_a_field_is_changed(user: User, given: dict[str, Any], refusal: str) -> None:
    await user.create()
    told = await user.create("UPDATE", **given)
    if refusal:
        assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)
        return
    assert "error" not in told, told
    config = (await user.api(f"STREAM.INFO.{user.name}"))["config"]
    echoed = {key: config.get(key) for key in given if key != "metadata"}
    assert echoed == {key: value for key, value in given.items() if key != "metadata"}
    assert given.get("metadata", {}).items() <= config.get("metadata", {}).items()


@proves(S, UPDATE, "subjects")
async def test_subjects_are_changed(user: User) -> None:
    await user.stream([user.subject("a")])
    told = await user.create("UPDATE", subjects=[user.subject("a"), user.subject("b")])
    assert told["config"]["subjects"] == [user.subject("a"), user.subject("b")]
    assert (await user.publish("x", to="b"))[0].seq == 1


@proves(S, UPDATE, "retention: limits to interest and back")
async def test_the_retention_is_changed(user: User) -> None:
    await user.stream()
    await user.publish("1")
    told = await user.create("UPDATE", retention="interest")
    assert told["config"]["retention"] == "interest"
    told = await user.create("UPDATE", retention="limits")
    assert told["config"]["retention"] == "limits"
    told = await user.create("UPDATE", retention="interest")
    told = await user.create("UPDATE", retention="workqueue")
    assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)


@proves_each(
    S,
    UPDATE,
    {"retention": {"retention": "workqueue"}, "storage": {"storage": "memory"}},
)
async def test_what_cannot_be_changed_is_refused(user: User, given: dict[str, Any]) -> None:
    await user.create()
    told = await user.create("UPDATE", **given)
    assert (told["error"]["code"], told["error"]["err_code"]) == (500, 10052)


@proves_each(
    S,
    UPDATE,
    {"deny_delete: on to off": "deny_delete", "deny_purge: on to off": "deny_purge"},
)
async def test_what_is_denied_stays_denied(user: User, given: str) -> None:
    await user.create(**{given: True})
    assert (await user.create_refused("UPDATE", **{given: False}))[1] == 10052


@proves(S, UPDATE, "allow_msg_ttl: on to off")
async def test_ttls_stay_allowed(user: User) -> None:
    await user.create(allow_msg_ttl=True)
    assert (await user.create_refused("UPDATE", allow_msg_ttl=False))[1] == 10052


@proves(S, UPDATE, "sealed")
async def test_a_sealed_stream_takes_nothing_more(user: User) -> None:
    await user.create()
    await user.publish("x")
    told = await user.create("UPDATE", sealed=True)
    assert told["config"]["sealed"] is True
    assert await user.publish_refused() == (400, 10109)
    assert (await user.refused(f"STREAM.PURGE.{user.name}")) == (400, 10109)
    assert (await user.js.get_msg(user.name, 1)).data == b"x"


INFO = "STREAM.INFO"


@proves(S, INFO)
async def test_a_stream_is_described(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    await user.consumer()
    state = (await user.info()).state
    assert (state.messages, state.first_seq, state.last_seq, state.consumer_count) == (2, 1, 2, 1)
    assert state.bytes == 2 * (30 + len(user.subject()) + 1)


@proves(S, INFO, "unknown stream")
async def test_an_unknown_stream_is_not_found(user: User) -> None:
    with pytest.raises(errors.NotFoundError) as caught:
        await user.info()
    assert caught.value.err_code == 10059


@proves(S, INFO, "state.num_subjects")
async def test_subjects_are_counted(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a"):
        await user.publish("x", to=to)
    assert (await user.api(f"STREAM.INFO.{user.name}"))["state"]["num_subjects"] == 2


@proves(S, INFO, "subjects_filter")
async def test_subjects_are_told_with_their_counts(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a", "c.d"):
        await user.publish("x", to=to)
    every = await user.js.stream_info(user.name, subjects_filter=">")
    assert every.state.subjects == {user.subject("a"): 2, user.subject("b"): 1, user.subject("c.d"): 1}
    some = await user.js.stream_info(user.name, subjects_filter=user.subject("*"))
    assert some.state.subjects == {user.subject("a"): 2, user.subject("b"): 1}


@proves(S, INFO, "subjects_filter: total, offset, limit")
async def test_subjects_come_in_pages(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "c"):
        await user.publish("x", to=to)
    told = await user.api(f"STREAM.INFO.{user.name}", {"subjects_filter": ">", "offset": 2})
    assert (told["total"], told["offset"]) == (3, 2) and told["limit"] >= 1024
    assert len(told["state"]["subjects"]) == 1


@proves(S, INFO, "deleted_details")
async def test_deleted_messages_are_told(user: User) -> None:
    await user.stream()
    await user.publish(*"12345")
    for seq in (2, 4):
        await user.js.delete_msg(user.name, seq)
    plain = await user.api(f"STREAM.INFO.{user.name}")
    assert plain["state"]["num_deleted"] == 2 and "deleted" not in plain["state"]
    told = await user.api(f"STREAM.INFO.{user.name}", {"deleted_details": True})
    assert told["state"]["deleted"] == [2, 4]
    assert (told["state"]["first_seq"], told["state"]["last_seq"], told["state"]["messages"]) == (1, 5, 3)


@proves(S, INFO, "first_ts, last_ts")
async def test_first_and_last_times_grow(user: User) -> None:
    await user.stream()
    empty = (await user.api(f"STREAM.INFO.{user.name}"))["state"]
    assert empty["first_ts"] == empty["last_ts"] == "0001-01-01T00:00:00Z"
    await user.publish("1", "2")
    state = (await user.api(f"STREAM.INFO.{user.name}"))["state"]
    first, last = (datetime.fromisoformat(state[key]) for key in ("first_ts", "last_ts"))
    assert datetime(2020, 1, 1, tzinfo=UTC) < first <= last


@proves(S, INFO, "cluster")
async def test_the_leader_is_told(user: User) -> None:
    told = await user.stream()
    if told.cluster is not None:
        assert told.cluster.leader
        assert len(told.cluster.replicas or []) == user.server.replicas - 1


NAMES = "STREAM.NAMES"


@proves(S, NAMES)
async def test_names_are_listed(user: User) -> None:
    await user.stream()
    told = await user.api(NAMES)
    assert user.name in told["streams"]
    assert told["total"] >= 1 and told["offset"] == 0 and told["limit"] >= 1024


@proves(S, NAMES, "subject")
async def test_a_stream_is_found_by_a_subject(user: User) -> None:
    await user.stream()
    assert await user.js.find_stream_name_by_subject(user.subject("a.b")) == user.name
    assert (await user.api(NAMES, {"subject": user.subject("*")}))["streams"] == [user.name]


@proves(S, NAMES, "subject that overlaps")
async def test_a_stream_is_found_by_a_wider_pattern(user: User) -> None:
    await user.stream([user.subject("a.b")])
    assert (await user.api(NAMES, {"subject": user.subject("*.b")}))["streams"] == [user.name]
    assert (await user.api(NAMES, {"subject": user.subject(">")}))["streams"] == [user.name]
    assert not (await user.api(NAMES, {"subject": user.subject("a.c")}))["streams"]


@proves(S, NAMES, "subject of nobody")
async def test_a_subject_of_no_stream_gives_an_empty_list(user: User) -> None:
    told = await user.api(NAMES, {"subject": "nobody.at.all"})
    assert "error" not in told and not told["streams"] and told["total"] == 0
    with pytest.raises(errors.NotFoundError):
        await user.js.find_stream_name_by_subject("nobody.at.all")


@proves(S, NAMES, "offset")
async def test_names_are_listed_from_an_offset(user: User) -> None:
    for more in "XYZ":
        await user.create(name=user.name + more)
    every = (await user.api(NAMES))["streams"]
    told = await user.api(NAMES, {"offset": len(every) - 1})
    assert told["streams"] == every[-1:] and told["offset"] == len(every) - 1
    assert not (await user.api(NAMES, {"offset": 10_000}))["streams"]


LIST = "STREAM.LIST"


@proves(S, LIST)
async def test_streams_are_listed_with_all_that_is_known(user: User) -> None:
    await user.stream()
    await user.publish("x")
    found = {info.config.name: info for info in await user.js.streams_info()}
    assert found[user.name].state.messages == 1


@proves(S, LIST, "subject")
async def test_streams_are_listed_by_a_subject(user: User) -> None:
    await user.stream()
    told = await user.api(LIST, {"subject": user.subject("a")})
    assert [one["config"]["name"] for one in told["streams"]] == [user.name]


@proves(S, LIST, "offset")
async def test_streams_are_listed_from_an_offset(user: User) -> None:
    await user.stream()
    total = (await user.api(LIST))["total"]
    iterator = await user.js.streams_info_iterator(total - 1)
    assert len(list(iterator)) == 1


@proves(S, "STREAM.DELETE")
async def test_a_stream_is_deleted(user: User) -> None:
    await user.stream()
    assert await user.js.delete_stream(user.name) is True
    with pytest.raises(errors.NotFoundError):
        await user.info()
    with pytest.raises(errors.NoStreamResponseError):
        await user.publish("x")


@proves(S, "STREAM.DELETE", "unknown stream")
async def test_an_unknown_stream_cannot_be_deleted(user: User) -> None:
    assert await user.refused(f"STREAM.DELETE.{user.name}") == (404, 10059)


@proves(S, "STREAM.DELETE", "and made again")
async def test_a_stream_that_is_made_again_begins_anew(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    await user.js.delete_stream(user.name)
    await user.stream()
    assert (await user.publish("3"))[0].seq == 1


PURGE = "STREAM.PURGE"


@proves(S, PURGE)
async def test_a_purge_leaves_nothing_and_numbers_go_on(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3")
    told = await user.api(f"STREAM.PURGE.{user.name}")
    assert (told["success"], told["purged"]) == (True, 3)
    state = (await user.info()).state
    assert (state.messages, state.first_seq, state.last_seq) == (0, 4, 3)
    assert (await user.publish("4"))[0].seq == 4


@proves(S, PURGE, "an empty stream")
async def test_a_purge_of_an_empty_stream_purges_nothing(user: User) -> None:
    await user.stream()
    assert (await user.api(f"STREAM.PURGE.{user.name}"))["purged"] == 0


@proves(S, PURGE, "seq")
async def test_a_purge_up_to_a_sequence_leaves_it(user: User) -> None:
    await user.stream()
    await user.publish(*"12345")
    told = await user.api(f"STREAM.PURGE.{user.name}", {"seq": 4})
    assert told["purged"] == 3
    assert (await user.info()).state.first_seq == 4


@proves(S, PURGE, "keep")
async def test_a_purge_keeps_the_last(user: User) -> None:
    await user.stream()
    await user.publish(*"12345")
    told = await user.api(f"STREAM.PURGE.{user.name}", {"keep": 2})
    assert told["purged"] == 3
    state = (await user.info()).state
    assert (state.first_seq, state.messages) == (4, 2)


@proves(S, PURGE, "filter")
async def test_a_purge_of_a_subject_leaves_the_others(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a", "c"):
        await user.publish("x", to=to)
    told = await user.api(f"STREAM.PURGE.{user.name}", {"filter": user.subject("a")})
    assert told["purged"] == 2
    left = await user.js.stream_info(user.name, subjects_filter=">")
    assert left.state.subjects == {user.subject("b"): 1, user.subject("c"): 1}


@proves(S, PURGE, "filter with wildcards")
async def test_a_purge_of_a_pattern(user: User) -> None:
    await user.stream()
    for to in ("a.1", "a.2", "b.1"):
        await user.publish("x", to=to)
    told = await user.api(f"STREAM.PURGE.{user.name}", {"filter": user.subject("a.*")})
    assert told["purged"] == 2
    assert (await user.info()).state.messages == 1


@proves(S, PURGE, "filter and keep")
async def test_a_purge_keeps_the_last_of_a_subject(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a", "a"):
        await user.publish("x", to=to)
    told = await user.api(f"STREAM.PURGE.{user.name}", {"filter": user.subject("a"), "keep": 1})
    assert told["purged"] == 2
    assert (await user.js.get_last_msg(user.name, user.subject("a"))).seq == 4


@proves(S, PURGE, "filter and seq")
async def test_a_purge_of_a_subject_up_to_a_sequence(user: User) -> None:
    await user.stream()
    for to in ("a", "b", "a", "a"):
        await user.publish("x", to=to)
    told = await user.api(f"STREAM.PURGE.{user.name}", {"filter": user.subject("a"), "seq": 4})
    assert told["purged"] == 2
    assert (await user.info()).state.messages == 2


@proves(S, PURGE, "seq and keep")
async def test_seq_and_keep_exclude_each_other(user: User) -> None:
    await user.stream()
    assert await user.refused(f"STREAM.PURGE.{user.name}", {"seq": 2, "keep": 1}) == (400, 10003)


@proves(S, PURGE, "unknown stream")
async def test_an_unknown_stream_cannot_be_purged(user: User) -> None:
    assert await user.refused(f"STREAM.PURGE.{user.name}") == (404, 10059)


@proves(S, PURGE, "deny_purge")
async def test_a_denied_purge_is_refused(user: User) -> None:
    await user.create(deny_purge=True)
    code, err_code = await user.refused(f"STREAM.PURGE.{user.name}")
    assert (code, err_code) == (500, 10110)


LIMITS = "limits"


@proves(S, LIMITS, "max_msgs with discard old")
async def test_the_oldest_message_goes(user: User) -> None:
    await user.stream(max_msgs=2)
    await user.publish("1", "2", "3")

    async def gone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (2, 2, 3)

    await user.until(gone)


@proves(S, LIMITS, "max_msgs: shortened at once")
async def test_a_limit_of_messages_that_is_lowered_holds_for_what_is_there(user: User) -> None:
    await user.stream()
    await user.publish("1", "2", "3", "4")
    config = api.StreamConfig(
        name=user.name, subjects=[user.subject(">")], max_msgs=1, num_replicas=user.server.replicas
    )
    await user.js.update_stream(config)

    async def gone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (1, 4, 4)

    await user.until(gone)


@proves(S, LIMITS, "max_msgs: deleted messages are not counted")
async def test_what_is_deleted_pushes_nothing_out(user: User) -> None:
    await user.stream(max_msgs=3)
    await user.publish("1", "2", "3")
    await user.js.delete_msg(user.name, 2)
    await user.publish("4")
    await user.publish("5")

    async def gone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (3, 3, 5)

    await user.until(gone)


@proves(S, LIMITS, "max_msgs with max_msgs_per_subject")
async def test_a_subject_that_is_written_often_pushes_out_no_other_one(user: User) -> None:
    await user.stream(max_msgs=3, max_msgs_per_subject=1)
    for to in ("a", "b", "c", "c", "c", "c"):
        await user.publish("x", to=to)

    async def gone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (3, 1, 6)

    await user.until(gone)


@proves(S, LIMITS, "max_msgs with discard new")
async def test_a_full_stream_refuses_by_messages(user: User) -> None:
    await user.stream(max_msgs=2, discard="new")
    await user.publish("1", "2")
    assert await user.publish_refused() == (503, 10077)
    await user.js.purge_stream(user.name)
    assert (await user.publish("3"))[0].seq == 3


@proves(S, LIMITS, "max_bytes with discard new")
async def test_a_full_stream_refuses_by_bytes(user: User) -> None:
    message = 30 + len(user.subject()) + 900
    made = await user.stream(max_bytes=2 * message, discard="new")
    assert (made.config.max_bytes, made.config.discard) == (2 * message, "new")
    await user.publish("x" * 900)
    assert await user.publish_refused(value=b"x" * 1900) == (503, 10077)
    assert await user.publish_refused(value=b"x" * 901) == (503, 10077)
    await user.publish("x" * 900)
    assert await user.publish_refused(value=b"") == (503, 10077)
    assert (await user.info()).state.bytes == 2 * message
    await user.js.delete_msg(user.name, 1)
    assert (await user.publish("x" * 900))[0].seq == 3


@proves(S, LIMITS, "max_msgs with discard new: what is deleted makes room")
async def test_what_is_deleted_makes_room(user: User) -> None:
    await user.stream(max_msgs=2, discard="new")
    await user.publish("1", "2")
    assert await user.publish_refused() == (503, 10077)
    await user.js.delete_msg(user.name, 1)
    assert (await user.publish("3"))[0].seq == 3
    assert await user.publish_refused() == (503, 10077)


@proves(S, LIMITS, "max_msgs with discard new: duplicates")
async def test_a_full_stream_knows_its_duplicates(user: User) -> None:
    await user.stream(max_msgs=1, discard="new", duplicate_window=60)
    for duplicate in (None, True):
        ack = await user.js.publish(user.subject(), b"1", headers={"Nats-Msg-Id": "one"})
        assert ack.seq == 1 and ack.duplicate == duplicate
    assert await user.publish_refused() == (503, 10077)


@proves(S, LIMITS, "max_bytes with discard old")
async def test_the_oldest_go_when_there_are_too_many_bytes(user: User) -> None:
    """With headers a message counts for these, and for four bytes more."""
    message = 30 + len(user.subject()) + 1
    headed = message + 4 + len(b"NATS/1.0\r\nA: b\r\n\r\n")
    await user.stream(max_bytes=2 * message + headed, duplicate_window=0.2)
    await user.publish("1", "2")
    await user.js.publish(user.subject(), b"3", headers={"A": "b"})
    state = (await user.info()).state
    assert (state.messages, state.bytes) == (3, 2 * message + headed)
    await user.publish("4")

    async def gone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.bytes) == (3, 2, 2 * message + headed)

    await user.until(gone)
    await user.js.delete_msg(user.name, 3)
    assert (await user.info()).state.bytes == 2 * message


@proves(S, LIMITS, "max_msgs_per_subject")
async def test_the_oldest_of_a_subject_goes(user: User) -> None:
    await user.stream(max_msgs_per_subject=1)
    for to in ("a", "b", "a"):
        await user.publish("x", to=to)

    async def gone() -> bool:
        return (await user.info()).state.messages == 2

    await user.until(gone)
    told = await user.js.stream_info(user.name, subjects_filter=">")
    assert told.state.subjects == {user.subject("a"): 1, user.subject("b"): 1}
    assert told.state.first_seq == 2


PER_SUBJECT: dict[str, Any] = {"discard": "new", "discard_new_per_subject": True}


@proves(S, LIMITS, "discard_new_per_subject")
async def test_a_full_subject_refuses(user: User) -> None:
    await user.stream(max_msgs_per_subject=2, max_msgs=9, **PER_SUBJECT)
    await user.publish("x", "y", to="a")
    assert await user.publish_refused("a") == (503, 10077)
    await user.publish("x", to="b")
    await user.js.delete_msg(user.name, 1)
    assert (await user.publish("z", to="a"))[0].seq == 4
    assert await user.publish_refused("a") == (503, 10077)
    await user.js.purge_stream(user.name, subject=user.subject("a"))
    assert (await user.publish("x", to="a"))[0].seq == 5


@proves(S, LIMITS, "discard_new_per_subject: the words")
async def test_a_full_subject_refuses_in_these_words(user: User) -> None:
    await user.stream(max_msgs_per_subject=1, **PER_SUBJECT)
    await user.publish("x", to="a")
    told = json.loads((await user.nc.request(user.subject("a"), b"y")).data)
    assert told["error"]["description"].startswith("maximum messages per subject exceeded")
    assert told["stream"] == user.name


@proves(S, LIMITS, "discard_new_per_subject: duplicates, and what is expected, come before")
async def test_a_full_subject_knows_its_duplicates(user: User) -> None:
    await user.stream(max_msgs_per_subject=1, duplicate_window=60, **PER_SUBJECT)
    for duplicate in (None, True):
        ack = await user.js.publish(user.subject(), b"1", headers={"Nats-Msg-Id": "one"})
        assert ack.seq == 1 and ack.duplicate == duplicate
    assert await user.publish_refused(Nats_Msg_Id="two") == (503, 10077)
    assert await user.publish_refused(Nats_Expected_Last_Subject_Sequence="9") == (400, 10071)
    assert await user.publish_refused(Nats_Expected_Last_Subject_Sequence="1") == (503, 10077)


@proves(S, LIMITS, "discard_new_per_subject: a batch counts with all its messages")
async def test_a_batch_that_a_subject_has_no_room_for_is_refused(user: User) -> None:
    await user.create(allow_atomic=True, max_msgs_per_subject=2, **PER_SUBJECT)
    await user.publish("x", to="a")
    for name, subjects, fits in (("1", "bbb", False), ("2", "baa", False), ("3", "bab", True)):
        for number, to in enumerate(subjects, 1):
            headers = {"Nats-Batch-Id": name, "Nats-Batch-Sequence": str(number)}
            headers |= {"Nats-Batch-Commit": "1"} if number == len(subjects) else {}
            answer = await user.nc.request(user.subject(to), b"x", headers=headers)
        told = json.loads(answer.data)
        assert told.get("count") == 3 if fits else told["error"]["err_code"] == 10077
    assert (await user.info()).state.messages == 4


@proves(S, LIMITS, "discard_new_per_subject with retention workqueue")
async def test_an_ack_makes_room_in_its_subject(user: User) -> None:
    await user.stream(max_msgs_per_subject=1, retention="workqueue", **PER_SUBJECT)
    await user.consumer("C")
    await user.publish("x", to="a")
    assert await user.publish_refused("a") == (503, 10077)
    pulled = await user.pull(messages=1)
    await pulled.messages[0].ack_sync()
    assert (await user.publish("y", to="a"))[0].seq == 2


@proves(S, LIMITS, "discard_new_per_subject: switched on and off")
async def test_full_subjects_refuse_or_let_the_oldest_go(user: User) -> None:
    await user.create(max_msgs_per_subject=1, **PER_SUBJECT)
    await user.publish("x", to="a")
    assert await user.publish_refused("a") == (503, 10077)
    told = await user.create("UPDATE", max_msgs_per_subject=1)
    assert told["config"].get("discard_new_per_subject", False) is False
    assert (await user.publish("y", to="a"))[0].seq == 2

    async def gone() -> bool:
        return (await user.info()).state.messages == 1

    await user.until(gone)
    told = await user.create("UPDATE", max_msgs_per_subject=1, **PER_SUBJECT)
    assert told["config"]["discard_new_per_subject"] is True
    assert await user.publish_refused("a") == (503, 10077)


@proves(S, LIMITS, "max_msg_size")
async def test_a_message_that_is_too_large_is_refused(user: User) -> None:
    await user.stream(max_msg_size=10)
    await user.publish("x" * 10)
    assert await user.publish_refused(value=b"x" * 11) == (400, 10054)


@proves(S, LIMITS, "max_msg_size, that was altered")
async def test_a_message_is_too_large_by_what_the_stream_says_now(user: User) -> None:
    await user.stream(max_msg_size=10)
    assert (await user.create("UPDATE", max_msg_size=20))["config"]["max_msg_size"] == 20
    await user.publish("x" * 20)
    assert await user.publish_refused(value=b"x" * 21) == (400, 10054)
    assert (await user.create("UPDATE", max_msg_size=-1))["config"]["max_msg_size"] == -1
    await user.publish("x" * 100)


@proves(S, LIMITS, "max_consumers")
async def test_a_stream_has_no_more_consumers_than_allowed(user: User) -> None:
    await user.stream(max_consumers=1)
    await user.consumer("C1")
    assert (await user.consumer_refused("C2"))[1] == 10026


@proves(S, LIMITS, "max_age")
async def test_old_messages_go(user: User) -> None:
    await user.stream(max_age=0.2, duplicate_window=0.2)
    await user.publish("1", "2")

    async def gone() -> bool:
        return (await user.info()).state.messages == 0

    await user.until(gone)
    state = (await user.info()).state
    assert (state.first_seq, state.last_seq) == (3, 2)


@proves_each(
    S,
    "administration",
    {
        "STREAM.LEADER.STEPDOWN": "STREAM.LEADER.STEPDOWN.{name}",
        "STREAM.SNAPSHOT": "STREAM.SNAPSHOT.{name}",
        "STREAM.RESTORE": "STREAM.RESTORE.{name}",
        "STREAM.PEER.REMOVE": "STREAM.PEER.REMOVE.{name}",
    },
)
@refused("operators move, copy and restore with `liftlog`'s own commands")
async def test_administration_is_refused_with_a_sentence(user: User, given: str) -> None:
    await user.stream()
    told = await user.api(given.format(name=user.name), {})
    if user.liftlog:
        assert "error" in told


