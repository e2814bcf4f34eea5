"""A streaming Data Source that follows a folder: JSONL histories that grow, Parquet histories that arrive.

    spark.readStream.format("liftlog-history").load("store/run")

Of each `*.jsonl` file below the folder the whole lines that are there are read, again and again; of Parquet
histories each `mops.parquet` once (so it must be put in place as a whole). Rows have the columns of
`liftlog_jepsen.online.fold`; micro-operations are `row`s, and an operation that changes a process's
assignment is one row more, `assign`. The classes travel by value: see `liftlog_jepsen.spark.travel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from liftlog_jepsen.spark import travel
from liftlog_jepsen.spark.travel import unpack

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

FORMAT = "liftlog-history"
DDL = "history_id string, key string, what string, name string, text string, numbers array<bigint>"


class TailSource(DataSource):
    """`spark.readStream.format("liftlog-history")`."""

    sources = b""
    """The project's own code, for processes that cannot import it; `register` fills it in."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        return DDL

    def streamReader(self, schema: Any) -> TailReader:
        return TailReader(self.options["path"], self.sources)


class TailReader(DataSourceStreamReader):
    """Plans byte ranges of files, and reads them. What it keeps is plain data."""

    def __init__(self, folder: str, sources: bytes) -> None:
        self.folder = folder
        self.sources = sources

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        unpack(self.sources)
        from liftlog_jepsen.online.files import sizes

        return sizes(self.folder)

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> Sequence[InputPartition]:
        unpack(self.sources)
        from liftlog_jepsen.online.files import plan

        return [InputPartition(part) for part in plan(start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        unpack(self.sources)
        from liftlog_jepsen.online.files import read_part

        return read_part(partition.value)


def register(spark: SparkSession) -> None:
    """Make `format("liftlog-history")` known to a session, with this project's code on board."""
    import liftlog_jepsen.spark.tail

    travel.by_value()
    cloudpickle.register_pickle_by_value(liftlog_jepsen.spark.tail)  # type: ignore[no-untyped-call]
    TailSource.sources = travel.bundle()
    spark.dataSource.register(TailSource)
