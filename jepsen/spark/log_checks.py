"""The log checks: every anomaly of an offset-addressed log, as DataFrame operations.

*Why this is cheap.* Checking linearizability is NP-hard in general, but a log names the position of every
value: the offsets *are* the linearization order, so each promise becomes one aggregation or one pass in
offset order.

*Terms*, per history and key, after jepsen.tests.kafka:

- A writer *committed* if its outcome is ok, or if it is info and an ok poll read one of the values it sent.
- *Known pairs* (offset, value): of committed sends that know their offset, and of all polls.
- `first` and `last` of a value: its least and greatest known offset. An offset is *known* if it is in a known
pair.

*Anomalies* (each row of the result is one):

| anomaly | a value or an offset for which |
|---|---|
| inconsistent-offsets | one offset holds two values |
| duplicate | one value lies at two offsets |
| lost-write | a committed value, whose last offset is at most the greatest first offset that an ok poll read,
was read by no ok poll | | unseen | a value acknowledged before some final read of its key began was read by
no ok poll at all | | missing-in-final-read | a value acknowledged before a process's final read of the key
began is not in that final read, though some ok poll read it | | aborted-read (Adya's G1a) | an ok poll read a
value whose send failed | | phantom | an ok poll read a value that nobody sent to this key |
| future-read | an ok poll that completed before the send was invoked read its value |
| realtime-order | an acknowledged send completed before another send was invoked, and yet the other has the
lower offset | | nonmonotonic-poll, int-nonmonotonic-poll | a process read an offset not above the one it read
before; `int-` within one poll | | poll-skip, int-poll-skip | a process went from one offset to a higher one
past a known offset; `int-` within one poll | | reused-value | (no verdict) two sends carry one value, so that
reads of it prove nothing; such values take no part in the other value checks |

A process's position is that of its last ok poll; an assign or subscribe drops the positions of the keys that
it does not name. Skips count offsets that exist: a gap in which nobody ever saw a record is not one, unless `gaps="any"`
asks that offsets have no holes at all.

*Cost.* The rows of sends and polls are reduced once, by (key, value, offset), to one row per stored record;
value checks, offset checks and real-time checks all start from that table, which is kept. The session checks
sort the polls by process. Joins against candidates are against empty tables in a healthy history, and
adaptive execution then drops them.
"""

from __future__ import annotations

from functools import reduce
from typing import Literal, NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from jepsen.spark.frames import ASSIGNING, MASKED_READERS, Frames, further_final_values, reads, sends

LOG = ["history_id", "key"]
VALUE = [*LOG, "value"]
EVIDENCE_SCHEMA = (
    "struct<value:string,other_value:string,offset:bigint,other_offset:bigint,process:bigint,"
    "position:bigint,other_position:bigint>"
)
ANOMALY_COLUMNS = ("history_id", "anomaly", "key", "ops", "evidence")

Gaps = Literal["known", "any"]


class LogChecks(NamedTuple):
    """The anomalies in parts, and the tables behind them, which stay persisted until `release`.

    Run the parts one after another. Adaptive execution plans the rest of a query anew whenever a stage of it
    ends, so the union of all parts costs many times what the parts cost: measured 90 s instead of 5 s on a
    history of a hundred operations.
    """

    parts: tuple[DataFrame, ...]
    """history_id, anomaly, key, ops (ids of the operations involved), evidence (EVIDENCE_SCHEMA)."""
    kept: tuple[DataFrame, ...]

    @property
    def anomalies(self) -> DataFrame:
        """All parts as one DataFrame, to write somewhere or to filter."""
        return reduce(DataFrame.unionByName, self.parts)

    def release(self) -> None:
        """Give back the memory and disk of the tables behind the parts."""
        for table in self.kept:
            table.unpersist()


def check_log(frames: Frames, gaps: Gaps = "known") -> LogChecks:
    """All anomalies of the log model. Lazy: nothing runs until a part is used."""
    sent, read = sends(frames), reads(frames)
    records = _records(sent, read).persist()
    values = _values(records).persist()
    steps = _uneven_steps(read).persist()
    due = _due_in_final_reads(values, read).persist()
    parts = (
        _value_anomalies(values),
        _lost_writes(values),
        *_final_read_anomalies(due, read, further_final_values(frames)),
        _inconsistent_offsets(records),
        _realtime_order(values),
        *_session_anomalies(steps, records, gaps),
    )
    return LogChecks(parts, (records, values, steps, due))


# -- from rows to records and values -----------------------------------------------------------------------


