"""The log's lines: for people, for machines, and not without end."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from liftlog.eventlog import BURST, WINDOW_S, Sparing, say, set_up


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Logging is the process's own: put back what the tests change."""
    root, ours = logging.getLogger(), logging.getLogger("liftlog")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    yield
    root.handlers[:] = handlers
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_a_line_for_people_names_time_level_and_kind() -> None:
    out = io.StringIO()
    set_up("text", 3, out)
    say(logging.WARNING, "isr", "'orders' partition 0: in sync 1 (2 left)", isr=[1])
    at, level, kind, text = out.getvalue().rstrip("\n").split(maxsplit=3)
    assert at.endswith("Z") and at[10] == "T"
    assert (level, kind, text) == ("warning", "isr", "'orders' partition 0: in sync 1 (2 left)")


def test_a_line_for_machines_is_one_object_with_the_fields() -> None:
    out = io.StringIO()
    set_up("json", 3, out)
    say(logging.INFO, "role", "leads\nepoch 2", stream="orders", epoch=2)
    logging.getLogger("liftlog.network").warning("closed a connection from %s", "10.0.0.9")
    first, second = (json.loads(line) for line in out.getvalue().splitlines())
    assert first == {
        "at": first["at"],
        "level": "info",
        "kind": "role",
        "node": 3,
        "text": "leads\nepoch 2",
        "stream": "orders",
        "epoch": 2,
    }
    assert (second["kind"], second["text"]) == ("network", "closed a connection from 10.0.0.9")


def test_a_kind_that_floods_is_cut_and_counted_and_the_others_pass() -> None:
    out = io.StringIO()
    sparing = set_up("json", 1, out)
    now_s = [1000.0]
    sparing._clock = lambda record: now_s[0]
    for number in range(BURST + 7):
        say(logging.INFO, "isr", f"change {number}")
    say(logging.ERROR, "disk", "full")
    sparing.tell(now_s[0])
    kinds = [json.loads(line)["kind"] for line in out.getvalue().splitlines()]
    assert kinds == ["isr"] * BURST + ["disk"], "the window is not over"
    now_s[0] += WINDOW_S + 1
    sparing.tell(now_s[0])
    last = json.loads(out.getvalue().splitlines()[-1])
    assert (last["kind"], last["left_out"]) == ("isr", 7)
    assert last["text"] == "7 more lines of this kind were left out"
    say(logging.INFO, "isr", "a new window")
    assert json.loads(out.getvalue().splitlines()[-1])["text"] == "a new window"


def test_at_the_end_everything_that_was_left_out_is_told() -> None:
    out = io.StringIO()
    sparing = set_up("text", 1, out)
    for _ in range(BURST + 1):
        say(logging.INFO, "nats", "cannot connect")
    sparing.tell(0.0, everything=True)
    assert out.getvalue().splitlines()[-1].endswith("1 more lines of this kind were left out")


def test_a_clock_that_is_set_back_does_not_silence_the_log() -> None:
    sparing = Sparing(clock=lambda record: float(record.created))
    record = logging.LogRecord("liftlog", logging.INFO, "", 0, "x", (), None)
    record.created = 5000.0
    assert all(sparing.filter(record) for _ in range(BURST)) and not sparing.filter(record)
    record.created = 100.0
    assert sparing.filter(record)
