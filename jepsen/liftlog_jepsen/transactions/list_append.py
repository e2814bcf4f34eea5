"""Transactions over lists: `[append key element]` adds to the end, `[r key list]` returns the whole list.

Each element is appended to a list at most once, so every read shows in which order the elements before it
came: the longest read of a list is the order of its versions, and all others must begin it (Kingsbury and
Alvaro, "Elle", VLDB 2020, section 4.2). From that order:

- ww: the writer of an element comes before the writer of the next one;
- wr: the writer of the last element of a read comes before the reader;
- rw: who read the list up to an element comes before the writer of the next one.

An append that no read shows came behind all that any read shows. Elements of transactions that failed are no
versions: the one before and the one behind them are neighbours.

Reads that begin the longest one are told by their length alone, so the work does not grow with the lengths of
lists, apart from one comparison of each read with the longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from liftlog_jepsen.events import FAIL, OK, Operation
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.transactions.classify import RW, WR, WW, Edge
from liftlog_jepsen.transactions.collector import collector_paused
from liftlog_jepsen.transactions.findings import Findings, Reason
from liftlog_jepsen.transactions.options import Options
from liftlog_jepsen.transactions.reading import (
    Transaction,
    freeze,
    freeze_all,
    name,
    names,
    read_transactions,
    text,
)
from liftlog_jepsen.transactions.time_order import Triple


@collector_paused()
def check_list_append(operations: Sequence[Operation], options: Options | None = None) -> Judgement:
    """Judge a history of transactions over lists.

    `unknown` if an element was appended twice to one list and nothing else is wrong, or if nothing depends
    on anything. Raises BadHistory for operations that are no such transactions, LiftlogError for an unknown
    consistency model.
    """
    found = Findings(options or Options())
    transactions = read_transactions(operations, "append")
    lists = _collect(transactions)
    for one in lists.values():
        if one.reused:
            found.doubt_reused(one.key, one.reused, "appended")
            continue
        one.settle()
        _check_reads(one, found)
        _check_dirty_updates(one, found)
    sound = {key: one for key, one in lists.items() if not one.reused}
    for transaction in transactions:
        if transaction.outcome == OK:
            _check_inside(transaction, found)
    _check_lost_updates(transactions, sound, found)
    edges = [edge for one in sound.values() for edge in one.edges()]
    places = {transaction.number: place for place, transaction in enumerate(transactions)}
    found.add_cycles(
        transactions,
        [(places[source], places[target], kind) for source, target, kind in edges],
        lambda edge: _explain(edge, transactions[places[edge.target]], sound),
    )
    return found.judgement()


class _List:
    """All that transactions did to one list."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.writers: dict[Any, Transaction] = {}
        """By element, those that failed included."""
        self.reused: dict[Any, list[int]] = {}
        self.inner: dict[Any, Transaction] = {}
        """Elements that their transaction followed with another one."""
        self.reads: list[tuple[Transaction, list[Any]]] = []
        self.longest: list[Any] = []
        self.elements: list[Any] = []
        """The elements of `longest`, hashable."""
        self.order: list[Any] = []
        """Each element once: the versions in their order."""
        self.index: dict[Any, int] = {}
        self.before: list[int] = []
        """For each place of `order`, and one behind it: the last place before it whose writer may have
        committed; -1 = none."""

    def append(self, transaction: Transaction, element: Any) -> None:
        if element in self.writers:
            first = self.writers[element].number
            self.reused.setdefault(element, [first]).append(transaction.number)
        self.writers[element] = transaction

    def read(self, transaction: Transaction, value: list[Any]) -> None:
        self.reads.append((transaction, value))
        if len(value) > len(self.longest):
            self.longest = value

    def settle(self) -> None:
        """Fix the order of versions, once all reads are known."""
        self.elements = freeze_all(self.longest)
        self.order = list(dict.fromkeys(self.elements))
        self.index = {element: place for place, element in enumerate(self.order)}
        latest = -1
        for place, element in enumerate(self.order):
            self.before.append(latest)
            if self.committed(element) is not None:
                latest = place
        self.before.append(latest)

    def committed(self, element: Any) -> Transaction | None:
        """The writer of an element, unless it failed or is unknown to the history."""
        writer = self.writers.get(element)
        return writer if writer is not None and writer.outcome != FAIL else None

    def fits(self, value: list[Any]) -> bool:
        """Whether the longest read begins with this one."""
        return value == self.longest[: len(value)]

    def place(self, value: list[Any]) -> int | None:
        """The version that a read returned: the place of its last element; -1 = empty; None = it is none."""
        return self.index.get(freeze(value[-1])) if value else -1

    def edges(self) -> Iterator[Triple]:
        """The dependencies that this list shows, over numbers of operations."""
        readers: list[list[int]] = [[] for _ in range(len(self.order) + 1)]
        for reader, value in self.reads:
            place = self.place(value)
            if place is not None:
                readers[place + 1].append(reader.number)
            writer = self.committed(freeze(value[-1])) if value else None
            if writer is not None and writer is not reader:
                yield writer.number, reader.number, WR
        waiting = readers[0]
        previous: int | None = None
        for place, element in enumerate(self.order):
            writer = self.committed(element)
            if writer is None:
                waiting = waiting + readers[place + 1]
                continue
            yield from self._into(writer.number, previous, waiting)
            previous, waiting = writer.number, readers[place + 1]
        for element, writer in self.writers.items():
            if element not in self.index and writer.outcome != FAIL:
                yield from self._into(writer.number, previous, waiting)

    @staticmethod
    def _into(writer: int, previous: int | None, readers: Iterable[int]) -> Iterator[Triple]:
        if previous is not None and previous != writer:
            yield previous, writer, WW
        for reader in readers:
            if reader != writer:
                yield reader, writer, RW


