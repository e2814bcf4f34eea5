"""What a large generated history shall look like."""

from __future__ import annotations

from typing import NamedTuple

from liftlog.types import LiftlogError

SEED_MAX = 2**32


class Shape(NamedTuple):
    """The options of a large history. Shares are between 0 and 1."""

    operations: int = 1_000_000
    """Micro-operations: sends and records that were read, at least so many."""
    streams: int = 100
    zipf: float = 0.0
    """Above 0, stream n gets traffic in proportion to n ** -zipf; 0 = all the same."""
    producers: int = 0
    """Processes that send; 0 = as many as there can be sends under way, twice the concurrency."""
    consumers: int = 8
    """Processes that poll; each reads its share of the streams."""
    reads: int = 1
    """How many consumers read each stream."""
    final_readers: int = 0
    """Processes that read every stream once more at the end."""
    batch: int = 100
    """Records of a poll, at most."""
    concurrency: int = 8
    """Sends that are open at a time, a power of two."""
    info: float = 0.004
    """Share of sends whose outcome nobody knows; half of them are in the log."""
    fail: float = 0.004
    """Share of sends that failed."""
    sends_per_op: int = 1
    """Above 1, every send is a transaction with one record for each of so many streams, and every poll one
    of all these streams.
    """
    assign_every: int = 0
    """Every so many rounds, each consumer is assigned its streams anew; 0 = never."""
    gap_every: int = 0
    """After so many records a stream leaves out one offset, as transaction markers do; 0 = never."""
    seed: int = 0

    def settled(self) -> Shape:
        """With the producers' number filled in. Raises LiftlogError for what is impossible."""
        for name in (
            "operations",
            "streams",
            "consumers",
            "reads",
            "batch",
            "concurrency",
            "sends_per_op",
        ):
            if getattr(self, name) < 1:
                raise _bad(name, getattr(self, name), "give a number of 1 or more")
        for name in ("producers", "final_readers", "assign_every", "gap_every", "zipf", "info", "fail"):
            if getattr(self, name) < 0:
                raise _bad(name, getattr(self, name), "give 0 or more")
        if self.info + self.fail > 0.9:
            raise _bad("info", self.info, "with fail, at most 0.9 of all sends may not succeed")
        if self.concurrency & (self.concurrency - 1) or self.concurrency > 1024:
            raise _bad("concurrency", self.concurrency, "give a power of two up to 1024")
        if self.reads > self.consumers:
            raise _bad("reads", self.reads, f"there are only {self.consumers} consumers")
        if not 0 <= self.seed < SEED_MAX:
            raise _bad("seed", self.seed, f"give 0 to {SEED_MAX - 1}")
        least = 2 * self.concurrency
        producers = self.producers or least
        if producers < least:
            raise _bad("producers", producers, f"a concurrency of {self.concurrency} needs {least} or more")
        return self._replace(producers=producers)


def _bad(name: str, given: float, remedy: str) -> LiftlogError:
    return LiftlogError(f"--{name.replace('_', '-')} {given}: {remedy}")