def _records(sent: DataFrame, read: DataFrame) -> DataFrame:
    """One row per (key, value, known offset); the offset is null where none is known.

    Only fixed-width aggregates, so that Spark aggregates by hashing and reduces before it shuffles.
    """
    nothing = F.lit(None).cast("bigint")
    zero = F.lit(0).cast("bigint")
    outcome = F.col("outcome")
    ok = outcome == "ok"
    sent = _with_commitment(sent, read)
    sent_rows = sent.select(
        *VALUE,
        F.when(ok | F.col("seen_operation"), F.col("offset")).alias("offset"),
        F.lit(1).alias("sends"),
        (outcome == "fail").alias("failed"),
        (outcome == "info").alias("unsure"),
        (ok | F.col("seen_operation")).alias("committed"),
        F.col("op_id").alias("send_op"),
        F.col("idx_inv").alias("send_inv"),
        F.when(ok, F.col("idx_ret")).alias("send_ret"),
        nothing.alias("read_op"),
        nothing.alias("read_ret"),
        F.col("op_id").alias("op"),
        zero.alias("final_mask"),
    )
    first_readers = F.when(ok & (F.col("final_reader") < MASKED_READERS), F.col("final_reader"))
    read_rows = read.where((F.col("f") == "poll") & F.col("found")).select(
        *VALUE,
        "offset",
        F.lit(0).alias("sends"),
        F.lit(False).alias("failed"),
        F.lit(False).alias("unsure"),
        F.lit(False).alias("committed"),
        nothing.alias("send_op"),
        nothing.alias("send_inv"),
        nothing.alias("send_ret"),
        F.when(ok, F.col("op_id")).alias("read_op"),
        F.when(ok, F.col("idx_ret")).alias("read_ret"),
        F.col("op_id").alias("op"),
        F.coalesce(_bit(first_readers), zero).alias("final_mask"),
    )
    return sent_rows.unionByName(read_rows).groupBy(*VALUE, "offset").agg(*_merge(), F.min("op").alias("op"))


def _merge() -> list[Column]:
    """How rows about one value become one row."""
    return [
        F.sum("sends").alias("sends"),
        F.max("failed").alias("failed"),
        F.max("unsure").alias("unsure"),
        F.max("committed").alias("committed"),
        F.max("send_op").alias("send_op"),
        F.max("send_inv").alias("send_inv"),
        F.max("send_ret").alias("send_ret"),
        F.min("read_op").alias("read_op"),
        F.min("read_ret").alias("read_ret"),
        F.bit_or("final_mask").alias("final_mask"),
    ]


def _bit(reader: Column) -> Column:
    return F.call_function("shiftleft", F.lit(1).cast("bigint"), reader.cast("int"))


def _with_commitment(sent: DataFrame, read: DataFrame) -> DataFrame:
    """Add `seen_operation`: an info operation of which an ok poll read some value.

    This matters only for info operations that sent several values, or that know an offset: of a single
    value without offset, the value's own row says it all. There are few of those, so they are broadcast.
    """
    unsure = sent.where(F.col("outcome") == "info")
    several = F.max("pos").over(Window.partitionBy("history_id", "op_id")) > 0
    telling = unsure.withColumn("several", several | F.col("offset").isNotNull()).where("several")
    ok_polls = read.where((F.col("outcome") == "ok") & (F.col("f") == "poll"))
    seen = (
        ok_polls.select(*VALUE)
        .join(F.broadcast(telling.select(*VALUE, "op_id")), VALUE)
        .select("history_id", "op_id")
        .distinct()
        .withColumn("seen_operation", F.lit(True))
    )
    joined = sent.join(F.broadcast(seen), ["history_id", "op_id"], "left")
    return joined.withColumn("seen_operation", F.coalesce("seen_operation", F.lit(False)))


def _values(records: DataFrame) -> DataFrame:
    """One row per value of a key. `first` and `last` are its least and greatest known offset, or null."""
    grouped = records.groupBy(*VALUE).agg(
        *_merge(), F.min("offset").alias("first"), F.max("offset").alias("last")
    )
    read_from_unsure = F.col("unsure") & F.col("read_op").isNotNull()
    return grouped.withColumn("committed", F.col("committed") | read_from_unsure)


# -- anomalies ---------------------------------------------------------------------------------------------


def _anomaly(frame: DataFrame, name: str | Column, ops: list[Column], **evidence: Column) -> DataFrame:
    """Rows of `frame` as anomalies. Evidence fields that are not given are null; null operations are left
    out."""
    fields = []
    for field in EVIDENCE_SCHEMA.removeprefix("struct<").removesuffix(">").split(","):
        label, kind = field.split(":")
        fields.append(evidence.get(label, F.lit(None)).cast(kind).alias(label))
    return frame.select(
        "history_id",
        (F.lit(name) if isinstance(name, str) else name).alias("anomaly"),
        "key",
        F.array_compact(F.array(*ops)).alias("ops"),
        F.struct(*fields).alias("evidence"),
    )


