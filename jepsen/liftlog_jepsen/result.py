"""What a check found: plain data between the Spark side, which computes it, and the reports, which show it.

Everything here is bounded: counts, and as many examples as were asked for; never the history itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"
EXIT_CODES = {VALID: 0, INVALID: 1, UNKNOWN: 2}

MEANINGS = {
    "inconsistent-offsets": "one offset holds two different values",
    "duplicate": "one value is stored at two offsets",
    "lost-write": "a stored value was skipped by every read, though later values were read",
    "unseen": "an acknowledged value is in no read at all, final reads included",
    "missing-in-final-read": "an acknowledged value is absent from one reader's final read of the whole log",
    "G1a": "a value was read although its send failed (aborted read)",
    "precommitted-read": "an operation read what it had itself sent, before that was committed",
    "phantom": "a value was read that nobody sent to this log",
    "future-read": "a value was read before its send had begun",
    "realtime-order": "offsets contradict real time: the earlier of two sends has the higher offset",
    "nonmonotonic-epoch": "leader epochs fall: an older epoch acknowledged a higher offset than a newer one",
    "two-leaders": "two leaders acknowledged records in one epoch",
    "nonmonotonic-send": "a sender's later send was stored below its earlier one",
    "int-nonmonotonic-send": "the offsets of one operation's sends do not ascend",
    "int-send-skip": "other records lie between the sends of one operation",
    "nonmonotonic-poll": "a reader went backwards between two polls",
    "int-nonmonotonic-poll": "the offsets within one poll do not ascend",
    "poll-skip": "a reader passed over an existing offset between two polls",
    "int-poll-skip": "one poll passes over an existing offset",
    "reused-value": "two sends carry one value, so reads of it prove nothing",
}
"""Every anomaly, in the order of reports, with its meaning in one line."""

CYCLE_MEANINGS = {
    f"{base}{suffix}": f"{words}{how}"
    for suffix, how in (
        ("", ""),
        ("-process", ", given the order in which each client worked"),
        ("-realtime", ", given that what ended came before what began later"),
    )
    for base, words in (
        ("G0", "operations overwrote each other in a circle"),
        ("G1c", "information flowed in a circle"),
    )
}
"""Cycles between the operations of logs (docs/cycles.md)."""

PROMISE_MEANINGS = {
    "hw-back": "the HW that one process was told of a log went back",
    "read-above-hw": "a read returned a record at or above the HW that came with it",
    "read-truncated": "a record was read, then cut off by a replica, and never read again",
    "sequence-duplicate": "one number of a producer is stored twice",
    "sequence-reordered": "two numbers of a producer are stored in the wrong order",
    "sequence-gap": "numbers of a producer are missing, and no room is left for them",
    "fenced-producer": "a record of an older producer epoch is stored above one of a newer",
    "last-value-lost": "a final read of a compacted log misses the last value of a record key",
    "deleted-value-back": "a final read of a compacted log shows a value of a deleted key, but no tombstone",
    "generation-back": "a group told a generation after it had told a greater one",
    "two-owners": "one partition had two owners in one generation",
    "stale-commit": "a commit of an older generation was accepted",
    "cursor-back": "a group's committed cursor went back",
    "phantom-cursor": "a group told a cursor that nobody can have committed",
    "output-duplicate": "an input record was transformed twice",
    "output-missing": "an input record below the committed cursor was not transformed",
    "cursor-apart": "a transaction took in a record without committing the cursor past it",
    "misplaced": "a record that was to lie at one offset, or nowhere, lies at another",
    "refused-as-expected": "a send was refused though the log ended where it expected",
    "stale-refusal": "a refusal told an end of the log that others had already passed",
    "dirty-refusal": "a refusal told of records that were not there",
    "late-append": "a record was sent after one behind it had been read",
    "phantom-offset": "the log goes on behind an offset at which nobody can have sent anything",
    "acked-again": "a consumer was given a message again, recorded behind the answered ack",
    "delivered-too-often": "a consumer was given a message more often than its limit and once",
    "count-back": "a later delivery of a message was told a count that is not higher",
    "unrecorded-again": "a delivery without a record was not the first of its message",
    "unrecorded-elsewhere": "a message was given without a record in another epoch than its own",
    "first-out-of-order": "a consumer was given a message for the first time behind a later one",
    "delivered-otherwise": "a consumer was given another message than lies at that offset",
    "skipped": "a consumer says that a message is done which nobody was given",
    "done-unsaid": "a consumer says that a message is done which nobody acked or gave up",
}
"""Promises beyond the log checks (docs/promises.md)."""

EVERY_MEANING = {**MEANINGS, **CYCLE_MEANINGS, **PROMISE_MEANINGS}

INCONCLUSIVE = ("reused-value",)
"""Findings that make a verdict unknown rather than invalid."""
NEEDS_COMPLETE = ("phantom",)
"""Findings that an incomplete history cannot prove: the send may be among the lines that are missing."""


class Evidence(NamedTuple):
    """The facts behind one anomaly; what does not apply to its kind is None."""

    value: str | None = None
    other_value: str | None = None
    offset: int | None = None
    other_offset: int | None = None
    process: int | None = None
    position: int | None = None
    other_position: int | None = None
    epoch: int | None = None
    other_epoch: int | None = None
    leader: int | None = None
    other_leader: int | None = None


class Anomaly(NamedTuple):
    """One violation: the operations involved and the evidence.

    `words`: the sentences of a check that composes its own, else empty (see `explain`). `cycle`: the steps of
    a cycle as `liftlog_jepsen.judgement.Problem.detail` has them, with the ids of operations.
    """

    name: str
    key: str
    ops: tuple[int, ...]
    evidence: Evidence
    words: str = ""
    cycle: tuple[Mapping[str, Any], ...] = ()


class Finding(NamedTuple):
    """All anomalies of one kind in one history: how many, in how many keys, and the first few."""

    name: str
    total: int
    keys: int
    failing: bool
    """Whether it makes the verdict invalid; false when allowed or inconclusive."""
    examples: tuple[Anomaly, ...]


class Moment(NamedTuple):
    """One step of the plots. Latencies in nanoseconds, None where no send completed."""

    t_ns: int
    sends_ok: int
    sends_fail: int
    sends_info: int
    records_read: int
    latency_p50_ns: int | None
    latency_p99_ns: int | None
    unseen: int | None = None
    """Acknowledged values that nobody had read at its end; None where the history does not tell."""
    lag_p50_ns: int | None = None
    """How far behind polls were: the middle one, None where there was none."""
    lag_worst_ns: int | None = None


class Lane(NamedTuple):
    """One operation as the timeline draws it."""

    op_id: int
    process: int
    client: str | None
    f: str
    outcome: str
    idx_inv: int
    idx_ret: int | None
    t_inv_ns: int
    t_ret_ns: int | None
    error: str | None
    records: int
    key: str | None
    first_offset: int | None
    last_offset: int | None
    value: str | None
    """The value, if the operation carries exactly one."""


class Sighting(NamedTuple):
    """One send or poll of a record near an anomaly."""

    offset: int
    value: str
    f: str
    op_id: int
    process: int
    outcome: str


class Surroundings(NamedTuple):
    """What operations say about the offsets around the first example of one anomaly."""

    name: str
    key: str
    offset: int
    sightings: tuple[Sighting, ...]


class Picture(NamedTuple):
    """What only the HTML report shows: the run over time, and the operations around one point of it."""

    width_ns: int
    moments: tuple[Moment, ...]
    faults: tuple[tuple[str, str, int, int | None], ...]
    focus: str
    """What the timeline is zoomed on, in words."""
    lanes: tuple[Lane, ...]
    involved: tuple[Lane, ...]
    """The operations that the examples of anomalies name, by id."""
    surroundings: tuple[Surroundings, ...]
    meta: tuple[tuple[str, str], ...]
    every: int = 1
    """Of so many offsets one was looked at for `Moment.unseen` and the lags."""


class Count(NamedTuple):
    """How many operations of one kind ended in one way."""

    f: str
    outcome: str
    ops: int


class CheckResult(NamedTuple):
    """The verdict on one history and what it rests on."""

    history: str
    source: str
    verdict: str
    reasons: tuple[str, ...]
    """Why the verdict is unknown, or what it leaves open."""
    findings: tuple[Finding, ...]
    counts: tuple[Count, ...]
    records_sent: int
    records_read: int
    t_first_ns: int
    t_last_ns: int
    check_s: float
    """Seconds that the checks took, without starting Spark."""
    picture: Picture | None = None
    leader_words: tuple[int, int] = (0, 0)
    """Values sent that had their leader's word alone, and those of them that nobody read: no anomaly."""

    @property
    def operations(self) -> int:
        return sum(count.ops for count in self.counts)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def number(self, f: str, outcome: str) -> int:
        """How many operations `f` ended in `outcome`."""
        return sum(count.ops for count in self.counts if (count.f, count.outcome) == (f, outcome))

    def as_json(self) -> dict[str, object]:
        """For machines: everything but the picture."""
        return {
            "history": self.history,
            "source": self.source,
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "anomalies": [
                {
                    "anomaly": finding.name,
                    "meaning": EVERY_MEANING.get(finding.name, ""),
                    "count": finding.total,
                    "keys": finding.keys,
                    "failing": finding.failing,
                    "examples": [
                        {
                            "key": anomaly.key,
                            "ops": list(anomaly.ops),
                            "words": explain(anomaly),
                            **_plain_evidence(anomaly.evidence),
                        }
                        for anomaly in finding.examples
                    ],
                }
                for finding in self.findings
            ],
            "operations": self.operations,
            "records_sent": self.records_sent,
            "records_read": self.records_read,
            "duration_s": round((self.t_last_ns - self.t_first_ns) / 1e9, 3),
            "check_s": round(self.check_s, 3),
            **self._words_as_json(),
        }

    def _words_as_json(self) -> dict[str, object]:
        sent, unread = self.leader_words
        return {"leader_words": sent, "leader_words_unread": unread} if sent else {}


