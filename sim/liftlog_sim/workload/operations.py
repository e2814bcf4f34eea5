"""What simulated clients did, one object per operation: the raw material of a history
(`runs/history.py`).

An operation ends with one of three outcomes: `ok`, it happened; `fail`, it did certainly not; `info`, nobody
knows. An operation that has not ended when the run is over counts as `info`.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.format import decode_records
from liftlog.types import Batch, Record
from liftlog_jepsen.history import Mop
from liftlog_sim.workload.targets import Target


class ClientOperation:
    """One client operation. `kind` is "send" or "poll", or what clients of consumers do
    (`workload/consumer_facts.py`); times are simulated microseconds.
    """

    __slots__ = (
        "client",
        "epoch",
        "error",
        "facts",
        "hw",
        "incarnation",
        "invoked_us",
        "kind",
        "lines",
        "offset",
        "outcome",
        "records",
        "returned_us",
        "target",
        "value",
    )

    def __init__(
        self,
        kind: str,
        client: int,
        target: Target,
        invoked_us: int,
        value: bytes = b"",
        lines: Sequence[bytes] = (),
    ) -> None:
        """`lines`: of a send, the lines of its headers, where they say a key."""
        self.kind = kind
        self.client = client
        self.target = target
        self.invoked_us = invoked_us
        self.value = value
        self.lines = lines
        self.outcome = "info"
        self.returned_us = -1
        self.error = ""
        self.epoch = 0
        """0 = the ack did not say; so with `incarnation`."""
        self.incarnation = 0
        self.offset = -1
        self.hw = -1
        """Of a poll that was answered: the HW that was told."""
        self.records: list[tuple[Record, int]] = []
        """What it returned, each with the epoch of its batch."""
        self.facts: list[Mop] = []
        """Of what is neither a send nor a poll."""

    def end(
        self,
        outcome: str,
        now_us: int,
        *,
        epoch: int = 0,
        incarnation: int = 0,
        offset: int = -1,
        error: str = "",
    ) -> None:
        """The operation has returned."""
        self.outcome = outcome
        self.returned_us = now_us
        self.epoch = epoch
        self.incarnation = incarnation
        self.offset = offset
        self.error = error

    def told(self, hw: int, batches: Sequence[Batch], position: int) -> None:
        """A poll from `position` on was answered with these."""
        self.hw = hw
        for batch in batches:
            records = (record for record in decode_records(batch) if record.offset >= position)
            self.records += [(record, batch.epoch) for record in records]
