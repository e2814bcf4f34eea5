"""Transactions over registers: `[w key value]` writes, `[r key value]` reads, nil until somebody wrote.

Each value is written to a register at most once, so every read names its writer (wr). The order of versions
is not shown by reads. What is certain is used always, further assumptions only when asked for (Kingsbury and
Alvaro, "Elle", VLDB 2020, section 4.3):

- nil, the initial state, comes before every other version;
- `wfr_keys`: a transaction that reads a register and then writes it has overwritten what it read;
- `sequential_keys`: in the order of each process, versions only go forward;
- `linearizable_keys`: in real time, versions only go forward.

Where version v is before version u: the writer of v is before the writer of u (ww), and so are the readers
of v (rw). A source that would give the versions of a register a circular order is left out for that register
and reported as `cyclic-versions`.

nil stands for the initial state; where somebody writes nil (or `Options.initial`), reads of it prove nothing.
A transaction acts on a register from outside by its first read of it, if that comes before its first write,
and by its last write. A read of a value that nobody wrote may be of a state from before the history: it is
shown as `phantom`, but does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, OK, Operation
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.transactions.classify import RW, WR, WW, Edge
from liftlog_jepsen.transactions.collector import collector_paused
from liftlog_jepsen.transactions.components import strong_components
from liftlog_jepsen.transactions.consistency import orders_of
from liftlog_jepsen.transactions.findings import Findings, Reason
from liftlog_jepsen.transactions.options import Options
from liftlog_jepsen.transactions.orders import (
    FREE,
    REALTIME,
    SESSIONS,
    Facts,
    OrderAnswer,
    Rule,
    find_order,
    gather,
)
from liftlog_jepsen.transactions.reading import Transaction, freeze, name, names, read_transactions, text
from liftlog_jepsen.transactions.time_order import Triple, process_edges, realtime_edges

HARMLESS = ("phantom",)
WORDS_MAX = 12
"""Reads that a sentence names."""


@collector_paused()
def check_rw_register(operations: Sequence[Operation], options: Options | None = None) -> Judgement:
    """Judge a history of transactions over registers.

    `unknown` if a value was written twice to one register and nothing else is wrong, or if nothing depends
    on anything. Raises BadHistory for operations that are no such transactions, LiftlogError for an unknown
    consistency model.
    """
    chosen = options or Options()
    found = Findings(chosen)
    transactions = read_transactions(operations, "w")
    registers = _collect(transactions, freeze(chosen.initial))
    for register in registers.values():
        if register.reused:
            found.doubt_reused(register.key, register.reused, "written")
        register.find_versions(chosen, found)
    for transaction in transactions:
        if transaction.outcome == OK:
            _check_inside(transaction, found)
            _check_reads(transaction, registers, found)
    _check_lost_updates(transactions, registers, found)
    edges = [edge for register in registers.values() for edge in register.edges()]
    places = {transaction.number: place for place, transaction in enumerate(transactions)}
    found.add_cycles(
        transactions,
        [(places[source], places[target], kind) for source, target, kind in edges],
        lambda edge: _explain(edge, transactions[places[edge.target]], registers),
    )
    _check_order(transactions, freeze(chosen.initial), found)
    return found.judgement(HARMLESS)


class _Touch(NamedTuple):
    """One transaction's dealings with one register from outside. `first` and `last`: the versions by which it
    can be ordered, its outer read and its last write, or whichever there is."""

    transaction: Transaction
    reads: bool
    read: Any
    writes: bool
    write: Any

    @property
    def first(self) -> Any:
        return self.read if self.reads else self.write

    @property
    def last(self) -> Any:
        return self.write if self.writes else self.read


class _Register:
    """All that transactions did to one register, and the order of its versions."""

    def __init__(self, key: Any, initial: Any) -> None:
        self.key = key
        self.initial = initial
        self.touches: list[_Touch] = []
        """Of transactions that may have happened."""
        self.writers: dict[Any, Transaction] = {}
        """By value, inner writes and those that failed included."""
        self.inner: set[Any] = set()
        self.reused: dict[Any, list[int]] = {}
        self.reset = False
        """Whether somebody wrote the initial state again, so that reads of it prove nothing."""
        self.readers: dict[Any, list[int]] = {}
        self.later: dict[Any, dict[Any, str]] = {}
        """For each version those that come after it, with how that is known."""

    def write(self, transaction: Transaction, value: Any) -> None:
        if self.is_initial(value):
            self.reset = True
            return
        if value in self.writers:
            first = self.writers[value].number
            self.reused.setdefault(value, [first]).append(transaction.number)
        self.writers[value] = transaction

    def is_initial(self, value: Any) -> bool:
        return value is None or value == self.initial

    def proves(self, value: Any) -> bool:
        """Whether all who read this value read the same version."""
        return value not in self.reused and not (self.reset and self.is_initial(value))

    def touch(self, touch: _Touch) -> None:
        self.touches.append(touch)
        if touch.reads:
            self.readers.setdefault(touch.read, []).append(touch.transaction.number)

    def writer(self, value: Any) -> Transaction | None:
        """Who gave the register this version; None if it failed, or if that is not known for sure."""
        found = self.writers.get(value)
        if found is None or found.outcome == FAIL or value in self.inner or value in self.reused:
            return None
        return found

    def find_versions(self, options: Options, found: Findings) -> None:
        """Order the versions by every source that the options allow and that fits those before it."""
        sources: list[tuple[str, Iterable[tuple[Any, Any]]]] = [("initial state", self._from_initial())]
        if options.wfr_keys:
            sources.append(("writes follow reads", self._from_writes_after_reads()))
        if options.sequential_keys:
            sources.append(("order of processes", self._from_time(process_edges)))
        if options.linearizable_keys:
            sources.append(("real time", self._from_time(realtime_edges)))
        for source, pairs in sources:
            more = {version: dict(after) for version, after in self.later.items()}
            for version, after in pairs:
                if version != after and not (self.reset and after is None):
                    more.setdefault(version, {}).setdefault(after, source)
            circle = _circle(more)
            if circle:
                self._add_circle(source, circle, found)
            else:
                self.later = more

    def _from_initial(self) -> Iterator[tuple[Any, Any]]:
        for touch in self.touches:
            for present, version in ((touch.reads, touch.read), (touch.writes, touch.write)):
                if present:
                    yield None, version

    def _from_writes_after_reads(self) -> Iterator[tuple[Any, Any]]:
        for touch in self.touches:
            if touch.reads and touch.writes:
                yield touch.read, touch.write

    def _from_time(self, order: Any) -> Iterator[tuple[Any, Any]]:
        by_number = {touch.transaction.number: touch for touch in self.touches}
        for source, target, _ in order(touch.transaction for touch in self.touches):
            yield by_number[source].last, by_number[target].first

    def _add_circle(self, source: str, circle: list[Any], found: Findings) -> None:
        involved = set(circle)
        numbers = [
            touch.transaction.number
            for touch in self.touches
            if (touch.reads and touch.read in involved) or (touch.writes and touch.write in involved)
        ]
        found.add(
            "cyclic-versions",
            self.key,
            numbers,
            lambda: (
                f"by {source}, each of the versions {', '.join(text(version) for version in circle)} of "
                f"{text(self.key)} came before all the others"
            ),
        )

    def edges(self) -> Iterator[Triple]:
        """The dependencies that this register shows, over numbers of operations."""
        for value, readers in self.readers.items():
            writer = self.writer(value)
            for reader in readers:
                if writer is not None and writer.number != reader:
                    yield writer.number, reader, WR
        for version, after in self.later.items():
            first = self.writer(version)
            for later in after:
                second = self.writer(later)
                if second is None:
                    continue
                if first is not None and first is not second:
                    yield first.number, second.number, WW
                if version is None and self.reset:
                    continue
                for reader in self.readers.get(version, ()):
                    if reader != second.number:
                        yield reader, second.number, RW


def _collect(transactions: Iterable[Transaction], initial: Any) -> dict[Any, _Register]:
    registers: dict[Any, _Register] = {}
    for transaction in transactions:
        reads: dict[Any, Any] = {}
        writes: dict[Any, Any] = {}
        for write, key, value in transaction.parts:
            register = registers.get(key)
            if register is None:
                register = registers[key] = _Register(key, initial)
            version = None if register.is_initial(value) else value
            if write:
                if writes.get(key) is not None:
                    register.inner.add(writes[key])
                register.write(transaction, value)
                writes[key] = version
            elif key not in writes:
                reads.setdefault(key, version)
        if transaction.may_have_happened:
            for key in dict.fromkeys((*reads, *writes)):
                registers[key].touch(
                    _Touch(transaction, key in reads, reads.get(key), key in writes, writes.get(key))
                )
    return registers


def _circle(later: dict[Any, dict[Any, str]]) -> list[Any]:
    """The first component of versions that are all before each other; empty if there is none."""
    versions = list(dict.fromkeys(each for version, after in later.items() for each in (version, *after)))
    place = {version: at for at, version in enumerate(versions)}
    component, count = strong_components(
        [[place[after] for after in later.get(version, ())] for version in versions]
    )
    sizes = [0] * count
    for of in component:
        sizes[of] += 1
    first = next((of for of in component if sizes[of] > 1), None)
    return [version for version, of in zip(versions, component, strict=True) if of == first]


def _check_inside(transaction: Transaction, found: Findings) -> None:
    """What one transaction's parts show by themselves: internal and future-read, the first of each."""
    known: dict[Any, Any] = {}
    reads: set[tuple[Any, Any]] = set()
    contradicted = foreseen = False
    for write, key, value in transaction.parts:
        if write and (key, value) in reads and not foreseen:
            foreseen = True
            _add_future(transaction, key, value, found)
        if not write and not contradicted and known.get(key, value) != value:
            contradicted = True
            _add_internal(transaction, key, known[key], value, found)
        if not write and key not in known:
            reads.add((key, value))
        known[key] = value


