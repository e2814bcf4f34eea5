"""JetStream's door in simulated worlds: its clients, its planted bugs, its loop (ADR 0088)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog_jepsen.events import Operation, pair
from liftlog_jepsen.formats import FORMATS, read_history
from liftlog_jepsen.objects import MODELS, check_object
from liftlog_jepsen.registers import write_registers
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.workload.doorloop import SimLoop
from liftlog_sim.world import World
from tests.sim.registers import registers_in

FORMAT = "edn-lines"


def registers(options: RunOptions, *, judged: bool = True) -> dict[str, list[Operation]]:
    """Of the bucket's keys. Not `judged`: the invariants of clients hold their tongue; the run goes on."""
    seen: list[World] = []

    def watch(world: World) -> None:
        seen.append(world)
        if not judged:
            world.account.fail = lambda violation: None  # type: ignore[method-assign]

    result = run_seed(options, watch, keep_values=True)
    assert not judged or result.good, result.finding
    assert seen[0].workload.jetstream.gets
    return registers_in(seen[0])


def valid(files: list[Path]) -> set[bool | None]:
    model, options = MODELS["cas-register"], FORMATS[FORMAT].options._replace(initial=None)
    judgements = [check_object(model, pair(read_history(file, FORMAT), str(file)), options) for file in files]
    return {judgement.valid for judgement in judgements}


@pytest.mark.parametrize("gear", ["step", pytest.param("trio", marks=pytest.mark.slow)])
def test_a_world_with_doors_is_the_same_every_time_and_its_clients_are_served(gear: str) -> None:
    options = RunOptions(seed=2, profile="doors", gear=gear, duration_s=15)
    first, second = run_seed(options), run_seed(options)
    assert first.good, first.finding
    assert first.trace_hash == second.trace_hash
    for what in ("keys written", "keys not written", "keys got", "acks of doors answered", "doors died"):
        assert first.counters[what] > 0, what


def test_L9_S1_each_key_of_a_bucket_is_linearizable(tmp_path: Path) -> None:
    """Puts, creates, updates, deletes and gets, under faults, with doors that die."""
    found = registers(RunOptions(seed=0, profile="doors", duration_s=25))
    done = Counter(one.f for its in found.values() for one in its)
    assert done["cas"] > 40 and done["read"] > 200 and done["write"] > 20
    assert valid(write_registers(tmp_path, found)) == {True}


def test_S1_a_get_that_a_deposed_leader_answers_shows_in_the_registers(tmp_path: Path) -> None:
    options = RunOptions(seed=4, profile="doors", duration_s=20, mutant="subjects_without_round")
    assert run_seed(options).invariant == "SubjectAnswersTrue"
    assert False in valid(write_registers(tmp_path, registers(options, judged=False)))


def test_K3_a_door_that_answers_acks_before_its_leader_does_is_caught() -> None:
    result = run_seed(RunOptions(seed=0, profile="doors", duration_s=15, mutant="door_acks_at_once"))
    assert result.invariant == "AckStays"


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_L9_S1_on_spark_the_keys_of_three_runs_are_linearizable_and_those_of_a_bug_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right: list[Path] = []
    for seed in range(3):
        found = registers(RunOptions(seed=seed, profile="doors", duration_s=20))
        right += write_registers(tmp_path / f"seed-{seed}", found)
    options = RunOptions(seed=4, profile="doors", duration_s=20, mutant="subjects_without_round")
    wrong = write_registers(tmp_path / "bug", registers(options, judged=False))
    words = ["jepsen", "check", "--json", "--model", "cas-register", "--format", FORMAT, "--initial", "nil"]
    for files, verdict in ((right, 0), (wrong, 1)):
        capsys.readouterr()
        assert main([*words, *map(str, files)]) == verdict
        told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert len(told) == len(files) and all(one["verdict"] for one in told) == (not verdict)


# -- the loop ------------------------------------------------------------------------------------------


def test_tasks_run_in_simulated_time_and_end_with_their_loop() -> None:
    kernel = Kernel()
    loop = SimLoop(kernel)
    told: list[tuple[str, float]] = []

    async def sleeps(name: str, seconds: float) -> None:
        try:
            async with asyncio.timeout(2.5):
                await asyncio.sleep(seconds)
            told.append((name, asyncio.get_running_loop().time()))
        except TimeoutError:
            told.append((f"{name} in vain", asyncio.get_running_loop().time()))
        finally:
            told.append((f"{name} ends", kernel.now_us / SECOND))

    async def all_of_them() -> None:
        await asyncio.gather(sleeps("late", 2), sleeps("soon", 1), sleeps("never", 9))

    loop.start(all_of_them())
    loop.start(sleeps("left", 2.4))
    kernel.run_until(int(2.2 * SECOND))
    assert told == [("soon", 1), ("soon ends", 1), ("late", 2), ("late ends", 2)]
    loop.start(sleeps("unborn", 1))
    loop.die()
    ended = told[4:]
    assert sorted(ended) == [("left ends", 2.2), ("never ends", 2.2), ("unborn ends", 2.2)]
    kernel.run_until(20 * SECOND)
    assert told[4:] == ended


def test_no_timer_of_a_loop_is_early_by_what_a_float_cannot_say() -> None:
    """Who waits until a time would wait again, for nothing, and for ever at one moment."""
    kernel = Kernel()
    loop = SimLoop(kernel)
    seen: list[bool] = []
    for step in range(2000):
        when = 17 + step * 1e-5 / 3
        loop.call_at(when, lambda when=when: seen.append(loop.time() >= when))
    kernel.run_until(18 * SECOND)
    assert seen == [True] * 2000


def test_an_error_of_a_callback_is_one_of_the_run() -> None:
    kernel = Kernel()
    loop = SimLoop(kernel)

    def fails() -> None:
        raise ValueError("no")

    loop.call_soon(fails)
    with pytest.raises(ValueError, match="no"):
        kernel.run_until(SECOND)
