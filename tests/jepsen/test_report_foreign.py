"""Reports on foreign histories: what they choose, that they stay small, and what they say."""

from __future__ import annotations

import io
import random
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from liftlog.types import LiftlogError
from liftlog_jepsen.events import INFO, INVOKE, OK, Event, Operation, pair
from liftlog_jepsen.formats.edn import Keyword
from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.report import foreign_page, timeline
from liftlog_jepsen.report.anomaly_texts import covered, meaning
from liftlog_jepsen.report.cycle import cycle_figure
from liftlog_jepsen.report.foreign import (
    AROUND,
    FaultSpan,
    ForeignResult,
    bands_of,
    drawn,
    from_history,
    overview_of,
    select,
    wanted,
)
from liftlog_jepsen.report.foreign_page import DRAWINGS_MAX, FILES_MAX, write_foreign_html
from liftlog_jepsen.report.foreign_text import print_foreign
from liftlog_jepsen.report.operation_text import call, describe, micro, show
from liftlog_jepsen.tallies import ANOMALIES as TALLY_ANOMALIES
from liftlog_jepsen.transactions.consistency import ANOMALIES as TRANSACTION_ANOMALIES
from tests.jepsen import report_samples as samples
from tests.jepsen.test_html_report import EVIL, Page

ALL = (
    samples.register_result,
    samples.append_result,
    samples.bank_result,
    samples.unknown_result,
    samples.valid_result,
    samples.broken_result,
)


def page(*results: ForeignResult) -> Page:
    return Page(foreign_page.foreign_page(results))


def printed(*results: ForeignResult) -> str:
    console = Console(file=io.StringIO(), width=160, highlight=False)
    print_foreign(console, results)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


# -- what is said --------------------------------------------------------------------------------------------


def test_the_verdict_comes_first_and_what_is_wrong_before_what_is_right() -> None:
    shown = page(*(make() for make in reversed(ALL)))
    text = shown.text[shown.text.index("6 histories") :]
    assert text.startswith("6 histories: 1 valid, 3 invalid, 2 unknown")
    order = [text.index(name) for name in ("bank.edn", "append.edn", "register.edn", "hard.edn", "good.edn")]
    assert order[:3] == sorted(order[:3]) and max(order[:3]) < order[3] < order[4]
    assert "broken.edn line 3, column 17: expected } for the { of line 3, found ]" in text
    assert "Note: the search gave up after 60 s" in text
    links = {attributes["href"] for tag, attributes in shown.tags if tag == "a"}
    anchors = {f"#{attributes['id']}" for _, attributes in shown.tags if "id" in attributes}
    assert len(links) == 5 and links <= anchors, "the valid one has nothing to show"


def test_a_partial_linearization_is_told_with_its_end() -> None:
    shown = page(samples.register_result())
    for words in (
        "An order was found for 5 operations. After that: the register holds 2",
        "#5 read → 1: it read 1, but the register holds 2",
        "step 4: #4 read → 2\nthen 2",
        "#2 write 2 outcome unknown",
        "fault: fault",
    ):
        assert words in shown.text
    assert shown.count("g", **{"class": "point"}) == 5
    assert shown.count("g", **{"class": "block"}) == 1
    assert shown.count("g", **{"class": "block possible"}) == 1, "allowed, but no help"
    classes = [(attributes.get("class") or "").split() for tag, attributes in shown.tags if tag == "g"]
    assert sum("stuck" in each for each in classes) == 1
    assert shown.count("rect", **{"class": "band"}) == 1


def test_a_cycle_is_drawn_with_each_step_in_words() -> None:
    shown = page(samples.append_result())
    assert shown.count("g", **{"class": "edge wr"}) == 2
    assert shown.count("g", **{"class": "edge realtime"}) == 1
    assert shown.count("g", **{"class": "node"}) == 5
    assert "T0 wr x T1 T0 appended 1 to x, which T1 read." in shown.text
    assert 'append "x" 1' in shown.text
    assert "G2-item-realtime (allowed: it does not count)" in shown.text
    assert "1, allowed" in shown.text
    assert "T0 is read by T1: T0 appended 1 to x" in shown.text


