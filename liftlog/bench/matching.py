"""What `liftlog bench matching` measures: the structures of `liftlog.subjects`, as an article did it.

The article is Tyler Treat's "Fast Topic Matching" (2016), and the workloads are those of its Go code:
operations on a structure that is empty or holds 1,000 subscriptions; 100,000 messages against 1,000
subscriptions; memory; threads that read and write one structure. Beside them stand subjects as they are used
with NATS, in several sizes, with few and many wildcards.

Times are CPU times of the thread, except where several threads run. Structures take turns within each round.
"""

from __future__ import annotations

import gc
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from liftlog.bench.rounds import turns
from liftlog.subjects.bitmaps import InvertedBitmap, OptimizedInvertedBitmap
from liftlog.subjects.matcher import Matcher
from liftlog.subjects.naive import NaiveMap
from liftlog.subjects.persistent import PersistentTrie
from liftlog.subjects.trie import Trie

PERSISTENT = "persistent trie"
Values = dict[str, float]
Progress = Callable[[str], None]

# Of each structure: how it is made, given the subjects that will be matched; only one wants to know them.
STRUCTURES: dict[str, Callable[[Sequence[str]], Matcher]] = {
    "naive map": lambda subjects: NaiveMap(),
    "inverted bitmap": InvertedBitmap,
    "optimized inverted bitmap": lambda subjects: OptimizedInvertedBitmap(),
    "trie": lambda subjects: Trie(),
    PERSISTENT: lambda subjects: PersistentTrie(),
}

# What the article prints, in ns, for an empty structure and for one with 1,000 subscriptions.
ARTICLE_OPERATIONS: dict[str, dict[str, Values]] = {
    "naive map": {
        "cold": {"subscribe": 172, "unsubscribe": 51.2, "lookup": 787},
        "hot": {"subscribe": 221, "unsubscribe": 55, "lookup": 815_787},
    },
    "inverted bitmap": {
        "cold": {"subscribe": 3_795, "unsubscribe": 198, "lookup": 380},
        "hot": {"subscribe": 3_863, "unsubscribe": 198, "lookup": 395},
    },
    "optimized inverted bitmap": {
        "cold": {"subscribe": 1_053, "unsubscribe": 330, "lookup": 2_724},
        "hot": {"subscribe": 1_076, "unsubscribe": 371, "lookup": 3_337},
    },
    "trie": {
        "cold": {"subscribe": 406, "unsubscribe": 221, "lookup": 2_145},
        "hot": {"subscribe": 443, "unsubscribe": 257, "lookup": 2_278},
    },
    PERSISTENT: {
        "cold": {"subscribe": 412, "unsubscribe": 245, "lookup": 1_615},
        "hot": {"subscribe": 471, "unsubscribe": 280, "lookup": 1_637},
    },
}
ARTICLE_THROUGHPUT: Values = {
    "naive map": 4_053.48,
    "inverted bitmap": 1_052_315.02,
    "optimized inverted bitmap": 130_705.98,
    "trie": 248_762.10,
    PERSISTENT: 340_910.64,
}
ARTICLE_MEMORY_RATIO = 4.5
"""Memory of a subscription in the inverted bitmap over that in the optimized one."""

THREADS = (2, 4, 8, 12, 16)
OPERATIONS_A_THREAD = 1000
SIZES = (100, 1_000, 10_000)
WILDCARDS = {"few": 0.01, "many": 0.5}
BATCH = 10
CHUNK = 100


