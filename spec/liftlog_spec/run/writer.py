"""Lines of generated Python."""

from __future__ import annotations


class Writer:
    """Writes one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)
