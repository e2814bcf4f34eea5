"""Publishing: acknowledgements, and what each header asks for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from nats.js import errors

from tests.jetstream.strict import strange_advisory
from tests.jetstream.table import differs, proves, proves_each, refused
from tests.jetstream.user import DEADLINE_S, SECOND, User

P = "Publishing"
PUBLISH = "publish"


@proves(P, PUBLISH, "stream, seq")
async def test_a_message_is_acked_with_its_stream_and_sequence(user: User) -> None:
    await user.stream()
    acks = await user.publish("1", "2", "3")
    assert [(ack.stream, ack.seq, ack.duplicate) for ack in acks] == [
        (user.name, 1, None),
        (user.name, 2, None),
        (user.name, 3, None),
    ]


@proves(P, PUBLISH, "domain")
@differs("the door names its domain")
async def test_an_ack_tells_the_domain(user: User) -> None:
    await user.stream()
    ack = (await user.publish("x"))[0]
    assert ack.domain in (None, user.server.domain or None)


@proves(P, PUBLISH, "no stream")
async def test_nobody_answers_where_no_stream_is(user: User) -> None:
    with pytest.raises(errors.NoStreamResponseError):
        await user.publish("x")


@proves(P, PUBLISH, "without a reply subject")
async def test_a_message_without_a_reply_is_stored(user: User) -> None:
    await user.stream()
    await user.nc.publish(user.subject(), b"x")

    async def stored() -> bool:
        return (await user.info()).state.messages == 1

    await user.until(stored)


@proves(P, PUBLISH, "asynchronously")
async def test_many_messages_are_published_without_waiting(user: User) -> None:
    await user.stream()
    futures = [await user.js.publish_async(user.subject(), str(n).encode()) for n in range(100)]
    async with asyncio.timeout(DEADLINE_S):
        await user.js.publish_async_completed()
    assert sorted(future.result().seq for future in futures) == list(range(1, 101))


@proves(P, PUBLISH, "in order")
async def test_one_connection_s_messages_are_stored_in_order(user: User) -> None:
    await user.stream()
    futures = [await user.js.publish_async(user.subject(), str(n).encode()) for n in range(1, 51)]
    acks = [await future for future in futures]
    assert [ack.seq for ack in acks] == list(range(1, 51))
    assert (await user.js.get_msg(user.name, 50)).data == b"50"


@proves(P, PUBLISH, "no_ack")
async def test_a_stream_without_acks_answers_nothing(user: User) -> None:
    await user.stream(no_ack=True)
    with pytest.raises((TimeoutError, errors.NoStreamResponseError)):
        await user.publish("x", timeout=0.3)

    async def stored() -> bool:
        return (await user.info()).state.messages == 1

    await user.until(stored)


@proves(P, PUBLISH, "a large message")
async def test_a_message_of_half_a_megabyte(user: User) -> None:
    await user.stream()
    await user.js.publish(user.subject(), b"x" * 500_000)
    assert (await user.js.get_msg(user.name, 1)).data == b"x" * 500_000


@proves(P, PUBLISH, "any bytes")
async def test_any_bytes_come_back(user: User) -> None:
    await user.stream()
    await user.js.publish(user.subject(), bytes(range(256)))
    assert (await user.js.get_msg(user.name, 1)).data == bytes(range(256))


MSG_ID = "Nats-Msg-Id"


@proves(P, MSG_ID)
async def test_a_repeated_message_is_stored_once(user: User) -> None:
    await user.stream()
    first = (await user.publish("1", headers={"Nats-Msg-Id": "a"}))[0]
    await user.publish("2", headers={"Nats-Msg-Id": "b"})
    again = (await user.publish("3", headers={"Nats-Msg-Id": "a"}))[0]
    assert (first.seq, first.duplicate) == (1, None)
    assert (again.seq, again.duplicate) == (1, True)
    assert (await user.info()).state.messages == 2


@proves(P, MSG_ID, "after duplicate_window")
async def test_a_message_id_is_forgotten_after_the_window(user: User) -> None:
    await user.stream(duplicate_window=0.1)
    await user.publish("1", headers={"Nats-Msg-Id": "a"})

    async def stored_again() -> bool:
        return not (await user.publish("2", headers={"Nats-Msg-Id": "a"}))[0].duplicate

    await user.until(stored_again)


@proves(P, MSG_ID, "other subjects")
async def test_message_ids_are_the_stream_s(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a", headers={"Nats-Msg-Id": "a"})
    assert (await user.publish("2", to="b", headers={"Nats-Msg-Id": "a"}))[0].duplicate is True


@proves(P, "Nats-Expected-Stream")
async def test_another_expected_stream_is_refused(user: User) -> None:
    await user.stream()
    assert (await user.publish("x", stream=user.name))[0].seq == 1
    with pytest.raises(errors.BadRequestError) as caught:
        await user.publish("x", stream="other")
    assert caught.value.err_code == 10060


LAST = "Nats-Expected-Last-Sequence"


@proves(P, LAST)
async def test_the_expected_last_sequence_is_compared(user: User) -> None:
    await user.stream()
    await user.publish("1", headers={LAST: "0"})
    await user.publish("2", headers={LAST: "1"})
    assert await user.publish_refused(Nats_Expected_Last_Sequence="1") == (400, 10071)
    assert (await user.info()).state.messages == 2


@proves(P, LAST, "the description names the last sequence")
@differs("the sentence goes on, with the next message's offset")
async def test_a_failed_compare_says_the_last_sequence(user: User) -> None:
    await user.stream()
    await user.publish("1", "2")
    with pytest.raises(errors.APIError) as caught:
        await user.publish("x", headers={LAST: "7"})
    assert caught.value.description is not None
    if user.liftlog:
        assert caught.value.description.startswith("wrong last sequence: 2;")
    else:
        assert caught.value.description == "wrong last sequence: 2"


LAST_OF_SUBJECT = "Nats-Expected-Last-Subject-Sequence"


@proves(P, LAST_OF_SUBJECT)
async def test_the_last_sequence_of_the_subject_is_compared(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a", headers={LAST_OF_SUBJECT: "0"})
    await user.publish("2", to="b")
    await user.publish("3", to="a", headers={LAST_OF_SUBJECT: "1"})
    assert await user.publish_refused("a", Nats_Expected_Last_Subject_Sequence="1") == (400, 10071)
    assert (await user.info()).state.messages == 3


@proves(P, LAST_OF_SUBJECT, "0: none there")
async def test_nothing_may_be_there(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a")
    assert await user.publish_refused("a", Nats_Expected_Last_Subject_Sequence="0") == (400, 10071)
    assert (await user.publish("2", to="b", headers={LAST_OF_SUBJECT: "0"}))[0].seq == 2


@proves(P, LAST_OF_SUBJECT + "-Subject", "with wildcards")
@refused("for now: name one subject")
async def test_the_last_sequence_of_another_subject_is_compared(user: User) -> None:
    await user.stream()
    await user.publish("1", to="a.1")
    await user.publish("2", to="a.2")
    named = {LAST_OF_SUBJECT + "-Subject": user.subject("a.*")}
    if user.liftlog:
        with pytest.raises(errors.BadRequestError):
            await user.publish("3", to="a.3", headers={LAST_OF_SUBJECT: "2"} | named)
        return
    assert (await user.publish("3", to="a.3", headers={LAST_OF_SUBJECT: "2"} | named))[0].seq == 3
    with pytest.raises(errors.APIError) as caught:
        await user.publish("4", to="a.4", headers={LAST_OF_SUBJECT: "2"} | named)
    assert caught.value.err_code == 10071


@proves(P, LAST_OF_SUBJECT, "no number")
async def test_a_sequence_that_is_no_number(user: User) -> None:
    await user.stream()
    assert (await user.publish_refused(Nats_Expected_Last_Subject_Sequence="many"))[0] == 400


LAST_ID = "Nats-Expected-Last-Msg-Id"


@proves(P, LAST_ID)
async def test_the_last_message_id_is_compared(user: User) -> None:
    await user.stream()
    await user.publish("1", headers={"Nats-Msg-Id": "a"})
    await user.publish("2", headers={LAST_ID: "a", "Nats-Msg-Id": "b"})
    await user.publish("3", headers={LAST_ID: "b"})
    # A cluster of nats-server answers nothing more to who expects an id, once it has refused one.
    assert await user.publish_refused(Nats_Expected_Last_Msg_Id="b") == (400, 10070)
    assert (await user.info()).state.messages == 3


ROLLUP = "Nats-Rollup"


@proves(P, ROLLUP, "sub")
@differs("what is older goes a moment after the ack")
async def test_a_rollup_of_a_subject_leaves_the_message_alone_there(user: User) -> None:
    await user.stream(allow_rollup_hdrs=True)
    for to in ("a", "b", "a"):
        await user.publish("x", to=to)
    ack = (await user.publish("y", to="a", headers={ROLLUP: "sub"}))[0]
    assert ack.seq == 4

    async def alone() -> bool:
        told = await user.js.stream_info(user.name, subjects_filter=">")
        return told.state.subjects == {user.subject("a"): 1, user.subject("b"): 1}

    await user.until(alone)


@proves(P, ROLLUP, "all")
@differs("what is older goes a moment after the ack")
async def test_a_rollup_of_the_stream_leaves_one_message(user: User) -> None:
    await user.stream(allow_rollup_hdrs=True)
    for to in ("a", "b", "a"):
        await user.publish("x", to=to)
    await user.publish("y", to="c", headers={ROLLUP: "all"})

    async def alone() -> bool:
        state = (await user.info()).state
        return (state.messages, state.first_seq, state.last_seq) == (1, 4, 4)

    await user.until(alone)


@proves(P, ROLLUP, "without allow_rollup_hdrs")
async def test_a_rollup_must_be_allowed(user: User) -> None:
    await user.stream()
    assert (await user.publish_refused(Nats_Rollup="sub"))[1] == 10111


@proves(P, ROLLUP, "another value")
@differs("error 10003")
async def test_a_rollup_of_something_else_is_refused(user: User) -> None:
    await user.stream(allow_rollup_hdrs=True)
    assert (await user.publish_refused(Nats_Rollup="some"))[1] == (10003 if user.liftlog else 10111)


TTL = "Nats-TTL"


@proves(P, TTL, "seconds")
async def test_a_message_goes_after_its_time(user: User) -> None:
    await user.stream(allow_msg_ttl=True)
    await user.publish("x", msg_ttl=1)
    await user.publish("y")

    async def gone() -> bool:
        return (await user.info()).state.messages == 1

    await user.until(gone)
    assert (await user.js.get_msg(user.name, 2)).data == b"y"


@proves(P, TTL, "1h, never")
async def test_a_time_is_a_duration_or_never(user: User) -> None:
    await user.stream(allow_msg_ttl=True)
    for ttl in ("1h", "90s", "never"):
        await user.publish("x", headers={TTL: ttl})
    assert (await user.info()).state.messages == 3


@proves(P, TTL, "without allow_msg_ttl")
async def test_times_must_be_allowed(user: User) -> None:
    await user.stream()
    assert await user.publish_refused(Nats_TTL="10") == (400, 10166)


@proves(P, TTL, "no duration, less than a second")
async def test_a_time_that_is_none_is_refused(user: User) -> None:
    await user.stream(allow_msg_ttl=True)
    for ttl in ("soon", "0", "999ms", "-5", "-5s", "1d"):
        assert await user.publish_refused(Nats_TTL=ttl) == (400, 10165)


@proves(P, TTL, "never, with max_age")
@differs("error 10165: all goes by age")
async def test_what_goes_by_age_stays_for_ever_or_is_refused(user: User) -> None:
    await user.stream(allow_msg_ttl=True, max_age=3600)
    if user.liftlog:
        assert await user.publish_refused(Nats_TTL="never") == (400, 10165)
        return
    await user.publish("x", headers={TTL: "never"})
    assert (await user.info()).state.messages == 1


@proves(P, TTL, "the last message of a subject goes")
async def test_the_one_before_is_the_last_when_a_message_goes(user: User) -> None:
    await user.stream(allow_msg_ttl=True)
    await user.publish("x")
    await user.publish("y", msg_ttl=1)

    async def gone() -> bool:
        found = await user.js.get_last_msg(user.name, user.subject())
        return found.data == b"x"

    await user.until(gone)
    assert (await user.info()).state.last_seq == 2


@proves(P, TTL, "markers: Nats-Marker-Reason")
async def test_a_marker_stays_when_the_last_message_of_a_subject_goes(user: User) -> None:
    await user.stream(allow_msg_ttl=True, allow_rollup_hdrs=True, subject_delete_marker_ttl=60, max_age=1)
    await user.publish("x")
    headers = await marker_of(user)
    assert headers["Nats-Marker-Reason"] == "MaxAge" and headers["Nats-Rollup"] == "sub"
    assert headers["Nats-TTL"] in ("60", "1m0s")


async def marker_of(user: User) -> dict[str, str]:
    """The headers of the marker that comes to be the last message of the subject."""
    found: list[dict[str, str]] = []

    async def marked() -> bool:
        try:
            message = await user.js.get_last_msg(user.name, user.subject())
        except errors.NotFoundError:
            return False
        found.append(dict(message.headers or {}))
        return "Nats-Marker-Reason" in found[-1]

    await user.until(marked)
    return found[-1]


@proves(P, TTL, "markers: of a message with Nats-TTL")
async def test_a_message_with_a_time_leaves_a_marker(user: User) -> None:
    """The option brings the two others with it."""
    await user.create(subject_delete_marker_ttl=3 * SECOND)
    config = (await user.info()).config
    assert config.allow_msg_ttl and config.allow_rollup_hdrs
    await user.publish("x", msg_ttl=3)
    assert (await marker_of(user))["Nats-Marker-Reason"] == "MaxAge"
    assert (await user.info()).state.last_seq == 2


@proves(P, TTL, "markers: another message of the subject remains")
async def test_there_is_no_marker_where_another_message_remains(user: User) -> None:
    await user.create(subject_delete_marker_ttl=SECOND)
    await user.publish("x")
    await user.publish("y", msg_ttl=1)

    async def gone() -> bool:
        return (await user.js.get_last_msg(user.name, user.subject())).data == b"x"

    await user.until(gone)
    assert (await user.info()).state.last_seq == 2


@proves(P, TTL, "markers: go after subject_delete_marker_ttl, without one of their own")
async def test_a_marker_goes_and_leaves_none(user: User) -> None:
    await user.create(subject_delete_marker_ttl=SECOND)
    await user.publish("x", msg_ttl=1)

    async def gone() -> bool:
        state = (await user.info()).state
        return state.last_seq == 2 and state.messages == 0

    await user.until(gone)


@proves(P, TTL, "markers: a time that is shorter than subject_delete_marker_ttl")
@differs("a message goes when it says; nats-server stores it with the marker's time")
async def test_a_time_may_be_shorter_than_the_marker_s(user: User) -> None:
    await user.create(subject_delete_marker_ttl=60 * SECOND)
    await user.publish("x", msg_ttl=1)
    first = await user.js.get_msg(user.name, 1)
    assert (first.headers or {})["Nats-TTL"] == ("1" if user.liftlog else "60")


@proves(P, TTL, "markers: none of a message that is deleted")
async def test_a_message_that_is_deleted_leaves_none(user: User) -> None:
    await user.create(subject_delete_marker_ttl=60 * SECOND)
    await user.publish("x", "y")
    assert await user.js.delete_msg(user.name, 1) and await user.js.delete_msg(user.name, 2)
    await user.js.purge_stream(user.name)
    state = (await user.info()).state
    assert (state.messages, state.last_seq) == (0, 2)


@proves_each(
    P,
    "headers of features that the stream does not have",
    {
        "Nats-Incr": {"Nats-Incr": "+1"},
        "Nats-Schedule": {"Nats-Schedule": "@every 5m", "Nats-Schedule-Target": "x"},
    },
)
async def test_headers_of_other_features_are_refused(user: User, given: dict[str, str]) -> None:
    await user.stream()
    with pytest.raises(errors.APIError):
        await user.publish("x", headers=given)
    assert (await user.info()).state.messages == 0


@proves(P, "headers of users")
async def test_headers_of_users_are_stored_as_they_are(user: User) -> None:
    await user.stream()
    await user.publish("x", headers={"X-Colour": "dark red", "x-colour": "blue"})
    assert (await user.js.get_msg(user.name, 1)).headers == {"X-Colour": "dark red", "x-colour": "blue"}


BATCH = "Nats-Batch-Id, Nats-Batch-Sequence, Nats-Batch-Commit"


async def send_part(user: User, number: int, commit: str = "", **headers: str) -> dict[str, Any]:
    """One message of batch `b`, and what is answered: nothing, an ack or a refusal."""
    named = {key.replace("_", "-"): one for key, one in headers.items()}
    named |= {"Nats-Batch-Id": "b", "Nats-Batch-Sequence": str(number)}
    if commit:
        named["Nats-Batch-Commit"] = commit
    value = b"" if commit == "eob" else b"%d" % number
    answer = await user.nc.request(user.subject(), value, timeout=DEADLINE_S, headers=named)
    told: dict[str, Any] = json.loads(answer.data) if answer.data else {}
    return told


@proves(P, BATCH, "", "eob")
async def test_a_batch_is_stored_whole(user: User) -> None:
    await user.create(allow_atomic=True)
    for number in (1, 2):
        assert await send_part(user, number) == {}
    assert (await user.info()).state.messages == 0
    told = await send_part(user, 3, "1")
    assert told == {"stream": user.name, "seq": 3, "batch": "b", "count": 3}
    assert (await user.info()).state.messages == 3
    assert [(await user.js.get_msg(user.name, seq)).data for seq in (1, 2, 3)] == [b"1", b"2", b"3"]
    assert await send_part(user, 1) == {}
    told = await send_part(user, 2, "eob")
    assert (told["seq"], told["count"]) == (4, 1)
    stored = await user.js.get_msg(user.name, 4)
    assert stored.headers is not None and stored.headers["Nats-Batch-Commit"] == "1"


@proves(P, BATCH, "without allow_atomic")
async def test_batches_must_be_allowed(user: User) -> None:
    await user.stream()
    code, err_code = await user.publish_refused(Nats_Batch_Id="b", Nats_Batch_Sequence="1")
    assert (code, err_code) == (400, 10174)


@proves(P, BATCH, "a gap", "no beginning", "no number", "a long id", "an unknown word")
async def test_a_batch_that_is_not_whole_is_refused(user: User) -> None:
    await user.create(allow_atomic=True)
    assert await send_part(user, 1) == {}
    assert (await send_part(user, 3, "1"))["error"]["err_code"] == 10176
    assert (await send_part(user, 2, "1"))["error"]["err_code"] == 10176
    assert (await send_part(user, 1, "eob"))["error"]["err_code"] == 10176
    assert await user.publish_refused(Nats_Batch_Id="b") == (400, 10175)
    assert await user.publish_refused(Nats_Batch_Id="b" * 65, Nats_Batch_Sequence="1") == (400, 10179)
    assert await send_part(user, 1) == {}
    assert (await send_part(user, 2, "yes"))["error"]["err_code"] == 10200
    assert (await send_part(user, 3, "1"))["error"]["err_code"] == 10176
    assert (await user.info()).state.messages == 0


@proves(P, BATCH, "advisory BATCH_ABANDONED: incomplete")
async def test_an_advisory_tells_of_a_batch_that_is_given_up(user: User) -> None:
    await user.create(allow_atomic=True)
    advisories = await user.nc.subscribe(f"$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.{user.name}")
    assert await send_part(user, 1) == {}
    assert (await send_part(user, 3, "1"))["error"]["err_code"] == 10176
    told = json.loads((await advisories.next_msg(timeout=DEADLINE_S)).data)
    assert not strange_advisory(told)
    assert (told["stream"], told["batch"], told["reason"]) == (user.name, "b", "incomplete")


@proves(P, BATCH, "Nats-Expected-Last-Sequence", "Nats-Expected-Last-Subject-Sequence")
async def test_what_a_batch_expects_is_judged_at_its_end(user: User) -> None:
    await user.create(allow_atomic=True)
    assert await send_part(user, 1, Nats_Expected_Last_Sequence="0") == {}
    await user.publish("between")
    told = await send_part(user, 2, "1")
    assert (told["error"]["code"], told["error"]["err_code"]) == (400, 10071)
    assert await send_part(user, 1, Nats_Expected_Last_Subject_Sequence="1") == {}
    assert (await send_part(user, 2, "1"))["seq"] == 3
    assert await send_part(user, 1, Nats_Expected_Last_Subject_Sequence="1") == {}
    assert (await send_part(user, 2, "1"))["error"]["err_code"] == 10071
    assert (await user.info()).state.messages == 3


@proves(P, BATCH, "what the batch itself changes is expected")
async def test_what_a_batch_has_changed_cannot_be_expected(user: User) -> None:
    await user.create(allow_atomic=True)
    assert await send_part(user, 1) == {}
    told = await send_part(user, 2, "1", Nats_Expected_Last_Subject_Sequence="0")
    assert told["error"]["err_code"] == 10164
    assert (await user.info()).state.messages == 0


@proves(P, BATCH, "what is wrong with a message is told at the end")
async def test_what_is_wrong_with_a_message_of_a_batch_is_told_at_its_end(user: User) -> None:
    await user.create(allow_atomic=True)
    for wrong, err_code in (
        ({"Nats_Expected_Stream": "other"}, 10060),
        ({"Nats_Expected_Last_Msg_Id": "x"}, 10177),
        ({"Nats_Rollup": "sub"}, 10111),
        ({"Nats_TTL": "1h"}, 10166),
    ):
        assert await send_part(user, 1) == await send_part(user, 2, **wrong) == {}
        assert (await send_part(user, 3, "1"))["error"]["err_code"] == err_code
    assert (await user.info()).state.messages == 0


@proves(P, BATCH, "Nats-Msg-Id")
async def test_a_batch_with_an_id_that_is_known_is_refused(user: User) -> None:
    await user.create(allow_atomic=True)
    assert await send_part(user, 1, Nats_Msg_Id="x") == {}
    assert (await send_part(user, 2, "1", Nats_Msg_Id="y"))["seq"] == 2
    assert await send_part(user, 1) == {}
    assert (await send_part(user, 2, "1", Nats_Msg_Id="y"))["error"]["err_code"] == 10201
    assert (await user.publish("z", headers={"Nats-Msg-Id": "x"}))[0].duplicate is True
    assert (await user.info()).state.messages == 2


@proves(P, PUBLISH, "a sealed stream")
async def test_a_sealed_stream_refuses(user: User) -> None:
    await user.create()
    await user.create("UPDATE", sealed=True)
    assert await user.publish_refused() == (400, 10109)