def _add_future(transaction: Transaction, key: Any, value: Any, found: Findings) -> None:
    found.add(
        "future-read",
        key,
        (transaction.number,),
        lambda: f"{name(transaction.number)} read {text(value)} from {text(key)} before it wrote that itself",
    )


def _add_internal(transaction: Transaction, key: Any, expected: Any, value: Any, found: Findings) -> None:
    found.add(
        "internal",
        key,
        (transaction.number,),
        lambda: (
            f"{name(transaction.number)} read {text(key)} as {text(value)}, though it had just read or "
            f"written {text(expected)} there itself"
        ),
    )


def _check_reads(transaction: Transaction, registers: dict[Any, _Register], found: Findings) -> None:
    """Reads of values whose transaction failed, or replaced them, or does not exist."""
    for write, key, value in transaction.parts:
        register = registers[key]
        if write or register.is_initial(value) or value in register.reused:
            continue
        writer = register.writers.get(value)
        if writer is None:
            _add_phantom(transaction, key, value, found)
        elif writer.outcome == FAIL:
            _add_aborted(transaction, writer, key, value, found)
        elif value in register.inner and writer is not transaction:
            _add_intermediate(transaction, writer, key, value, found)


def _add_phantom(reader: Transaction, key: Any, value: Any, found: Findings) -> None:
    found.add(
        "phantom",
        key,
        (reader.number,),
        lambda: f"{name(reader.number)} read {text(value)} from {text(key)}, which nobody wrote",
    )


