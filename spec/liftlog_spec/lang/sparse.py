"""Functions over domains that are too large to write out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

WRITTEN_OUT = 10_000
"""A function over more values than these is held as a default and its exceptions."""


class Sparse:
    """Looks like the tuple of a function's values, `length` long. Two are equal if all their values are."""

    __slots__ = ("changed", "default", "length")

    def __init__(self, length: int, default: Any, changed: Mapping[int, Any] | None = None) -> None:
        self.length = length
        self.default = default
        self.changed = {place: value for place, value in (changed or {}).items() if value != default}

    def __getitem__(self, place: int) -> Any:
        return self.changed.get(place, self.default)

    def put(self, place: int, value: Any) -> Sparse:
        """The same function with one value changed."""
        found = Sparse(self.length, self.default)
        found.changed = self.changed.copy()
        if value != self.default:
            found.changed[place] = value
        else:
            found.changed.pop(place, None)
        return found

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(self.length))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sparse)
            and (self.length, self.default) == (other.length, other.default)
            and self.changed == other.changed
        )

    def __hash__(self) -> int:
        return hash((self.length, self.default, tuple(sorted(self.changed.items()))))

    def __repr__(self) -> str:
        return f"Sparse({self.length}, {self.default!r}, {dict(sorted(self.changed.items()))!r})"
