"""Fast batches: messages whose reply subjects number them, and that are acked many at a time."""

from __future__ import annotations

import json
from typing import Any

from nats.aio.subscription import Subscription

from tests.jetstream.table import differs, proves
from tests.jetstream.user import DEADLINE_S, User

P = "Publishing"
FAST = "Fast ingest: &lt;inbox>.&lt;id>.&lt;flow>.&lt;gap>.&lt;seq>.&lt;op>.$FI"
BEGIN, GO_ON, COMMIT, CLOSE, PING = range(5)


class Publisher:
    """One batch of a user's, and the answers that come for it."""

    def __init__(self, user: User, inbox: str, answers: Subscription, gap: str, flow: int) -> None:
        self._user = user
        self._inbox = inbox
        self._answers = answers
        self._words = f"{flow}.{gap}"

    @classmethod
    async def of(cls, user: User, id: str = "b", gap: str = "fail", flow: int = 2) -> Publisher:
        inbox = f"{user.nc.new_inbox()}.{id}"
        return cls(user, inbox, await user.nc.subscribe(f"{inbox}.>"), gap, flow)

    async def send(self, number: int, operation: int = GO_ON, **headers: str) -> None:
        value = b"" if operation in (CLOSE, PING) else b"%d" % number
        named = {key.replace("_", "-"): one for key, one in headers.items()} or None
        reply = f"{self._inbox}.{self._words}.{number}.{operation}.$FI"
        await self._user.nc.publish(self._user.subject(), value, reply=reply, headers=named)

    async def told(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads((await self._answers.next_msg(timeout=DEADLINE_S)).data)
        return answer

    async def error(self) -> int:
        """The next answer is a refusal with this number."""
        return int((await self.told())["error"]["err_code"])

    @property
    def silent(self) -> bool:
        return self._answers.pending_msgs == 0


def ack(number: int, messages: int = 2) -> dict[str, Any]:
    return {"type": "ack", "seq": number, "msgs": messages}


def gap(due: int, number: int) -> dict[str, Any]:
    return {"type": "gap", "last_seq": due, "seq": number}


def end(user: User, seq: int, count: int, id: str = "b") -> dict[str, Any]:
    return {"stream": user.name, "seq": seq, "batch": id, "count": count}


async def data_of(user: User, *seqs: int) -> list[bytes | None]:
    return [(await user.js.get_msg(user.name, seq)).data for seq in seqs]


@proves(P, FAST, "", "op 0: begins, and is told the flow", "op 1: an ack for every so many", "op 2: ends")
async def test_a_fast_batch_is_acked_many_at_a_time(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0)
    await one.send(2)
    assert await one.told() == ack(2)
    await one.send(3)
    await one.send(4)
    assert await one.told() == ack(4)
    await one.send(5, COMMIT)
    assert await one.told() == end(user, 5, 5)
    assert await data_of(user, 1, 2, 3, 4, 5) == [b"1", b"2", b"3", b"4", b"5"]
    assert (await user.js.get_msg(user.name, 5)).headers is None


@proves(P, FAST, "op 3: ends without a message", "op 2 alone")
async def test_a_fast_batch_may_end_without_a_message(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    await one.send(2, CLOSE)
    assert await one.told() == ack(0)
    assert await one.told() == end(user, 1, 1)
    two = await Publisher.of(user, "c")
    await two.send(1, COMMIT)
    assert await two.told() == end(user, 2, 1, "c")


@proves(P, FAST, "op 4: the last ack again", "op 4: tells of a gap")
async def test_who_asks_is_told_the_last_ack(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0)
    await one.send(2)
    assert await one.told() == ack(2)
    await one.send(3)
    await one.send(3, PING)
    assert await one.told() == ack(2)
    await one.send(5, PING)
    assert await one.told() == gap(4, 6)
    assert await one.told() == end(user, 3, 3)


@proves(P, FAST, "gap fail: a gap ends it")
async def test_a_gap_ends_a_batch(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0)
    await one.send(3)
    assert await one.told() == gap(2, 3)
    assert await one.told() == end(user, 1, 1)
    await one.send(4)
    assert await one.error() == 10208
    assert (await user.info()).state.messages == 1


@proves(P, FAST, "gap ok: a gap is told, and it goes on")
async def test_a_gap_is_told(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user, gap="ok", flow=10)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0, 10)
    await one.send(3)
    assert await one.told() == gap(2, 3)
    await one.send(5, PING)
    assert await one.told() == gap(4, 6)
    assert await one.told() == ack(0, 10)
    await one.send(6, COMMIT)
    assert await one.told() == end(user, 3, 6)
    assert await data_of(user, 1, 2, 3) == [b"1", b"3", b"6"]


@proves(P, FAST, "a number twice ends it")
async def test_a_number_that_was_there_ends_it(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user, gap="ok", flow=10)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0, 10)
    await one.send(2)
    await one.send(2)
    assert await one.told() == gap(3, 2)
    assert await one.told() == end(user, 2, 2)
    assert (await user.info()).state.messages == 2


