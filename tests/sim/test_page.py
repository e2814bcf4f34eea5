"""`liftlog sim report` without a browser: what is read, what follows from it, what is left out, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_sim.explain.bundle import write
from liftlog_sim.page.chart import CLIENTS, NATS, RAFT, Chart
from liftlog_sim.page.from_trace import chart_of_trace, steps_of
from liftlog_sim.page.reducing import reduced
from liftlog_sim.page.telling import story_of
from liftlog_sim.page.writing import PAGE_BYTES_MAX, page_of
from tests.sim import page_samples as samples


def state(chart: Chart, node: int, place: int) -> dict[str, object]:
    """The state of a node after a step, from the changes."""
    found: dict[str, object] = {}
    for step in chart.steps[: place + 1]:
        if step.node == node:
            found = dict(step.changes) if step.words == "starts" else found | step.changes
    return {key: value for key, value in found.items() if value is not None}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Chart:
    return chart_of_trace(samples.trace(tmp_path_factory.mktemp("trace") / "plain.jsonl"))


def test_a_message_is_linked_to_the_step_that_sent_it(plain: Chart) -> None:
    received = [step for step in plain.steps if step.arrival is not None and step.arrival.sender > 0]
    linked = [step for step in received if step.arrival is not None and step.arrival.sent >= 0]
    assert len(linked) == len(received) > 100, "nothing is lost or changed on the way here"
    for step in linked:
        assert step.arrival is not None
        sender = plain.steps[step.arrival.sent]
        assert sender.node == step.arrival.sender and sender.at_us < step.at_us
        assert any(effect.startswith(f"sends {step.arrival.name}") for effect in sender.effects)
        assert step.arrival.sent in step.causes


def test_clients_and_nats_have_their_messages(plain: Chart) -> None:
    lanes = {step.arrival.sender for step in plain.steps if step.arrival is not None}
    assert {CLIENTS, NATS} <= lanes
    assert {CLIENTS, NATS} <= {lane for step in plain.steps for lane, _ in step.departures}


def test_the_states_that_follow_from_a_trace_are_those_of_the_nodes() -> None:
    """Of a bundle the states are known; what is derived without them must agree, where it says anything."""
    bundle = samples.failed("truncate_to_hw")
    known = samples.chart("truncate_to_hw")
    told = steps_of(bundle.trace, known.logs)
    derived = Chart(title="", source="", clocks=True, nodes=known.nodes, logs=known.logs, steps=told)
    log = next(key for key in known.logs if key != RAFT)
    compared = 0
    for place in range(100, len(told), 97):
        node = told[place].node
        mine, right = state(derived, node, place), state(known, node, place)
        for key in (f"{log} LEO", f"{log} durable LEO", f"{log} role", f"{log} epoch", "raft term"):
            if key in mine and key in right and right.get(f"{log} role") != "idle":
                compared += 1
                assert mine[key] == right[key], (place, key)
    assert compared > 30


def test_what_is_not_synced_is_named_until_it_is(plain: Chart) -> None:
    open_writes: dict[tuple[int, str], int] = {}
    seen = 0
    for step in plain.steps:
        for key, value in step.changes.items():
            if key.startswith("disk ") and value is not None:
                open_writes[step.node, key] = step.number
                seen += 1
            elif key.startswith("disk "):
                assert open_writes.pop((step.node, key)) < step.number
    assert seen > 50 and len(open_writes) < 5


def test_a_long_run_is_made_small_and_every_state_stays_right() -> None:
    whole, small = samples.huge(steps=30_000), reduced(samples.huge(steps=30_000), 300_000)
    assert len(small.steps) < len(whole.steps) and "are left out" in small.notes[0]
    by_number = {step.number: place for place, step in enumerate(small.steps)}
    for number in sorted(by_number)[::500]:
        node = whole.steps[number].node
        assert state(small, node, by_number[number]) == state(whole, node, number), number
    for place, step in enumerate(small.steps):
        assert all(cause < place for cause in step.causes)
        if step.arrival is not None and step.arrival.sent >= 0:
            assert small.steps[step.arrival.sent].node == step.arrival.sender
    assert len(page_of(samples.huge()).encode()) < PAGE_BYTES_MAX
    assert reduced(samples.chart("truncate_to_hw")).notes == [], "a short one stays whole"


def test_what_is_near_the_violation_stays_whole() -> None:
    bundle, small = samples.chart("ack_at_append"), samples.chart("ack_at_append")
    small = reduced(small, 250_000)
    violation, before = small.violation, bundle.violation
    assert violation is not None and before is not None
    assert small.steps[violation.at_step].number == before.at_step
    assert small.steps[violation.at_step].effects == bundle.steps[before.at_step].effects
    numbers = [line.at_step for line in bundle.story if line.at_step >= 0]
    assert [small.steps[line.at_step].number for line in small.story if line.at_step >= 0] == numbers


def test_the_story_is_taken_apart() -> None:
    lines = [
        "   0.8667 #69     node 3 becomes controller of term 1; its log ends at",
        "                  index 1",
        "   1.0000         node 2 is cut from its peers",
        "   7.4474 #905    node 2 cuts 7/0 to 2",
        "                  ^ here the model says no: Ask",
        "  24.6824 => NoAckedRecordLost is violated: partition 7/0",
        "             R4: it is sent once",
    ]
    assert [(line.at_step, line.words) for line in story_of(lines)] == [
        (69, "node 3 becomes controller of term 1; its log ends at index 1"),
        (-1, "node 2 is cut from its peers"),
        (905, "node 2 cuts 7/0 to 2; here the model says no: Ask"),
    ]


def test_the_command_writes_a_page_of_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = samples.failed("truncate_to_hw")
    write(bundle, tmp_path / "failure.json.gz")
    assert main(["sim", "report", str(tmp_path / "failure.json.gz")]) == 0
    assert f"{len(bundle.trace):,} steps of 3 nodes" in capsys.readouterr().out
    page = (tmp_path / "failure.html").read_text(encoding="utf-8")
    assert page.count("<script") == 2
    assert not re.search(r"(src|href)=.http|url\(|@import", page.replace("url(#", ""))
    data = page.partition('<script id="data" type="application/json">')[2].partition("</script>")[0]
    told = json.loads(data)
    assert told["violation"]["step"] == bundle.violation.at_step
    assert told["violation"]["rule"] == bundle.violation.rule


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        ("not a trace\n", "'liftlog sim run --trace FILE' writes a trace"),
        ('{"type":"trace","version":99}\n', "no trace; write one with 'liftlog serve --trace FILE'"),
    ],
)
def test_bad_input_is_named(
    content: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "trace.jsonl"
    if content is not None:
        path.write_text(content)
    assert main(["sim", "report", str(path)]) == 2
    error = capsys.readouterr().err
    assert words in error and str(path) in error


def test_only_traces_of_real_nodes_belong_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = samples.trace(tmp_path / "one.jsonl")
    assert main(["sim", "report", str(path), str(path)]) == 2
    assert "give it alone" in capsys.readouterr().err
    assert main(["sim", "report", str(path), "--html", str(tmp_path)]) == 2
    assert "choose another with --html" in capsys.readouterr().err
