"""What the history of a simulated run tells of compare and set: nothing wrong, or which bug was planted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from liftlog.cli import main
from liftlog.types import StreamConfig
from liftlog_jepsen.history import History
from liftlog_jepsen.jsonl import read_jsonl
from liftlog_sim.runs.history import Logs, history_of, listen
from liftlog_sim.runs.runner import knobs_of, run_world
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.groups import GroupTruth
from liftlog_sim.truth.processors import StoredCursors
from liftlog_sim.world import World
from tests.jepsen.promise_stories import broken


def history(options: RunOptions, *, judged: bool = True, removing: bool = True) -> History:
    """Of a run. Not `judged`: the invariants of clients hold their tongue, and the run goes on.
    Not `removing`: no message goes, but where a client deletes it.
    """
    seen: list[tuple[World, Logs]] = []

    def watch(world: World) -> None:
        seen.append((world, listen(world)))
        if not judged:
            world.account.fail = lambda violation: None  # type: ignore[method-assign]

    knobs = knobs_of(options)
    if not removing:
        knobs = msgspec.structs.replace(knobs, streams=tuple(map(keeps_all, knobs.streams)))
    result = run_world(options, knobs, None, watch, keep_values=True)
    ((world, logs),) = seen
    return history_of(world, options, result, logs)


def keeps_all(config: StreamConfig) -> StreamConfig:
    """The same, without what lets messages go."""
    names = "allow_ttl", "allow_rollup", "marker_ttl_ms", "work_queue", "interest", "max_messages_per_subject"
    off = dict.fromkeys(names, UNSET)
    return msgspec.structs.replace(config, retention_ms=0, retention_messages=0, retention_bytes=0, **off)


def anomalies(found: History) -> set[str]:
    return {row["anomaly"] for row in broken(found)}


def test_L6_expected_offsets_and_refusals_are_in_the_history_and_nothing_is_wrong_with_them() -> None:
    found = history(RunOptions(seed=2, profile="mixed", duration_s=10))
    facts = Counter(mop.f for op in found.ops() for mop in op.mops)
    assert facts["expected"] > 100 and facts["refused"] > 20
    for op in found.ops():
        if any(mop.f == "refused" for mop in op.mops):
            assert [mop.f for mop in op.mops] == ["send", "expected", "refused"]
            assert (op.outcome, op.error) == ("info", "expected-offset") and op.t_ret_ns is not None
    assert anomalies(found) == set()


def test_L7_messages_that_were_there_already_are_in_the_history_as_what_nobody_can_place() -> None:
    found = history(RunOptions(seed=2, profile="repeats", duration_s=15))
    repeated = [op for op in found.ops() if op.error == "duplicate"]
    assert len(repeated) > 5 and {op.outcome for op in repeated} == {"info"}
    assert anomalies(found) == set()


@pytest.mark.parametrize(
    ("mutant", "seed", "profile"),
    [
        ("expected_by_committed", 2, "mixed"),
        ("L6.expected-offset", 2, "mixed"),
        ("expected_by_arrival", 0, "kills"),
    ],
)
def test_L6_a_planted_bug_shows_in_the_history(mutant: str, seed: int, profile: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    words = ["sim", "run", "--seed", str(seed), "--profile", profile, "--mutant", mutant, "--quiet"]
    words += ["--duration", "15", "--history", str(path), "--failures", str(tmp_path)]
    assert main(words) == 1
    assert anomalies(read_jsonl(path)) == {"misplaced"}


def test_L8_each_record_of_a_parcel_is_in_the_history_with_its_own_offset() -> None:
    found = history(RunOptions(seed=14, profile="mixed", duration_s=15))
    sends = [op.mops[0] for op in found.ops() if op.f == "send"]
    stored = {mop.value: mop.offset for mop in sends if mop.offset is not None}
    bursts = Counter(str(value).rpartition("-")[0] for value in stored)
    assert len(stored) == sum(bursts.values()) and max(bursts.values()) > 3
    assert anomalies(found) == set()


def test_L6_refusals_that_were_told_too_early_show_when_what_they_rest_on_is_cut() -> None:
    """The invariant ends such a run at the first of them, and then its history cannot show anything."""
    options = RunOptions(seed=0, profile="kills", duration_s=15)
    assert anomalies(history(options)) == set()
    planted = RunOptions(seed=0, profile="kills", duration_s=15, mutant="L6.uncommitted")
    assert anomalies(history(planted, judged=False)) == {"dirty-refusal", "stale-refusal"}


def test_K3_K4_K6_what_clients_of_consumers_saw_is_in_the_history_and_nothing_is_wrong_with_it() -> None:
    found = history(RunOptions(seed=4, profile="consumers", duration_s=25), removing=False)
    facts = Counter(mop.f for op in found.ops() for mop in op.mops)
    assert min(facts[f] for f in ("consumer", "pull", "deliver", "settle", "floor")) > 30
    # Nothing was deleted here, so that it is known what each was to be given, and they were emptied.
    assert any(mop.f == "consumer" and mop.offset == 0 for op in found.ops() for mop in op.mops)
    given = {(mop.key, mop.offset) for op in found.ops() for mop in op.mops if mop.f == "deliver"}
    assert given and given <= {
        (mop.key, mop.offset) for op in found.ops() if op.f == "final-poll" for mop in op.mops
    }
    assert anomalies(found) == set()


def test_K1_what_a_consumer_lacks_that_was_reset_forward_is_not_told_as_skipped() -> None:
    """It was noted as one that is given everything, as its configuration says."""
    found = history(RunOptions(seed=29, profile="consumers", duration_s=25), removing=False)
    starts = [mop.offset for op in found.ops() for mop in op.mops if mop.f == "consumer"]
    assert any(start for start in starts)
    assert anomalies(found) == set()


@pytest.mark.parametrize(
    ("mutant", "seed", "judged", "found"),
    [
        ("K4.own", 4, True, {"unrecorded-elsewhere"}),
        ("ack_answered_at_append", 13, False, {"acked-again"}),
    ],
)
def test_K3_K4_a_planted_bug_of_consumers_shows_in_the_history(
    mutant: str, seed: int, judged: bool, found: set[str]
) -> None:
    options = RunOptions(seed=seed, profile="consumers", duration_s=25, mutant=mutant)
    assert anomalies(history(options, judged=judged)) == found


def test_G1_G4_what_members_of_groups_were_told_is_in_the_history_and_nothing_is_wrong_with_it() -> None:
    found = history(RunOptions(seed=2, profile="groups", duration_s=20))
    facts = Counter(mop.f for op in found.ops() for mop in op.mops)
    assert min(facts[f] for f in ("join", "own", "commit", "fetch-commit")) > 15
    assert anomalies(found) == set()


def test_G3_a_commit_of_who_was_replaced_shows_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupTruth, "_judge", lambda *told: None)
    planted = RunOptions(seed=7, profile="groups", duration_s=20, mutant="group_commit_unfenced")
    assert anomalies(history(planted, judged=False)) == {"stale-commit"}


def test_L10_what_processors_stored_is_in_the_history_and_nothing_is_wrong_with_it() -> None:
    found = history(RunOptions(seed=5, profile="processors", duration_s=20))
    facts = Counter(mop.f for op in found.ops() for mop in op.mops)
    assert min(facts[f] for f in ("join", "source", "commit", "fetch-commit")) > 15
    assert anomalies(found) == set()


@pytest.mark.parametrize("seed", [40, 70])
def test_L10_what_a_processor_that_was_forgotten_does_again_is_no_anomaly(seed: int) -> None:
    found = history(RunOptions(seed=seed, profile="processors", duration_s=20))
    names = {mop.key for op in found.ops() for mop in op.mops if mop.f == "join"}
    assert len(names) > len({name.partition(" ")[0] for name in names})
    assert anomalies(found) == set()


@pytest.mark.parametrize(
    ("mutant", "seed", "found"),
    [
        ("cursor_of_committed", 5, {"output-duplicate", "cursor-back"}),
        ("opening_as_sent", 0, {"phantom-cursor"}),
        ("parcel_without_cursor", 17, {"output-duplicate"}),
    ],
)
def test_L10_a_planted_bug_of_processors_shows_in_the_history(
    mutant: str, seed: int, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold_your_tongue(self: StoredCursors, *told: Any) -> None:
        committed(self, *told)
        self._wanted = []

    committed = StoredCursors.committed
    monkeypatch.setattr(StoredCursors, "committed", hold_your_tongue)
    planted = RunOptions(seed=seed, profile="processors", duration_s=20, mutant=mutant)
    assert anomalies(history(planted, judged=False)) == found
