"""Consumer groups in simulated clusters (G1-G4): the truth about them finds planted bugs, nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.groups import member as member_module
from liftlog.groups import state as state_module
from liftlog.groups.member import GroupMembership
from liftlog.groups.state import GroupShare, GroupState
from liftlog.types import PartitionId, Record
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.groups import GroupTruth
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation

REGISTER = PartitionId(7, 0)


class TrueGroup:
    """A register that is committed as fast as it is written, and its members."""

    def __init__(self) -> None:
        self.register = PartitionTruth(REGISTER, Checks())
        self.living: list[GroupMembership] = []
        self.truth = GroupTruth(self.register, b"groups.work", lambda: self.living)

    def member(self, id: str) -> GroupMembership:
        self.living.append(GroupMembership(id, "", 1000, ["s"]))
        return self.living[-1]

    def wrote(self, author: str, **share: Any) -> None:
        committed = self.register.contents.committed
        value = b"1000-%d" % len(committed)
        members = {one.id: state_module.MemberRecord("", 1000) for one in self.living}
        state = GroupState(members=members, shares={"s/0": GroupShare(**share)})
        self.truth.states[value] = author, state
        place = len(committed)
        committed.append(Record(place, 1, b"groups.own", b"", b"", None, b"another subject"))
        committed.append(Record(place + 1, 1, b"groups.work", b"", b"", None, value + b"..."))
        self.register.hw = len(committed)

    def violates(self, name: str) -> None:
        with pytest.raises(Violation) as raised:
            self.truth.known()
        assert raised.value.invariant == name


def test_G3_G4_who_moves_a_position() -> None:
    group = TrueGroup()
    group.wrote("a", target="a", owner="a", granted=1)
    group.truth.done("s/0", 0)
    group.truth.done("s/0", 1)
    group.wrote("a", target="a", owner="a", granted=1, cursor=2)
    assert group.truth.known().shares["s/0"].cursor == group.truth.said(3).shares["s/0"].cursor == 2
    group.wrote("a", target="a", owner="a", granted=1, cursor=1)
    group.violates("CommitsFenced")
    other = TrueGroup()
    other.wrote("a", target="a", owner="a", granted=1)
    other.truth.done("s/0", 0)
    other.wrote("b", target="a", owner="a", granted=1, cursor=1)
    other.violates("CommitsFenced")


def test_G4_what_nobody_has_done_is_not_committed() -> None:
    group = TrueGroup()
    group.wrote("a", target="a", owner="a", granted=1)
    group.truth.done("s/0", 1)
    group.wrote("a", target="a", owner="a", granted=1, cursor=2)
    group.violates("NothingLeftOut")


def test_G2_one_member_works_on_a_partition() -> None:
    group = TrueGroup()
    one, other = group.member("a"), group.member("b")
    group.wrote("a", target="a", owner="a", granted=1)
    group.truth.works(one, "s/0", 1)
    with pytest.raises(Violation) as raised:
        group.truth.works(other, "s/0", 1)
    assert raised.value.invariant == "OneOwner"
    one.working = "s/0", 1
    with pytest.raises(Violation) as raised:
        group.truth.works(other, "s/0", 2)
    assert raised.value.invariant == "OneOwner"
    group.living.remove(one)
    group.truth.works(other, "s/0", 2)


# -- bugs ----------------------------------------------------------------------------------------------------

def test_G2_a_partition_granted_while_another_one_has_it_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other bugs of groups are switches (`Mutants`), and searched for with all others."""
    for place in (state_module, member_module):
        monkeypatch.setattr(place, "may_grant", lambda share: share.target not in ("", share.owner))
    for seed in range(12):
        result = run_seed(RunOptions(seed=seed, profile="groups", duration_s=30))
        if not result.good:
            assert result.invariant == "OneOwner", result.finding
            return
    pytest.fail("never found")


def test_groups_work_under_fire() -> None:
    result = run_seed(RunOptions(seed=0, profile="groups", duration_s=30))
    assert result.good, f"{result.finding}\nreplay with: {result.replay}"
    for name in ("states of groups stored", "messages of groups done", "members expired"):
        assert result.counters[name] > 0, name
    assert all(result.checks[name] > 0 for name in ("OneOwner", "CommitsFenced", "NothingLeftOut"))
