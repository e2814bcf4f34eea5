"""The same drawn calls on two servers, and what each answered, without times and names that a server chose.

A plan is a list of steps, drawn from a seed. Steps are carried out one after the other, each is waited for,
and nothing in them depends on time: what differs then is a difference between the servers.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from tests.jetstream.servers import Server
from tests.jetstream.user import DEADLINE_S, SECOND, User, status_of

Step = tuple[str, dict[str, Any]]
PLAYED_MAX = 3
NAMES = re.compile(r"\bT\d+\b")
"""Of streams, as users have them."""
SUBJECTS = ("a", "b", "c.d")
FILTERS = ("a", "b", "c.*", ">")

STREAMS: tuple[dict[str, Any], ...] = (
    {},
    {"max_msgs_per_subject": 1},
    {"max_msgs_per_subject": 2},
    {"max_msgs": 4, "discard": "new"},
    {"allow_direct": True},
    {"max_msg_size": 8},
)
NEWER: tuple[dict[str, Any], ...] = (
    {"retention": "workqueue"},
    {"retention": "interest"},
    {"first_seq": 5},
    {"allow_rollup_hdrs": True},
    {"allow_atomic": True},
    {"max_msgs_per_subject": 2, "discard": "new", "discard_new_per_subject": True},
)
"""What a third of the streams are, drawn by a name of its own."""
COPIED: tuple[dict[str, Any], ...] = ({}, {"allow_direct": True}, {"max_msg_size": 8}, {"first_seq": 5})
COPIES: tuple[tuple[str, str], ...] = (("mirror", ""), ("sources", ""), ("sources", "a"), ("sources", "c.*"))
"""How another stream has what this one has, and the filter with which."""
CONSUMERS: tuple[dict[str, Any], ...] = (
    {},
    {"filter_subject": "a"},
    {"filter_subject": "c.*"},
    {"filter_subjects": ["a", "b"]},
    {"deliver_policy": "last"},
    {"deliver_policy": "new"},
    {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
    {"deliver_policy": "last_per_subject", "filter_subject": ">"},
    {"ack_policy": "none"},
    {"max_deliver": 2},
)
"""Without `ack_policy` all: nats-server takes a termination, or a deletion, for an ack of all before."""
DROPPED = frozenset(
    ("created", "ts", "cluster", "time", "bytes", "first_ts", "last_ts", "type", "last_active", "description")
)
"""What no two servers say alike: times, who leads, how many bytes a message takes on disk."""
DEFAULTED = frozenset(("metadata", "num_replicas", "api", "domain", "config"))
"""Configurations are compared by tests of their own, field by field."""


def draw(seed: int, length: int = 25) -> list[Step]:
    """A plan of so many steps, after the stream and a consumer are made."""
    rng = random.Random(seed)
    config = rng.choice(STREAMS)
    newer = random.Random(f"newer {seed}")
    if newer.random() < 0.35:
        config = newer.choice(NEWER)
    # nats-server forgets what a consumer of last messages waits for when one of them is removed.
    limited = bool({"max_msgs_per_subject", "allow_rollup_hdrs", "retention"} & set(config))
    kept = not limited and random.Random(f"kept {seed}").random() < 0.3
    """Nothing is removed."""
    copying = random.Random(f"copies {seed}")
    copies = [copying.choice(COPIES)] if config in COPIED and copying.random() < 0.4 else []
    # What is removed before it is copied depends on time.
    kept = kept or bool(copies)
    forgotten = () if kept else ("last", "last_per_subject") if limited else ("last_per_subject",)
    consumers = [one for one in CONSUMERS if one.get("deliver_policy") not in forgotten]
    plan: list[Step] = [
        ("stream", {"config": config}),
        ("consumer", {"name": "C0", "config": rng.choice(consumers)}),
    ]
    plan[1:1] = [("copy", {"kind": kind, "filter": filter}) for kind, filter in copies]
    begin = random.Random(f"begins {seed}")
    if copies and begin.random() < 0.5:
        plan[1][1]["start"] = begin.randrange(1, 9)
    if copies and copies[0][0] == "mirror":
        plan[1][1]["filter"] = begin.choice(("", "a", "c.*"))
    # liftlog purges no message whose id may still be needed; of a stream that refuses when full it keeps no
    # ids, and single messages that are deleted keep their places.
    full = "discard" in config
    ids = rng.random() < 0.5 and not full
    whole = random.Random(f"whole {seed}").random() < 0.3
    """Nothing is left by a purge."""
    kinds = [name for name, (weight, _) in DRAWS.items() for _ in range(weight)]
    for _ in range(length):
        kind = rng.choice(kinds)
        step = DRAWS[kind][1](rng)
        if (kind == "purge" and (kept or ids or (full and step))) or (kind == "delete" and (kept or full)):
            continue
        if kind == "consumer":
            step["config"] = rng.choice(consumers)
        if kind == "purge" and whole:
            step = {}
        if kind == "ack" and step["how"] == "-NAK" and ("allow_rollup_hdrs" in config or not (ids or whole)):
            # nats-server forgets after a purge, or a roll-up, of whatever that a message is to come again.
            step["how"] = "+ACK"
        if kind == "publish" and not ids:
            step["headers"].pop("Nats-Msg-Id", None)
        if kind == "publish" and config.get("allow_rollup_hdrs") and newer.random() < 0.2:
            step["headers"]["Nats-Rollup"] = newer.choice(("sub", "all"))
        if kind == "publish" and config.get("allow_atomic") and newer.random() < 0.3:
            kind, step = "batch", _batch(newer)
        plan.append((kind, step))
    if copies and copies[0][0] == "sources" and begin.random() < 0.5:
        first, second = sorted((begin.randrange(3, len(plan) + 1), begin.randrange(3, len(plan) + 1)))
        plan.insert(second, ("given", {"away": False}))
        plan.insert(first, ("given", {"away": True}))
    altering = random.Random(f"filters {seed}")
    # nats-server counts wrongly what is to come once a filter was altered and something was removed.
    if not limited and altering.random() < 0.4:
        for _ in range(altering.randrange(1, 3)):
            given = {"name": altering.choice(("C0", "C0", "C1"))}
            # Without any nats-server may not count what comes.
            given["filter"] = altering.choice(("a", "b", "c.*"))
            plan.insert(altering.randrange(3, len(plan) + 1), ("filtered", given))
    resetting = random.Random(f"resets {seed}")
    # liftlog refuses to pass what nobody else would be given.
    if config.get("retention") != "workqueue" and resetting.random() < 0.35:
        for _ in range(resetting.randrange(1, 4)):
            to = {"seq": resetting.choice((0, 0, 1, 2, 3, 5))}
            given = {"name": resetting.choice(("C0", "C0", "C1"))} | to
            plan.insert(resetting.randrange(3, len(plan) + 1), ("reset", given))
    return plan


def _publish(rng: random.Random) -> dict[str, Any]:
    headers = {}
    if rng.random() < 0.15:
        # liftlog knows an id before it compares sequences, nats-server after.
        return {"to": rng.choice(SUBJECTS), "value": "id", "headers": {"Nats-Msg-Id": rng.choice("xyz")}}
    if rng.random() < 0.1:
        headers["Nats-Expected-Last-Sequence"] = str(rng.randrange(8))
    if rng.random() < 0.15:
        headers["Nats-Expected-Last-Subject-Sequence"] = str(rng.randrange(6))
    if rng.random() < 0.05:
        headers["Nats-Expected-Stream"] = "other"
    if rng.random() < 0.2:
        headers["Colour"] = "red"
    return {"to": rng.choice(SUBJECTS), "value": rng.choice(("", "1", "22", "3" * 9)), "headers": headers}


def _batch(rng: random.Random) -> dict[str, Any]:
    """Messages of one batch, some of which lack a number, or expect something."""
    parts: list[dict[str, Any]] = []
    for number in range(1, rng.randrange(2, 5)):
        headers = {"Nats-Batch-Sequence": str(number)}
        if rng.random() < 0.15:
            headers["Nats-Expected-Last-Subject-Sequence"] = str(rng.randrange(6))
        if rng.random() < (0.15 if number == 1 else 0.05):
            headers["Nats-Expected-Last-Sequence"] = str(rng.randrange(8))
        if number == 2 and rng.random() < 0.1:
            headers["Nats-Batch-Sequence"] = "3"
        parts.append({"to": rng.choice(SUBJECTS), "value": rng.choice(("", "1", "22")), "headers": headers})
    parts[-1]["headers"]["Nats-Batch-Commit"] = "1"
    if rng.random() < 0.3:
        # liftlog refuses a payload that would be stored nowhere, and what would be done to it.
        headers = {"Nats-Batch-Sequence": str(len(parts)), "Nats-Batch-Commit": "eob"}
        parts[-1] |= {"value": "", "headers": headers}
    return {"parts": parts}


def _purge(rng: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if rng.random() < 0.5:
        body["filter"] = rng.choice(FILTERS)
    how = rng.randrange(3)
    if how == 1:
        body["seq"] = rng.randrange(1, 3)
    if how == 2:
        body["keep"] = rng.randrange(1, 3)
    return body


def _get(rng: random.Random) -> dict[str, Any]:
    how = rng.randrange(3)
    if how == 0:
        return {"seq": rng.randrange(1, 9)}
    if how == 1:
        return {"last_by_subj": rng.choice(FILTERS)}
    return {"seq": rng.randrange(1, 6), "next_by_subj": rng.choice(FILTERS)}


def _name(rng: random.Random) -> dict[str, Any]:
    return {"name": rng.choice(("C0", "C1"))}


DRAWS: dict[str, tuple[int, Callable[[random.Random], dict[str, Any]]]] = {
    "publish": (10, _publish),
    "get": (2, _get),
    "direct": (1, _get),
    "delete": (2, lambda rng: {"seq": rng.randrange(1, 9)}),
    "purge": (1, _purge),
    "info": (2, lambda rng: {"filter": rng.choice(FILTERS)}),
    "names": (1, lambda rng: {"subject": rng.choice(FILTERS)}),
    "stream": (1, lambda rng: {"config": rng.choice(STREAMS)}),
    "consumer": (2, lambda rng: _name(rng) | {"config": rng.choice(CONSUMERS)}),
    "consumer_info": (2, _name),
    "consumer_names": (1, lambda rng: {}),
    "consumer_delete": (1, _name),
    "pull": (6, lambda rng: _name(rng) | {"batch": rng.randrange(1, 5)}),
    "ack": (5, lambda rng: {"which": rng.random(), "how": rng.choice(("+ACK", "+ACK", "-NAK", "+TERM"))}),
}


@dataclass
class Seen:
    """What a step gave, and what the server said beside it."""

    answer: Any
    said: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{self.answer} {self.said}".strip()


@dataclass
class Performer:
    """Carries out a plan for one user, and keeps what came of it."""

    user: User
    unacked: list[Msg] = field(default_factory=list)
    config: dict[str, Any] | None = None
    """Of the stream, once it is there; it is made again as it is."""
    consumers: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What was asked for, of those that are there."""
    refused: set[str] = field(default_factory=set)
    """Consumers of which a message was refused that has not come again. One at a time: of several the lowest
    comes first on liftlog, and what was refused first on nats-server."""
    batches: int = 0
    copy: tuple[str, str, int] = "", "", 0
    """How another stream has what this one has, with which filter, and from which sequence on."""
    rolled_up: set[str] = field(default_factory=set)
    """Subjects of which one message at most is left."""
    miscounts: bool = False
    """nats-server may count messages as waiting that are gone, once all was rolled up, or a purge has kept
    some and a consumer has a filter."""
    complaint: str = ""
    """What the last error said; it is shown and not compared."""
    kept: dict[int, int] = field(default_factory=dict)
    """How many messages a stream with interest had, by the number of the step before: on nats-server it is
    noted, and liftlog waits for it."""
    performed: int = 0

    async def perform(self, plan: list[Step]) -> list[Any]:
        seen = []
        for kind, given in plan:
            act: Callable[..., Awaitable[Any]] = getattr(self, f"_{kind}")
            self.complaint = ""
            seen.append(Seen(await act(**given), self.complaint))
            await self._note()
            self.performed += 1
        return seen

    async def _note(self) -> None:
        if (self.config or {}).get("retention") != "interest":
            return
        if not self.user.liftlog:
            self.kept[self.performed] = (await self.user.info()).state.messages
        elif self.performed in self.kept:
            await self._as_many(self.kept[self.performed])

    async def _as_many(self, count: int) -> None:
        """liftlog removes what all consumers have acked a moment after the ack. If there are never as many
        messages as on nats-server, a later step tells.
        """

        async def reached() -> bool:
            return (await self.user.info()).state.messages == count

        with suppress(TimeoutError):
            await self.user.until(reached)

    async def _settled(self) -> None:
        """liftlog removes what is above `max_msgs_per_subject`, and what a roll-up replaces, a moment after
        the ack.
        """
        most = (self.config or {}).get("max_msgs_per_subject", 0)
        if not self.user.liftlog or not (most or self.rolled_up):
            return

        async def reached() -> bool:
            info = await self.user.js.stream_info(self.user.name, subjects_filter=">")
            counts = info.state.subjects or {}
            few = all(counts.get(self.user.subject(one), 0) <= 1 for one in self.rolled_up)
            return few and all(count <= most for count in counts.values() if most)

        await self.user.until(reached)
        self.rolled_up.clear()

    async def final(self) -> list[Any]:
        """What is there at the end: every message, every consumer."""
        state = await self._info(">")
        plan: list[Step] = [("info", {"filter": ">"})]
        plan += [("get", {"seq": seq}) for seq in range(1, state["state"]["last_seq"] + 1)]
        plan += [("consumer_names", {})]
        for name in ("C0", "C1"):
            plan += [("consumer_info", {"name": name}), ("pull", {"name": name, "batch": 100})]
        if self.copy[0]:
            plan += [("copied", {})]
        return await self.perform(plan)

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            if "error" in value:
                self.complaint = value["error"]["description"]
                return [value["error"]["code"], value["error"]["err_code"]]
            skipped = DROPPED | DEFAULTED
            if value.get("messages") == 0:
                # nats-server says that sequence 0 of an empty stream is deleted.
                skipped |= {"deleted", "num_deleted"}
            if value.get("last_seq") == 0:
                # A purge of a stream that never had a message moves its first sequence to 1.
                skipped |= {"first_seq"}
            if "ack_floor" in value:
                # What lies below a floor without a message, deleted or filtered out, is told differently,
                # and so is a floor below messages that were delivered again: tests hold the plain cases.
                skipped |= {"ack_floor"}
            if "consumer_seq" in value:
                skipped |= {"stream_seq"}
            if self.miscounts:
                skipped |= {"num_pending"}
            kept = {key: one for key, one in sorted(value.items()) if key not in skipped}
            return {key.replace(self.user.name, "S"): self._plain(one) for key, one in kept.items()}
        if isinstance(value, list):
            return [self._plain(one) for one in value]
        return value.replace(self.user.name, "S") if isinstance(value, str) else value

    def _named(self, body: dict[str, Any]) -> dict[str, Any]:
        named = dict(body)
        for key in ("filter", "filter_subject", "last_by_subj", "next_by_subj", "subject"):
            if key in named:
                named[key] = self.user.subject(named[key])
        if "filter_subjects" in named:
            named["filter_subjects"] = [self.user.subject(one) for one in named["filter_subjects"]]
        return named

    async def _api(self, call: str, body: Any = b"") -> Any:
        return self._plain(await self.user.api(call, body))

    async def _stream(self, config: dict[str, Any]) -> Any:
        await self._settled()
        config = config if self.config is None else self.config
        told = await self.user.create(**config)
        self.config = config
        return self._plain(told)

    async def _copy(self, kind: str, filter: str, start: int = 0) -> Any:
        """Another stream that has what this one has, from now on; of sources, beside an empty one."""
        name = f"{self.user.name}-copy"
        if kind == "sources":
            await self.user.create(name=f"{self.user.name}-none")
        self.copy = kind, filter, start
        told = await self.user.create(name=name, **{kind: self._origins()})
        if "error" in told:
            self.copy = "", "", 0
        return "error" in told

    def _origins(self, away: bool = False) -> Any:
        """What the copy has. `away`: this stream was taken away."""
        kind, filter, start = self.copy
        origin: dict[str, Any] = {"name": self.user.name}
        if filter:
            origin["filter_subject"] = self.user.subject(filter)
        if start:
            origin["opt_start_seq"] = start
        none = {"name": f"{self.user.name}-none"}
        return origin if kind == "mirror" else [none] if away else [origin, none]

    async def _given(self, away: bool) -> Any:
        """The copy's sources are altered: it goes on where it was."""
        if not self.copy[0]:
            return None
        told = await self.user.create("UPDATE", name=f"{self.user.name}-copy", sources=self._origins(away))
        return "error" in told

    async def _copied(self) -> Any:
        """What is in the copy when it has everything."""
        kind, filter, start = self.copy
        name = f"{self.user.name}-copy"
        own = (await self.user.info(self.user.name)).state
        there = [
            await self.user.api(f"STREAM.MSG.GET.{self.user.name}", {"seq": seq})
            for seq in range(max(start, own.first_seq), own.last_seq + 1)
        ]
        wanted = re.compile(re.escape(self.user.subject(filter)).replace(r"\*", "[^.]+") if filter else ".*")
        count = sum(
            wanted.fullmatch(one["message"]["subject"]) is not None for one in there if "error" not in one
        )

        async def whole_there() -> bool:
            return (await self.user.info(name)).state.messages == count

        await self.user.until(whole_there)
        state = (await self.user.api(f"STREAM.INFO.{name}"))["state"]
        seqs = range(state["first_seq"], state["last_seq"] + 1) if count else ()
        found = [await self._api(f"STREAM.MSG.GET.{name}", {"seq": seq}) for seq in seqs]
        if kind == "mirror" and (filter or start):
            # Where it ends is its origin's end here, and its last message there.
            state, found = {"messages": state["messages"]}, [one for one in found if "message" in one]
        return [self._plain(state), [_with_headers(one) for one in found]]

    async def _publish(self, to: str, value: str, headers: dict[str, str]) -> Any:
        await self._settled()
        answer = await self.user.nc.request(
            self.user.subject(to), value.encode(), timeout=DEADLINE_S, headers=headers or None
        )
        told = self._plain(json.loads(answer.data))
        if "Nats-Rollup" in headers and isinstance(told, dict):
            self.rolled_up = {to} if headers["Nats-Rollup"] == "sub" else set(SUBJECTS)
            self.miscounts |= headers["Nats-Rollup"] == "all"
            await self._settled()
        return told

    async def _batch(self, parts: list[dict[str, Any]]) -> Any:
        await self._settled()
        self.batches += 1
        answers = []
        for part in parts:
            headers = part["headers"] | {"Nats-Batch-Id": f"batch-{self.batches}"}
            answer = await self.user.nc.request(
                self.user.subject(part["to"]), part["value"].encode(), timeout=DEADLINE_S, headers=headers
            )
            answers.append(self._plain(json.loads(answer.data)) if answer.data else "")
        # One that is wrong twice is told either.
        return [[400, 10071] if told == [400, 10164] else told for told in answers]

    async def _get(self, **body: Any) -> Any:
        await self._settled()
        return await self._api(f"STREAM.MSG.GET.{self.user.name}", self._named(body))

    async def _direct(self, **body: Any) -> Any:
        await self._settled()
        if not (self.config or {}).get("allow_direct"):
            return "nobody"
        call = f"$JS.API.DIRECT.GET.{self.user.name}"
        payload = json.dumps(self._named(body)).encode()
        return self._message(await self.user.nc.request(call, payload, timeout=DEADLINE_S))

    def _message(self, message: Msg) -> Any:
        headers = {key: one for key, one in (message.headers or {}).items() if key != "Nats-Time-Stamp"}
        return [message.data.decode(), self._plain(headers)]

    async def _delete(self, seq: int) -> Any:
        await self._settled()
        told = await self._api(f"STREAM.MSG.DELETE.{self.user.name}", {"seq": seq})
        # nats-server tells messages that were deleted one by one from those that went otherwise, by the code.
        return "none" if told in ([400, 10043], [500, 10057]) else told

    async def _purge(self, **body: Any) -> Any:
        await self._settled()
        last = (await self.user.api(f"STREAM.INFO.{self.user.name}"))["state"]["last_seq"]
        if body.get("seq", 0) > last:
            return "beyond"  # nats-server moves its last sequence up to there
        filtered = any(name.startswith("filter") for one in self.consumers.values() for name in one)
        self.miscounts |= "keep" in body and filtered
        return await self._api(f"STREAM.PURGE.{self.user.name}", self._named(body))

    async def _info(self, filter: str) -> Any:
        await self._settled()
        body = {"subjects_filter": self.user.subject(filter), "deleted_details": True}
        return await self._api(f"STREAM.INFO.{self.user.name}", body)

    async def _names(self, subject: str) -> Any:
        return await self._api("STREAM.NAMES", {"subject": self.user.subject(subject)})

    async def _consumer(self, name: str, config: dict[str, Any]) -> Any:
        """One that is there is made again as it is: changes have tests of their own."""
        await self._settled()
        config = self.consumers.get(name, config)
        wanted = {"durable_name": name, "ack_wait": 600 * SECOND} | self._named(config)
        told = await self.user.make_consumer(name, **wanted)
        if "error" not in told:
            self.consumers[name] = config
        return self._plain(told)

    async def _filtered(self, name: str, filter: str) -> Any:
        """Its filter is altered, when a pull that waits has looked at all that is there: what no pull has
        looked at is where nats-server goes on, and it looks at nothing for one that does not wait.
        """
        await self._settled()
        if name not in self.consumers or "max_deliver" in self.consumers[name]:
            return "nobody"
        await self._pull(name, 100, wait_ms=200)

        async def nobody_waits() -> bool:
            return (await self.user.consumer_info(name)).num_waiting == 0

        # On liftlog the leader hears of the end a moment after the client.
        await self.user.until(nobody_waits)
        named = {key: one for key, one in self.consumers[name].items() if not key.startswith("filter")}
        config = named | {"filter_subject": filter}
        wanted = {"durable_name": name, "ack_wait": 600 * SECOND} | self._named(config)
        told = await self.user.make_consumer(name, **wanted)
        if "error" not in told:
            self.consumers[name] = config
        return [told.get("error", {}).get("err_code"), told.get("num_pending"), told.get("num_ack_pending")]

    async def _reset(self, name: str, seq: int) -> Any:
        """It begins again at a sequence; 0: with what is not acked. What it was given before is not acked any
        more: there it would count for what is given again.
        """
        await self._settled()
        made = self.consumers.get(name)
        if made is None or (not seq and made.get("deliver_policy") == "last_per_subject"):
            return "nobody"
        if seq > (await self.user.api(f"STREAM.INFO.{self.user.name}"))["state"]["last_seq"]:
            return "beyond"
        told = await self.user.api(f"CONSUMER.RESET.{self.user.name}.{name}", {"seq": seq} if seq else {})
        if "error" in told:
            return self._plain(told)
        self._forget_deliveries(name)
        # The floor of what is deleted, or filtered out, is told differently.
        pending = None if self.miscounts else told["num_pending"]
        return [told["reset_seq"] if seq else None, pending, told["num_ack_pending"]]

    def _forget_deliveries(self, name: str) -> None:
        self.unacked = [one for one in self.unacked if one.reply.split(".")[3] != name]
        self.refused.discard(name)

    async def _consumer_info(self, name: str) -> Any:
        await self._settled()
        return await self._api(f"CONSUMER.INFO.{self.user.name}.{name}")

    async def _consumer_names(self) -> Any:
        return await self._api(f"CONSUMER.NAMES.{self.user.name}")

    async def _consumer_delete(self, name: str) -> Any:
        self._forget_deliveries(name)
        self.consumers.pop(name, None)
        return await self._api(f"CONSUMER.DELETE.{self.user.name}.{name}")

    async def _pull(self, name: str, batch: int, wait_ms: int = 0) -> Any:
        await self._settled()
        if name not in self.consumers:
            return "nobody"
        try:
            waits = {"expires": wait_ms * SECOND // 1000} if wait_ms else {"no_wait": True}
            pulled = await self.user.pull({"batch": batch} | waits, name, messages=batch)
        except TimeoutError:
            return "silence"
        found = []
        for message in pulled.messages:
            words = message.reply.split(".")
            found.append([message.subject.replace(self.user.name, "S"), *self._message(message), words[4:7]])
            found[-1].append("" if self.miscounts else words[8])
            if int(words[4]) > 1:
                self.refused.discard(name)
            if self.consumers[name].get("ack_policy") != "none":
                self.unacked.append(message)
        return [found, pulled.status]

    async def _ack(self, which: float, how: str) -> Any:
        if not self.unacked:
            return "nothing"
        message = self.unacked.pop(int(which * len(self.unacked)))
        consumer = message.reply.split(".")[3]
        if how == "-NAK" and consumer in self.refused:
            how = "+ACK"
        if how == "-NAK":
            self.refused.add(consumer)
        answer = await self.user.nc.request(message.reply, how.encode(), timeout=DEADLINE_S)
        return [how, answer.data.decode(), status_of(answer)]


def _with_headers(told: Any) -> Any:
    """A message with its headers in words, for streams' names stand within them."""
    if isinstance(told, dict) and "message" in told:
        headers = NAMES.sub("S", base64.b64decode(told["message"].get("hdrs", "")).decode())
        # liftlog copies messages as they are; positions of its own, and a word that nats-server chooses.
        headers = re.sub(r"Nats-Expected-.*\r\n", "", headers)
        headers = re.sub(r"^NATS/1.0\r\n\r\n$", "", headers)
        headers = re.sub(r"Liftlog-Sources: .*\r\n", "", headers)
        told["message"]["hdrs"] = re.sub(r"(Nats-Stream-Source: (?:\S+ ){4}\S+) \S+", r"\1", headers)
    return told


async def played(plan: list[Step], server: Server, kept: dict[int, int]) -> tuple[list[Any], list[Any]]:
    """What came of the steps, and what was there at the end. `kept`: as `Performer` has it."""
    async with User.of(server) as user:
        performer = Performer(user, kept=kept)
        return await performer.perform(plan), await performer.final()


async def differences(plan: list[Step], one: Server, other: Server) -> list[str]:
    """What `other` does not do as `one` did: the first step, with both answers; nothing if there is none.

    A consumer of nats-server, which is `one`, hears of new messages a moment after the stream has them, so
    what it tells is not always the same: where both differ the plan is played again.
    """
    found: list[str] = []
    for _ in range(PLAYED_MAX):
        kept: dict[int, int] = {}
        left, left_end = await played(plan, one, kept)
        right, right_end = await played(plan, other, kept)
        if left == right and left_end == right_end:
            return []
        steps: list[Any] = [*enumerate(plan)]
        mine, its = left, right
        if left == right:
            mine, its = left_end, right_end
            steps = [("at the end", number) for number in range(max(len(mine), len(its)))]
        for step, first, second in zip(steps, mine, its, strict=False):
            if first != second:
                found = [f"{step}", f"{one.name}: {first}", f"{other.name}: {second}"]
                break
    return found