@pytest.mark.parametrize("count", [2, 3, 5, 6, 7, 12, 24, 25, 400])
def test_cycles_of_any_length(count: int) -> None:
    steps = [samples.edge(n, (n + 1) % count, "rw", f"key {n}", f"step {n}.") for n in range(count)]
    drawn = Page(cycle_figure(steps, {}))
    assert drawn.count("li", **{"data-step": f"{count - 1}"}) == 1
    nodes = drawn.count("g", **{"class": "node"})
    assert nodes == (count if count <= 24 else 0)
    boxes = [
        tuple(float(attributes[name] or 0) for name in ("x", "y", "width", "height"))
        for (parent, _), (tag, attributes) in zip(drawn.tags, drawn.tags[1:], strict=False)
        if tag == "rect" and "rx" in attributes and attributes["rx"] == "5"
    ]
    assert len(boxes) == nodes
    for place, (x, y, width, height) in enumerate(boxes):
        assert x >= 0 and x + width <= 640 and y >= 0
        for left, top, other_width, other_height in boxes[place + 1 :]:
            apart = (
                x + width <= left or left + other_width <= x or y + height <= top or top + other_height <= y
            )
            assert apart, f"boxes of {count} overlap"


def test_the_terminal_tells_the_same() -> None:
    text = printed(*(make() for make in ALL))
    lines = text.splitlines()
    assert lines[0].startswith("VALID    good.edn  register, 120 operations, 0.02 s: no anomaly was found")
    assert lines[-1] == "invalid: 6 histories, 3 invalid, 2 unknown, 1 valid"
    for words in (
        "An order was found for 5 operations:",
        "4. #4  process 1  read → 2",
        "After that: the register holds 2, and it is stuck:",
        "✗ #5  process 0  read → 1: it read 1, but the register holds 2",
        "│  ↓ wr x  T0 appended 1 to x, which T1 read.",
        "└── wr y  T1 appended 1 to y, which T0 read.",
        "broken.edn line 3, column 17",
    ):
        assert words in text
    assert sum(line.startswith("INVALID") for line in lines) == 3


def test_every_anomaly_that_a_checker_knows_has_a_meaning() -> None:
    for anomaly in (*TRANSACTION_ANOMALIES, *TALLY_ANOMALIES, "nonlinearizable"):
        assert meaning(anomaly), anomaly
    assert "process's transactions" in meaning("G1c-process")
    for model in ("list-append", "rw-register", "bank", "jepsen-set", "kafka", "cas-register", "my.py:Model"):
        looked_for, _ = covered(model)
        assert looked_for and all(meaning(anomaly) for anomaly in looked_for)


# -- what is chosen ------------------------------------------------------------------------------------------


def operation(number: int, key: object = None, process: int = 0) -> Operation:
    return Operation(number, process, "write", number, number, OK, 2 * number, 2 * number + 1, key)


