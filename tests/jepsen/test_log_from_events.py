"""Histories as jepsen.tests.kafka writes them, with the verdicts that its definitions give."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_jepsen.events import BadHistory, Event
from liftlog_jepsen.formats.edn import read_all
from liftlog_jepsen.log import Rules, check_table
from liftlog_jepsen.log.from_events import to_history
from tests.jepsen.kernel_input import kernel_input


def events(*lines: str) -> list[Event]:
    """Each line: process, type, f, value in EDN, and perhaps a map of more."""
    made = []
    for line in lines:
        process, kind, f, value, *more = read_all(line, "test")
        extra = tuple((str(name), each) for name, each in more[0].items()) if more else ()
        made.append(Event(process, str(kind), str(f), value, extra=extra))
    return made


def names(*lines: str, unseen: str = "final") -> list[str]:
    table = check_table(kernel_input([to_history(events(*lines))]), Rules(unseen=unseen))
    return sorted(row["anomaly"] for row in table.to_pylist())


def both(process: int, kind: str, f: str, asked: str, told: str, more: str = "") -> tuple[str, str]:
    return f"{process} :invoke :{f} {asked}", f"{process} :{kind} :{f} {told} {more}"


def polled(process: int, records: str, kind: str = "ok", more: str = "") -> tuple[str, str]:
    return both(process, kind, "poll", "[[:poll]]", f"[[:poll {records}]]", more)


FOUR = both(
    9,
    "ok",
    "send",
    "[[:send 7 10] [:send 7 11] [:send 7 12] [:send 7 13]]",
    "[[:send 7 [0 10]] [:send 7 [1 11]] [:send 7 [2 12]] [:send 7 [3 13]]]",
)


def test_values_offsets_keys_and_outcomes_arrive() -> None:
    history = to_history(
        events(
            *both(1, "info", "txn", "[[:send :x :a] [:poll]]", "[[:send :x [nil :a]] [:poll {:y [[4 5]]}]]"),
            ":nemesis :info :kill nil",
            *both(2, "fail", "send", "[[:send :x 2]]", "nil"),
            "3 :invoke :subscribe [:x :y]",
        )
    )
    shown = [
        (op.f, op.outcome, op.idx_inv, op.idx_ret, [tuple(mop)[:4] for mop in op.mops])
        for op in history.ops()
    ]
    assert shown == [
        ("txn", "info", 0, 1, [("send", "x", None, "a"), ("poll", "y", 4, 5)]),
        ("send", "fail", 2, 3, [("send", "x", None, 2)]),
        ("subscribe", "info", 4, None, [("subscribe", "x", None, None), ("subscribe", "y", None, None)]),
    ]


CASES: dict[str, tuple[tuple[tuple[str, str], ...], list[str]]] = {
    "a committed unknown transaction's other send takes part": (
        (
            both(0, "info", "send", "[[:send :x 1] [:send :y 1]]", "[[:send :x [0 1]] [:send :y 1]]"),
            both(1, "ok", "send", "[[:send :x 2]]", "[[:send :x [0 2]]]"),
            polled(2, "{:y [[5 1]]}"),
        ),
        ["inconsistent-offsets"],
    ),
    "an unknown transaction of which nothing shows does not": (
        (
            both(0, "info", "send", "[[:send :x 1] [:send :y 1]]", "[[:send :x [0 1]] [:send :y 1]]"),
            both(1, "ok", "send", "[[:send :x 2]]", "[[:send :x [0 2]]]"),
        ),
        [],
    ),
    "a read of what failed": (
        (
            both(0, "fail", "send", "[[:send :x 2] [:send :y 3]]", "[[:send :x 2] [:send :y 3]]"),
            polled(1, "{:x [[0 2]]}"),
        ),
        ["G1a"],
    ),
    "a lost write under an overwritten offset": (
        (
            both(0, "ok", "send", "[[:send :x :a]]", "[[:send :x [0 :a]]]"),
            both(0, "ok", "send", "[[:send :x :b] [:send :x :c]]", "[[:send :x [0 :b]] [:send :x [2 :c]]]"),
            polled(1, "{:x [[0 :b] [2 :c]]}"),
        ),
        ["inconsistent-offsets", "lost-write"],
    ),
    "aborted polls rewind": (
        (
            FOUR,
            polled(1, "{7 [[0 10]]}"),
            polled(1, "{7 [[1 11] [2 12]]}", "fail"),
            polled(1, "{7 [[1 11] [2 12]]}", "info"),
        ),
        [],
    ),
    "an aborted poll that was not rewound": (
        (
            FOUR,
            polled(1, "{7 [[0 10]]}"),
            polled(1, "{7 [[1 11] [2 12]]}", "fail"),
            polled(1, "{7 [[3 13]]}", "fail"),
        ),
        ["poll-skip"],
    ),
    "back within one operation of two polls": (
        (
            FOUR,
            both(
                1,
                "ok",
                "poll",
                "[[:poll] [:poll]]",
                "[[:poll {7 [[0 10] [1 11]]}] [:poll {7 [[1 11] [2 12]]}]]",
            ),
        ),
        ["int-nonmonotonic-poll"],
    ),
    "back within one operation after a rebalance": (
        (
            FOUR,
            both(
                1,
                "ok",
                "poll",
                "[[:poll] [:poll]]",
                "[[:poll {7 [[0 10] [1 11]]}] [:poll {7 [[1 11] [3 13]]}]]",
                "{:rebalance-log [{:keys [7]}]}",
            ),
            polled(2, "{7 [[0 10] [1 11] [2 12]]}"),
        ),
        [],
    ),
    "a rebalance of another key excuses nothing": (
        (
            FOUR,
            polled(1, "{7 [[0 10] [2 12]]}", more="{:rebalance-log [{:keys [8]}]}"),
            polled(2, "{7 [[0 10] [1 11]]}"),
        ),
        ["int-poll-skip"],
    ),
    "a send of unknown offset that polls place behind another's": (
        (
            both(0, "ok", "send", "[[:send :x :a] [:send :x :c]]", "[[:send :x [1 :a]] [:send :x :c]]"),
            both(1, "info", "send", "[[:send :x :b]]", "[[:send :x :b]]"),
            polled(2, "{:x [[1 :a] [2 :b] [3 :c]]}"),
        ),
        ["int-send-skip", "realtime-order"],
    ),
    "sends of one operation in the wrong order": (
        (
            both(0, "info", "send", "[[:send :y :d] [:send :y :b]]", "[[:send :y :d] [:send :y :b]]"),
            both(1, "info", "send", "[[:send :y :c]]", "[[:send :y :c]]"),
            polled(2, "{:y [[2 :b] [3 :c] [4 :d]]}"),
        ),
        ["int-nonmonotonic-send"],
    ),
    "sends of one process in the wrong order": (
        (
            both(0, "ok", "send", "[[:send :x :c] [:send :x :d]]", "[[:send :x [3 :c]] [:send :x [4 :d]]]"),
            both(0, "ok", "send", "[[:send :x :a] [:send :x :b]]", "[[:send :x [1 :a]] [:send :x [2 :b]]]"),
        ),
        ["nonmonotonic-send", "realtime-order", "realtime-order"],
    ),
    "the same after an assignment of other keys": (
        (
            both(0, "ok", "send", "[[:send :x :c] [:send :x :d]]", "[[:send :x [3 :c]] [:send :x [4 :d]]]"),
            both(0, "info", "assign", "[:y]", "[:y]"),
            both(0, "ok", "send", "[[:send :x :a] [:send :x :b]]", "[[:send :x [1 :a]] [:send :x [2 :b]]]"),
        ),
        ["realtime-order", "realtime-order"],
    ),
    "an assignment that keeps the key keeps the position": (
        (
            FOUR,
            polled(1, "{7 [[0 10] [1 11]]}"),
            both(1, "ok", "subscribe", "[7 8]", "[7 8]"),
            polled(1, "{7 [[1 11] [2 12] [3 13]]}"),
        ),
        ["nonmonotonic-poll"],
    ),
    "an operation that polls what it sends": (
        (both(0, "ok", "txn", "[[:send :x :a] [:poll]]", "[[:send :x [0 :a]] [:poll {:x [[0 :a]]}]]"),),
        ["precommitted-read"],
    ),
    "aborted polls show duplicates, failed sends do not": (
        (
            both(0, "ok", "send", "[[:send :x 0]]", "[[:send :x [1 0]]]"),
            both(0, "fail", "send", "[[:send :x 1]]", "[[:send :x [2 1]]]"),
            polled(1, "{:x [[11 0] [12 1]]}", "fail"),
        ),
        ["duplicate"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_definitions_give_their_verdicts(case: str) -> None:
    lines, expected = CASES[case]
    assert names(*(line for pair in lines for line in pair)) == expected


def test_what_nobody_polled_is_unseen_at_the_end_if_all_values_count() -> None:
    lines = [*FOUR, *polled(1, "{7 [[0 10] [1 11]]}")]
    assert names(*lines, unseen="all") == ["unseen", "unseen"]
    assert names(*lines) == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("1 :invoke :poll [[:poll]]", "1 :invoke :poll [[:poll]]"), "has not ended"),
        (("1 :ok :poll [[:poll]]",), "never invoked"),
        (both(1, "ok", "poll", "[[:poll]]", "[[:poll [1 2]]]"), "a map of keys to records"),
        (both(1, "ok", "poll", "[[:poll]]", "[[:poll {1 [[1]]}]]"), r"expected \[offset value\]"),
        (both(1, "ok", "send", "[[:send 1 2]]", "[[:send 1 [-1 2]]]"), "an offset or nil"),
        (both(1, "ok", "send", "[[:append 1 2]]", "[[:append 1 2]]"), r"expected \[:send k v\]"),
        (both(1, "ok", "send", "7", "7"), "expected a vector"),
    ],
)
def test_what_is_no_such_history_is_refused(lines: Any, expected: str) -> None:
    with pytest.raises(BadHistory, match=expected):
        to_history(events(*lines))
