"""Scenario files: their format, what is wrong with one, what they tell; and the pitfalls of the field, each
clean on the protocol and failing with its bug.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_sim.directed.form import Scenario, line_of, load, names, schema
from liftlog_sim.directed.scenario import run_scenario
from liftlog_sim.directed.telling import told

PITFALLS = [name for name in names() if load(name).fails_with]

SOURCES: dict[str, tuple[str, ...]] = {
    # The known pitfalls of such a protocol, each with where it was met.
    "pitfall_truncate_to_hw": ("KAFKA-1211", "KafkaTruncateToHighWatermark.tla", "Liftbridge #38"),
    "pitfall_diverged_logs": ("KIP-101", "Kip320FirstTry.tla"),
    "pitfall_fast_elections": ("KAFKA-6361", "KIP-279"),
    "pitfall_unfenced_fetch": ("KIP-320", "Kip320.tla", "Liftbridge #183"),
    "pitfall_early_isr": ("KIP-966", "KAFKA-7128"),
    "pitfall_isr_pending": ("AsyncIsr.tla", "maximal ISR of the KIP-966"),
    "pitfall_rejoins_empty": ("KIP-903", "KAFKA-14617"),
    "pitfall_last_one_standing": ("KIP-966", "Kafka 0.8"),
    "pitfall_stale_hw": ("KIP-966", "Liftbridge #337"),
    "pitfall_shrink_waits": ("KAFKA-13091", "fluss #2146", "#3927"),
    "pitfall_ack_before_sync": ("NATS JetStream #7564",),
    "pitfall_bit_flips": ("NATS JetStream #7549",),
    "pitfall_lost_folder": ("NATS JetStream #7556", "#6888"),
    "pitfall_one_power_loss": ("NATS JetStream #7567",),
    "pitfall_membership": ("NATS JetStream #7545",),
}
WAITING = {
    "Redpanda 21.10: duplicates despite idempotence": "waits for producer ids (L2)",
    "Bufstream 0.1.0: a delayed commit hits a later transaction": "waits for transactions",
    "NATS JetStream #6415: a staged id blocks retries": "waits for producer ids (L2)",
}
"""What cannot happen yet, since what it breaks is not there."""


def test_there_is_a_scenario_for_the_pitfalls_and_each_says_what_it_is_about() -> None:
    assert len(PITFALLS) >= 10
    for name in PITFALLS:
        scenario = load(name)
        assert min(len(text) for text in (scenario.story, scenario.why, scenario.pitfall)) > 60, name


def test_every_known_pitfall_has_a_scenario_that_names_where_it_was_met() -> None:
    told = {name: load(name).pitfall for name in PITFALLS}
    assert sorted(told) == sorted(SOURCES)
    for name, sources in SOURCES.items():
        assert [source for source in sources if source not in told[name]] == [], name
    assert all(why.startswith("waits for ") for why in WAITING.values())


@pytest.mark.slow
@pytest.mark.parametrize("gear", ["step", "trio"])
@pytest.mark.parametrize("name", PITFALLS)
def test_a_pitfall_fails_with_its_bug_in_both_gears(name: str, gear: str) -> None:
    """And is clean without it in both, as all scenarios are (tests/sim/test_scenarios.py)."""
    scenario = load(name)
    for fails in scenario.fails_with:
        broken = run_scenario(scenario, gear, fails.mutant)
        assert broken.invariant == fails.invariant, f"{broken.invariant}: {broken.finding}"
        assert broken.invariant or broken.unexpected


GOOD = 'title = "x"\n\n[[fault]]\nat_ms = 100\nkind = "kill"\n\n[[fault]]\nkind = "power"\nat_ms = 200\n'

HEAD = "\n[[fault]]"
ASKED = "\n[[request]]\nat_ms = 1\nstream = 'orders'\n"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("at_ms = 200", 'at_ms = "200"', "line 9, fault[1].at_ms: expected `int`, got `str`"),
        ("at_ms = 200", "at_ms = -1", "line 9, fault[1].at_ms: expected `int` >= 0"),
        ("at_ms = 200", "at_ms = 15000", "line 9, fault[1].at_ms: the fault phase ends at 15000 ms"),
        ('"power"', '"fire"', "line 8, fault[1].kind: there is no fault 'fire'; choose from kill, "),
        ("at_ms = 200", "at_ms = 200\nnode = 4", "line 10, fault[1].node: there is no node 4"),
        ("at_ms = 200", 'at_ms = 2\nnode = "boss"', "line 10, fault[1].node: invalid enum value 'boss'"),
        ("at_ms = 200", "at_ms = 200\nfor = 1", "line 10, fault[1].for: object contains unknown field `for`"),
        ('title = "x"', "nodes = 3", "object missing required field `title`"),
        ('title = "x"', 'title = "x', "is not TOML: Illegal character '\\n' (at line 1, column 11)"),
        (HEAD, f'\n[[publish]]\nstream = "y"{HEAD}', "line 4, publish[0].stream: there is no stream"),
        (HEAD, f'\n[expect]\nmarks = ["R0.x"]{HEAD}', "line 4, expect.marks: there is no rule case"),
        (HEAD, f"{ASKED}kind = 'move'{HEAD}", "request[0].kind: 'move' needs `stream` and `to`"),
        (HEAD, f"{ASKED}kind = 'create'\nwho = 2{HEAD}", "request[0].who: it means nothing to 'create'"),
        (HEAD, f"{ASKED}kind = 'move'\nto = [1, 1]{HEAD}", "request[0].to: a node is named twice"),
        (HEAD, f"{ASKED}kind = 'move'\nto = [1, 4]{HEAD}", "request[0].to: there is no node 4"),
        (HEAD, f"{ASKED}kind = 'retire'\nwho = 4{HEAD}", "request[0].stream: it means nothing to 'retire'"),
        (HEAD, f'\n[[fails_with]]\nmutant = "x"{HEAD}', "line 4, fails_with[0].mutant: there is no mutant"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_and_a_remedy(
    old: str, new: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(GOOD)
    assert len(load(str(path)).fault) == 2
    assert old in GOOD
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(LiftlogError) as caught:
        load(str(path))
    text = str(caught.value)
    assert complaint in text and str(path) in text and "\n" not in text
    assert "mend that line" in text or "docs/simulator.md" in text


def test_a_place_that_is_not_found_names_its_table() -> None:
    fields = ("title", "fault[0].kind", "fault[1].node", "fault[5].kind")
    assert [line_of(GOOD, field) for field in fields] == [1, 5, 7, 0]


def test_the_schema_is_that_of_what_is_read() -> None:
    found = schema()
    parts: dict[str, Any] = found["$defs"]
    assert set(parts["Scenario"]["properties"]) == set(Scenario.__struct_fields__)
    assert parts["FaultPart"]["required"] == ["at_ms", "kind"]
    assert parts["FaultPart"]["additionalProperties"] is False
    assert parts["FaultPart"]["properties"]["at_ms"]["minimum"] == 0


@pytest.mark.parametrize("name", names())
def test_every_scenario_tells_its_story(name: str) -> None:
    scenario = load(name)
    text = "\n".join(told(scenario))
    assert scenario.title in text and "What is expected" in text
    assert all(len(line) <= 110 for line in told(scenario))
    assert text.count(" s  ") >= len(scenario.fault) + len(scenario.publish) + 1


def test_the_command_explains_plays_and_refuses(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "scenario", "pitfall_truncate_to_hw", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "node 1 loses power, and starts again after 0.6 s" in out and "KAFKA-1211" in out
    assert main(["sim", "scenario", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "A liftlog scenario"
    assert main(["sim", "scenario", "pitfall_truncate_to_hw", "--mutant", "truncate_to_hw"]) == 1
    out = capsys.readouterr().out
    assert "FAIL pitfall_truncate_to_hw" in out and "--mutant truncate_to_hw" in out
    assert main(["sim", "scenario", "calm", "--explain", "--mutant", "truncate_to_hw"]) == 2
    assert "leave --mutant and --gear out" in capsys.readouterr().err
