"""Long protocol traces are checked on Spark with the verdict that one process gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.spark import check_on_spark
from liftlog_spec.refine.traces import check_traces
from tests.spec.test_traces import raise_a_hw, traced, write

pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_spark_says_what_one_process_says(spark: SparkSession, tmp_path: Path) -> None:
    lines = traced(skew_us={1: 400_000}, streams=2)
    paths = write(tmp_path, lines)
    alone, spread = check_traces(paths), check_on_spark(paths, spark)
    assert alone.good, alone.finding
    assert spread.good, spread.finding
    assert spread.partitions == alone.partitions >= 2
    # When a message that says nothing new is forgotten depends on the order of what does not depend on it.
    for report in (alone, spread):
        report.actions.pop("isr.IsLost")
        report.actions.pop("isr.Answer")
    assert spread.actions == alone.actions

    node, place = raise_a_hw(lines)
    alone, spread = check_traces(write(tmp_path, lines)), check_on_spark(paths, spark)
    assert spread.finding == alone.finding != ""

    del lines[node][place]
    write(tmp_path, lines)
    with pytest.raises(SpecError, match="the trace has a gap"):
        check_on_spark(paths, spark)
