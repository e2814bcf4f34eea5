"""A check for `spark-submit`: histories of other tools, in whatever session the cluster gives.

    make jepsen-zip
    spark-submit --py-files build/jepsen.zip jepsen/liftlog_jepsen/spark/submit.py \\
      --model cas-register 'store/*/history.edn'

Files must be readable by the driver and by all workers under the same path. With `--out`, anomalies and
verdicts are written there as Parquet; a JSON line per file goes to stdout either way.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from pyspark.sql import SparkSession

from liftlog.types import LiftlogError
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.formats import AUTO
from liftlog_jepsen.spark.foreign import check_foreign, read_foreign


def main(words: Sequence[str]) -> int:
    """Exit codes as those of `liftlog jepsen check`."""
    parser = argparse.ArgumentParser(prog="submit.py", description="Check histories of other tools.")
    parser.add_argument("files", nargs="+", help="paths or globs")
    parser.add_argument("--format", default=AUTO)
    parser.add_argument("--model", required=True)
    for name in ("initial", "nil-read", "fail-cas", "intervals", "consistency-model"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--independent", action="store_true")
    parser.add_argument("--out", help="a new folder for anomalies and verdicts as Parquet")
    said = parser.parse_args(words)
    conventions = Conventions(
        said.initial, said.nil_read, said.fail_cas, said.intervals, said.consistency_model
    )
    spark = SparkSession.builder.appName("liftlog jepsen").getOrCreate()
    try:
        rows = read_foreign(spark, said.files, said.format, intervals=said.intervals, keep_broken=True)
        checks = check_foreign(rows, said.model, conventions, independent=said.independent)
    except LiftlogError as error:
        print(f"submit.py: {error}", file=sys.stderr)
        return 2
    checks.parts.cache()
    if said.out is not None:
        checks.anomalies.write.parquet(f"{said.out}/anomalies")
        checks.verdicts.write.parquet(f"{said.out}/verdicts")
    valid = []
    for row in checks.verdicts.orderBy("file").collect():
        valid.append(row.valid)
        print(json.dumps({name: value for name, value in row.asDict().items() if value is not None}))
    spark.stop()
    return 1 if False in valid else 2 if None in valid or not valid else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
