"""The log of one node: a line for everything that an operator may have to know, as text or as JSON.

Every line has a *kind* (docs/operating.md lists them), a sentence, and fields for machines. Lines of one kind
are limited: BURST in a window, and what is left out is counted and told when the window is over. A cluster
whose thousand partitions move at once, or that flaps for hours, fills no disk with that.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
from collections.abc import Callable
from typing import TextIO

FORMATS = ("text", "json")
BURST = 20
WINDOW_S = 30.0

log = logging.getLogger("liftlog")


def say(level: int, kind: str, text: str, **fields: object) -> None:
    """One line. `kind` is one of the program's own words, never something that came from outside."""
    log.log(level, "%s", text, extra={"kind": kind, "fields": fields})


def set_up(form: str, node: int, stream: TextIO | None = None) -> Sparing:
    """Let all of liftlog's log lines go to `stream` (stderr) in this format; returns what limits them."""
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines(node) if form == "json" else TextLines())
    sparing = Sparing()
    handler.addFilter(sparing)
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    log.setLevel(logging.INFO)
    return sparing


class Sparing(logging.Filter):
    """Lets at most BURST lines of a kind pass in WINDOW_S seconds, and counts the others.

    `clock` gives the time of a record in seconds; kinds are few, so the memory is bounded.
    """

    def __init__(self, clock: Callable[[logging.LogRecord], float] = lambda record: record.created) -> None:
        super().__init__()
        self._clock = clock
        self._since_s: dict[str, float] = {}
        self._passed: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = kind_of(record)
        now_s = self._clock(record)
        if not 0 <= now_s - self._since_s.get(kind, now_s - WINDOW_S - 1) <= WINDOW_S:
            self._since_s[kind] = now_s
            self._passed[kind] = 0
        if self._passed[kind] >= BURST:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._passed[kind] += 1
        return True

    def tell(self, now_s: float, everything: bool = False) -> None:
        """Say what was left out in windows that are over, or, at the end, in all of them."""
        for kind in list(self._left_out):
            if everything or now_s - self._since_s[kind] > WINDOW_S:
                count = self._left_out.pop(kind)
                self._since_s.pop(kind, None)
                say(logging.WARNING, kind, f"{count} more lines of this kind were left out", left_out=count)


class TextLines(logging.Formatter):
    """For people: time, level, kind, sentence."""

    def format(self, record: logging.LogRecord) -> str:
        text = f"{_time(record)} {record.levelname.lower():7} {kind_of(record):10} {record.getMessage()}"
        return text if record.exc_info is None else f"{text}\n{self.formatException(record.exc_info)}"


class JsonLines(logging.Formatter):
    """For machines: one object a line, the sentence included."""

    def __init__(self, node: int) -> None:
        super().__init__()
        self._node = node

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "kind": kind_of(record),
            "node": self._node,
            "text": record.getMessage(),
        }
        if record.exc_info is not None:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line | getattr(record, "fields", {}), separators=(",", ":"))


def kind_of(record: logging.LogRecord) -> str:
    """What a line is about; lines of other modules are of the kind that their logger is named after."""
    return str(getattr(record, "kind", "") or record.name.rpartition(".")[2])


def _time(record: logging.LogRecord) -> str:
    moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
