"""What publishers send in batches: a message for each value, one after the other, now and then with one that
is missing or late (L11).

A batch is known by the first of its values, in its reply subjects too.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.types import Message
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.kernel import MILLISECOND

SHARE = 0.4
"""So many of the bursts to a stream that takes batches are batches."""
WRONG_SHARE = 0.2
WRONGS = ("lost", "first lost", "late", "never ends")
SPOILED_SHARE = 0.05
VALUES_MAX = 6
PAUSES_US = (0, 0, 2 * MILLISECOND, 100 * MILLISECOND, 600 * MILLISECOND)
"""Between two messages of a batch."""


def sizes(total: int, draws: Draws) -> list[int]:
    """How `total` values and one more are sent: so many in each batch."""
    found: list[int] = []
    left = total + 1
    while left:
        found.append(min(left, 1 + draws.randrange(VALUES_MAX)))
        left -= found[-1]
    return found


def messages(
    values: Sequence[tuple[bytes, list[bytes]]],
    reply: bytes,
    subject: bytes,
    filler: bytes,
    ends: list[bytes],
    draws: Draws,
) -> list[tuple[int, Message]]:
    """The messages of one batch of these values, which have these header lines, and after how many
    microseconds each is sent. `ends`: the lines of the message that ends it.
    """
    id = values[0][0]
    answered = reply if draws.part("answered").random() < 0.5 else b""
    closes = draws.part("closes").random() < 0.3
    made = []
    for number, (value, lines) in enumerate(values, 1):
        last = number == len(values) and not closes
        more = [*lines, *ends, b"Nats-Batch-Commit: 1"] if last else lines
        to = reply if last else answered
        made.append(_message(subject, to, _numbered(id, number, more), value + filler))
    if closes:
        more = [*ends, b"Nats-Batch-Commit: eob"]
        made.append(_message(subject, reply, _numbered(id, len(values) + 1, more), b""))
    if draws.part("wrong").random() < WRONG_SHARE:
        made = _wrong(made, draws.part("how"))
    if len(made) > 1 and draws.part("spoiled").random() < SPOILED_SHARE:
        made[1] = _expecting(made[1])
    pause_us = draws.part("pause").choice(PAUSES_US)
    return [(place * pause_us, message) for place, message in enumerate(made)]


def begun(cluster: Cluster, sent: Sequence[tuple[int, Message]]) -> list[Message]:
    """Those that are sent at once; the others are, each by itself, when it is time."""

    def publish(message: Message, second: object) -> None:
        cluster.bus.publish(message.subject, [message])

    for after_us, message in sent:
        if after_us:
            cluster.kernel.after(after_us, publish, message)
    return [message for after_us, message in sent if not after_us]


def _wrong(made: list[Message], draws: Draws) -> list[Message]:
    """Some of these in another order, or not all of them."""
    kind, middle = draws.choice(WRONGS), len(made) // 2
    if kind == "lost":
        return made[:middle] + made[middle + 1 :]
    if kind == "first lost":
        return made[1:]
    if kind == "late":
        return [*made[:middle], *reversed(made[middle:])]
    return made[:-1]


def _expecting(message: Message) -> Message:
    """What only the first message of a batch may."""
    return message._replace(headers=message.headers[:-2] + b"Nats-Expected-Last-Sequence: 7\r\n\r\n")


def _numbered(id: bytes, number: int, lines: list[bytes]) -> list[bytes]:
    return [b"Nats-Batch-Id: " + id, b"Nats-Batch-Sequence: %d" % number, *lines]


def _message(subject: bytes, reply: bytes, lines: list[bytes], payload: bytes) -> Message:
    headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines)
    return Message(subject, reply, headers, payload)
