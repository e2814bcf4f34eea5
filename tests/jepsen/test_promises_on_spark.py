"""The promises on Spark: the same rows as without, many histories in one job, and judgements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from liftlog_jepsen.history import HistoryWriter
from liftlog_jepsen.parquet import write_parquet
from liftlog_jepsen.result import INVALID, VALID, explain
from liftlog_jepsen.spark.check import CheckOptions, check
from liftlog_jepsen.spark.frames import read_frames
from liftlog_jepsen.spark.promises import check_promises, judge_promises
from liftlog_jepsen.spark.run_promises import with_promises
from tests.jepsen.promise_stories import Story, broken
from tests.jepsen.test_promises import NEAR_MISSES, PLANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.real


def test_every_plant_and_near_miss_in_one_job(spark: SparkSession, tmp_path: Path) -> None:
    tales = [(anomaly, plant) for anomaly, (plant, _) in PLANTS.items()]
    tales += [(f"near {plant.__name__}", plant) for plant in NEAR_MISSES]
    histories = []
    for name, plant in tales:
        story = Story(writer=HistoryWriter(name, clock_ns=iter(range(10**6)).__next__))
        plant(story)
        histories.append(story.history())
    write_parquet(histories, tmp_path / "history")
    frames = read_frames(spark, tmp_path / "history")
    rows = [row.asDict(recursive=True) for row in check_promises(frames).collect()]
    for history in histories:
        its = [row for row in rows if row["history_id"] == history.name]
        assert sorted(its, key=lambda row: (row["anomaly"], row["key"], row["ops"])) == broken(history)
    judgements = judge_promises(frames, examples=1)
    assert sorted(judgements) == sorted(name for name, _ in tales)
    for name, judgement in judgements.items():
        assert dict(judgement.totals) == ({name: 1} if name in PLANTS else {})
        assert judgement.valid is (name not in PLANTS)
        assert [problem.anomaly for problem in judgement.problems] == list(judgement.totals)


def test_the_log_check_reports_promises_too(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(writer=HistoryWriter("with facts", clock_ns=iter(range(10**6)).__next__))
    story.sent(0, "a")
    story.read(2, (0, "a"), hw=0)
    plain = HistoryWriter("without", clock_ns=iter(range(10**6)).__next__)
    plain.ok(plain.invoke(1, "send", "k", "a"), offset=0)
    plain.ok_poll(plain.invoke(2, "poll", "k"), "k", 0, ["a"])
    write_parquet([story.history(), plain.close()], tmp_path / "history")
    frames = read_frames(spark, tmp_path / "history")
    options = CheckOptions()
    results = with_promises(check(frames, options), frames, options)
    assert [(one.history, one.verdict) for one in results] == [("with facts", INVALID), ("without", VALID)]
    (finding,) = results[0].findings
    assert (finding.name, finding.total, finding.failing) == ("read-above-hw", 1, True)
    assert "the HW it told is 0" in explain(finding.examples[0])
    allowed = options._replace(allow=frozenset({"read-above-hw"}))
    assert with_promises(check(frames, allowed), frames, allowed)[0].verdict == VALID