@contextmanager
def _without_collection() -> Iterator[None]:
    """No contender pays for what the collector finds meanwhile: none of them leaves anything to it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def medians(
    contenders: dict[str, Callable[[], Values]], rounds: int, what: str, progress: Progress
) -> dict[str, Values]:
    """Every contender runs in each round, after one that does not count; of each value the median is told."""
    found: dict[str, list[Values]] = {name: [] for name in contenders}
    with _without_collection():
        for number, name in turns(list(contenders), rounds):
            progress(
                f"{what}, round {number} of {rounds}: {name}" if number else f"{what}, warming up: {name}"
            )
            values = contenders[name]()
            if number:
                found[name].append(values)
    return {
        name: {key: statistics.median(one[key] for one in each) for key in each[0]}
        for name, each in found.items()
    }


def each_structure(run: Callable[[str], Values]) -> dict[str, Callable[[], Values]]:
    return {name: partial(run, name) for name in STRUCTURES}


# --- the article's table of operations --------------------------------------------------------------------

PATTERN = "foo.*.baz.qux.quux"
TOPIC = "foo.bar.baz.qux.quux"
# The space that the article's code gives to the inverted bitmap for this table.
SPACE = (
    "forex",
    "forex.gbp",
    "forex.eur",
    "forex.usd",
    "trade",
    "trade.usd",
    "trade.jpy",
    TOPIC,
)


def random_patterns(count: int, words: int) -> list[str]:
    """Literal topics of random numbers, as the article's `populateMatcher` makes them."""
    draw = Random(1)
    return [".".join(str(draw.randrange(1 << 63)) for _ in range(words)) for _ in range(count)]


def operations_on(name: str, hot: bool, seconds: float) -> Values:
    """ns of CPU time for each operation, about so many seconds of each."""
    matcher = STRUCTURES[name](SPACE)
    matcher.subscribe(PATTERN, 0)
    for number, pattern in enumerate(random_patterns(1000 if hot else 0, 5)):
        matcher.subscribe(pattern, number + 100)
    # Real ones: subscribers that are new each time, and leave again. The article subscribes one again and
    # again, and removes it again and again.
    subscribers = range(1, BATCH + 1)
    clock = time.thread_time_ns
    subscribe_ns = unsubscribe_ns = count = 0
    while subscribe_ns + unsubscribe_ns < seconds * 1e9 and count < 50_000:
        begun = clock()
        for subscriber in subscribers:
            matcher.subscribe(PATTERN, subscriber)
        subscribed = clock()
        for subscriber in subscribers:
            matcher.unsubscribe(PATTERN, subscriber)
        unsubscribe_ns += clock() - subscribed
        subscribe_ns += subscribed - begun
        count += BATCH
    rate = match_rate(matcher, [TOPIC] * 50_000, seconds)
    return {
        "subscribe": subscribe_ns / count,
        "unsubscribe": unsubscribe_ns / count,
        "lookup": 1e9 / rate,
    }


def match_rate(matcher: Matcher, subjects: Sequence[str], seconds: float) -> float:
    """Matches per second of CPU time, over the subjects or as many of them as the seconds are enough for."""
    match = matcher.match
    clock = time.thread_time_ns
    done, begun, spent = 0, clock(), 1
    while done < len(subjects) and (done == 0 or spent < seconds * 1e9):
        some = subjects[done : done + (CHUNK if done else BATCH)]
        for subject in some:
            match(subject)
        done += len(some)
        spent = clock() - begun
    return done * 1e9 / max(1, spent)


# --- throughput and memory --------------------------------------------------------------------------------


def article_patterns(count: int = 1000) -> list[str]:
    """Its 1,000 subscriptions of three words: a tenth begins with a wildcard, a few others have one later."""
    draw = Random(2)
    found = []
    for number in range(count):
        first, second, third = (str(draw.randrange(10)) for _ in range(3))
        if number % 10 == 0:
            first = "*"
        elif number % 25 == 0:
            second = "*"
        elif number % 45 == 0:
            third = "*"
        found.append(f"{first}.{second}.{third}")
    return found


def article_messages(patterns: Sequence[str], count: int = 100_000) -> list[str]:
    """Topics of messages, each matched by one of the patterns at least."""
    draw = Random(3)
    return [patterns[number % len(patterns)].replace("*", str(draw.randrange(10))) for number in range(count)]


def filled(name: str, patterns: Sequence[str], subjects: Sequence[str]) -> Matcher:
    matcher = STRUCTURES[name](subjects)
    for number, pattern in enumerate(patterns):
        matcher.subscribe(pattern, number)
    return matcher