def _collect(transactions: Iterable[Transaction]) -> dict[Any, _List]:
    lists: dict[Any, _List] = {}
    for transaction in transactions:
        latest: dict[Any, Any] = {}
        for write, key, value in transaction.parts:
            one = lists.get(key)
            if one is None:
                one = lists[key] = _List(key)
            if not write:
                one.read(transaction, value)
                continue
            one.append(transaction, value)
            if key in latest:
                one.inner[latest[key]] = transaction
            latest[key] = value
    return lists


def _check_reads(one: _List, found: Findings) -> None:
    """What single reads of one list show: G1a, G1b, duplicates, phantoms and orders that do not fit."""
    failed = _places(one, lambda writer: writer is not None and writer.outcome == FAIL)
    unknown = _places(one, lambda writer: writer is None)
    doubled = _repeats(one.elements)
    longest_reader = next((reader for reader, value in one.reads if value is one.longest), None)
    unwritten: set[Any] = set()
    for reader, value in one.reads:
        if one.fits(value):
            elements, bad, alien, twice = one.elements, failed, unknown, doubled
        else:
            assert longest_reader is not None
            _add_incompatible(one, reader, value, longest_reader, found)
            elements = freeze_all(value)
            writers = [one.writers.get(element) for element in elements]
            bad = [at for at, each in enumerate(writers) if each is not None and each.outcome == FAIL]
            alien = [at for at, each in enumerate(writers) if each is None]
            twice = _repeats(elements)
        if reader.outcome == OK:
            for at in bad:
                if at >= len(value):
                    break
                _add_aborted(one, reader, elements[at], found)
            if value and elements[len(value) - 1] in one.inner:
                _add_intermediate(one, reader, elements[len(value) - 1], found)
        for at in alien:
            if at < len(value) and elements[at] not in unwritten:
                unwritten.add(elements[at])
                _add_phantom(one, reader, elements[at], found)
        if twice and twice[0] < len(value):
            _add_duplicate(one, reader, elements[twice[0]], found)


def _places(one: _List, wanted: Any) -> list[int]:
    """Where the longest read has elements whose writer is `wanted`."""
    return [at for at, element in enumerate(one.elements) if wanted(one.writers.get(element))]


