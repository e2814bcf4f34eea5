"""Checks of histories of other tools on Spark: DataFrame in, answers and anomalies as DataFrames out.

Each operation is one row (`liftlog_jepsen.spark.source`, docs/history-formats.md). A first pass over the rows
names the part of its history that an operation belongs to: the key of an object that splits by key, else the
whole file. One shuffle brings parts together, in the order of invocations, and
`liftlog_jepsen.foreign.judging` judges them. Only the DataFrame API is used, so any session will do, also one
of Spark Connect.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from liftlog.types import LiftlogError
from liftlog_jepsen.foreign import judging
from liftlog_jepsen.foreign.judging import JUDGED_DDL, PART, JudgedPart, Task, Tasks, judged_of, merge_judged
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.judgement import Budget
from liftlog_jepsen.models import KAFKA, find_model
from liftlog_jepsen.spark import source, travel
from liftlog_jepsen.spark.source import OPERATIONS_DDL

PARTITIONS = 16
"""Tasks that judge. More than cores, because parts differ in size."""
PARTITION_BYTES, PARTITIONS_MIN, PARTITIONS_MAX = 256 << 10, 4, 256
_WORKER = "liftlog_jepsen.foreign.judging"


class ForeignChecks(NamedTuple):
    """What a check gives, each lazy and in no order. They share their work only if `parts` is cached.

    parts: one row per part, `JUDGED_DDL`: file, format, model, key, valid (null = unknown), operations,
    seconds, problems, totals, reasons, allowed, shown (operations around the problems), broken.
    """

    parts: DataFrame

    @property
    def anomalies(self) -> DataFrame:
        """file, anomaly, key, operations array<bigint>, evidence struct<words:string, detail:string>.

        `detail` is JSON, see `liftlog_jepsen.judgement.Problem`. At most twenty of a kind per part; `totals`
        of `parts` counts all.
        """
        problem = F.col("problem")
        return self.parts.select("file", F.explode("problems").alias("problem")).select(
            "file",
            problem["anomaly"].alias("anomaly"),
            problem["key"].alias("key"),
            problem["operations"].alias("operations"),
            F.struct(problem["words"].alias("words"), problem["detail"].alias("detail")).alias("evidence"),
        )

    @property
    def verdicts(self) -> DataFrame:
        """file, format, model, valid (null = unknown), operations, seconds, reasons, broken; a row per file.

        One invalid part makes a file invalid, else one unknown part makes it unknown.
        """
        invalid = F.max((~F.col("valid")).cast("int")) == 1
        unknown = F.max(F.col("valid").isNull().cast("int")) == 1
        valid = F.when(invalid, F.lit(False)).when(unknown, F.lit(None).cast("boolean")).otherwise(True)
        return self.parts.groupBy("file").agg(
            F.max("format").alias("format"),
            F.max("model").alias("model"),
            F.when(F.max("broken").isNull(), valid).alias("valid"),
            F.sum("operations").alias("operations"),
            F.sum("seconds").alias("seconds"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_set("reasons")))).alias("reasons"),
            F.max("broken").alias("broken"),
        )


def read_foreign(
    spark: SparkSession,
    files: Sequence[str] | Mapping[str, tuple[str, str | None]],
    format: str = "auto",
    *,
    intervals: str | None = None,
    keep_broken: bool = False,
    whole: bool = False,
) -> DataFrame:
    """The operations of these files, one row each. With `keep_broken`, what cannot be read is a row, too.

    `files`: their paths, or path to its own format and rule for intervals. `whole`: do not cut large files
    into blocks of lines, whatever their format.
    """
    source.register(spark)
    reader = spark.read.format("jepsen").option("format", format).option("paths", json.dumps(files))
    reader = reader.option("broken", "keep" if keep_broken else "fail").option("whole", str(whole).lower())
    if intervals is not None:
        reader = reader.option("intervals", intervals)
    return reader.load()


def check_foreign(
    operations: DataFrame,
    model: str,
    conventions: Conventions | None = None,
    *,
    budget: Budget | None = None,
    independent: bool = False,
    partitions: int = PARTITIONS,
) -> ForeignChecks:
    """Check every file of `operations` against a model, see `liftlog_jepsen.models.NAMES`.

    `conventions` that are not given are those of each file's format. `independent`: values are `[key value]`
    and each key is a history of its own. Raises LiftlogError for a model or a convention that does not exist.
    """
    task = task_for(model, conventions, budget, independent)
    return ForeignChecks(_judged(operations, Tasks(task), partitions))


def check_files(
    operations: DataFrame, tasks: Task | Mapping[str, Task], partitions: int = PARTITIONS
) -> dict[str, JudgedPart]:
    """The answer on each file, brought home: verdicts, counts and the first problems. One Spark job.

    `tasks`: how to judge all files, or each, by its name in the column `file`.
    """
    rows: dict[str, list[JudgedPart]] = defaultdict(list)
    for row in _judged(operations, Tasks(tasks).with_summary(), partitions).collect():
        one = judged_of(row.asDict(recursive=True))
        rows[one.file].append(one)
    return {file: merge_judged(sorted(some, key=_first_key)) for file, some in sorted(rows.items())}


def partitions_for(size: int) -> int:
    """Tasks that judge files of so many bytes: few for small ones, since each costs some 50 ms."""
    return min(PARTITIONS_MAX, max(PARTITIONS_MIN, size // PARTITION_BYTES))


def task_for(model: str, conventions: Conventions | None, budget: Budget | None, independent: bool) -> Task:
    """How to judge, checked before any Spark job starts."""
    found = find_model(model)
    if found.name == KAFKA:
        raise LiftlogError(
            "model kafka is a check of logs: use liftlog_jepsen.spark.check.check on its frames"
        )
    chosen = conventions or Conventions()
    chosen.options(None)
    return Task(found, chosen, budget or Budget(), independent)


def _first_key(one: JudgedPart) -> tuple[bool, str]:
    keys = [problem.key or "" for problem in one.judgement.problems]
    return (not keys, min(keys, default=one.key or ""))


def _judged(operations: DataFrame, tasks: Tasks, partitions: int) -> DataFrame:
    plain = tasks.plain()
    rows = operations.select(*(each.split()[0] for each in OPERATIONS_DDL.split(", ")))
    if tasks.splits:
        rows = rows.mapInArrow(travel.kernel(_WORKER, "assign", plain), f"{OPERATIONS_DDL}, {PART} string")
    else:
        rows = rows.withColumn(PART, F.lit(None).cast("string"))
    together = rows.repartition(partitions, "file", PART).sortWithinPartitions("file", PART, "start")
    return together.mapInArrow(travel.kernel(_WORKER, judging.judge.__name__, plain), JUDGED_DDL)