def throughput_of(name: str, patterns: Sequence[str], messages: Sequence[str], seconds: float) -> Values:
    """Matches per second of CPU time."""
    matcher = filled(name, patterns, sorted(set(messages)))
    return {"matches_per_second": match_rate(matcher, messages, seconds)}


def memory_of(name: str, patterns: Sequence[str], subjects: Sequence[str]) -> float:
    """Bytes for each subscription that the interpreter has taken, without the patterns' own text."""
    # The collector also gives up what the interpreter keeps for later: it would be taken from there, unseen.
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        matcher = filled(name, patterns, subjects)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return taken / len(matcher)


# --- threads ----------------------------------------------------------------------------------------------


class Guarded:
    """A structure that several threads use: the persistent trie's readers take no lock, all others one."""

    def __init__(self, name: str, subjects: Sequence[str]) -> None:
        self._matcher = STRUCTURES[name](subjects)
        self._lock = threading.Lock()
        self.match: Callable[[str], list[int]] = (
            self._matcher.match if name == PERSISTENT else self._match_alone
        )

    def subscribe(self, pattern: str, subscriber: int) -> None:
        with self._lock:
            self._matcher.subscribe(pattern, subscriber)

    def _match_alone(self, subject: str) -> list[int]:
        with self._lock:
            return self._matcher.match(subject)


def writers_of(mix: str) -> Callable[[int], bool]:
    """Whether the thread of a number writes: as in the article's code, each does the one or the other."""
    return {"50-50": lambda number: number % 2 != 0, "90-10": lambda number: number % 10 == 0}[mix]


def concurrency_of(name: str, threads: int, mix: str, seconds: float) -> Values:
    """Operations per second of wall time, of all threads together."""
    items = [f"{number % 10}.{number % 50}.{number}" for number in range(OPERATIONS_A_THREAD)]
    guarded = Guarded(name, items)
    for number, pattern in enumerate(random_patterns(1000, 5)):
        guarded.subscribe(pattern, number + threads)
    writes = writers_of(mix)
    done = [0] * threads
    gate = threading.Barrier(threads + 1)

    def work(number: int) -> None:
        gate.wait()
        end = time.perf_counter() + seconds
        for item in items:
            if writes(number):
                guarded.subscribe(item, number)
            else:
                guarded.match(item)
            done[number] += 1
            if time.perf_counter() > end:
                break

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    begun = time.perf_counter()
    gate.wait()
    for worker in workers:
        worker.join()
    return {"operations_per_second": sum(done) / (time.perf_counter() - begun)}


# --- subjects as with NATS --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NatsWorkload:
    """`app.<region>.<service>.<entity>`; of the patterns a share has wildcards, half of these a `>`."""

    patterns: list[str]
    subjects: list[str]


def nats_workload(count: int, wildcards: float, subjects: int = 200) -> NatsWorkload:
    draw = Random(4)

    def subject() -> list[str]:
        return [
            "app",
            f"eu{draw.randrange(10)}",
            f"service{draw.randrange(100)}",
            f"e{draw.randrange(count)}",
        ]

    patterns = []
    for _ in range(count):
        tokens = subject()
        if draw.random() < wildcards:
            if draw.random() < 0.5:
                tokens = [*tokens[: 1 + draw.randrange(3)], ">"]
            else:
                tokens[1 + draw.randrange(3)] = "*"
        patterns.append(".".join(tokens))
    literal = [pattern for pattern in patterns if "*" not in pattern and ">" not in pattern]
    heard = [literal[draw.randrange(len(literal))] if number % 2 else "" for number in range(subjects)]
    return NatsWorkload(patterns, [one or ".".join(subject()) for one in heard])


def size_of(name: str, workload: NatsWorkload, seconds: float) -> Values:
    """us of CPU time for one of the subscriptions that fill it, and for a match afterwards."""
    clock = time.thread_time_ns
    subjects = sorted(set(workload.subjects))
    begun = clock()
    matcher = filled(name, workload.patterns, subjects)
    spent = clock() - begun
    rate = match_rate(matcher, workload.subjects * 50, seconds)
    return {"subscribe_us": spent / 1e3 / len(workload.patterns), "match_us": 1e6 / rate}
