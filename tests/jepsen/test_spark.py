"""The checks on Spark: the same answers as the definitions, for many histories in one job, and honest
verdicts.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.generate import PLANTABLE, fill, large_history, plant, random_history
from liftlog_jepsen.history import BY_LEADER, FINAL_POLL, History, HistoryWriter
from liftlog_jepsen.log import ANOMALIES, Rules, check_whole
from liftlog_jepsen.log.allowed import ALLOWED_ALWAYS
from liftlog_jepsen.log.hashing import text_number
from liftlog_jepsen.log.table import as_rows
from liftlog_jepsen.parquet import read_info, write_parquet
from liftlog_jepsen.report.text import summary_line
from liftlog_jepsen.result import INCONCLUSIVE, INVALID, UNKNOWN, VALID, CheckResult
from liftlog_jepsen.spark import log_checks as log_checks_module
from liftlog_jepsen.spark import session as spark_session
from liftlog_jepsen.spark import splits as splits_module
from liftlog_jepsen.spark import survey as survey_module
from liftlog_jepsen.spark.check import CheckOptions, check
from liftlog_jepsen.spark.frames import HistoryFrames, history_number, log_number, read_frames
from liftlog_jepsen.spark.log_checks import check_log
from tests.jepsen.brute_force import Row, brute_force
from tests.jepsen.kernel_input import kernel_input
from tests.jepsen.random_logs import random_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def frames_of(spark: SparkSession, histories: list[History], folder: Path) -> HistoryFrames:
    write_parquet(histories, folder / "history")
    return read_frames(spark, folder / "history")


def planted(anomaly: str) -> History:
    writer = HistoryWriter(anomaly)
    fill(writer, ["other/0", "other/1"], 40, readers=2, batch=10)
    plant(writer, anomaly, "planted/0")
    return writer.close()


def test_spark_agrees_with_the_definitions_on_many_histories_in_one_job(
    spark: SparkSession, tmp_path: Path
) -> None:
    histories = [
        random_history(random.Random(n), f"h{n}", mischief=(0.0, 0.05, 0.2)[n % 3], strings=n % 2 == 0)
        for n in range(90)
    ]
    frames = frames_of(spark, histories, tmp_path)
    for gaps in ("known", "any"):
        found: dict[str, set[Row]] = defaultdict(set)
        rows = check_log(frames, Rules(gaps)).collect()
        for row in rows:
            found[row.history_id].add((row.anomaly, row.key, tuple(row.ops), tuple(row.evidence)))
        assert sum(map(len, found.values())) == len(rows) > 100
        for history in histories:
            assert found[history.name] == brute_force(history, gaps), history.name


def test_R4_what_had_a_leader_s_word_alone_and_is_lost_is_a_figure_and_no_anomaly(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = HistoryWriter("words")
    committed = writer.invoke(1, "send", "orders/0", "kept")
    writer.ok(committed, offset=0, epoch=1, leader=4)
    for process, value in enumerate(("read", "lost", "lost too"), 2):
        writer.info(writer.invoke(process, "send", "orders/0", value), BY_LEADER)
    writer.info(writer.invoke(9, "send", "orders/0", "unknown"), "no answer in time")
    later = writer.invoke(1, "send", "orders/0", "later")
    writer.ok(later, offset=2, epoch=2, leader=5)
    poll = writer.invoke(20, FINAL_POLL, "orders/0")
    writer.ok_poll(poll, "orders/0", 0, ["kept", "read", "later"])
    plain = HistoryWriter("plain")
    fill(plain, ["other/0"], 20, readers=1, batch=10)
    results = check(frames_of(spark, [writer.close(), plain.close()], tmp_path))
    assert [(result.history, result.verdict, result.leader_words) for result in results] == [
        ("plain", VALID, (0, 0)), ("words", VALID, (3, 2))
    ]  # fmt: skip
    assert "3 had their leader's word alone, 2 of which nobody read" in summary_line(results[1])
    assert results[1].as_json()["leader_words_unread"] == 2 and "leader_words" not in results[0].as_json()


def test_large_logs_in_tiles_and_folders_read_directly_give_the_same_as_whole_logs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = None
    for seed in range(100):
        history = random_log(random.Random(seed), "h", 0.3)
        if len(brute_force(history)) > 30:
            break
    assert history is not None
    frames = frames_of(spark, [history], tmp_path)
    definition = Counter(row[0] for row in brute_force(history))
    rows, _ = as_rows(kernel_input([history]))
    expected = Counter(ANOMALIES[number] for number in check_whole(rows, Rules())["anomaly"].tolist())
    assert expected.keys() == definition.keys()
    monkeypatch.setattr(survey_module, "WHOLE_ROWS_LIMIT", 20)
    monkeypatch.setattr(log_checks_module, "TILE_ROWS", 15)
    (result,) = check(frames)
    assert {finding.name: finding.total for finding in result.findings} == dict(expected)
    monkeypatch.setattr(splits_module, "DIRECT_ROWS_MIN", 0)
    plain = large_history("plain", 300, keys=3, readers=2, batch=10)
    (tmp_path / "plain").mkdir()
    (valid,) = check(frames_of(spark, [plain], tmp_path / "plain"))
    assert (valid.verdict, valid.findings, valid.records_sent) == (VALID, (), 300)


@pytest.mark.parametrize("times", [1, pytest.param(6, marks=pytest.mark.nightly)])
def test_reading_and_counting_in_the_workers_gives_what_sparks_own_reading_gives(
    times: int, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For so many histories of each kind."""
    read: Counter[str] = Counter()
    for seed in range(200):
        name = f"h{seed}"
        history = random_log(random.Random(seed), name, 0.2)
        (tmp_path / name).mkdir()
        frames = frames_of(spark, [history], tmp_path / name)
        counted = survey_module.survey(frames)
        kinds = ("assigns", "failed_finals")
        mine = [kind for kind in kinds if getattr(counted.traits, kind)]
        if counted.traits.transactions or not any(read[kind] < times for kind in mine):
            continue
        with monkeypatch.context() as patched:
            patched.setattr(splits_module, "DIRECT_ROWS_MIN", 0)
            assert survey_module.survey(frames) == counted
            assert splits_module.plan_splits(frames, counted.traits, counted.mops, ()) is not None
            (result,) = check(frames)
            # As large logs, too: the same rows on their way to tiles.
            patched.setattr(survey_module, "WHOLE_ROWS_LIMIT", 0)
            patched.setattr(log_checks_module, "TILE_ROWS", 10)
            (tiled,) = check(frames)
        expected = Counter(row[0] for row in brute_force(history))
        totals = [{each.name: each.total for each in one.findings} for one in (result, tiled)]
        assert totals == [dict(expected)] * 2, name
        read.update(mine)
        if all(read[kind] >= times for kind in kinds):
            break
    assert min(read["assigns"], read["failed_finals"]) >= times, read