def _add_aborted(reader: Transaction, writer: Transaction, key: Any, value: Any, found: Findings) -> None:
    found.add(
        "G1a",
        key,
        (writer.number, reader.number),
        lambda: (
            f"{name(writer.number)} wrote {text(value)} to {text(key)} and failed, "
            f"but {name(reader.number)} read it"
        ),
    )


def _add_intermediate(
    reader: Transaction, writer: Transaction, key: Any, value: Any, found: Findings
) -> None:
    found.add(
        "G1b",
        key,
        (writer.number, reader.number),
        lambda: (
            f"{name(reader.number)} read {text(value)} from {text(key)}, "
            f"which {name(writer.number)} overwrote before it ended"
        ),
    )


def _check_lost_updates(
    transactions: Iterable[Transaction], registers: dict[Any, _Register], found: Findings
) -> None:
    """Committed transactions that read one version of a register and then wrote it."""
    updates: dict[tuple[Any, Any], list[int]] = {}
    for transaction in transactions:
        if transaction.outcome != OK:
            continue
        reads: dict[Any, Any] = {}
        written: set[Any] = set()
        for write, key, value in transaction.parts:
            if not write and key not in written:
                reads.setdefault(key, value)
            elif write and key not in written:
                written.add(key)
                if key in reads and registers[key].proves(reads[key]):
                    updates.setdefault((key, reads[key]), []).append(transaction.number)
    for (key, value), numbers in updates.items():
        if len(numbers) > 1:
            _add_lost(key, value, numbers, found)


