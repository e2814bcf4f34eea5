"""Failures explain themselves: the bundle, the story of its causes, and the smallest world that still fails.

The worlds in `explained/` were shrunk by `liftlog sim shrink`, each with a planted bug of another kind: they
are stated, so that they stay what they are when draws change.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from liftlog.__main__ import main
from liftlog.core.node import Node
from liftlog.messages import Event, Outcome, Published
from liftlog.storage.engine import StorageEngine
from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import DRAWN, Plan, PlannedOperation, decode
from liftlog_sim.explain.again import knobs_from, run_again, stated
from liftlog_sim.explain.bundle import Bundle, read, write
from liftlog_sim.explain.bursts import in_larger_bursts
from liftlog_sim.explain.candidates import LOOK_US, Candidate, Court, Fingerprint, Patience, run_candidate
from liftlog_sim.explain.failures import keep_some, replay, verdict_of
from liftlog_sim.explain.recording import bundle_of, record_world
from liftlog_sim.explain.rules import RAFT, RULES, rule_of
from liftlog_sim.explain.shrink import Shrinker, _until, counts
from liftlog_sim.explain.story import LINES, WIDTH, why
from liftlog_sim.kernel import SECOND
from liftlog_sim.page.from_trace import chart_of_trace
from liftlog_sim.runs.runner import knobs_of, run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.runs.trace import WorldTraceWriter
from liftlog_sim.truth.names import COMPACTION_INVARIANTS, FINAL_INVARIANTS, STEP_INVARIANTS

EXPLAINED = Path(__file__).parent / "explained"
WRONG = {
    "R10.live": r"node 1 asks the group: node 3, .* joins the ISR .*\^ here the model says no: ProposeAdd",
    "ack_at_append": r"node 3 acknowledges offset 0 of 6/0 .*, but has committed only what lies below 0",
    "header_ignored": r"node 1 as leader in epoch 1 stores 1-2-0, 1-2-1 .*partition 5/0 acknowledged 1-2-1",
    "damage_as_torn_tail": r"node 1 finds its copy of 7/0 to end at 0; before its process ended 2",
    "frame_tag_ignored": r"node 2 takes an AppendRequest of node 3 that was altered on its way",
    "hw_checkpoint_in_place": r"node 1 has the HW 1 of 7/0 remembered on its disk .*node 1 loses power",
    "last_epoch_forgotten": r"node 2 tells node 1, which says that its log ends at 1 in epoch 0, that",
    "metadata_read_at_once": r"node 1 tells a client of streams, as of index 8: s0 .*index 9 was committed",
    "never_fenced": r"node 2 is cut from its peers .*node 2 acknowledges offset 0 of 5/0 in epoch 5",
    "overlap_answered": r"node 1 acknowledges offset 0 of 5/0 .*node 1 acknowledges offset 0 of 7/0",
    "raft_commit_unclamped": r"node 2 takes index 4 for committed, as node 1 says",
    "raft_quorum_half": r"node 3 becomes controller of term 2 with the votes of node 3;",
    "restarted_leader_keeps_epoch": r"node 1 starts again .*node 1 becomes leader of 5/0 in epoch 1;",
    "truncate_to_hw": r"node 2 cuts its copy of 4/0 from 1 to 0, where its HW is, without asking anybody",
}
"""By mutant: how the story names the node and the event where the planted bug did wrong."""
CALM = RunOptions(seed=3, nodes=3, duration_s=8, faults="none")
OPTIONS = RunOptions(seed=13, profile="terms", duration_s=10, mutant="raft_quorum_half")


class World(msgspec.Struct):
    """A world in `explained/`."""

    seed: int
    mutant: str
    refine: bool
    invariant: str
    world: dict[str, object]
    plan: msgspec.Raw

    @property
    def stated_plan(self) -> str:
        return bytes(self.plan).decode()

    def bundle(self) -> Bundle:
        options = RunOptions(seed=self.seed, mutant=self.mutant, refine=self.refine)
        return bundle_of(options, knobs_from(self.world), decode(self.stated_plan.encode()))


def world_of(mutant: str) -> World:
    return msgspec.json.decode((EXPLAINED / f"{mutant}.json").read_bytes(), type=World)


@pytest.fixture(scope="module")
def failed() -> Bundle:
    return bundle_of(OPTIONS, knobs_of(OPTIONS), None, run_seed(OPTIONS).trace_hash)


# -- the story -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutant", sorted(WRONG))
def test_the_story_names_the_node_and_the_event_where_the_mutant_did_wrong(mutant: str) -> None:
    world = world_of(mutant)
    bundle = world.bundle()
    assert bundle.violation.invariant == world.invariant
    told = re.sub(r"\s+", " ", " ".join(bundle.story))
    assert re.search(WRONG[mutant], told), "\n".join(bundle.story)
    assert len(bundle.story) <= LINES and max(map(len, bundle.story)) <= WIDTH
    assert f"=> {world.invariant} is violated" in told


@pytest.mark.parametrize("mutant", sorted(WRONG))
def test_a_shrunk_world_is_clean_without_its_mutant(mutant: str) -> None:
    world = world_of(mutant)
    found = run_again(world.seed, world.world, world.stated_plan, refine=world.refine)
    assert found.good, found.finding


def test_causes_come_first_and_any_step_can_be_asked_for(failed: Bundle) -> None:
    times = [float(found) for line in failed.story if (found := line[:10].strip())]
    assert times == sorted(times)
    led = next(step for step, changed in enumerate(failed.changes) if changed.get("raft role") == "leader")
    story = why(failed, led)
    assert len(story) <= LINES and "becomes controller" in story[-2] + story[-3]
    with pytest.raises(LiftlogError, match=f"there is no step 99999; choose 0 to {len(failed.trace) - 1}"):
        why(failed, 99999)


def test_why_is_asked_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["sim", "run", "--seed", "3", "--duration", "2", "--why"]
    assert main([*command, "5"]) == 0
    assert "#5" not in capsys.readouterr().out  # A step is told at the end, after its causes.
    assert main([*command, "5000000"]) == 2
    assert "there is no step 5000000" in capsys.readouterr().err


def test_a_step_that_raised_is_in_the_trace_with_its_event_and_what_it_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Node.step

    def raising(self: Node, event: Event) -> Outcome:
        if isinstance(event, Published):
            raise KeyError("nobody")
        return step(self, event)

    monkeypatch.setattr(Node, "step", raising)
    bundle = bundle_of(CALM, knobs_of(CALM), None, run_seed(CALM).trace_hash)
    assert bundle.violation.invariant == "NodeError"
    last = bundle.trace[bundle.violation.at_step]
    assert last.event[0] == "Published" and bundle.violation.at_step == len(bundle.trace) - 1
    ((name, fields),) = last.effects
    assert name == "Raised" and fields["error"] == "KeyError: 'nobody'"
    assert fields["place"].startswith("test_explain.py:") and fields["place"].endswith(" in raising")
    told = re.sub(r"\s+", " ", " ".join(bundle.story))
    assert re.search(r"node \d raises over Published of \d/0: KeyError: 'nobody' \(test_explain.py", told)
    with WorldTraceWriter(tmp_path / "run.jsonl") as writer:
        run_seed(CALM, writer.attach)
    lines = (tmp_path / "run.jsonl").read_bytes().splitlines()
    assert msgspec.json.decode(lines[-1])["effects"] == last.effects
    page = chart_of_trace(tmp_path / "run.jsonl").steps[-1]
    assert page.label == "raises" and page.effects[0].startswith("raises KeyError: 'nobody' at test_explain")


@pytest.mark.parametrize(
    ("method", "event"), [("write", ["StorageWork", {}]), ("sync", ["StorageWork", {}]), ("recover", None)]
)
def test_what_the_storage_raises_is_in_the_trace(
    method: str, event: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(*parts: object) -> object:
        raise ValueError("no such file")

    monkeypatch.setattr(StorageEngine, method, raising)
    bundle = bundle_of(CALM, knobs_of(CALM), None, run_seed(CALM).trace_hash)
    last = bundle.trace[bundle.violation.at_step]
    assert bundle.violation.invariant == "NodeError" and last.event == event
    assert last.effects[0][1]["error"] == "ValueError: no such file"
    over = "as it starts" if event is None else "over what its storage has to do"
    told = re.sub(r"\s+", " ", " ".join(bundle.story))
    assert re.search(rf"node \d raises {over}: ValueError: no such file", told), told


# -- the bundle ----------------------------------------------------------------------------------------------


def test_watching_changes_nothing_and_the_model_says_where_it_disagrees(failed: Bundle) -> None:
    for seed in (1, 5):
        options = RunOptions(seed=seed, duration_s=8)
        _, result = record_world(options, knobs_of(options), None)
        assert result.trace_hash == run_seed(options).trace_hash
    assert failed.disagreement is not None and failed.disagreement.model == "raft"
    assert "BecomeLeader" in failed.disagreement.finding
    assert failed.disagreement.at_step <= failed.violation.at_step
    assert len(failed.trace) == len(failed.changes) == len(failed.causes)


def test_a_bundle_holds_only_what_changed_before_and_after(failed: Bundle) -> None:
    violation = failed.violation
    assert violation.before.keys() == violation.after.keys()
    assert violation.before and all(
        violation.before[name] != violation.after[name] for name in violation.after
    )
    assert (violation.rule, violation.sentence) == rule_of(violation.invariant)


def test_a_bundle_is_written_read_and_replayed(failed: Bundle, tmp_path: Path) -> None:
    for name in ("one.json", "one.json.gz"):
        write(failed, tmp_path / name)
        assert msgspec.to_builtins(read(tmp_path / name)) == msgspec.to_builtins(failed)
    bundle, replayed = replay(tmp_path / "one.json.gz")
    assert replayed.same and "replayed: the same" in verdict_of(bundle, replayed)[0]
    assert main(["sim", "replay", str(tmp_path / "one.json.gz")]) == 0


@pytest.mark.parametrize(
    "given",
    [
        ["--with", "mine.py"],
        ["--mutant", "ack_at_append"],
        ["--faults", "none"],
        ["--duration", "5"],
        ["--trace", "t.jsonl"],
        ["--nodes", "5"],
        ["--gear", "trio"],
        ["--refine"],
    ],
)
def test_nothing_is_said_of_a_bundle_that_is_then_ignored(
    failed: Bundle, tmp_path: Path, given: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(failed, tmp_path / "one.json")
    assert main(["sim", "replay", str(tmp_path / "one.json"), *given]) == 2
    said = capsys.readouterr().err
    assert f"{given[0]}: a bundle says itself" in said and "leave that out" in said


def test_a_replay_with_another_code_says_so(failed: Bundle, tmp_path: Path) -> None:
    other = msgspec.structs.replace(failed, sources="0" * 64, trace_hash="0" * 16)
    write(other, tmp_path / "one.json")
    text = "\n".join(verdict_of(*replay(tmp_path / "one.json")))
    assert "NOT the same" in text and "this code is another one than the bundle's" in text
    assert main(["sim", "replay", str(tmp_path / "one.json")]) == 1


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("one.txt", b"", "its name must end in .json or .json.gz"),
        ("one.json", b"{}", "is not a bundle"),
        ("one.json", b'{"format": 99}', "has format 99, this liftlog reads format 1 only"),
        ("one.json.gz", b"zzz", "is not a bundle"),
        ("", b"", "cannot read the bundle"),
    ],
)
def test_what_is_no_bundle_is_refused(name: str, content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / (name or "missing.json")
    if name:
        path.write_bytes(content)
    with pytest.raises(LiftlogError, match=re.escape(problem)):
        read(path)


def test_a_sweep_bundles_each_invariant_before_two_of_any(tmp_path: Path) -> None:
    options = [
        RunOptions(seed=seed, profile="kills", mutant="ack_at_append", duration_s=15) for seed in range(6)
    ]
    failed = [result for result in map(run_seed, options) if not result.good]
    paths, problems = keep_some(options, failed, tmp_path, 2)
    assert problems == []
    assert len(failed) > 2 and len(paths) == len(list(tmp_path.iterdir())) == 2
    kinds = {read(path).violation.invariant for path in paths}
    assert len(kinds) == min(2, len({result.invariant for result in failed}))


def test_a_run_gives_its_verdict_where_it_cannot_be_bundled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def parted(*parts: object) -> Bundle:
        raise LiftlogError("seed 13 ran otherwise the second time")

    monkeypatch.setattr("liftlog_sim.explain.failures.bundle_of", parted)
    world = ["--seed", "13", "--profile", "terms", "--duration", "10", "--mutant", "raft_quorum_half"]
    assert main(["sim", "run", *world, "--json", "--failures", str(tmp_path)]) == 1
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["invariant"] and found["bundle"] == ""
    assert told.err.endswith(f"no bundle of {found['invariant']}: seed 13 ran otherwise the second time\n")


def test_each_rule_says_what_the_page_of_rules_says() -> None:
    page = (Path(__file__).parents[2] / "spec" / "README.md").read_text(encoding="utf-8")
    rules = dict(re.findall(r"^- \*\*([A-Z]\d+)\*\* (.*?)(?=^- \*\*|^#|\Z)", page, re.DOTALL | re.MULTILINE))
    for invariant, (number, sentence) in RULES.items():
        assert sentence in re.sub(r"\s+", " ", rules[number]), f"{invariant}: {number}"
    assert RAFT in re.sub(r"\s+", " ", rules["M1"])
    known = {*STEP_INVARIANTS, *COMPACTION_INVARIANTS, *FINAL_INVARIANTS}
    assert known - {*RULES} == {"Refinement", "Convergence"}


# -- shrinking -----------------------------------------------------------------------------------------------


def test_a_bundle_is_shrunk_to_a_test_that_fails_with_the_mutant_only(
    failed: Bundle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(failed, tmp_path / "one.json.gz")
    assert main(["sim", "shrink", str(tmp_path / "one.json.gz"), "--seconds", "600"]) == 0
    out = capsys.readouterr().out
    assert "nothing smaller fails" in out and "replay with: liftlog sim replay" in out
    small = read(tmp_path / "one.shrunk.json.gz")
    faults, operations, _ = counts(small.plan)
    assert faults + operations <= 12
    assert small.violation.invariant == failed.violation.invariant
    assert main(["sim", "replay", str(tmp_path / "one.shrunk.json.gz")]) == 0
    written: dict[str, object] = {}
    exec((tmp_path / "test_one.py").read_text(encoding="utf-8"), written)
    tests = [test for name, test in written.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        assert callable(test)
        test()


def test_verdicts_are_kept_by_plan_and_a_budget_ends_it(failed: Bundle) -> None:
    settings = failed.settings
    court = Court(settings.options, Fingerprint("LeaderCompleteness", "M1"), 600)
    candidate = Candidate(settings.knobs, failed.plan, failed.seed)
    first = court.fails(candidate)
    assert court.fails(candidate) == first and (court.runs, court.cached) == (1, 1)
    spent = Shrinker(failed, 0, lambda line: None)
    found = spent.run()
    assert not found.done and found.candidate.plan == failed.plan


def test_another_violation_is_no_progress_but_a_find(failed: Bundle) -> None:
    settings = failed.settings
    court = Court(settings.options, Fingerprint("ConsistentRead", "R3"), 600)
    assert court.fails(Candidate(settings.knobs, failed.plan, failed.seed)) == -1
    assert [found.invariant for found in court.finds] == [failed.violation.invariant]


def test_a_world_is_stated_by_what_is_unusual_in_it() -> None:
    for seed in range(40):
        knobs = knobs_of(RunOptions(seed=seed))
        assert knobs_from(json.loads(json.dumps(stated(knobs)))) == knobs


def test_a_world_in_which_nobody_joins_any_more_runs_though_nodes_were_to_be_added() -> None:
    """The administrator drew one of no nodes, and shrinking ended there."""
    options = RunOptions(seed=1, profile="growing", duration_s=6)
    knobs = knobs_of(options)
    assert knobs.joiners and knobs.node_share
    alone = msgspec.structs.replace(knobs, nodes=3, joiners=0, node_share=1.0, admin_interval_us=SECOND // 5)
    result = run_candidate(options, Candidate(alone, DRAWN, 1))
    assert result is not None and result.good


def test_a_world_without_a_stream_runs_though_partitions_were_to_be_chosen() -> None:
    """Whatever is taken away: who then finds no partition leaves it, and shrinking goes on."""
    options = RunOptions(seed=1, profile="growing", duration_s=6)
    knobs = msgspec.structs.replace(
        knobs_of(options),
        streams=(),
        admin_interval_us=SECOND // 10,
        alter_interval_us=SECOND // 10,
        move_interval_us=SECOND // 10,
    )
    result = run_candidate(options, Candidate(knobs, DRAWN, 1))
    assert result is not None and result.good


def test_a_run_ends_when_too_much_was_spent_on_it() -> None:
    """One of a smaller world, in which messages answered each other, took more than the whole budget."""
    options = RunOptions(seed=1, profile="growing", duration_s=6)
    candidate = Candidate(knobs_of(options), DRAWN, 1)
    assert run_candidate(options, candidate, Patience(process_s=0.0)) is None
    assert run_candidate(options, candidate, Patience(world_us=SECOND)) is None
    whole = run_candidate(options, candidate)
    assert whole is not None
    assert run_candidate(options, candidate, Patience(steps=whole.steps // 2)) is None
    assert run_candidate(options, candidate, Patience(steps=whole.steps)) is not None


def test_what_no_model_explains_is_found_in_a_run_that_ends_early() -> None:
    """Steps are noted, and held against the models many at a time: where a run was cut short nobody did."""
    bundle = world_of("R10.live").bundle()
    assert bundle.violation.invariant == "Refinement"
    candidate = Candidate(bundle.settings.knobs, bundle.plan, bundle.seed)
    at_us = bundle.violation.at_us
    result = run_candidate(bundle.settings.options, candidate, Patience(world_us=at_us + 1))
    assert result is not None and result.invariant == "Refinement"
    assert round(result.at_s * SECOND) == at_us
    assert run_candidate(bundle.settings.options, candidate, Patience(world_us=at_us - 1)) is None


def test_a_long_failure_is_looked_for_where_it_comes_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog_sim.explain.shrink.OTHERS", 1000)
    options = RunOptions(seed=1, profile="kills", mutant="ack_at_append", duration_s=15)
    while (found := run_seed(options)).good or found.at_s < 4:
        options = msgspec.structs.replace(options, seed=options.seed + 1)
    shrinker = Shrinker(bundle_of(options, knobs_of(options), None), 600, lambda line: None)
    whole = shrinker.at_us
    monkeypatch.setattr("liftlog_sim.explain.shrink.LONG_US", whole * 2 // 3)
    shrinker._fail_sooner()
    best = shrinker.best
    assert best.seed != options.seed and shrinker.at_us <= whole // 2 and best.plan.faults is not None
    other = msgspec.structs.replace(options, seed=best.seed)
    _, again = record_world(other, best.knobs, best.plan)
    assert (again.invariant, round(again.at_s * SECOND)) == (found.invariant, shrinker.at_us)
    assert shrinker.court.is_clean(best)


def test_where_one_run_takes_long_a_shorter_world_is_looked_for_before_all_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = RunOptions(seed=1, profile="kills", mutant="ack_at_append", duration_s=15)
    while (found := run_seed(options)).good or found.at_s < 6:
        options = msgspec.structs.replace(options, seed=options.seed + 1)
    bundle = bundle_of(options, knobs_of(options), None)
    monkeypatch.setattr("liftlog_sim.explain.shrink.LONG_US", 600 * SECOND)
    monkeypatch.setattr("liftlog_sim.explain.shrink.MUCH", 10**9)
    assert not Shrinker(bundle, 600, lambda line: None)._slow
    monkeypatch.setattr("liftlog_sim.explain.shrink.SLOW_PART", 10**9)
    monkeypatch.setattr("liftlog_sim.explain.shrink.OTHERS", 1000)
    shrinker = Shrinker(bundle, 600, lambda line: None)
    whole = shrinker.at_us
    assert shrinker._slow
    shrinker._fail_sooner()
    assert not shrinker._slow and shrinker.at_us < whole and shrinker.best.seed != options.seed
    assert shrinker.court.is_clean(shrinker.best)


def test_a_large_failure_is_looked_for_in_smaller_worlds_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog_sim.explain.shrink.OTHERS", 1000)
    options = RunOptions(seed=1, profile="kills", mutant="ack_at_append", duration_s=15)
    while (found := run_seed(options)).good or found.at_s < 4:
        options = msgspec.structs.replace(options, seed=options.seed + 1)
    bundle = bundle_of(options, knobs_of(options), None)
    smallest: list[Candidate] = []
    for _ in range(2):
        shrinker = Shrinker(bundle, 600, lambda line: None)
        shrinker._cut_time()
        whole = sum(counts(shrinker.best.plan)[:2])
        monkeypatch.setattr("liftlog_sim.explain.shrink.MUCH", whole * 2 // 3)
        shrinker._fail_sooner()
        left = sum(counts(shrinker.best.plan)[:2])
        assert shrinker.best.seed != options.seed and left <= whole // 2
        assert shrinker.court.is_clean(shrinker.best)
        smallest.append(shrinker.best)
    assert smallest[0] == smallest[1], "what is found does not hang on how fast the machine is"


def test_other_worlds_have_seeds_of_their_own_and_some_are_calmer(failed: Bundle) -> None:
    shrinker = Shrinker(failed, 600, lambda line: None)
    others = [shrinker._other() for _ in range(12)]
    assert len({other.seed for other in others} | {failed.seed}) == 13
    whole = shrinker.best.knobs.publish_interval_us
    assert {other.knobs.publish_interval_us // whole for other in others} == {1, 4}
    assert all(other.plan == DRAWN for other in others)


def test_of_a_large_world_large_parts_are_taken_away_first(
    failed: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrinker = Shrinker(failed, 600, lambda line: None)
    _, _, whole = counts(shrinker.best.plan)
    assert shrinker._fine, "this one is small"
    taken: list[int] = []

    def fails(candidate: Candidate, by_us: int = 0) -> int:
        _, _, fates = counts(candidate.plan)
        if fates < whole:
            taken.append(whole - fates)
        return -1

    monkeypatch.setattr(shrinker.court, "fails", fails)
    shrinker._without_parts()
    assert {max(taken), min(taken)} == {(whole + 1) // 2, 1}
    taken.clear()
    shrinker._fine = False
    shrinker._without_parts()
    halves, quarters, rest = taken[:2], taken[2:6], taken[6:]
    assert sum(halves) == sum(quarters) == sum(rest) == whole, "halves, quarters, eighths, and what is over"
    assert len(rest) < 16 and max(rest) <= min(quarters) <= max(quarters) <= min(halves)


def test_bursts_of_one_publisher_become_one_with_as_many_messages() -> None:
    operations = tuple(
        PlannedOperation(client, number, 100 * number, target, count)
        for number, (client, target, count) in enumerate(
            [
                ("publisher/0", "a/0", 3),
                ("reader/0", "a/0", 0),
                ("publisher/1", "a/0", 1),
                ("publisher/0", "a/0", 4),
                ("publisher/0", "b/0", 5),
                ("publisher/0", "a/0", 6),
            ]
        )
    )
    merged = in_larger_bursts(Plan(operations=operations), 2).operations or ()
    assert [(one.number, one.count) for one in merged] == [(0, 7), (1, 0), (2, 1), (4, 5), (5, 6)]
    large = Plan(operations=tuple(PlannedOperation("publisher/0", n, n, "a/0", 150) for n in range(4)))
    assert in_larger_bursts(large, 8) == large


def test_who_is_judged_when_the_fault_phase_ends_is_not_healed_first() -> None:
    """Each smaller world of a sick node that is borne well ran on until all was whole again."""
    options = RunOptions(seed=1, profile="sick", duration_s=6)
    candidate = Candidate(knobs_of(options), DRAWN, 1)
    court = Court(options, Fingerprint("SickIsAlone", "R17"), 600)
    assert court.at_end and court.fails(candidate) < 0 and not court.finds
    ends: list[int] = []
    seen = "liftlog_sim.explain.candidates.run_candidate"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(seen, lambda options, candidate, patience: ends.append(patience.world_us))
        court.fails(msgspec.structs.replace(candidate, seed=2))
    assert ends == [candidate.knobs.duration_us + LOOK_US]


def test_the_same_plan_may_fail_much_sooner_with_another_seed(
    failed: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    shrinker = Shrinker(failed, 600, lambda line: None)
    before, at_us = shrinker.best, shrinker.at_us
    asked: list[tuple[int, int]] = []

    def fails(candidate: Candidate, by_us: int = 0) -> int:
        if not by_us:
            return -1
        asked.append((candidate.seed, by_us))
        assert candidate.knobs.duration_us == by_us
        return by_us - SECOND // 4 if candidate.seed == before.seed + 3 else -1

    monkeypatch.setattr("liftlog_sim.explain.shrink._READY_US", 0)
    monkeypatch.setattr("liftlog_sim.explain.shrink.MANY", 0)
    monkeypatch.setattr(shrinker.court, "fails", fails)
    shrinker._sooner_by_chance()
    by_us = at_us - at_us // 8
    assert asked[:3] == [(before.seed + number, by_us) for number in (1, 2, 3)]
    assert shrinker.best.seed == before.seed + 3 and shrinker.at_us == by_us - SECOND // 4
    assert shrinker.best.plan == _until(before.plan, by_us)
    later = shrinker.at_us - shrinker.at_us // 8
    assert asked[3:] in ([], [(before.seed + 3 + number, later) for number in range(1, 9)])


def test_a_world_that_fails_after_the_moment_that_is_named_does_not_count(failed: Bundle) -> None:
    candidate = Candidate(failed.settings.knobs, failed.plan, failed.seed)
    wanted = Fingerprint(failed.violation.invariant, failed.violation.rule)
    at_us = failed.violation.at_us
    assert Court(OPTIONS, wanted, 600).fails(candidate, at_us + 1) == at_us
    assert Court(OPTIONS, wanted, 600).fails(candidate, at_us - 1) == -1


def test_a_world_whose_nodes_join_becomes_smaller_by_those() -> None:
    """With fewer nodes than join nobody is left to found the cluster."""
    options = RunOptions(seed=1, profile="growing", mutant="I3.heir", duration_s=15)
    while run_seed(options).good or knobs_of(options).joiners < 3:
        options = msgspec.structs.replace(options, seed=options.seed + 1)
    shrinker = Shrinker(bundle_of(options, knobs_of(options), None), 600, lambda line: None)
    shrinker._fewer_nodes()
    knobs = shrinker.best.knobs
    assert knobs.nodes - knobs.joiners == 3 and 0 < knobs.joiners < 3