def test_logs_have_the_same_numbers_wherever_they_are_computed(spark: SparkSession) -> None:
    texts = ["", "a", "orders/0", "x" * 31, "y" * 32, "z" * 77, "é€"]
    named = spark.createDataFrame([(text, "key") for text in texts], "history_id string, key string")
    for row in named.select("history_id", history_number().alias("one"), log_number().alias("two")).collect():
        assert row.one == text_number(row.history_id)
        assert row.two == text_number("key", text_number(row.history_id))


@pytest.fixture(scope="module")
def results(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, CheckResult]:
    """Every plant in a history of its own, and some histories that prove too little, checked in one go."""
    histories = [planted(anomaly) for anomaly in PLANTABLE]
    histories.append(large_history("clean", 200, keys=3, readers=2, batch=10))
    nothing_read, nothing_kept = HistoryWriter("nothing read"), HistoryWriter("nothing kept")
    nothing_read.ok(nothing_read.invoke(1, "send", "k", "a"), offset=0)
    nothing_kept.info(nothing_kept.invoke(1, "send", "k", "a"))
    cut_short = HistoryWriter("cut short")
    plant(cut_short, "phantom", "k")
    cut_short.history.complete = False
    half_read = HistoryWriter("half read")
    fill(half_read, ["k"], 10, readers=1)
    half_read.info(half_read.invoke(9, FINAL_POLL, "k"))
    histories += [writer.close() for writer in (nothing_read, nothing_kept, cut_short, half_read)]
    folder = tmp_path_factory.mktemp("results")
    frames = frames_of(spark, histories, folder)
    info = read_info(folder / "history")
    incomplete = frozenset(one.name for one in info.histories if not one.complete)
    return {result.history: result for result in check(frames, incomplete=incomplete)}


