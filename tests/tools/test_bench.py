"""`liftlog bench` measures what it says, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from liftlog import cli
from liftlog.bench import storage_command
from liftlog.bench.publish import PublishSummary, Round, comparison, over_ceiling
from liftlog.bench.rounds import alternate

ROOT = Path(__file__).resolve().parents[2]


def command(folder: Path, *more: str) -> list[str]:
    quick = ["--count", "3000", "--seconds", "90", "--rounds", "1", "--window", "500", "--dir", str(folder)]
    return [sys.executable, "-m", "liftlog", "bench", "publish", *quick, *more]


def left_behind(folder: Path) -> list[str]:
    """Command lines of running processes that name the folder, and what is still in it."""
    found = [path.name for path in folder.iterdir()]
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # ended meanwhile
        if str(folder) in line:
            found.append(line)
    return found


def a_summary(rate: float, **costs: float) -> PublishSummary:
    settings = {
        "latency_p50_ms": 1.0,
        "latency_p99_ms": 2.0,
        "server_cpu_us_per_message": 3.0,
        "memory_peak_mb": 4.0,
        "disk_bytes_per_message": 5.0,
    }
    return PublishSummary(rate=rate, rate_min=rate, rate_max=rate, rounds=[], **(settings | costs))


def test_the_comparison_names_what_is_worse_and_only_that() -> None:
    summaries = {
        "liftlog": a_summary(100, memory_peak_mb=8.0, latency_p50_ms=0.5),
        "slower": a_summary(50),
        "faster": a_summary(200),
    }
    assert comparison(summaries, "liftlog") == {
        "slower": {"rate_ratio": 2.0, "worse": {"memory_peak_mb": 2.0}},
        "faster": {"rate_ratio": 0.5, "worse": {"memory_peak_mb": 2.0, "rate": 0.5}},
    }


def test_the_ceiling_is_compared_with_within_the_rounds() -> None:
    def rounds(*pairs: tuple[float, float]) -> PublishSummary:
        summary = a_summary(0)
        summary.rounds += [Round(1, rate, 1.0, 2.0, cpu) for rate, cpu in pairs]
        return summary

    responder = rounds((100, 2), (1000, 4), (10, 1))
    ours = rounds((50, 4), (900, 4), (2, 3))
    assert over_ceiling({"responder": responder, "ours": ours}, "responder") == {
        "responder": {"rate": 1.0, "server_cpu": 1.0},
        "ours": {"rate": 0.5, "server_cpu": 2.0},
    }


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--size", "0"),
        ("--window", "0"),
        ("--rounds", "0"),
        ("--batch", "1001"),
        ("--batch", "-1"),
        ("--dir", "/no/such/folder"),
    ],
)
def test_a_value_out_of_range_is_one_line(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "publish", option, value]) == 2
    error = capsys.readouterr().err
    assert option in error and error.count("\n") == 1


@pytest.mark.real
@pytest.mark.slow
def test_both_systems_are_measured_and_everything_is_removed(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--vs", "jetstream", "--json"),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    systems = document["systems"]
    assert list(systems) == ["responder", "liftlog", "jetstream-default", "jetstream-always"]
    for name, system in systems.items():
        assert system["rate"] > 0
        assert system["disk_bytes_per_message"] > 128 or name == "responder"
        assert [round_["messages"] for round_ in system["rounds"]] == [3000]
    assert set(document["liftlog_over"]) == {"jetstream-default", "jetstream-always"}
    assert document["over_responder"]["responder"] == {"rate": 1.0, "server_cpu": pytest.approx(1.0, abs=1)}
    assert document["over_responder"]["liftlog"]["rate"] > 0
    assert left_behind(tmp_path) == []


def test_a_batch_that_no_server_takes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "publish", "--batch", "100", "--size", "10000"]) == 2
    assert "--batch 100 of --size 10000 is too much; take up to 99" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
def test_batches_are_measured_beside_single_messages(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--batch", "10", "--json"), capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    name = "liftlog, batches of 10"
    assert list(document["systems"]) == ["responder", "liftlog", name]
    assert document["systems"][name]["rounds"][0]["messages"] % 10 == 0
    assert list(document["over_single"]) == [name] and document["over_single"][name]["rate"] > 0
    assert document["liftlog_over"] == {}


def test_batches_of_several_subjects_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "publish", "--batch", "10", "--subjects", "5"]) == 2
    assert "--batch and --subjects do not go together" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
def test_an_index_is_measured_beside_none_and_knows_all_in_the_end(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, "--subjects", "7", "--json"), capture_output=True, text=True, timeout=120, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    name = "liftlog, indexed"
    assert list(document["systems"]) == ["responder", "liftlog", name]
    price = document["over_unindexed"][name]
    assert price["rate"] > 0 and price["server_cpu"] > 0 and price["behind_s"] > 0
    assert document["liftlog_over"] == {}


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("kind", ["publish", "latency", "storage"])
def test_an_interrupted_run_stops_everything_it_started(
    tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    if kind == "publish":
        line, sign = command(tmp_path, "--count", "10000000", "--seconds", "60"), "round 1 of 1"
    elif kind == "latency":
        quick = ["--seconds", "60", "--rounds", "1", "--dir", str(tmp_path)]
        line, sign = [sys.executable, "-m", "liftlog", "bench", "latency", *quick], "warming up: responder"
    else:
        line, sign = storage_command_line(tmp_path, "--keys", "400000"), "400000 keys: compacting"
    process = subprocess.Popen(
        line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stderr is not None
    with process.stderr as lines:
        for text in lines:
            if sign in text:
                process.send_signal(number)
                break
        rest = lines.read()
    assert process.wait(timeout=60) == 130, rest
    assert left_behind(tmp_path) == []


# -- bench storage -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_contenders_take_turns_and_ratios_are_taken_within_a_round() -> None:
    turns: list[str] = []
    rates = {"ours": iter([1.0, 50.0, 60.0, 90.0]), "raw": iter([1.0, 100.0, 100.0, 300.0])}

    def contender(name: str) -> Callable[[], float]:
        def run() -> float:
            turns.append(name)
            return next(rates[name])

        return run

    figures = alternate({name: contender(name) for name in rates}, "raw", 3, lambda text: None)
    assert turns == ["ours", "raw", "raw", "ours", "ours", "raw", "raw", "ours"]
    ours = figures["ours"]
    assert (ours.median, ours.least, ours.greatest, ours.ratio) == (60.0, 50.0, 90.0, 0.5)
    assert figures["raw"].ratio == 1.0


@pytest.mark.parametrize(
    ("option", "value"),
    [("--mb", "0"), ("--rounds", "0"), ("--keys", "0"), ("--open-mb", "0"), ("--folder", "/no/such/folder")],
)
def test_a_value_of_the_storage_benchmark_out_of_range_is_one_line(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", "storage", option, value]) == 2
    error = capsys.readouterr().err
    assert option in error and error.count("\n") == 1


def test_a_folder_in_memory_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(storage_command, "_file_system", lambda folder: "tmpfs")
    assert cli.main(["bench", "storage", "--folder", str(tmp_path)]) == 2
    assert "lies in memory" in capsys.readouterr().err


def test_a_folder_that_cannot_be_created_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "store").write_text("a file where the folder would be")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["bench", "storage"]) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "store") in error and "--folder" in error and error.count("\n") == 1


def storage_command_line(folder: Path, *more: str) -> list[str]:
    quick = ["--mb", "4", "--rounds", "1", "--open-mb", "4", "--keys", "2000", "--seconds", "0.5"]
    return [sys.executable, "-m", "liftlog", "bench", "storage", *quick, "--folder", str(folder), *more]


@pytest.mark.real
@pytest.mark.slow
def test_storage_is_measured_beside_raw_files_and_everything_is_removed(tmp_path: Path) -> None:
    # More than any disk has: said plainly instead of tried.
    line = storage_command_line(tmp_path, "--json", "--open-mb", "4", "1000000")
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert list(document["append"]) == ["128", "1024", "65536"]
    compared = [*document["append"].values(), document["read"], document["send"]]
    compared += document["compaction"].values()
    for figures in compared:
        assert figures["raw"]["ratio"] == 1.0
        assert all(figure["median"] > 0 and figure["ratio"] > 0 for figure in figures.values())
    (opened,) = document["opened"]
    assert 3_500_000 < opened["log_bytes"] < 4_500_000 and opened["seconds"] > 0
    assert ["1000 GB" in text for text in document["skipped"]] == [True]
    for compacted in document["compacted"].values():
        assert compacted["bytes_after"] < 0.6 * compacted["bytes_before"] and compacted["passes"] == 1
    assert set(document["latency"]) == {"quiet", "compacting", "unthrottled"}
    assert document["latency"]["compacting"]["slices"] > 0
    (many,) = document["keys"]
    assert many["keys"] == 2000 and many["memory_peak_mb"] > 1 and many["compaction"]["passes"] == 1
    targets = {target["name"] for target in document["targets"]}
    assert targets >= {"append 128 B / raw", "sendfile / raw sendfile", "peak MB for 2,000 keys"}
    assert left_behind(tmp_path) == []


@pytest.mark.real
@pytest.mark.slow
def test_a_missed_target_is_an_exit_code_if_asked_for_and_people_get_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missed = storage_command.BenchTarget("speed of light", ">= 1", 0.5, False)
    monkeypatch.setattr(storage_command, "targets_of", lambda results: [missed])
    line = storage_command_line(tmp_path)[3:]
    assert cli.main(line) == 0
    shown = capsys.readouterr().out
    assert "append 65536 B" in shown and "send to a socket" in shown and "append latency, compacting" in shown
    assert "speed of light" in shown and "MISSED" in shown
    assert cli.main([*line, "--check"]) == 1
    assert list(tmp_path.iterdir()) == []
