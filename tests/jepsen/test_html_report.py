"""The HTML report: one well-formed file, nothing external, and nothing of a history can break out of it."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import PLANTABLE, fill, large_history, plant
from liftlog_jepsen.history import History, HistoryWriter
from liftlog_jepsen.log import Rules, check_table
from liftlog_jepsen.parquet import write_parquet
from liftlog_jepsen.report.page import page, write_html
from liftlog_jepsen.report.picture import LANES_MAX, MOMENTS, PROCESSES_MAX, draw
from liftlog_jepsen.result import INVALID, MEANINGS, VALID, Anomaly, CheckResult, Count, Evidence, Finding
from tests.jepsen.kernel_input import kernel_input

VOID = ("meta", "br")
EVIL = "</title><script>alert('x')</script>\x1b[31m\0\"&amp;"


class Page(HTMLParser):
    """Reads a page and fails where tags do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def count(self, tag: str, **attributes: str) -> int:
        return sum(name == tag and attributes.items() <= attrs.items() for name, attrs in self.tags)


def ticking(name: str) -> HistoryWriter:
    milliseconds = iter(range(0, 10**15, 1_000_000))
    return HistoryWriter(name, clock_ns=milliseconds.__next__, meta={"note": name})


def result_of(history: History, folder: Path) -> CheckResult:
    """What the check on Spark would say, with its picture, made without Spark."""
    anomalies: dict[str, list[Anomaly]] = {}
    for row in check_table(kernel_input([history]), Rules("known")).to_pylist():
        anomaly = Anomaly(row["anomaly"], row["key"], tuple(row["ops"]), Evidence(**row["evidence"]))
        anomalies.setdefault(anomaly.name, []).append(anomaly)
    findings = tuple(
        Finding(name, len(anomalies[name]), 1, True, tuple(anomalies[name]))
        for name in MEANINGS
        if name in anomalies
    )
    ops = list(history.ops())
    counts: dict[tuple[str, str], int] = {}
    for op in ops:
        counts[op.f, op.outcome] = counts.get((op.f, op.outcome), 0) + 1
    result = CheckResult(
        history.name,
        str(folder),
        INVALID if findings else VALID,
        (),
        findings,
        tuple(Count(f, outcome, number) for (f, outcome), number in sorted(counts.items())),
        sum(mop.f == "send" for op in ops for mop in op.mops),
        sum(mop.f == "poll" for op in ops for mop in op.mops),
        min(op.t_inv_ns for op in ops),
        max(op.t_ret_ns or op.t_inv_ns for op in ops),
        0.5,
    )
    write_parquet(history, folder)
    return result._replace(picture=draw(folder, result, history.meta))


def planted_result(folder: Path) -> CheckResult:
    """A history with one anomaly of every kind."""
    writer = ticking("planted")
    fill(writer, ["log/0"], 40, readers=2, batch=10)
    for anomaly in PLANTABLE:
        plant(writer, anomaly, f"planted/{anomaly}")
    return result_of(writer.close(), folder)


def test_every_anomaly_is_told_with_its_operations_and_the_log_around_it(tmp_path: Path) -> None:
    result = planted_result(tmp_path / "h")
    shown = Page(page([result]))
    for finding in result.findings:
        assert f"{finding.name}: {finding.total:,}" in shown.text
        assert f"In planted/{finding.name}: " in shown.text
        assert f"The log around the first of them, {finding.examples[0].key}" in shown.text
        for op in finding.examples[0].ops:
            assert f"#{op}" in shown.text
    assert "sent by" in shown.text and "nobody" in shown.text
    assert shown.count("svg", **{"class": "plot"}) == 5, "sends, reads, latencies, unseen and lags"
    assert shown.count("svg", **{"class": "lanes"}) == 1
    assert "Timeline: the first inconsistent-offsets" in shown.text
    assert (
        0 < sum("bar" in (attributes.get("class") or "").split() for _, attributes in shown.tags) <= LANES_MAX
    )


def test_a_cycle_is_drawn_with_the_names_of_its_sentences(tmp_path: Path) -> None:
    writer = ticking("cycle")
    fill(writer, ["log/0"], 10, readers=1, batch=5)
    result = result_of(writer.close(), tmp_path / "h")
    ops = (7, 3)
    steps = tuple(
        {"from": ops[n], "to": ops[1 - n], "edge": "wr", "key": "log/0", "words": f"step {n}"} for n in (0, 1)
    )
    words = "Let T1 be operation 7 and T2 be operation 3. So each of them would have to come before itself."
    cycle = Anomaly("G1c", "log/0", ops, Evidence(), words, steps)
    result = result._replace(findings=(Finding("G1c", 1, 1, True, (cycle,)),))
    shown = Page(page([result._replace(picture=draw(tmp_path / "h", result, {}))]))
    assert shown.count("g", **{"class": "node"}) == 2
    assert "T1 wr log/0 T2 step 0" in shown.text and "T2 wr log/0 T1 step 1" in shown.text
    assert "T1 · #7, process" in shown.text and "T2 · #3, process" in shown.text
    assert "Let T1 be operation 7" in shown.text
    assert "information flowed in a circle" in shown.text.lower()
    assert shown.count("svg", **{"class": "lanes"}) == 1, "the timeline is about the cycle"


