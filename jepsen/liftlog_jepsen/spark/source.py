"""A PySpark Data Source: histories of other tools as a DataFrame, parsed in parallel.

    spark.dataSource.register(JepsenSource)
    spark.read.format("jepsen").option("format", "edn-lines").load("store/*/history.edn")

Options: `format` (default auto), `rows` (`operations`, the default, or `events`), `broken` (`fail`, the
default, or `keep`: a file that cannot be read becomes a row that says so), `intervals` as in
docs/history-formats.md. Paths may be globs; several come as a list. Small files share tasks; large
ones of a format with one event a line are cut into blocks of `block_bytes`, unless `whole` is true.

The classes travel to Python processes that may have no copy of this project: see
`liftlog_jepsen.spark.travel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from liftlog_jepsen.spark import travel
from liftlog_jepsen.spark.travel import unpack

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

OPERATIONS_DDL = (
    "file string, format string, number bigint, process bigint, f string, key string, argument string, "
    "result string, outcome string, start bigint, end bigint, time bigint, end_time bigint, error string, "
    "broken string"
)
EVENTS_DDL = (
    "file string, format string, position bigint, process string, type string, f string, key string, "
    "value string, time bigint, index bigint, error string, raw string, broken string"
)


class JepsenSource(DataSource):
    """`spark.read.format("jepsen")`."""

    sources = b""
    """The project's own code, for processes that cannot import it; `register` fills it in."""

    @classmethod
    def name(cls) -> str:
        return "jepsen"

    def schema(self) -> str:
        return EVENTS_DDL if self.options.get("rows") == "events" else OPERATIONS_DDL

    def reader(self, schema: Any) -> JepsenReader:
        return JepsenReader(self.options, self.sources)


class JepsenReader(DataSourceReader):
    """Plans and reads. What it keeps is plain data."""

    def __init__(self, options: Mapping[str, str], sources: bytes) -> None:
        self.options = {name.lower(): value for name, value in options.items()}
        self.sources = sources

    def partitions(self) -> Sequence[InputPartition]:
        unpack(self.sources)
        from liftlog_jepsen.foreign.files import plan

        return [InputPartition(part) for part in plan(self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        unpack(self.sources)
        from liftlog_jepsen.foreign.files import read_part

        return read_part(partition.value, self.options)


def register(spark: SparkSession) -> None:
    """Make `format("jepsen")` known to a session, with this project's code on board."""
    travel.by_value()
    JepsenSource.sources = travel.bundle()
    spark.dataSource.register(JepsenSource)
