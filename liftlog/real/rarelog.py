"""Warnings about what strangers do, however often they do it: one line of a kind in ten seconds."""

from __future__ import annotations

import logging

import trio

EVERY_S = 10.0


class RareLog:
    """The first line of a kind at once; then at most one in EVERY_S, which says how many were left out."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._next_s: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def warning(self, kind: str, text: str) -> None:
        """`kind` is one of a few words that the program knows, never something that came from outside."""
        now = trio.current_time()
        if now < self._next_s.get(kind, 0.0):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._next_s[kind] = now + EVERY_S
        left_out = self._left_out.pop(kind, 0)
        self._log.warning("%s%s", text, f" (and {left_out} more like it before)" if left_out else "")