def _value_anomalies(values: DataFrame) -> DataFrame:
    """Those that one value's row shows. One pass over the values: each row lists the anomalies it has."""
    unique = F.col("sends") <= 1
    was_read = F.col("read_op").isNotNull()
    checks = {
        "duplicate": unique & (F.col("first") < F.col("last")),
        "aborted-read": unique & was_read & F.col("failed"),
        "phantom": was_read & (F.col("sends") == 0),
        "future-read": unique & (F.col("read_ret") < F.col("send_inv")),
        "reused-value": F.col("sends") > 1,
    }
    names = F.array_compact(F.array(*(F.when(holds, F.lit(name)) for name, holds in checks.items())))
    found = values.withColumn("names", names).where(F.size("names") > 0)
    found = found.withColumn("anomaly", F.explode("names"))
    future = F.col("anomaly") == "future-read"
    return _anomaly(
        found,
        F.col("anomaly"),
        [F.col("send_op"), F.col("read_op")],
        value=F.col("value"),
        offset=F.col("first"),
        other_offset=F.when(F.col("anomaly") == "duplicate", F.col("last")),
        position=F.when(future, F.col("read_ret")),
        other_position=F.when(future, F.col("send_inv")),
    )


def _lost_writes(values: DataFrame) -> DataFrame:
    read_first = F.when(F.col("read_op").isNotNull(), F.col("first"))
    bounds = values.groupBy(*LOG).agg(F.max(read_first).alias("bound"))
    unread = values.where(F.col("committed") & F.col("read_op").isNull() & (F.col("sends") == 1))
    lost = unread.join(bounds, LOG).where(F.col("last") <= F.col("bound"))
    return _anomaly(
        lost,
        "lost-write",
        [F.col("send_op")],
        value=F.col("value"),
        offset=F.col("last"),
        other_offset=F.col("bound"),
    )


def _final_read_anomalies(values: DataFrame, read: DataFrame, further_values: DataFrame) -> list[DataFrame]:
    """Acknowledged values against the final reads of their keys: each final reader must have each of them.

    Each of a history's first final readers is one bit of `final_mask`, so that almost always one
    comparison per value settles all of them. The mask has room for 62 readers; further ones take a join each.
    """
    final = read.where(F.col("final_reader").isNotNull() & (F.col("f") == "poll"))
    readers = final.groupBy(*LOG, "process", "final_reader").agg(F.min("idx_inv").alias("began"))
    masked = F.col("final_reader") < MASKED_READERS
    by_key = readers.groupBy(*LOG).agg(
        F.bit_or(F.when(masked, _bit(F.col("final_reader")))).alias("readers_mask"),
        F.max("began").alias("last_began"),
    )
    acked = values.where(F.col("send_ret").isNotNull() & (F.col("sends") == 1)).select(
        *VALUE, "first", "send_op", "send_ret", "read_op", "final_mask"
    )
    due = acked.join(F.broadcast(by_key), LOG).where(F.col("send_ret") < F.col("last_began"))
    unseen = _anomaly(
        due.where(F.col("read_op").isNull()),
        "unseen",
        [F.col("send_op")],
        value=F.col("value"),
        offset=F.col("first"),
        position=F.col("send_ret"),
        other_position=F.col("last_began"),
    )
    partly = due.where(F.col("read_op").isNotNull())
    before = F.col("send_ret") < F.col("began")
    short = partly.where(F.col("final_mask").bitwiseAND(F.col("readers_mask")) != F.col("readers_mask"))
    unread = F.col("final_mask").bitwiseAND(_bit(F.col("final_reader"))) == 0
    missing = short.join(readers.where(masked), LOG).where(before & unread)
    further = partly.join(F.broadcast(readers.where(~masked)), LOG).where(before)
    missing_further = further.join(further_values, [*VALUE, "process"], "left_anti")
    return [
        unseen,
        _anomaly(
            missing.unionByName(missing_further),
            "missing-in-final-read",
            [F.col("send_op")],
            value=F.col("value"),
            offset=F.col("first"),
            process=F.col("process"),
            position=F.col("send_ret"),
            other_position=F.col("began"),
        ),
    ]


def _inconsistent_offsets(records: DataFrame) -> DataFrame:
    holder = F.struct("value", "op")
    known = records.where(F.col("offset").isNotNull())
    holders = known.groupBy(*LOG, "offset").agg(F.min(holder).alias("low"), F.max(holder).alias("high"))
    torn = holders.where(F.col("low.value") != F.col("high.value"))
    return _anomaly(
        torn,
        "inconsistent-offsets",
        [F.col("low.op"), F.col("high.op")],
        value=F.col("low.value"),
        other_value=F.col("high.value"),
        offset=F.col("offset"),
    )