@pytest.mark.parametrize("anomaly", PLANTABLE)
def test_a_planted_anomaly_decides_the_verdict(anomaly: str, results: dict[str, CheckResult]) -> None:
    result = results[anomaly]
    (finding,) = (each for each in result.findings if each.name == anomaly)
    assert (finding.total, finding.keys) == (1, 1)
    assert finding.examples[0].key == "planted/0"
    others = {each.name for each in result.findings} - {anomaly}
    assert others == ({"realtime-order"} if anomaly == "nonmonotonic-send" else set())
    expected = INVALID
    if anomaly in INCONCLUSIVE:
        expected = UNKNOWN
    elif anomaly in ALLOWED_ALWAYS:
        expected = VALID
    assert result.verdict == expected


def test_a_clean_history_is_valid_and_counted(results: dict[str, CheckResult]) -> None:
    result = results["clean"]
    assert (result.verdict, result.exit_code, result.reasons, result.findings) == (VALID, 0, (), ())
    assert (result.number("send", "ok"), result.records_sent, result.records_read) == (200, 200, 400)


@pytest.mark.parametrize(
    ("history", "reason"),
    [
        ("nothing read", "nothing was read"),
        ("nothing kept", "no send was acknowledged"),
        ("cut short", "the recorder stopped early"),
        ("half read", "1 final reads ended in info"),
    ],
)
def test_a_history_that_proves_too_little_is_unknown(
    history: str, reason: str, results: dict[str, CheckResult]
) -> None:
    result = results[history]
    assert (result.verdict, result.exit_code) == (UNKNOWN, 2)
    assert any(reason in one for one in result.reasons)


def test_examples_are_limited_counts_are_not_and_both_are_always_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = HistoryWriter("many")
    for number in range(30):
        plant(writer, "poll-skip", f"k/{number:02}")
    frames = frames_of(spark, [writer.close()], tmp_path)
    runs = [check(frames, CheckOptions(examples=4))[0].findings for _ in range(2)]
    assert runs[0] == runs[1]
    (finding,) = runs[0]
    assert (finding.total, finding.keys) == (30, 30)
    assert [example.key for example in finding.examples] == ["k/00", "k/01", "k/02", "k/03"]


def test_an_allowed_anomaly_is_reported_but_does_not_fail_the_history(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = HistoryWriter("allowed")
    plant(writer, "poll-skip", "k")
    frames = frames_of(spark, [writer.close()], tmp_path)
    (result,) = check(frames, CheckOptions(allow=frozenset({"poll-skip"})))
    assert (result.verdict, [finding.failing for finding in result.findings]) == (VALID, [False])


# -- starting Spark ------------------------------------------------------------------------------------------


def test_a_missing_java_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LiftlogError, match=r"Java 17 runtime.*apt-get install openjdk-17-jre-headless"):
        spark_session.require_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LiftlogError, match=r"none found in PATH: install one with `apt-get"):
        spark_session.require_java()


def test_a_java_that_is_too_old_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.20\" 2023-07-18' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LiftlogError, match=r"is Java 11, the checks need Java 17 or later"):
        spark_session.require_java()


@pytest.mark.parametrize(
    ("printed", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("command not found", None),
    ],
)
def test_the_version_of_a_java_is_recognised(printed: str, major: int | None) -> None:
    assert spark_session.java_major(printed) == major


@pytest.mark.parametrize(
    ("memory", "expected"),
    [("lots", "is not a size"), ("4x", "is not a size"), ("100m", "is too small"), ("900t", "is more than")],
)
def test_a_driver_memory_that_cannot_work_is_refused(memory: str, expected: str) -> None:
    with pytest.raises(LiftlogError, match=expected):
        spark_session.require_memory(memory)


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "find_spec", lambda name: None if name == "pandas" else object())
    with pytest.raises(LiftlogError, match="Python package pandas: run `make venv`"):
        spark_session.require_packages()
