"""Messages and commands drawn from their types: whatever a decoder lets through, with numbers that matter.

`msgspec` knows of each field what it may be (V1), so that nothing here has to be kept in step with the
messages. Numbers are drawn mostly from a pool that the caller fills with those of the node under test: terms,
epochs, offsets and incarnations near to its own are what leads somewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from liftlog.types import NUMBER_MAX
from liftlog_sim.chance.draws import Draws

Draw = Callable[[Draws], Any]
TAILS = ("clean", "intact", "suspect", "damaged")
WORDS = ("", "a", "orders", *TAILS, "disk-1", "sync", "os", "none", "zstd", "x" * 64)
LIST_MAX = 4


class Drawer:
    """Draws values of one type. `numbers`: the pool, to be refilled as the node goes on."""

    def __init__(self, kind: Any, numbers: list[int], payloads: Sequence[Draw] = ()) -> None:
        self.numbers = numbers
        self._payloads = payloads
        self._draws: dict[int, Draw] = {}
        self._draw = self._of(inspect.type_info(kind))

    def draw(self, draws: Draws) -> Any:
        return self._draw(draws)

    def _of(self, info: inspect.Type) -> Draw:
        match info:
            case inspect.UnionType():
                return self._union([self._of(each) for each in info.types])
            case inspect.StructType():
                return self._struct(info)
            case inspect.IntType():
                return self._int(info)
            case inspect.BoolType():
                return lambda draws: draws.random() < 0.5
            case inspect.StrType():
                words = [word for word in WORDS if len(word) <= (info.max_length or 64)]
                if info.pattern:
                    words = list(TAILS)
                return lambda draws: draws.choice(words)
            case inspect.BytesType():
                return self._bytes()
            case inspect.ListType():
                item, most = self._of(info.item_type), min(info.max_length or LIST_MAX, LIST_MAX)
                least = info.min_length or 0
                return lambda draws: [
                    item(draws) for _ in range(least + draws.randrange(max(most - least, 0) + 1))
                ]
            case inspect.TupleType():
                items = [self._of(each) for each in info.item_types]
                return lambda draws: tuple(item(draws) for item in items)
            case inspect.VarTupleType():
                item = self._of(info.item_type)
                return lambda draws: tuple(item(draws) for _ in range(draws.randrange(LIST_MAX)))
            case inspect.NamedTupleType():
                cls, items = info.cls, [self._of(field.type) for field in info.fields]
                return lambda draws: cls(*(item(draws) for item in items))
            case inspect.DictType():
                key, value = self._of(info.key_type), self._of(info.value_type)
                return lambda draws: {key(draws): value(draws) for _ in range(draws.randrange(LIST_MAX))}
            case inspect.NoneType():
                return lambda draws: None
            case inspect.FloatType():
                return lambda draws: draws.random()
        raise TypeError(f"no way to draw {info}")

    def _union(self, kinds: list[Draw]) -> Draw:
        return lambda draws: draws.choice(kinds)(draws)

    def _struct(self, info: inspect.StructType) -> Draw:
        cls = info.cls
        fields = [(field.name, self._of(field.type)) for field in info.fields if not _left_out(field)]
        others = [(field.name, self._of(field.type)) for field in info.fields if _left_out(field)]

        def draw(draws: Draws) -> Any:
            values = {name: draw(draws) for name, draw in fields}
            named = [(name, draw) for name, draw in others if draws.random() < 0.3]
            return cls(**values, **{name: draw(draws) for name, draw in named})

        return draw

    def _int(self, info: inspect.IntType) -> Draw:
        least = info.ge if info.ge is not None else -NUMBER_MAX
        most = info.le if info.le is not None else NUMBER_MAX
        pool = self.numbers

        def draw(draws: Draws) -> int:
            value = pool[draws.randrange(len(pool))] if draws.random() < 0.9 else most - draws.randrange(2)
            return min(max(value + draws.choice((0, 0, 0, 1, -1)), least), most)

        return draw

    def _bytes(self) -> Draw:
        def junk(draws: Draws) -> bytes:
            return draws.randbytes(draws.randrange(30))

        payloads = (*self._payloads, junk)
        return lambda draws: draws.choice(payloads)(draws)



def _left_out(field: inspect.Field) -> bool:
    """Whether a field may be unset, which is no value that could be drawn."""
    no_default = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
    return not field.required and no_default


def encoded(drawer: Drawer) -> Draw:
    """Draws encoded values."""
    encode = msgspec.msgpack.Encoder().encode
    return lambda draws: encode(drawer.draw(draws))