def test_a_huge_history_gives_a_small_report(tmp_path: Path) -> None:
    operations = [operation(number, process=number % 7) for number in range(50_000)]
    problems = tuple(
        Problem(f"kind-{number % 5}", None, (number * 40, number * 40 + 1), "words " * 1000)
        for number in range(1_000)
    )
    judgement = Judgement(False, problems, {f"kind-{kind}": 10**7 for kind in range(5)})
    chosen = select(operations, judgement)
    assert len(chosen) < 12 * (2 * AROUND + 4)
    results = [ForeignResult(f"{n}.edn", "m", "edn-lines", judgement, chosen, 10**8, 1.0) for n in range(200)]
    write_foreign_html(results, tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 2_000_000 + 200 * 60_000
    text = (tmp_path / "r.html").read_text()
    assert text.count('class="problem"') <= DRAWINGS_MAX
    assert text.count('class="file"') == FILES_MAX < 200
    assert f"{200 - FILES_MAX} more files are in the list above" in text
    links = {attributes["href"] for tag, attributes in Page(text).tags if tag == "a"}
    assert len(links) == FILES_MAX


def test_every_kind_of_anomaly_is_drawn_before_a_second_of_one_kind() -> None:
    problems = tuple(Problem(f"kind-{number // 5}", None, (number,), "w") for number in range(50))
    allowed = (Problem("allowed", None, (99,), "w"),)
    chosen = drawn(Judgement(False, problems, allowed=allowed))
    assert [problem.anomaly for problem in chosen[:10]] == [f"kind-{number}" for number in range(10)]
    assert len(chosen) == 12 and allowed[0] not in chosen
    assert drawn(Judgement(False, problems[:2], allowed=allowed))[-1] == allowed[0]


def test_around_a_problem_of_one_key_are_that_keys_neighbours() -> None:
    operations = [operation(number, key=number % 50) for number in range(5_000)]
    problem = Problem("nonlinearizable", "7", (2507,), "words")
    chosen = select(operations, Judgement(False, (problem,)))
    mine = [each.number for each in chosen if each.key == 7]
    assert mine == [2507 + 50 * step for step in range(-AROUND, AROUND + 1)]
    shown = foreign_page._neighbours(problem, {each.number: each for each in chosen})
    assert {each.key for each in shown} == {7}


def test_the_numbers_to_fetch_are_ranges_that_do_not_touch() -> None:
    problems = tuple(Problem("a", None, (number,), "w") for number in (5, 10, 100))
    spans = wanted(Judgement(False, problems))
    assert spans == [range(0, 10 + AROUND + 1), range(100 - AROUND, 100 + AROUND + 1)]


def test_faults_are_from_the_first_start_to_the_last_stop() -> None:
    def nemesis(f: str, time: int) -> Event:
        return Event(Keyword("nemesis"), INFO, Keyword(f), time=time)

    events = [
        Event(0, INVOKE, "read"),
        nemesis("start", 10),
        nemesis("start", 11),
        Event(0, OK, "read", 1),
        nemesis("start-partition", 20),
        nemesis("stop", 30),
        nemesis("stop", 31),
        nemesis("kill", 40),
        Event(0, INVOKE, "read"),
        nemesis("check-offsets", 50),
        nemesis("restart", 60),
    ]
    assert bands_of(events) == (
        FaultSpan("fault", 1, 2, 10, 31),
        FaultSpan("kill", 2, 3, 40, 60),
        FaultSpan("partition", 2, None, 20, -1),
    )


def test_the_run_over_time_counts_every_operation_once() -> None:
    numbers = random.Random(1)
    operations = []
    for number in range(5_000):
        begin = number * 1_000_000
        operations.append(
            operation(number)._replace(time=begin, end_time=begin + numbers.randrange(1, 5_000_000))
        )
    overview = overview_of(operations)
    assert overview is not None
    assert sum(moment.ok for moment in overview.moments) == 5_000
    assert len(overview.raw) <= 1_500 and all(took > 0 for _, took, _ in overview.raw)
    assert all(
        moment.latency_p50 <= moment.latency_p99 <= 5_000_000
        for moment in overview.moments
        if moment.latency_p50 is not None and moment.latency_p99 is not None
    )
    assert overview_of([operation(number) for number in range(100)]) is None, "no times, no plots"


# -- where it is drawn ---------------------------------------------------------------------------------------


@st.composite
def linearizable(draw: st.DrawFn) -> list[timeline.TimelineBar]:
    """Bars in the order in which they take effect: each is open around its own moment."""
    count = draw(st.integers(1, 12))
    events: list[tuple[float, int, bool]] = []
    for id in range(count):
        events.append((id - draw(st.floats(0, 4)), id, True))
        if draw(st.booleans()):
            events.append((id + draw(st.floats(0.1, 4)), id, False))
    places = {(id, begins): place for place, (_, id, begins) in enumerate(sorted(events))}
    return [
        timeline.TimelineBar(id, f"lane {id % 3}", places[id, True], places.get((id, False)), "ok", "", "")
        for id in range(count)
    ]


@given(linearizable())
@settings(max_examples=200, deadline=None)
def test_points_ascend_and_each_lies_within_its_operation(bars: list[timeline.TimelineBar]) -> None:
    shown = timeline.Timeline(bars, points=[timeline.Point(bar.id, "", bar.id + 1) for bar in bars])
    axis = timeline._Axis(shown)
    effects = timeline._effects(shown, axis)
    assert [id for id, _ in effects] == [bar.id for bar in bars]
    assert all(a < b for (_, a), (_, b) in pairwise(effects))
    for bar, (_, step) in zip(bars, effects, strict=True):
        assert axis.step(bar.start) < step
        assert bar.end is None or step < axis.step(bar.end)


@given(linearizable())
@settings(max_examples=100, deadline=None)
def test_bars_of_a_lane_never_cover_each_other(bars: list[timeline.TimelineBar]) -> None:
    shown = timeline.Timeline([bar._replace(lane="one") for bar in bars], points=[timeline.Point(0, "", 1)])
    drawn = Page(timeline.timeline(shown))
    boxes = [
        tuple(float(attributes[name] or 0) for name in ("x", "y", "width"))
        for tag, attributes in drawn.tags
        if tag == "rect" and attributes.get("rx") == "2.5"
    ]
    assert len(boxes) == len(bars)
    for place, (x, y, width) in enumerate(boxes):
        for left, top, other in boxes[place + 1 :]:
            assert y != top or x + width <= left + 0.2 or left + other <= x + 0.2


def test_clients_with_one_operation_each_share_lanes() -> None:
    bars = [timeline.TimelineBar(n, f"process {n}", 2 * n, 2 * n + 1, "ok", "", "") for n in range(30)]
    assert Page(timeline.timeline(timeline.Timeline(bars))).count("text", **{"class": "lane"}) == 1
    open_for_ever = [bar._replace(end=None) for bar in bars] * 1
    many = [
        bar._replace(id=bar.id + 100 * k, lane=f"p{k}-{bar.id}") for k in range(3) for bar in open_for_ever
    ]
    many = [bar._replace(start=3 * bar.start + place) for place, bar in enumerate(many)]
    drawn = Page(timeline.timeline(timeline.Timeline(many, focus=[many[70].id])))
    assert drawn.count("text", **{"class": "lane"}) == timeline.LANES_MAX
    assert f"{len(many) - timeline.LANES_MAX} operations of other clients are left out" in drawn.text
    assert drawn.count("g", **{"data-id": str(many[70].id)}) == 1


# -- what a history cannot do --------------------------------------------------------------------------------


def test_nothing_in_a_history_can_break_out() -> None:
    lines = [(0, INVOKE, EVIL, EVIL), (0, OK, EVIL, [EVIL]), (EVIL, INFO, "start", EVIL)]
    events = samples.events_of(lines)
    steps = [samples.edge(0, 0, EVIL, EVIL, EVIL)] * 2
    stuck = [{"operation": 0, "words": EVIL}]
    detail = {
        "cycle": steps,
        "linearization": {"linearized": [0], "state": EVIL, "stuck": stuck, "states": [EVIL]},
    }
    problem = Problem(EVIL, EVIL, (0,), EVIL, detail)
    judgement = Judgement(False, (problem,), {EVIL: 1}, (EVIL,), (problem,))
    result = from_history(EVIL, EVIL, EVIL, judgement, events, 0.1, pair(events, "evil"))
    text = foreign_page.foreign_page([result, result._replace(error=EVIL)])
    shown = Page(text)
    assert shown.count("script") == 1, "our own"
    assert "\x1b" not in text and "\0" not in text
    assert "<script>alert('x')</script>" in shown.text, "it is shown, as text"
    for line in printed(result).splitlines():
        assert line.isprintable()


def test_long_values_are_cut_and_every_kind_is_shown() -> None:
    assert len(show("x" * 10_000)) == 80
    assert show(Keyword("read")) == "read" and show({1: [None]}) == "{1 [nil]}"
    assert show(object()).startswith("<object")
    assert micro([Keyword("r"), 4, None]) == "r 4 nil"
    assert micro([Keyword("r"), 4, None], known=False) == "r 4"
    asked = Operation(3, 1, Keyword("read"), None, None, OK, 0, 1)
    assert call(asked) == "read → nil"
    assert call(asked._replace(f="cas", argument=[1, 2], outcome="fail")) == "cas [1 2] failed"
    assert call(asked._replace(f="dequeue", result=5)) == "dequeue → 5"
    assert (
        describe(asked._replace(end=None, key="k"))
        == '#3 read → nil, process 1, key "k", events 0 never ended'
    )


def test_the_same_results_give_the_same_bytes() -> None:
    results = [make() for make in ALL]
    assert foreign_page.foreign_page(results) == foreign_page.foreign_page([make() for make in ALL])


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=r"cannot write the report .*; choose another with --html"):
        write_foreign_html([samples.valid_result()], tmp_path)


def test_the_picture_of_the_docs_is_what_is_drawn() -> None:
    now = samples.picture_of_the_docs()
    assert samples.PICTURE.read_text() == now, "draw it again: python -m tests.jepsen.report_samples"
    Page(now)
