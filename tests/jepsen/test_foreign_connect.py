"""The checks in a Spark Connect session, in a process of its own: a process has one kind of session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
from liftlog_jepsen.spark.foreign import check_foreign, read_foreign

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
checks = check_foreign(read_foreign(spark, sys.argv[1:], keep_broken=True), "register", partitions=2)
anomalies = [(row.file, row.anomaly, row.operations) for row in checks.anomalies.collect()]
verdicts = {row.file: row.valid for row in checks.verdicts.collect()}
print(json.dumps([anomalies, verdicts]))
spark.stop()
"""
HISTORY = """{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 0, :type :invoke, :f :read}
{:process 0, :type :ok, :f :read, :value VALUE}
"""


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect needs `pip install 'pyspark[connect]'`")
def test_the_same_checks_run_in_a_spark_connect_session(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.edn", tmp_path / "bad.edn"
    good.write_text(HISTORY.replace("VALUE", "1"))
    bad.write_text(HISTORY.replace("VALUE", "2"))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(good), str(bad), str(tmp_path / "none")],
        cwd=ROOT,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    anomalies, verdicts = json.loads(done.stdout.splitlines()[-1])
    assert [(file, name) for file, name, _ in anomalies] == [(str(bad), "nonlinearizable")]
    assert verdicts == {str(good): True, str(bad): False, str(tmp_path / "none"): None}
