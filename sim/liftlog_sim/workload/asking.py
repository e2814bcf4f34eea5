"""What a message asks for beside being stored, and whether it was answered so (R4, L1, L4).

Most messages ask for nothing, or for the full ack. In some worlds publishers want the leader's word alone, or
no answer, and put messages into Liftbridge's envelope; a few of those ask for what is not done here.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.messages import AckPublishes, EnvelopeAnswer, RefusePublishes
from liftlog.options.envelope import ANY_OFFSET, COOKIE, Envelope, seal
from liftlog.options.wishes import ALL, LEADER, NONE, POLICY_NAMES
from liftlog.types import Message
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.knobs import Knobs

CRC_PLACE = 8
STRANGE_ENVELOPES = 5
"""How many kinds of envelopes there are that ask for what is not done."""


class Asking(NamedTuple):
    """Of one message. `strange`: which kind of envelope that is refused; -1 = none. `expected`: at which
    offset it is to be stored, or not at all; -1 = at any.
    """

    policy: int = ALL
    enveloped: bool = False
    strange: int = -1
    expected: int = -1


PLAIN = Asking()


def drawn(draws: Draws, knobs: Knobs, with_reply: bool, strange: float) -> Asking:
    """What the next message asks for. `strange`: what share of envelopes is to be refused."""
    if not (knobs.policies or knobs.envelopes):
        return PLAIN
    policy = ALL
    if draws.random() < knobs.policies and with_reply:
        policy = draws.choice((LEADER, LEADER, NONE))
    enveloped = draws.random() < knobs.envelopes
    refused = enveloped and draws.random() < strange * STRANGE_ENVELOPES
    return Asking(policy, enveloped, draws.randrange(STRANGE_ENVELOPES) if refused else -1)


def header_lines(asking: Asking) -> list[bytes]:
    """The header lines that say so."""
    lines = []
    if asking.policy != ALL:
        lines.append(b"Liftlog-Ack-Policy: " + POLICY_NAMES[asking.policy].encode())
    if asking.expected >= 0:
        name = b"Liftlog-Expected-Offset" if asking.expected % 2 else b"Nats-Expected-Last-Sequence"
        lines.append(b"%b: %d" % (name, asking.expected))
    return lines


def key(knobs: Knobs, draw: Draws) -> bytes | None:
    """A key; a few messages have none."""
    return None if draw.random() < 0.1 else b"k%d" % draw.randrange(knobs.keys)


def key_lines(knobs: Knobs, draw: Draws, compact: bool) -> list[bytes]:
    """The same as headers, and now and then the word that deletes it, where that means something. Where it
    does not a message has a key if somebody reads by keys (S2).
    """
    if not compact:
        found = key(knobs, draw.part("filtered")) if knobs.filtered_interval_us else None
        return [] if found is None else [b"Liftlog-Key: " + found]
    found = key(knobs, draw)
    if found is None:
        return []
    lines = [b"Liftlog-Key: " + found]
    if draw.random() < knobs.tombstones:
        lines.append(b"Liftlog-Tombstone: 1")
    return lines


def enveloped(
    asking: Asking, subject: bytes, inbox: bytes, name: bytes, value: bytes, key: bytes, stream: str
) -> Message:
    """The message in its envelope. `name`: the value's own, by which its ack is known."""
    envelope = Envelope(
        offset=asking.expected if asking.expected > 0 else ANY_OFFSET if len(name) % 2 else 0,
        key=key,
        value=value,
        stream=stream if len(name) % 3 else "",
        headers=(("Kind", b"enveloped"),) if len(value) % 2 else (),
        ack_inbox=inbox.decode(),
        correlation_id=name.decode(),
        policy=asking.policy,
    )
    changes: tuple[dict[str, object], ...] = (
        {}, {"offset": -2}, {"offset": 0, "stream": "another"}, {"partition": 999}, {"timestamp": 1}
    )  # fmt: skip
    if asking.strange > 0:
        envelope = envelope._replace(**changes[asking.strange])  # type: ignore[arg-type]
    payload = seal(envelope, checksum=asking.strange == 0 or len(name) % 2 == 0)
    if asking.strange == 0:
        damaged = bytes((payload[CRC_PLACE] ^ 1,))
        payload = payload[:CRC_PLACE] + damaged + payload[CRC_PLACE + 1 :]
    assert payload.startswith(COOKIE)
    return Message(subject, b"", b"", payload)


def problem_of_ack(asking: Asking, asks_full: bool, name: bytes, acks: AckPublishes, place: int) -> str:
    """What is wrong with this answer, to who asked so; empty if nothing is. HeadersHeeded."""
    if asking.strange >= 0:
        return ", which asks for what is not done here"
    if acks.by_leader != (asking.policy == LEADER):
        return " with another policy than it asked for"
    if (acks.full is not None and acks.full[place]) != (asks_full and not asking.enveloped):
        return " with other keys than it asked for"
    return _problem(asking, name, None if acks.enveloped is None else acks.enveloped[place])


def problem_of_refusal(asking: Asking, name: bytes, refusal: RefusePublishes, place: int) -> str:
    """The same of a refusal."""
    return _problem(asking, name, None if refusal.enveloped is None else refusal.enveloped[place])


def _problem(asking: Asking, name: bytes, found: EnvelopeAnswer | None) -> str:
    if asking.policy == NONE:
        return ", which asked for no answer"
    if (found is not None) != asking.enveloped:
        return " in another form than it came in"
    if found is not None and found.correlation_id != name.decode():
        return f" under the correlation id {found.correlation_id!r}"
    return ""