@proves(P, FAST, "without allow_batched")
async def test_fast_batches_must_be_allowed(user: User) -> None:
    await user.stream()
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    assert await one.error() == 10205
    assert "error" not in await user.create("UPDATE", allow_batched=True)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0)
    assert "error" not in await user.create("UPDATE")
    await one.send(2)
    assert await one.error() == 10205
    assert (await user.info()).state.messages == 1


@proves(P, FAST, "another form", "a long id", "an unknown batch", "an unknown op")
async def test_what_is_no_fast_batch_is_refused(user: User) -> None:
    await user.create(allow_batched=True)
    other = await Publisher.of(user, gap="maybe")
    await other.send(1, BEGIN)
    assert await other.error() == 10206
    one = await Publisher.of(user)
    for number, operation in ((1, 5), (2, BEGIN), (1, GO_ON), (1, CLOSE), (0, GO_ON)):
        await one.send(number, operation)
        assert await one.error() == 10206
    await one.send(2)
    assert await one.error() == 10208
    long = await Publisher.of(user, "b" * 65)
    await long.send(1, BEGIN)
    assert await long.error() == 10207
    assert (await user.info()).state.messages == 0


@proves(P, FAST, "headers of a message", "Nats-TTL")
async def test_what_a_message_of_a_fast_batch_says(user: User) -> None:
    await user.create(allow_batched=True, allow_msg_ttl=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN, X_Colour="red")
    assert await one.told() == ack(0)
    await one.send(2, COMMIT, Nats_TTL="1h")
    assert await one.told() == end(user, 2, 2)
    assert (await user.js.get_msg(user.name, 1)).headers == {"X-Colour": "red"}


@proves(P, FAST, "gap fail: a message that is refused ends it")
async def test_a_message_that_is_refused_ends_it(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0)
    await one.send(2, Nats_Expected_Last_Sequence="7")
    told = await one.told()
    assert (told["type"], told["seq"]) == ("err", 2) and told["error"]["code"] == 400
    assert await one.told() == end(user, 1, 1)


@proves(P, FAST, "gap ok: a message that is refused is left out")
async def test_a_message_that_is_refused_is_left_out(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user, gap="ok", flow=10)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0, 10)
    await one.send(2, Nats_Expected_Last_Sequence="7")
    told = await one.told()
    assert (told["type"], told["seq"]) == ("err", 2)
    await one.send(3, COMMIT)
    assert await one.told() == end(user, 2, 3)


@differs("err, for now: publish what expects something, or has an id, by itself")
@proves(P, FAST, "Nats-Expected-Last-Sequence, Nats-Msg-Id")
async def test_what_a_message_of_a_fast_batch_expects(user: User) -> None:
    await user.create(allow_batched=True)
    one = await Publisher.of(user, gap="ok", flow=10)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0, 10)
    await one.send(2, Nats_Expected_Last_Sequence="1")
    await one.send(3, Nats_Msg_Id="x")
    if user.liftlog:
        for number in (2, 3):
            told = await one.told()
            assert (told["type"], told["seq"], told["error"]["err_code"]) == ("err", number, 10003)
    await one.send(4, COMMIT)
    assert await one.told() == end(user, 2 if user.liftlog else 4, 4)


@differs("refused: a message that waits until there is room would be passed by others of its batch")
@proves(P, FAST, "with max_msgs, max_bytes and discard new")
async def test_a_full_stream_takes_no_fast_batches(user: User) -> None:
    told = await user.create(allow_batched=True, max_msgs=10, discard="new")
    if user.liftlog:
        assert told["error"]["err_code"] == 10052
    else:
        assert "error" not in told


@proves(P, FAST, "two publishers: the second one begins with 1, and doubles")
async def test_publishers_share(user: User) -> None:
    await user.create(allow_batched=True)
    one, two = await Publisher.of(user, "one", flow=1000), await Publisher.of(user, "two", flow=4)
    await one.send(1, BEGIN)
    assert await one.told() == ack(0, 500)
    await two.send(1, BEGIN)
    assert await two.told() == ack(0, 1)
    assert await two.told() == ack(1, 2)
    await two.send(2)
    await two.send(3)
    assert await two.told() == ack(3, 4)