def _repeats(elements: Sequence[Any]) -> list[int]:
    """Where elements stand that stood further left already."""
    if len(set(elements)) == len(elements):
        return []
    seen: set[Any] = set()
    places = []
    for at, element in enumerate(elements):
        if element in seen:
            places.append(at)
        seen.add(element)
    return places


def _add_incompatible(
    one: _List, reader: Transaction, value: list[Any], other: Transaction, found: Findings
) -> None:
    def words() -> str:
        at = next(at for at, pair in enumerate(zip(value, one.longest, strict=False)) if pair[0] != pair[1])
        return (
            f"{name(reader.number)} read {text(one.key)} with {text(value[at])} at place {at}, "
            f"{name(other.number)} with {text(one.longest[at])} there"
        )

    found.add("incompatible-order", one.key, (reader.number, other.number), words)


def _add_aborted(one: _List, reader: Transaction, element: Any, found: Findings) -> None:
    writer = one.writers[element].number
    found.add(
        "G1a",
        one.key,
        (writer, reader.number),
        lambda: (
            f"{name(writer)} appended {text(element)} to {text(one.key)} and failed, "
            f"but {name(reader.number)} read it"
        ),
    )


def _add_intermediate(one: _List, reader: Transaction, element: Any, found: Findings) -> None:
    writer = one.inner[element].number
    if writer != reader.number:
        found.add(
            "G1b",
            one.key,
            (writer, reader.number),
            lambda: (
                f"{name(reader.number)} read {text(one.key)} only up to {text(element)}, "
                f"though {name(writer)} appended more to it behind that"
            ),
        )


def _add_phantom(one: _List, reader: Transaction, element: Any, found: Findings) -> None:
    found.add(
        "phantom",
        one.key,
        (reader.number,),
        lambda: f"{name(reader.number)} read {text(element)} in {text(one.key)}, which nobody appended",
    )


def _add_duplicate(one: _List, reader: Transaction, element: Any, found: Findings) -> None:
    found.add(
        "duplicate-elements",
        one.key,
        (reader.number,),
        lambda: f"{name(reader.number)} read {text(element)} twice in {text(one.key)}",
    )


def _check_dirty_updates(one: _List, found: Findings) -> None:
    """A failed append with a committed one somewhere behind it, and none in between."""
    aborted: tuple[Any, Transaction] | None = None
    for element in one.order:
        writer = one.writers.get(element)
        if writer is None:
            continue
        if writer.outcome == FAIL and aborted is None:
            aborted = (element, writer)
        elif writer.outcome == OK:
            if aborted is not None:
                _add_dirty(one, aborted, (element, writer), found)
            aborted = None


def _add_dirty(
    one: _List, aborted: tuple[Any, Transaction], updated: tuple[Any, Transaction], found: Findings
) -> None:
    first, second = aborted[1].number, updated[1].number
    found.add(
        "dirty-update",
        one.key,
        (first, second),
        lambda: (
            f"{name(first)} appended {text(aborted[0])} to {text(one.key)} and failed, but it stayed, "
            f"and {name(second)} appended {text(updated[0])} behind it"
        ),
    )


def _check_inside(transaction: Transaction, found: Findings) -> None:
    """What one transaction's parts show by themselves: internal and future-read, the first of each."""
    keys = [part.key for part in transaction.parts]
    if len(set(keys)) == len(keys):
        return
    known: dict[Any, tuple[bool, list[Any]]] = {}
    """By key: whether all of the list is known or only its end, and the list or its end."""
    contradicted = foreseen = False
    reads: list[tuple[Any, list[Any]]] = []
    for write, key, value in transaction.parts:
        whole, expected = known.get(key, (False, []))
        if write:
            if not foreseen and any(key == other and value in freeze_all(read) for other, read in reads):
                foreseen = True
                _add_future(transaction, key, value, found)
            known[key] = (whole, [*expected, value])
            continue
        reads.append((key, value))
        actual = freeze_all(value)
        end = actual if whole else actual[len(actual) - len(expected) :]
        if not contradicted and (end != expected or len(actual) < len(expected)):
            contradicted = True
            _add_internal(transaction, key, whole, expected, actual, found)
        known[key] = (True, actual)


