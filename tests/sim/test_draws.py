"""Random numbers by name: their values, that nobody shares a sequence, and that what is taken away takes
nothing else along.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

import liftlog_sim
from liftlog.messages import Heartbeat, Received
from liftlog.types import LiftlogError
from liftlog_sim.chance.chances import ChanceLane, Chances
from liftlog_sim.chance.draws import SPREAD, Draws, Eight, eight
from liftlog_sim.chance.plan import CLIENTS, RAISER, Fate, Plan, decode, encode
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.network import SimNetwork
from liftlog_sim.devices.options import NetworkOptions
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.runner import run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.world import World

SOURCES = sorted(Path(liftlog_sim.__file__ or "").parent.rglob("*.py"))
OTHER_SOURCES = ("random", "secrets", "uuid", "numpy")
"""Modules that draw by sequence, or from the operating system."""

WORDS = [
    0xCDFA9BF11FB26CAE,
    0x1222EA3D750AC606,
    0xDF5A2C61E1864CDE,
    0x195CD4DCE4206874,
    0x6C62922D587CBBA7,
    0x691FF7DB401EBCE6,
    0x8A58D03A0119A69A,
    0x0783E6821ABB2CF6,
    0xA4D49A0FDA188DE9,
]
EIGHT = (0xAC978784, 0x3D6E8990, 0x2B5B9DE7, 0xB91DAB07, 0x4839B136, 0x156239DC, 0x3D8F1335, 0xC56A34DE)


def test_the_numbers_of_a_name_are_these() -> None:
    """Test vectors: whoever changes the construction changes every world, and shall know it."""
    draws = Draws(17, "fault", 3)
    assert draws.name == "17/fault/3"
    assert [draws.word() for _ in range(9)] == WORDS
    assert eight(b"17/1>2/Fetch/12/0") == EIGHT
    assert Draws(1, "a").part("b").word() == Draws(1, "a", "b").word() != Draws(1, "a").word()


def test_choices_are_fair_and_stay_in_bounds() -> None:
    draws = Draws("choices")
    assert {draws.randrange(3, 6) for _ in range(200)} == {3, 4, 5}
    assert {draws.randint(0, 1) for _ in range(60)} == {0, 1}
    with pytest.raises(ValueError, match="between 5 and 5"):
        draws.randrange(5, 5)
    counts = dict.fromkeys("abc", 0)
    for _ in range(4000):
        counts[draws.choices("abc", (1, 0, 3))[0]] += 1
    assert counts["b"] == 0 and 850 < counts["a"] < 1150
    assert 0.9 < sum(draws.expovariate(1.0) for _ in range(4000)) / 4000 < 1.1
    items = list(range(20))
    draws.shuffle(items)
    assert items != sorted(items) == list(range(20))
    sample = draws.sample(range(20), 5)
    assert len(set(sample)) == 5 and set(sample) <= set(range(20))
    assert draws.getrandbits(130) < 1 << 130 and len(draws.randbytes(13)) == 13
    drawn = [eight(b"%d" % number) for number in range(2000)]
    for place in range(8):
        assert 0.47 < sum(words[place] for words in drawn) / 2000 / SPREAD < 0.53


def test_nothing_in_the_simulator_draws_from_a_sequence_that_others_share() -> None:
    """Whoever needs chance asks `liftlog_sim/chance/draws.py`, by a name of its own."""
    guilty = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _imported(node)
        if name.partition(".")[0] in OTHER_SOURCES or name == "os.urandom"
    ]
    assert not guilty, f"these import another source of chance: {guilty}; draw by name instead"
    assert _imported(ast.parse("import random.x").body[0]) == ["random.x"]
    assert _imported(ast.parse("from os import urandom").body[0]) == ["os.urandom"]


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
        return names
    return []


def test_a_lane_numbers_anew_with_each_second() -> None:
    kernel = Kernel()
    lane, again = (Chances(kernel, 7).lane("1>2", "Fetch") for _ in range(2))
    first = [lane.next() for _ in range(3)]
    assert lane.place == ("1>2", "Fetch", 0, 2) and len(set(first)) == 3
    kernel.run_until(SECOND)
    later = lane.next()
    assert lane.place == ("1>2", "Fetch", 1, 0)
    assert again.next() == later, "one that saw nothing of the first second draws the same in the next"


# -- plans that a run gives back -----------------------------------------------------------------------------


def short(seed: int, gear: str = "step", mutant: str = "") -> tuple[RunOptions, Knobs]:
    options = RunOptions(seed=seed, duration_s=12, gear=gear, mutant=mutant)
    return options, draw_knobs(seed, duration_s=12)


def played(options: RunOptions, knobs: Knobs, plan: Plan | None) -> tuple[RunResult, Plan]:
    worlds: list[World] = []
    result = run_world(options, knobs, plan, worlds.append, noting=True)
    return result, worlds[0].drawn()


@pytest.mark.parametrize(("seed", "gear"), [(0, "step"), (6, "step"), (10, "step"), (2, "trio")])
def test_a_run_with_the_plan_that_it_gave_back_is_the_same_run(seed: int, gear: str) -> None:
    options, knobs = short(seed, gear)
    result, plan = played(options, knobs, None)
    assert plan.faults and plan.operations and plan.fates
    again, same = played(options, knobs, decode(encode(plan)))
    assert again.trace_hash == result.trace_hash and same == plan
    assert run_world(options, knobs, None).trace_hash == result.trace_hash, "noting changes nothing"


@pytest.mark.parametrize(
    ("profile", "client"),
    [
        *(("removals", "subjects"), ("consumers", "consumer"), ("processors", "processor")),
        *(("groups", "member"), ("doors", "door"), ("doors", "bucket"), ("doors", "puller")),
    ],
)
def test_what_every_client_does_is_an_entry_of_the_plan(profile: str, client: str) -> None:
    """No failure of such a world could be shrunk: its plan was refused, or lacked what these clients do."""
    knobs = draw_knobs(1, profile=profile, duration_s=12)
    options = RunOptions(seed=1, profile=profile, duration_s=12)
    result, plan = played(options, knobs, None)
    assert [operation for operation in plan.operations or () if operation.client.startswith(f"{client}/")]
    again, same = played(options, knobs, decode(encode(plan)))
    assert again.trace_hash == result.trace_hash and same == plan


def test_every_client_that_takes_turns_can_stand_in_a_plan() -> None:
    folder = Path(liftlog_sim.__file__ or "").parent / "workload"
    sources = "".join(path.read_text() for path in folder.glob("*.py"))
    found = set(re.findall(r'chances\.turns\(f?"(\w+)/', sources)) | {"reader"}
    found |= set(re.findall(r'def called\(.*?return f"(\w+)/', sources, re.DOTALL))
    # What these do follows from what others do, so that no plan states it.
    assert found - {"eager", "succeeding"} == set(CLIENTS)


def test_asking_for_the_level_is_an_entry_of_the_plan() -> None:
    """No failure of a world of two releases could be shrunk: its plan was refused for this client's name."""
    options, knobs = short(8)
    assert knobs.mixed_releases
    result, plan = played(options, knobs, None)
    asked = [operation for operation in plan.operations or () if operation.client == RAISER]
    assert asked and played(options, knobs, decode(encode(plan)))[0].trace_hash == result.trace_hash
    other = Plan(operations=(msgspec.structs.replace(asked[0], client="admin/lower"),))
    with pytest.raises(LiftlogError, match=r"'admin/lower' is no client; write it as in .*, admin/raise"):
        other.check(knobs.nodes)