def _realtime_order(values: DataFrame) -> DataFrame:
    """In offset order, the latest invocation so far must not come after the completion of a send."""
    placed = values.where((F.col("sends") == 1) & F.col("committed") & F.col("first").isNotNull()).select(
        *VALUE,
        F.col("first").alias("offset"),
        "send_ret",
        "send_op",
        F.struct("send_inv", F.col("send_op").alias("op"), F.col("first").alias("offset"), "value").alias(
            "send"
        ),
    )
    below = Window.partitionBy(*LOG).orderBy("offset").rangeBetween(Window.unboundedPreceding, -1)
    late = placed.withColumn("latest", F.max("send").over(below)).where(
        F.col("latest.send_inv") > F.col("send_ret")
    )
    return _anomaly(
        late,
        "realtime-order",
        [F.col("send_op"), F.col("latest.op")],
        value=F.col("value"),
        other_value=F.col("latest.value"),
        offset=F.col("offset"),
        other_offset=F.col("latest.offset"),
        position=F.col("send_ret"),
        other_position=F.col("latest.send_inv"),
    )


def _uneven_steps(read: DataFrame) -> DataFrame:
    """The few steps of `_steps` that do not go to the next offset."""
    return _steps(read).where(F.col("offset") != F.col("previous") + 1)


def _session_anomalies(steps: DataFrame, records: DataFrame, gaps: Gaps) -> list[DataFrame]:
    """What each process saw, in its own order: no step back, and no step over an offset that exists."""
    columns = {
        "offset": F.col("offset"),
        "other_offset": F.col("previous"),
        "process": F.col("process"),
    }
    ops = [F.col("previous_op"), F.when(~F.col("internal"), F.col("op_id"))]

    def named(name: str) -> Column:
        return F.when(F.col("internal"), F.lit(f"int-{name}")).otherwise(F.lit(name))

    back = steps.where(F.col("offset") <= F.col("previous"))
    jumps = steps.where(F.col("offset") > F.col("previous"))
    if gaps == "known":
        by_offset = Window.partitionBy(*LOG).orderBy("offset")
        known = records.where(F.col("offset").isNotNull()).select(*LOG, "offset").distinct()
        following = known.select(
            *LOG, F.col("offset").alias("previous"), F.lead("offset").over(by_offset).alias("following")
        )
        jumps = jumps.join(following, [*LOG, "previous"]).where(F.col("following") < F.col("offset"))
    return [
        _anomaly(back, named("nonmonotonic-poll"), ops, **columns),
        _anomaly(jumps, named("poll-skip"), ops, **columns),
    ]


def _steps(read: DataFrame) -> DataFrame:
    """Every polled record with the one its process read before: `previous`, `previous_op`, `internal`."""
    order = Window.partitionBy("history_id", "process", "key").orderBy("idx_inv", "pos")
    earlier = order.rowsBetween(Window.unboundedPreceding, -1)
    assigns = F.col("f").isin(*ASSIGNING) & F.col("outcome").isin("ok", "info")
    named_here = F.sum(F.when(assigns, 1).otherwise(0)).over(order.rowsBetween(Window.unboundedPreceding, 0))
    rows = read.where(assigns | ((F.col("f") == "poll") & F.col("offset").isNotNull())).select(
        "history_id", "process", "key", "op_id", "idx_inv", "pos", "f", "outcome", "offset",
        (F.col("assignments") - named_here).alias("session"),
    )  # fmt: skip
    is_poll = F.col("f") == "poll"
    here = F.struct("offset", "op_id", "session")
    with_previous = rows.withColumns(
        {
            "neighbour": F.lag(here).over(order),
            "position": F.last(F.when(is_poll & (F.col("outcome") == "ok"), here), ignorenulls=True).over(
                earlier
            ),
        }
    )
    internal = F.coalesce(F.col("neighbour.op_id") == F.col("op_id"), F.lit(False))
    same_session = F.col("position.session") == F.col("session")
    previous = F.when(internal, F.col("neighbour.offset")).when(same_session, F.col("position.offset"))
    previous_op = F.when(internal, F.col("neighbour.op_id")).otherwise(F.col("position.op_id"))
    return with_previous.where(is_poll).select(
        "history_id", "process", "key", "op_id", "offset",
        internal.alias("internal"), previous.alias("previous"), previous_op.alias("previous_op"),
    )  # fmt: skip
