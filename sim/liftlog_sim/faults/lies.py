"""What no honest peer sends: messages with a field that is out of place, commands that are none, cut batches.

A *lie* here is one that a node can know for one: a number that nobody has come to, entries with a gap, a
batch with a flipped bit, a message in another node's name. What an honest peer might have said is not
altered, since a node believes it (spec/README.md, Malice): a vote is not granted instead of refused, and a
copy is not said to be durable at some offset that it could have reached.

Used by the faults of `faults/liars.py` and by the fuzzer (`fuzz/parsers.py`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog.core.metadata.commands import Command, author, decode_command, encode_command
from liftlog.messages import PeerMessage, intake
from liftlog.types import NODE_MAX, NUMBER_MAX, Entry
from liftlog_sim.chance.draws import Draws

U64_MAX = (1 << 64) - 1
LEAST_JUMP_BITS, MOST_JUMP_BITS = 33, 53
JUNK_BYTES_MAX = 40
NODES = frozenset(("candidate", "voter", "leader", "follower", "node", "reporter"))


def number(value: int, draws: Draws) -> int:
    """A number that nobody has come to, or that is none."""
    far = value + (1 << draws.randrange(LEAST_JUMP_BITS, MOST_JUMP_BITS))
    return draws.choice((-1, far, far, NUMBER_MAX, NUMBER_MAX + 1, (1 << 63) - 1, U64_MAX))


def node(value: int, draws: Draws) -> int:
    """Another node, or none."""
    return draws.choice((value % 3 + 1, value + 1, 0, NODE_MAX, NODE_MAX + 1))


def flipped(data: bytes, draws: Draws, start: int = 0) -> bytes:
    """The same bytes with one bit flipped at or behind `start`."""
    if len(data) <= start:
        return data + b"\x00"
    place = draws.randrange(start, len(data))
    return data[:place] + bytes((data[place] ^ (1 << draws.randrange(8)),)) + data[place + 1 :]


def junk(data: bytes, draws: Draws) -> bytes:
    """Bytes that are no command: cut off, with a surplus, or anything."""
    kind = draws.randrange(4)
    if kind == 0 and len(data) > 1:
        return data[: draws.randrange(1, len(data))]  # None at all is a new leader's entry (M1i).
    if kind == 1:
        return data + draws.randbytes(1)
    if kind == 2:
        return b"\x91" * draws.randrange(1, 5000)
    return b"\xc1" + draws.randbytes(draws.randrange(JUNK_BYTES_MAX))


def command(data: bytes, draws: Draws) -> bytes:
    """A command that is none, or is somebody else's. What a command says is its author's business."""
    try:
        parsed: Command = decode_command(data)
    except intake.InputRefused:
        return junk(data, draws)
    if not author(parsed) or draws.random() < 0.5:
        return junk(data, draws)
    name = next(name for name in parsed.__struct_fields__ if name in NODES)
    return encode_command(_with(parsed, name, draws))


def entries(value: list[Entry], draws: Draws) -> list[Entry]:
    """Entries that do not follow each other, or hold no command."""
    place = draws.randrange(len(value))
    one = value[place]
    kind = draws.randrange(4)
    if kind == 0:
        changed = msgspec.structs.replace(one, index=number(one.index, draws))
    elif kind == 1:
        changed = msgspec.structs.replace(one, term=number(one.term, draws))
    elif kind == 2:
        changed = msgspec.structs.replace(one, data=junk(one.data, draws))
    else:
        return [*value[: place + 1], one, *value[place + 1 :]]
    return [*value[:place], changed, *value[place + 1 :]]


def frames(value: list[bytes], draws: Draws) -> list[bytes]:
    """Batches of which one is damaged, cut, twice there, or in the wrong place."""
    place = draws.randrange(len(value))
    one = value[place]
    kind = draws.randrange(4)
    if kind == 0:
        changed = [flipped(one, draws)]
    elif kind == 1:
        changed = [one[: draws.randrange(len(one) + 1)]]
    elif kind == 2:
        changed = [one, one]
    else:
        return [*value[:place], *value[place + 1 :][::-1], one]
    return [*value[:place], *changed, *value[place + 1 :]]


def _with(message: Any, name: str, draws: Draws) -> Any:
    value = getattr(message, name)
    return msgspec.structs.replace(message, **{name: _field(name, value, draws)})


def _field(name: str, value: Any, draws: Draws) -> Any:
    if type(value) is int:
        return node(value, draws) if name in NODES else number(value, draws)
    if name == "command":
        return command(value, draws)
    if name == "partition":
        return draws.choice(((number(value[0], draws), value[1]), (value[0], number(value[1], draws))))
    if name == "entries":
        return entries(value, draws)
    if name == "batches":
        return frames(value, draws)
    return value[::-1]


def _alterable(name: str, value: Any) -> bool:
    if name in ("entries", "batches", "signed"):
        return bool(value)
    return type(value) is int or name in ("command", "partition")


def altered(message: PeerMessage, draws: Draws) -> PeerMessage | None:
    """The message with one field out of place; None if it has no such field."""
    names = [name for name in message.__struct_fields__ if _alterable(name, getattr(message, name))]
    heavy = [name for name in names if name in ("entries", "batches", "command", "signed")]
    if not names:
        return None
    name = draws.choice(heavy) if heavy and draws.random() < 0.6 else draws.choice(names)
    found: PeerMessage = _with(message, name, draws)
    return found


def mutated(data: bytes, draws: Draws) -> bytes:
    """Any bytes near to these: flipped, cut, doubled, with a piece out of place, or nested without end."""
    kind = draws.randrange(8)
    if kind <= 2 or not data:
        return flipped(data, draws)
    start = draws.randrange(len(data))
    end = min(len(data), start + draws.randrange(1, 9))
    if kind == 3:
        return data[:start]
    if kind == 4:
        return data[:start] + data[end:]
    if kind == 5:
        return data[:end] + data[start:]
    if kind == 6:
        return data[:start] + draws.randbytes(end - start) + data[end:]
    piece = draws.choice((b"\x91", b"\xdd\xff\xff\xff\xff", b"[", b"\xff", b"9"))
    return data[:start] + piece * draws.choice((1, 9, 600, 5000)) + data[start:]