def _add_lost(key: Any, value: Any, numbers: list[int], found: Findings) -> None:
    found.add(
        "lost-update",
        key,
        numbers,
        lambda: f"{names(numbers)} each read {text(value)} from {text(key)} and then wrote it",
    )


def _check_order(transactions: Sequence[Transaction], initial: Any, found: Findings) -> None:
    """Where no anomaly contradicts the models: whether there is an order as they want it."""
    if any(anomaly in found.forbidden and anomaly not in HARMLESS for anomaly in found.totals):
        return
    facts = gather(transactions, lambda value: value is None or value == initial)
    for rule, exact in orders_of(found.models).items():
        answer = find_order(facts, rule, found.options.order_steps)
        wanted = f"{'snapshots' if rule.snapshots else 'one after the other'}{_TIMES[rule.time]}"
        if answer.found is None:
            found.unsure.append(
                f"nothing shows that the history is wrong, and no order of its transactions ({wanted}) shows "
                f"that it is right: {answer.why}"
            )
        elif answer.found is False and exact:
            _add_no_order(facts, rule, answer, wanted, found)
        elif answer.found is False:
            found.unsure.append(
                f"no order of the transactions ({wanted}) explains what they read; whether "
                f"{', '.join(found.models)} allows that is not decided here"
            )


_TIMES = {FREE: "", SESSIONS: ", each process in its order", REALTIME: ", in real time"}
_SUFFIXES = {FREE: "", SESSIONS: "-process", REALTIME: "-realtime"}


def _add_no_order(facts: Facts, rule: Rule, answer: OrderAnswer, wanted: str, found: Findings) -> None:
    """The anomaly, by the weakest rule that has no order either."""
    for time in (FREE, SESSIONS, REALTIME):
        weaker = rule._replace(time=time)
        if weaker == rule:
            break
        other = find_order(facts, weaker, found.options.order_steps)
        if other.found is False:
            rule, answer = weaker, other
            break
    numbers = facts.numbers
    reads = [
        f"{name(numbers[read.reader])} read {text(read.key)} = {text(read.value)}"
        + (f" ({name(numbers[read.writers[0]])} wrote it)" if read.writers[0] is not None else "")
        for read in answer.blamed
    ]
    more = f", and {len(reads) - WORDS_MAX} more" if len(reads) > WORDS_MAX else ""
    listed = [*(numbers[w] for read in answer.blamed for w in read.writers[:1] if w is not None)]
    kind = "snapshot" if rule.snapshots else "serial"
    wanted = f"{'snapshots' if rule.snapshots else 'one after the other'}{_TIMES[rule.time]}"
    found.add(
        f"no-{kind}-order{_SUFFIXES[rule.time]}",
        None,
        sorted({*listed, *(numbers[read.reader] for read in answer.blamed)}),
        lambda: (
            f"in every order of the transactions ({wanted}) at least one of these reads is wrong: "
            f"{'; '.join(reads[:WORDS_MAX])}{more}"
        ),
        of_all=True,
    )


def _explain(edge: Edge, target: Transaction, registers: dict[Any, _Register]) -> Reason:
    """Why a dependency is there: the first register among those of its target that shows it."""
    for write, key, value in target.parts:
        register = registers[key]
        if write != (edge.kind != WR):
            continue
        if edge.kind == WR:
            words = _explain_wr(edge, register, value)
        else:
            words = _explain_version(edge, register, value)
        if words is not None:
            return Reason(key, words)
    raise AssertionError(f"no register shows {edge}")


def _explain_wr(edge: Edge, register: _Register, value: Any) -> str | None:
    writer = register.writer(value)
    if writer is None or writer.number != edge.source:
        return None
    return f"{name(edge.source)} wrote {text(value)} to {text(register.key)}, which {name(edge.target)} read"


def _explain_version(edge: Edge, register: _Register, value: Any) -> str | None:
    for version, after in register.later.items():
        if value not in after:
            continue
        writer = register.writer(version)
        if edge.kind == WW:
            did = "wrote" if writer is not None and writer.number == edge.source else ""
        else:
            did = "read" if edge.source in register.readers.get(version, ()) else ""
        if did:
            known = "" if version is None else f" ({after[value]})"
            return (
                f"{name(edge.source)} {did} {text(register.key)} = {text(version)}, "
                f"and {name(edge.target)} wrote the later version {text(value)}{known}"
            )
    return None