def decide(
    findings: tuple[Finding, ...], reasons: tuple[str, ...], acknowledged: int, read: int
) -> tuple[str, tuple[str, ...]]:
    """The verdict, and the reasons completed by those that follow from the findings."""
    for finding in findings:
        if finding.name in INCONCLUSIVE:
            reasons = (*reasons, f"{MEANINGS[finding.name]}: {finding.total} such values")
    if not acknowledged:
        reasons = (*reasons, "no send was acknowledged, so there is nothing that could have been lost")
    elif not read:
        reasons = (*reasons, "nothing was read, so nothing shows what the log holds")
    if any(finding.failing for finding in findings):
        return INVALID, reasons
    return (UNKNOWN if reasons else VALID), reasons


def _plain_evidence(evidence: Evidence) -> dict[str, int | str]:
    """The facts that apply, values in their own type."""
    plain: dict[str, int | str] = {}
    for name, fact in evidence._asdict().items():
        if fact is not None:
            plain[name] = original(fact) if isinstance(fact, str) else fact
    return plain


def explain(anomaly: Anomaly) -> str:
    """The anomaly in one sentence, with its values, offsets and operations."""
    if anomaly.words:
        return anomaly.words.removesuffix(".")
    e = anomaly.evidence
    value, other = shorten(e.value), shorten(e.other_value)
    ops = ", ".join(f"#{op}" for op in anomaly.ops)
    where = f" at offset {e.offset}" if e.offset is not None else ""
    sentences = {
        "inconsistent-offsets": f"offset {e.offset} holds {value} and also {other} (operations {ops})",
        "duplicate": f"{value} lies at offsets {e.offset} and {e.other_offset} (operations {ops})",
        "lost-write": (
            f"{value} was stored{where} by operation {ops}, values up to offset {e.other_offset} were read, "
            "but no read returned it"
        ),
        "unseen": (
            f"{value} was acknowledged{where} by operation {ops}, but no read returned it, "
            "not even the final ones"
        ),
        "missing-in-final-read": (
            f"{value} was acknowledged{where} by operation {ops}, "
            f"but is not in the final read of process {e.process}"
        ),
        "G1a": f"{value} was read{where}, though its send had failed (operations {ops})",
        "precommitted-read": f"operation {ops} both sent and polled {value}{where}",
        "phantom": f"{value} was read{where} by operation {ops}, but nobody sent it to this log",
        "future-read": f"{value} was read{where} before its send was invoked (operations {ops})",
        "realtime-order": (
            f"{value} was acknowledged at offset {e.offset} before {other} was even sent, "
            f"and yet that one got the lower offset {e.other_offset} (operations {ops})"
        ),
        "nonmonotonic-epoch": (
            f"{value} was acknowledged at offset {e.offset} in epoch {e.epoch}, although {other} at the "
            f"lower offset {e.other_offset} had the newer epoch {e.other_epoch} (operations {ops})"
        ),
        "two-leaders": (
            f"epoch {e.epoch} has two leaders: {value} at offset {e.offset} was acknowledged by incarnation "
            f"{e.leader}, {other} at offset {e.other_offset} by incarnation {e.other_leader} "
            f"(operations {ops})"
        ),
        "nonmonotonic-send": (
            f"process {e.process} sent to offset {e.offset} after its send to offset {e.other_offset} "
            f"had been acknowledged (operations {ops})"
        ),
        "int-nonmonotonic-send": (f"operation {ops} sent to offset {e.offset} after offset {e.other_offset}"),
        "int-send-skip": (
            f"operation {ops} sent to offsets {e.other_offset} and {e.offset}, "
            "with other records between them"
        ),
        "nonmonotonic-poll": (
            f"process {e.process} read offset {e.offset} after offset {e.other_offset} (operations {ops})"
        ),
        "int-nonmonotonic-poll": f"operation {ops} returned offset {e.offset} after offset {e.other_offset}",
        "poll-skip": (
            f"process {e.process} went from offset {e.other_offset} to {e.offset}, "
            f"past an offset that exists (operations {ops})"
        ),
        "int-poll-skip": (
            f"operation {ops} goes from offset {e.other_offset} to {e.offset}, past an offset that exists"
        ),
        "reused-value": f"{value} was sent more than once",
    }
    return sentences[anomaly.name]


def printable(text: str) -> str:
    """`text` without anything that a terminal or a browser would act on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def original(text: str) -> int | str:
    """The value that a check's text form stands for.

    Integers are digits there, and strings that might be mistaken for such have quotes around them.
    """
    if text.startswith('"'):
        return text[1:-1]
    return int(text) if text[:1] in set("-0123456789") else text


def shorten(value: str | None, limit: int = 60) -> str:
    """A value's text form for a table cell or a sentence: long strings are cut in the middle."""
    if value is None:
        return "nothing"
    plain = original(value)
    if isinstance(plain, int):
        return str(plain)
    if len(plain) <= limit:
        return f"{plain!r}"
    half = (limit - 1) // 2
    return f"{plain[:half] + '…' + plain[-half:]!r}"
