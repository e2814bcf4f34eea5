"""Watching a history that is still being written, on Spark: the same as the fold, also across a restart."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from liftlog.cli import main
from liftlog_jepsen.commands.watch import check_all, in_words
from liftlog_jepsen.generate import random_history
from liftlog_jepsen.jsonl import write_jsonl
from liftlog_jepsen.parquet import write_parquet
from liftlog_jepsen.result import INVALID
from liftlog_jepsen.spark.check import CheckOptions, check
from liftlog_jepsen.spark.frames import read_frames
from liftlog_jepsen.spark.streaming import found, so_far, watch
from tests.jepsen.test_online import Watcher, identity, online, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def test_batches_and_a_restart_find_what_the_fold_finds(spark: SparkSession, tmp_path: Path) -> None:
    history = random_history(random.Random(40), "growing", mischief=0.2, strings=False)
    watcher = Watcher()
    (tmp_path / "rows").mkdir()
    lines = rows_of(history, tmp_path / "rows")
    half = len(lines) // 2
    watcher.batch([row for line in lines[:half] for row in line])
    watcher.batch([row for line in lines[half:] for row in line])
    expected = online(watcher)
    assert len(expected) > 3

    text = (tmp_path / "rows" / "growing.jsonl").read_bytes().splitlines(keepends=True)
    folder, state = tmp_path / "run", tmp_path / "state"
    folder.mkdir()
    (folder / "history.jsonl").write_bytes(b"".join(text[: half + 1]) + b'{"record":"op","op":')
    assert found(spark, state) is None
    watch(spark, folder, state, available_now=True).awaitTermination()
    first = so_far(spark, state)
    (folder / "history.jsonl").write_bytes(b"".join(text))
    watch(spark, folder, state, available_now=True).awaitTermination()
    rows = found(spark, state)
    assert rows is not None
    listed = rows.collect()
    assert {identity(row.anomaly, row.key, row.ops, row.value, row.offset) for row in listed} == expected
    assert len(listed) == len(expected)
    assert sum(first["growing"].values()) < len(expected) == sum(so_far(spark, state)["growing"].values())


def test_a_broken_line_stops_the_query_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    write_jsonl(random_history(random.Random(5), "h", mischief=0.0, strings=False), tmp_path / "h.jsonl")
    lines = (tmp_path / "h.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "h.jsonl").write_bytes(b"".join([*lines[:2], b"{}\n", *lines[3:]]))
    query = watch(spark, tmp_path, tmp_path / "state", available_now=True)
    with pytest.raises(Exception, match=r"broken history .*h\.jsonl:3: "):
        query.awaitTermination()


def test_the_verdict_at_the_end_is_that_of_the_batch_check(spark: SparkSession, tmp_path: Path) -> None:
    histories = [
        random_history(random.Random(seed), f"h{seed}", mischief=0.2, strings=True) for seed in (1, 2)
    ]
    folder = tmp_path / "run"
    folder.mkdir()
    write_jsonl(histories[0], folder / "one.jsonl")
    write_parquet(histories[1], folder / "two" / "history")
    options = CheckOptions()
    expected = []
    for history in histories:
        write_parquet(history, tmp_path / history.name)
        expected += check(read_frames(spark, tmp_path / history.name), options)
    results = check_all(spark, folder, options, tmp_path)
    assert [(one.history, one.verdict, one.findings) for one in results] == [
        (one.history, one.verdict, one.findings) for one in expected
    ]
    assert {one.verdict for one in results} == {INVALID}


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_the_command_follows_a_file_and_judges_it_at_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(random_history(random.Random(40), "h", mischief=0.2, strings=False), tmp_path / "h.jsonl")
    assert main(["jepsen", "watch", str(tmp_path), "--json", "--every", "0.5"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["so_far"]["h"]["duplicate"] >= 1
    assert lines[-1]["verdict"] == INVALID


def test_words_about_what_was_found_so_far() -> None:
    assert in_words({}, frozenset()) == "nothing found so far"
    both = {"h": {"duplicate": 2}, "j": {"G1a": 1}}
    assert in_words(both, frozenset()) == "invalid so far: G1a, duplicate"
    assert in_words({"h": {"duplicate": 2}}, frozenset({"duplicate"})) == "nothing found so far"