def test_a_valid_history_is_drawn_around_its_first_fault(tmp_path: Path) -> None:
    writer = ticking("good")
    for number in range(100):
        writer.ok(writer.invoke(number % 40, "send", "log/0", number), offset=number)
    writer.fault("kill", "node 2", 100_000_000, 150_000_000)
    writer.fault("cut", "node 3", 120_000_000, None)
    result = result_of(writer.close(), tmp_path / "h")
    shown = Page(page([result]))
    assert "valid good: no anomaly was found" in shown.text
    assert "the first fault: kill of node 2; 14 of 40 processes" in shown.text
    assert shown.count("text", **{"class": "lane"}) == 14 <= PROCESSES_MAX
    assert "kill: node 2, from 0.10 s to 0.15 s" in shown.text
    assert "cut: node 3, from 0.12 s to the end" in shown.text
    for name in MEANINGS:
        assert name in shown.text


def test_the_picture_counts_every_operation_and_record_once(tmp_path: Path) -> None:
    picture = result_of(large_history("large", 500, keys=3, readers=2, batch=7), tmp_path / "h").picture
    assert picture is not None
    assert len(picture.moments) == MOMENTS
    assert sum(moment.sends_ok for moment in picture.moments) == 500
    assert sum(moment.records_read for moment in picture.moments) == 1000


def test_latencies_are_right_within_four_percent(tmp_path: Path) -> None:
    writer = HistoryWriter("latencies")
    returned = [10**9 + 1000 * (number + 1) for number in range(100)]
    writer.record_sends(1, "k", list(range(100)), [10**9] * 100, returned, list(range(100)))
    picture = result_of(writer.close(), tmp_path / "h").picture
    assert picture is not None
    known = [moment for moment in picture.moments if moment.latency_p50_ns is not None]
    assert len(known) > 10
    for moment in known:
        middle = moment.t_ns - 10**9 + picture.width_ns / 2
        assert moment.latency_p50_ns == pytest.approx(middle, rel=0.05, abs=picture.width_ns)


def test_nothing_in_a_history_can_break_out_of_the_page(tmp_path: Path) -> None:
    writer = ticking(EVIL)
    writer.client(1, EVIL)
    for offset in range(3):
        writer.ok(writer.invoke(1, "send", EVIL, f"{EVIL}{offset}"), offset=offset)
    writer.fail(writer.invoke(2, EVIL), EVIL)
    writer.info(writer.invoke(1, "send", EVIL, "x"), EVIL)
    poll = writer.invoke(3, "poll", EVIL)
    writer.ok_poll(poll, EVIL, [0, 5], [f"{EVIL}0", f"{EVIL}unsent"])
    writer.fault(EVIL, EVIL, 0, 4_000_000)
    result = result_of(writer.close(), tmp_path / "h")
    assert {"phantom", "lost-write"} <= {finding.name for finding in result.findings}
    text = page([result])
    shown = Page(text)
    assert shown.count("script") == 1, "our own"
    assert "<script>alert('x')</script>" in shown.text, "it is shown, as text"
    assert "\x1b" not in text and "\0" not in text


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    writer = ticking("h")
    plant(writer, "duplicate", "k")
    text = page([result_of(writer.close(), tmp_path / "h")])
    shown = Page(text)
    for tag, attributes in shown.tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert "src" not in attributes and not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")
    beside = text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    assert "url(" not in beside and "@import" not in beside and "http" not in beside
    assert shown.count("script") == 1
    policy = next(attributes["content"] for _, attributes in shown.tags if "http-equiv" in attributes)
    assert policy is not None and policy.startswith("default-src 'none'") and "script-src 'sha256-" in policy
    targets = {attributes["href"] for tag, attributes in shown.tags if tag == "a"}
    assert targets <= {f"#{attributes['id']}" for _, attributes in shown.tags if "id" in attributes}
    assert "prefers-color-scheme:dark" in text


def test_a_report_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    result = result_of(large_history("h", 10), tmp_path / "h")
    with pytest.raises(LiftlogError, match=r"cannot write the report .*; choose another with --html"):
        write_html([result], tmp_path)
