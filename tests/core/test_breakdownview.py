"""What `liftlog cluster breakdown` makes of two answers of each node, and what it says."""

from __future__ import annotations

import pytest

from liftlog import cli
from liftlog.commands.breakdownview import BETWEEN, MEANINGS, BreakdownView, compare, in_words
from liftlog.real.breakdown import FOLLOWER, LEADER, STAGES, StageTimes, bucket_of

STORED = {"storage.groups": 10, "network.clients": 2}


def counted(role: str, groups: int = 1, **took_ms: float) -> dict[str, int]:
    """Counters of so many groups that took these times."""
    return {f"breakdown.{role}.{stage}.{bucket_of(ms)}": groups for stage, ms in took_ms.items()}


def stages(**took_ms: float | tuple[float, float]) -> list[StageTimes]:
    """Stages by their p50, or by p50 and p99."""
    both = {name: ms if isinstance(ms, tuple) else (ms, ms) for name, ms in took_ms.items()}
    return [StageTimes(name, 7, p50, p99, p99) for name, (p50, p99) in both.items()]


# -- the difference -----------------------------------------------------------------------------------------


def test_only_what_passed_between_the_answers_is_shown() -> None:
    before = {1: STORED | counted(LEADER, 3, sync=1, whole=2)}
    after = {
        1: {"storage.groups": 12} | counted(LEADER, 5, sync=1, whole=2) | counted(FOLLOWER, step=1, whole=1)
    }
    view = compare(before, after, (), 1.0)
    assert {role: [(one.name, one.groups) for one in found] for role, found in view.nodes[1].items()} == {
        LEADER: [("sync", 2), ("whole", 2)],
        FOLLOWER: [("step", 1), ("whole", 1)],
    }
    assert view.problems == []


def test_nodes_that_cannot_be_compared_are_named() -> None:
    busy = counted(LEADER, 4, sync=1, whole=1)
    before = {1: STORED, 2: STORED | busy, 3: STORED | busy, 5: STORED, 6: STORED}
    after = {
        1: STORED,
        2: counted(LEADER, 9, sync=1, whole=1) | {"storage.groups": 3},
        3: {"storage.groups": 70} | counted(FOLLOWER, step=1, whole=1),
        4: STORED,
        # A client less is no new process.
        6: STORED | {"network.clients": 1},
    }
    view = compare(before, after, {4, 5, 7}, 1.0)
    assert view.nodes == {}
    again = "was started again meanwhile and counts anew; ask again"
    silent = "did not answer in time; see whether it runs, and ask again"
    assert view.problems == [
        f"node 2 {again}",
        f"node 3 {again}",
        f"node 4 {silent}",
        f"node 5 {silent}",
        f"node 7 {silent}",
    ]


def test_nothing_meanwhile_is_said_with_what_to_do() -> None:
    assert compare({1: STORED}, {1: STORED}, {2}, 2.5).lines == [
        "nothing was stored in these 2.5 s; publish meanwhile, or choose a longer --seconds",
        "node 2 did not answer in time; see whether it runs, and ask again",
    ]


# -- in words -----------------------------------------------------------------------------------------------


def test_every_stage_has_a_meaning() -> None:
    assert MEANINGS.keys() == {*STAGES[LEADER], *STAGES[FOLLOWER], BETWEEN} - {"whole"}


def test_the_longer_of_disk_and_followers_decides() -> None:
    found = stages(
        parse=0.1, step=0.2, queue=(0, 9), write=0.05, sync=(1, 10), out=0.1, followers=(2, 12), ack=0.1,
        whole=(2.6, 20),
    )  # fmt: skip
    assert in_words(LEADER, found) == (
        "Most of the time goes to followers (the way to the slowest follower, its disk, and the way back): "
        "2.00 of 2.60 ms at p50; at p99 to sync (the disk's sync): 10.0 of 20.0."
    )


def test_a_follower_has_one_way() -> None:
    found = stages(parse=0.1, step=0.2, queue=0, write=0.05, sync=(0.6, 8), report=0.02, whole=(1, 9))
    words = "Most of the time goes to sync (the disk's sync): 0.600 of 1.00 ms at p50, 8.00 of 9.00 at p99."
    assert in_words(FOLLOWER, found) == words


def test_time_that_no_stage_has_is_named_too() -> None:
    found = stages(parse=0.1, step=0.2, queue=0, write=0.05, sync=(0.6, 8), report=0.02, whole=(3, 20))
    assert in_words(FOLLOWER, found) == (
        f"Most of the time goes to between ({MEANINGS[BETWEEN]}): "
        "2.03 of 3.00 ms at p50, 11.6 of 20.0 at p99."
    )


# -- the table ----------------------------------------------------------------------------------------------


def test_numbers_stand_under_each_other() -> None:
    slow = StageTimes("sync", 1234, 0.35, 12.5, 1500.0)
    view = BreakdownView(
        10.04,
        {2: {FOLLOWER: [StageTimes("step", 7, 0.001, 0.02, 3.0), slow, slow._replace(name="whole")]}},
        [],
    )
    assert view.lines == [
        "node 2, follower, 10.0 s, in ms",
        "STAGE  GROUPS    P50    P90    P99",
        "step        7  0.001  0.020   3.00",
        "sync    1,234  0.350   12.5  1,500",
        "whole   1,234  0.350   12.5  1,500",
        "Most of the time goes to sync (the disk's sync): 0.350 of 0.350 ms at p50, 1,500 of 1,500 at p99.",
    ]
    assert view.to_json()["nodes"]["2"][FOLLOWER]["stages"][1] == {
        "name": "sync", "groups": 1234, "p50_ms": 0.35, "p90_ms": 12.5, "p99_ms": 1500.0
    }  # fmt: skip


# -- the command --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (["--seconds", "0"], "--seconds: 0 is not between 0 and 86400 seconds"),
        (["--seconds", "nan"], "--seconds: nan is not between"),
        (["--seconds", "soon"], "--seconds: 'soon' is no number of seconds"),
        (["--node", "here"], "'here' is no HOST:PORT"),
        (["--config", "/no/such.toml"], "/no/such.toml"),
    ],
)
def test_a_wrong_option_is_one_line(line: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["cluster", "breakdown", *line]) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1