def test_a_hunt_is_an_entry_of_the_plan() -> None:
    options, _ = short(6)
    knobs = draw_knobs(6, profile="elections", duration_s=12)
    result, plan = played(options, knobs, None)
    assert plan.hunts
    assert played(options, knobs, plan)[0].trace_hash == result.trace_hash
    left, drawn = played(options, knobs, plan.without([plan.hunts[0].name]))
    assert left.trace_hash != result.trace_hash and plan.hunts[0] not in (drawn.hunts or ())


def fates_of(
    monkeypatch: pytest.MonkeyPatch, options: RunOptions, knobs: Knobs, plan: Plan
) -> dict[tuple[str, str, int, int], tuple[Eight, object]]:
    """By the messages' names: what was drawn, and what befell them."""
    seen: dict[tuple[str, str, int, int], tuple[Eight, object]] = {}
    fate = SimNetwork._fate

    def noted(self: SimNetwork, lane: ChanceLane, drawn: Eight) -> tuple[bool, int, bool, int]:
        found = fate(self, lane, drawn)
        assert lane.place not in seen, "a name is one message's"
        seen[lane.place] = (drawn, found)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(SimNetwork, "_fate", noted)
        run_world(options, knobs, plan)
    return seen


@pytest.mark.parametrize("seed", [1, 5, 11])
def test_what_is_taken_away_reshuffles_nothing_else(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One fault, operation or fate less: every message that exists in both runs has the same fate."""
    options, knobs = short(seed)
    _, plan = played(options, knobs, None)
    assert plan.faults and plan.operations and plan.fates
    of_messages = [fate for fate in plan.fates if fate.link[-1].isdigit() and fate.kind != "PeerLost"]
    drawn = Plan(faults=plan.faults, operations=plan.operations)
    for base in (drawn, plan):
        whole = fates_of(monkeypatch, options, knobs, base)
        gone = [plan.operations[0].name, f"fault/{plan.faults[0].ordinal}"]
        gone += [of_messages[0].name] if base is plan else []
        for name in gone:
            left = fates_of(monkeypatch, options, knobs, base.without([name]))
            both = {place for place in whole if place in left and "/".join(map(str, place)) != name}
            assert len(both) > len(whole) // 2
            storms = any(fault.kind == "storm" for fault in plan.faults)
            for place in both:
                assert whole[place][0] == left[place][0]
                assert storms or whole[place] == left[place], f"without {name}, {place} fares otherwise"


def test_a_stated_fate_befalls_the_message_that_it_names() -> None:
    kernel = Kernel()
    plan = Plan(fates=(Fate("1>2", "Heartbeat", 0, 1, lost=True), Fate("1>2", "Heartbeat", 0, 2, twice=True)))
    arrived: list[int] = []

    def post(to: int, event: Received) -> None:
        assert isinstance(event.message, Heartbeat)
        arrived.append(event.message.sequence)

    network = SimNetwork(Chances(kernel, 1, plan), NetworkOptions(100, 0, loss=0.9, duplicate=0.9), post)
    for number in range(4):
        network.send(1, 2, Heartbeat(1, number, 0))
    kernel.run_until(SECOND)
    assert arrived == [0, 2, 3, 2] or arrived == [0, 2, 2, 3], "what is not stated arrives once"


def test_a_world_of_fewer_nodes_has_fewer_that_join() -> None:
    """Seed 514 with `--nodes 3`: of three nodes one or two were to join, and no stream got its copies."""
    drawn = draw_knobs(514, profile="growing")
    assert drawn.joiners and drawn.nodes - drawn.joiners == 3
    for nodes, joiners in ((2, 0), (3, 0), (4, 1), (6, 3)):
        sized = draw_knobs(514, profile="growing", nodes=nodes)
        assert (sized.nodes, sized.joiners) == (nodes, joiners)
        assert sized.node_config(1).voters == tuple(range(1, min(nodes, 3) + 1))
    plain = draw_knobs(0, profile="kills", nodes=5)
    assert (plain.nodes, plain.joiners) == (5, 0)