def _add_future(transaction: Transaction, key: Any, element: Any, found: Findings) -> None:
    found.add(
        "future-read",
        key,
        (transaction.number,),
        lambda: (
            f"{name(transaction.number)} read {text(element)} in {text(key)} before it appended that itself"
        ),
    )


def _add_internal(
    transaction: Transaction,
    key: Any,
    whole: bool,
    expected: list[Any],
    actual: list[Any],
    found: Findings,
) -> None:
    found.add(
        "internal",
        key,
        (transaction.number,),
        lambda: (
            f"{name(transaction.number)} read {text(key)} as {text(actual)}, though after its own reads and "
            f"appends it should {'be' if whole else 'end with'} {text(expected)}"
        ),
    )


def _check_lost_updates(
    transactions: Iterable[Transaction], lists: dict[Any, _List], found: Findings
) -> None:
    """Committed transactions that read one version of a list and then appended to it."""
    updates: dict[tuple[Any, Any], list[int]] = {}
    for transaction in transactions:
        if transaction.outcome != OK:
            continue
        reads: dict[Any, list[Any]] = {}
        written: set[Any] = set()
        for write, key, value in transaction.parts:
            if not write:
                if key not in written:
                    reads.setdefault(key, value)
            elif key in reads and key not in written and key in lists:
                read = reads[key]
                version = len(read) if lists[key].fits(read) else freeze(read)
                updates.setdefault((key, version), []).append(transaction.number)
            if write:
                written.add(key)
    for (key, version), numbers in updates.items():
        if len(numbers) > 1:
            _add_lost(lists[key], version, numbers, found)


def _add_lost(one: _List, version: Any, numbers: list[int], found: Findings) -> None:
    def words() -> str:
        length = version if isinstance(version, int) else len(version)
        seen = f"{length} elements in it" if length else "nothing in it"
        return f"{names(numbers)} each read {text(one.key)} with {seen} and then appended to it"

    found.add("lost-update", one.key, numbers, words)


def _explain(edge: Edge, target: Transaction, lists: dict[Any, _List]) -> Reason:
    """Why a dependency is there: the first list among those of its target that shows it."""
    explain = {WW: _explain_ww, WR: _explain_wr, RW: _explain_rw}[edge.kind]
    for write, key, value in target.parts:
        if key in lists and write == (edge.kind != WR):
            words = explain(edge, lists[key], value)
            if words is not None:
                return Reason(key, words)
    raise AssertionError(f"no list shows {edge}")


def _explain_ww(edge: Edge, one: _List, element: Any) -> str | None:
    place = one.index.get(element, len(one.order))
    previous = one.before[place]
    writer = one.committed(one.order[previous]) if previous >= 0 else None
    if writer is None or writer.number != edge.source:
        return None
    first, second = name(edge.source), name(edge.target)
    older = text(one.order[previous])
    if place < len(one.order):
        return f"{second} appended {text(element)} to {text(one.key)} behind {older}, which {first} appended"
    return (
        f"{second} appended {text(element)} to {text(one.key)}, and reads up to {older}, which {first} "
        "appended, do not have it"
    )


def _explain_wr(edge: Edge, one: _List, value: list[Any]) -> str | None:
    writer = one.committed(freeze(value[-1])) if value else None
    if writer is None or writer.number != edge.source:
        return None
    element = text(freeze(value[-1]))
    return f"{name(edge.source)} appended {element} to {text(one.key)}, which {name(edge.target)} read"


def _explain_rw(edge: Edge, one: _List, element: Any) -> str | None:
    place = one.index.get(element, len(one.order))
    for reader, value in one.reads:
        if reader.number == edge.source:
            read = one.place(value)
            if read is not None and one.before[place] <= read < place:
                seen = f"only up to {text(one.order[read])}" if read >= 0 else "empty"
                return (
                    f"{name(edge.source)} read {text(one.key)} {seen}, without {text(element)}, "
                    f"which {name(edge.target)} appended"
                )
    return None
