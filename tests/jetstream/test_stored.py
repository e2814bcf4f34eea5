"""Messages of a stream: read one by one, from the leader or directly, and deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats.js import errors

from tests.jetstream.table import proves, proves_each
from tests.jetstream.user import DEADLINE_S, User, status_of

M = "Messages of a stream"
GET = "STREAM.MSG.GET"


async def filled(user: User, **config: Any) -> None:
    """Sequences 1 to 5 on the subjects a, b, a, c, b."""
    await user.stream(**config)
    for number, to in enumerate("abacb", 1):
        await user.publish(str(number), to=to)


@proves(M, GET, "seq")
async def test_a_message_is_read_by_its_sequence(user: User) -> None:
    await filled(user)
    found = await user.js.get_msg(user.name, 2)
    assert (found.seq, found.subject, found.data) == (2, user.subject("b"), b"2")
    assert found.time is not None and found.headers is None


@proves(M, GET, "hdrs")
async def test_headers_are_read(user: User) -> None:
    await user.stream()
    await user.publish("x", headers={"Colour": "red", "Size": "2"})
    assert (await user.js.get_msg(user.name, 1)).headers == {"Colour": "red", "Size": "2"}


@proves(M, GET, "an empty message")
async def test_an_empty_message_is_read(user: User) -> None:
    await user.stream()
    await user.publish("")
    assert not (await user.js.get_msg(user.name, 1)).data


@proves(M, GET, "last_by_subj")
async def test_the_last_message_of_a_subject_is_read(user: User) -> None:
    await filled(user)
    found = await user.js.get_last_msg(user.name, user.subject("a"))
    assert (found.seq, found.data) == (3, b"3")


@proves(M, GET, "last_by_subj with wildcards")
async def test_the_last_message_of_a_pattern_is_read(user: User) -> None:
    await filled(user)
    assert (await user.js.get_last_msg(user.name, user.subject("*"))).seq == 5
    assert (await user.js.get_last_msg(user.name, ">")).seq == 5


@proves(M, GET, "next_by_subj")
async def test_the_next_message_of_a_subject_is_read(user: User) -> None:
    await filled(user)
    found = await user.js.get_msg(user.name, seq=2, subject=user.subject("a"), next=True)
    assert found.seq == 3
    found = await user.js.get_msg(user.name, seq=None, subject=user.subject("b"), next=True)
    assert found.seq == 2


@proves(M, GET, "next_by_subj with wildcards")
async def test_the_next_message_of_a_pattern_is_read(user: User) -> None:
    await filled(user)
    assert (await user.js.get_msg(user.name, seq=4, subject=user.subject("*"), next=True)).seq == 4


@proves_each(
    M,
    GET,
    {
        "seq: none there": {"seq": 9},
        "last_by_subj: none there": {"last_by_subj": "{name}.z"},
        "next_by_subj: none there": {"seq": 4, "next_by_subj": "{name}.a"},
    },
)
async def test_what_is_not_there_is_not_found(user: User, given: dict[str, Any]) -> None:
    await filled(user)
    body = json.loads(json.dumps(given).replace("{name}", user.name))
    assert await user.refused(f"STREAM.MSG.GET.{user.name}", body) == (404, 10037)


@proves_each(
    M,
    GET,
    {
        "nothing asked": {},
        "seq and last_by_subj": {"seq": 1, "last_by_subj": "{name}.a"},
        "last_by_subj and next_by_subj": {"last_by_subj": "{name}.a", "next_by_subj": "{name}.a"},
    },
)
async def test_a_question_that_makes_no_sense_is_refused(user: User, given: dict[str, Any]) -> None:
    await filled(user)
    body = json.loads(json.dumps(given).replace("{name}", user.name))
    assert await user.refused(f"STREAM.MSG.GET.{user.name}", body) == (400, 10003)


@proves(M, GET, "unknown stream")
async def test_messages_of_an_unknown_stream_are_not_found(user: User) -> None:
    assert await user.refused(f"STREAM.MSG.GET.{user.name}", {"seq": 1}) == (404, 10059)


@proves(M, GET, "read your writes")
async def test_what_is_acked_is_read(user: User) -> None:
    await user.stream()
    for number in range(1, 11):
        await user.publish(str(number))
        assert (await user.js.get_last_msg(user.name, user.subject())).seq == number


DELETE = "STREAM.MSG.DELETE"


@proves(M, DELETE)
async def test_a_message_is_deleted(user: User) -> None:
    await filled(user)
    assert await user.js.delete_msg(user.name, 2) is True
    with pytest.raises(errors.NotFoundError):
        await user.js.get_msg(user.name, 2)
    assert (await user.info()).state.messages == 4


@proves(M, DELETE, "no_erase")
async def test_a_message_is_deleted_without_erasing(user: User) -> None:
    await filled(user)
    assert (await user.api(f"STREAM.MSG.DELETE.{user.name}", {"seq": 3, "no_erase": True}))["success"]
    assert (await user.js.get_last_msg(user.name, user.subject("a"))).seq == 1


@proves(M, DELETE, "the first message")
async def test_the_first_sequence_follows_the_first_message(user: User) -> None:
    await filled(user)
    await user.js.delete_msg(user.name, 1)
    assert (await user.info()).state.first_seq == 2


@proves(M, DELETE, "the last message")
async def test_the_last_sequence_stays_where_it_is(user: User) -> None:
    await filled(user)
    await user.js.delete_msg(user.name, 5)
    state = (await user.info()).state
    assert (state.last_seq, state.messages) == (5, 4)
    assert (await user.publish("6"))[0].seq == 6


@proves(M, DELETE, "a sequence that is not there")
async def test_what_is_not_there_cannot_be_deleted(user: User) -> None:
    await filled(user)
    assert await user.refused(f"STREAM.MSG.DELETE.{user.name}", {"seq": 9}) == (500, 10057)
    await user.js.delete_msg(user.name, 2)
    assert await user.refused(f"STREAM.MSG.DELETE.{user.name}", {"seq": 2}) == (400, 10043)


@proves(M, DELETE, "deny_delete")
async def test_a_denied_delete_is_refused(user: User) -> None:
    await filled(user, deny_delete=True)
    assert await user.refused(f"STREAM.MSG.DELETE.{user.name}", {"seq": 2}) == (500, 10057)


@proves(M, DELETE, "unknown stream")
async def test_nothing_is_deleted_of_an_unknown_stream(user: User) -> None:
    assert await user.refused(f"STREAM.MSG.DELETE.{user.name}", {"seq": 2}) == (404, 10059)


D = "Direct get"
ONE = "DIRECT.GET"


@proves(D, ONE, "seq")
async def test_a_message_is_read_directly_by_its_sequence(user: User) -> None:
    await filled(user, allow_direct=True)
    found = await user.js.get_msg(user.name, 2, direct=True)
    assert (found.seq, found.subject, found.data) == (2, user.subject("b"), b"2")
    assert found.time is not None


@proves(D, ONE, "Nats-Stream, Nats-Subject, Nats-Sequence, Nats-Time-Stamp")
async def test_what_is_known_of_a_message_stands_in_its_headers(user: User) -> None:
    await user.stream(allow_direct=True)
    await user.publish("x", headers={"Colour": "red"})
    headers = (await direct(user, {"seq": 1})).headers or {}
    assert headers["Nats-Stream"] == user.name
    assert headers["Nats-Subject"] == user.subject()
    assert headers["Nats-Sequence"] == "1"
    assert headers["Nats-Time-Stamp"].endswith("Z")
    assert headers["Colour"] == "red"


async def direct(user: User, body: Any, subject: str = "") -> Msg:
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    call = f"$JS.API.DIRECT.GET.{user.name}" + (f".{subject}" if subject else "")
    return await user.nc.request(call, payload, timeout=DEADLINE_S)


@proves(D, "DIRECT.GET.N.<subject>")
async def test_the_last_message_of_a_subject_is_read_directly(user: User) -> None:
    await filled(user, allow_direct=True)
    found = await user.js.get_last_msg(user.name, user.subject("a"), direct=True)
    assert (found.seq, found.data) == (3, b"3")


@proves(D, ONE, "last_by_subj")
async def test_the_last_message_of_a_subject_is_asked_in_the_body(user: User) -> None:
    await filled(user, allow_direct=True)
    found = await direct(user, {"last_by_subj": user.subject("b")})
    assert (found.headers or {})["Nats-Sequence"] == "5"


@proves(D, ONE, "next_by_subj")
async def test_the_next_message_of_a_subject_is_read_directly(user: User) -> None:
    await filled(user, allow_direct=True)
    found = await user.js.get_msg(user.name, seq=2, subject=user.subject("a"), direct=True, next=True)
    assert found.seq == 3


@proves(D, ONE, "an empty message")
async def test_an_empty_message_is_read_directly(user: User) -> None:
    await user.stream(allow_direct=True)
    await user.publish("")
    found = await direct(user, {"seq": 1})
    assert found.data == b"" and status_of(found) == ""


@proves(D, ONE, "404 Message Not Found")
async def test_what_is_not_there_has_a_status(user: User) -> None:
    await filled(user, allow_direct=True)
    assert status_of(await direct(user, {"seq": 9})) == "404 Message Not Found"
    assert status_of(await direct(user, b"", user.subject("z"))) == "404 Message Not Found"
    with pytest.raises(errors.NotFoundError):
        await user.js.get_msg(user.name, 9, direct=True)


@proves_each(
    D,
    ONE,
    {
        "408 Empty Request": (b"", "408 Empty Request"),
        "408 Malformed Request": (b"{no json", "408 Malformed Request"),
        "408 Bad Request": ({}, "408 Empty Request"),
        "408 Bad Request: two questions": ({"seq": 1, "last_by_subj": "a"}, "408 Bad Request"),
    },
)
async def test_a_bad_question_has_a_status(user: User, given: tuple[Any, str]) -> None:
    await filled(user, allow_direct=True)
    assert status_of(await direct(user, given[0])) == given[1]


@proves(D, ONE, "allow_direct false")
async def test_without_allow_direct_nobody_answers(user: User) -> None:
    await filled(user, allow_direct=False)
    answer = None
    with pytest.raises((Exception,), match=r"no responders|No Responders|503"):
        answer = await direct(user, {"seq": 1})
    assert answer is None


async def batch(user: User, body: Any, subject: str = "") -> tuple[list[Msg], Msg]:
    """The messages of a batch, and what ends it."""
    inbox = await user.inbox()
    call = f"$JS.API.DIRECT.GET.{user.name}" + (f".{subject}" if subject else "")
    await user.nc.publish(call, json.dumps(body).encode(), inbox.subject)
    messages: list[Msg] = []
    while True:
        message = await inbox.next_msg(timeout=DEADLINE_S)
        if status_of(message):
            await inbox.unsubscribe()
            return messages, message
        messages.append(message)


def sequences(messages: list[Msg]) -> list[int]:
    return [int((one.headers or {})["Nats-Sequence"]) for one in messages]


BATCH = "DIRECT.GET: batch"


@proves(D, BATCH, "batch, seq")
async def test_a_batch_is_read_from_a_sequence(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, end = await batch(user, {"seq": 2, "batch": 3})
    assert sequences(messages) == [2, 3, 4]
    assert status_of(end) == "204 EOB"


@proves(D, BATCH, "Nats-Num-Pending, Nats-Last-Sequence")
async def test_a_batch_says_what_is_left(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, end = await batch(user, {"seq": 1, "batch": 2})
    assert [(one.headers or {})["Nats-Num-Pending"] for one in messages] == ["4", "3"]
    assert (end.headers or {})["Nats-Num-Pending"] == "3"
    assert (end.headers or {})["Nats-Last-Sequence"] == "2"


@proves(D, BATCH, "next_by_subj")
async def test_a_batch_of_a_subject(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, _ = await batch(user, {"seq": 1, "batch": 10, "next_by_subj": user.subject("b")})
    assert sequences(messages) == [2, 5]


@proves(D, BATCH, "max_bytes")
async def test_a_batch_ends_at_so_many_bytes(user: User) -> None:
    await user.stream(allow_direct=True)
    for _ in range(5):
        await user.js.publish(user.subject(), b"x" * 1000)
    messages, end = await batch(user, {"seq": 1, "batch": 10, "max_bytes": 2500})
    assert 1 <= len(messages) <= 3 and status_of(end) == "204 EOB"


@proves(D, BATCH, "404 Message Not Found")
async def test_a_batch_of_nothing_is_not_found(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, end = await batch(user, {"seq": 9, "batch": 3})
    assert not messages and status_of(end).startswith("404")


MULTI = "DIRECT.GET: multi_last"


@proves(D, MULTI)
async def test_the_last_of_many_subjects_are_read(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, end = await batch(user, {"multi_last": [user.subject("a"), user.subject("b")]})
    assert sequences(messages) == [3, 5]
    assert status_of(end) == "204 EOB"
    assert (end.headers or {})["Nats-UpTo-Sequence"] == "5"


@proves(D, MULTI, "wildcards")
async def test_the_last_of_all_subjects_are_read(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, _ = await batch(user, {"multi_last": [user.subject(">")]})
    assert sequences(messages) == [3, 4, 5]


@proves(D, MULTI, "up_to_seq")
async def test_the_last_up_to_a_sequence_are_read(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, _ = await batch(user, {"multi_last": [user.subject(">")], "up_to_seq": 2})
    assert sequences(messages) == [1, 2]


@proves(D, MULTI, "404 No Results")
async def test_the_last_of_nothing_have_a_status(user: User) -> None:
    await filled(user, allow_direct=True)
    messages, end = await batch(user, {"multi_last": [user.subject("z")]})
    assert not messages and status_of(end) == "404 No Results"
