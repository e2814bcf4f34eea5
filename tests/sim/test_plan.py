"""Plans: JSON both ways, entries taken away by name, and one clear error for what cannot be carried out."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from liftlog.types import LiftlogError
from liftlog_sim import faults
from liftlog_sim.chance.chances import Chances
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.chance.plan import OCCASIONS, Fate, Hunt, Plan, PlannedOperation, decode, encode, read
from liftlog_sim.kernel import Kernel

PLAN = Plan(
    faults=(Fault(2_000_000, "kill", "1", 500_000, 0), Fault(3_000_000, "isolate", "leader", 700_000, 4)),
    operations=(
        PlannedOperation("publisher/0", 0, 4_000_000, "s0/0", 3),
        PlannedOperation("reader/2", 7, 5_000_000),
    ),
    hunts=(Hunt("leader", 2, 1),),
    fates=(Fate("1>2", "Fetch", 3, 0, lost=True), Fate("2>nats", "AckPublishes", 4, 1, late_us=7)),
)


def test_a_plan_is_json_both_ways() -> None:
    for plan in (PLAN, Plan(), Plan(faults=(), operations=(), hunts=(), fates=())):
        assert decode(encode(plan)) == plan
    assert decode(b'{"version":1}') == Plan()


def test_entries_are_taken_away_by_name() -> None:
    names = PLAN.names()
    assert names == [
        "fault/0",
        "fault/4",
        "publisher/0/0",
        "reader/2/7",
        "hunt/leader/2/1",
        "1>2/Fetch/3/0",
        "2>nats/AckPublishes/4/1",
    ]
    assert PLAN.only(names) == PLAN
    for name in names:
        left = PLAN.without([name])
        assert left.names() == [other for other in names if other != name]
    assert Plan(faults=PLAN.faults).without(["fault/0"]).operations is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "version 2"),
        ({"faults": (Fault(1, "meteor"),)}, "faults[0].kind: there is no fault 'meteor'; choose from kill,"),
        ({"faults": (Fault(1, "kill", "king"),)}, "faults[0].target: 'king' is nobody"),
        ({"faults": (Fault(1, "kill", "4"),)}, "faults[0].target: there is no node 4; choose from 1 to 3"),
        ({"faults": (Fault(-1, "kill"),)}, "faults[0].at_us: -1 is out of range"),
        ({"faults": (Fault(1, "kill"), Fault(2, "kill"))}, "fault/0: there are two of that name"),
        ({"faults": (Fault(1, "link", links=((0, 1),)),)}, "faults[0].links: there is no node 0"),
        (
            {"operations": (PlannedOperation("writer/0", 0, 1),)},
            "operations[0].client: 'writer/0' is no client",
        ),
        ({"operations": (PlannedOperation("reader/0", -1, 1),)}, "operations[0].number: -1 is negative"),
        (
            {"operations": (PlannedOperation("reader/0", 0, 1, "s0"),)},
            "operations[0].target: 's0' is no partition",
        ),
        ({"hunts": (Hunt("moon", 1, 0),)}, "hunts[0].occasion: nobody hunts at 'moon'"),
        ({"hunts": (Hunt("leader", 4, 0),)}, "hunts[0].node: there is no node 4"),
        ({"fates": (Fate("1-2", "Fetch", 0, 0, lost=True),)}, "fates[0].link: '1-2' leads"),
        ({"fates": (Fate("1>2", "Fetch", 0, 0),)}, "fates[0].lost: nothing befalls this message"),
        ({"fates": (Fate("1>2", "Fetch", 0, 0, twice_late_us=9),)}, "fates[0].twice_late_us"),
    ],
)
def test_what_cannot_be_carried_out_is_named_with_the_remedy(changes: dict[str, object], said: str) -> None:
    plan = msgspec.structs.replace(PLAN, **changes)
    with pytest.raises(LiftlogError) as caught:
        plan.check(3)
    assert said in str(caught.value) and ";" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "cannot be read"),
        ('{"version":1,"fault":[]}', "unknown field `fault`"),
        ('{"version":1,"faults":[{"at_us":"soon","kind":"kill"}]}', "$.faults[0].at_us"),
        ('{"version":1,"faults":[{"at_us":1,"kind":"kill","when":2}]}', "unknown field `when`"),
        ('{"version":1,"faults":[{"at_us":1,"kind":"meteor"}]}', "there is no fault 'meteor'"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_by_name(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(LiftlogError) as caught:
        read(path)
    assert said in str(caught.value) and "plan.json" in str(caught.value)
    with pytest.raises(LiftlogError, match="choose another file"):
        read(tmp_path / "none.json")


def test_a_plan_can_name_each_occasion_at_which_somebody_hunts() -> None:
    """Else what a hunter did in a world that fails is in its bundle, and nobody can replay that."""
    hunters = Path(faults.__file__).parent.glob("*.py")
    text = "".join(path.read_text() for path in hunters)
    found = set(re.findall(r'(?:occasion|_hunt)\("(\w+)"', text))
    assert found == set(OCCASIONS)
    chances = Chances(Kernel(), 1)
    with pytest.raises(AssertionError, match="no plan could name the occasion 'moon'"):
        chances.occasion("moon", 1, 1.0)
    for name in OCCASIONS:
        assert chances.occasion(name, 1, 1.0) is not None
