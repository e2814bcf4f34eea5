"""Texts as small numbers: what a dictionary-encoded column of a history is made of."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Strings seen so far, each with a small number: the dictionary of a dictionary-encoded column."""

    __slots__ = ("codes", "names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names: list[str] = []
        self.codes: dict[str, int] = {}
        for name in names:
            self.code(name)

    def code(self, name: str) -> int:
        found = self.codes.get(name)
        if found is None:
            found = self.codes[name] = len(self.names)
            self.names.append(name)
        return found
