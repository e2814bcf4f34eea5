"""Plants anomalies in a log's history: a few operations on logs of their own that hold what was asked for,
and near misses, which look like it and hold nothing.

What a check must report is returned, so that it can be held to finding exactly that. Where one anomaly cannot
be without another (a process whose sends go backwards contradicts real time, too), both are answers.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog_jepsen.generate.answers import Planted, planted
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop


class _Plot:
    """Shorthand for planting. Values are letters; `numbers` writes them as integers."""

    def __init__(self, writer: HistoryWriter, key: str, numbers: bool, process: int) -> None:
        self.writer = writer
        self.key = key
        self.numbers = numbers
        self.first_process = process

    def value(self, letter: str) -> str | int:
        return ord(letter) - ord("a") if self.numbers else f"{self.key} {letter}"

    def invoke(self, process: int, f: str, letter: str | None = None) -> int:
        if letter is None:
            return self.writer.invoke(self.first_process + process, f, None if f == "txn" else self.key)
        return self.writer.invoke(self.first_process + process, f, self.key, self.value(letter))

    def send(
        self,
        letter: str,
        offset: int | None,
        outcome: str = "ok",
        process: int = 1,
        *,
        epoch: int | None = 1,
        leader: int | None = None,
    ) -> int:
        op_id = self.invoke(process, "send", letter)
        if outcome == "ok":
            self.writer.ok(op_id, offset=offset, epoch=epoch, leader=leader)
        elif outcome == "fail":
            self.writer.fail(op_id)
        return op_id

    def poll(self, process: int, *records: tuple[int, str], f: str = "poll", outcome: str = "ok") -> int:
        op_id = self.invoke(process, f)
        mops = [self.read(letter, offset) for offset, letter in records] or [Mop("poll", self.key)]
        if outcome == "ok":
            self.writer.ok(op_id, mops=mops)
        else:
            self.writer.mops(op_id, mops)
            self.writer.fail(op_id)
        return op_id

    def abc(self) -> list[int]:
        return [self.send(letter, offset) for offset, letter in enumerate("abc")]

    def sent(self, letter: str, offset: int | None, key: str = "") -> Mop:
        """A part of a transaction; `key` is added to the plot's."""
        return Mop("send", self.key + key, offset, self.value(letter), 1)

    def read(self, letter: str, offset: int, key: str = "") -> Mop:
        return Mop("poll", self.key + key, offset, self.value(letter))

    def end(self, op_id: int, *mops: Mop) -> None:
        self.writer.ok(op_id, mops=mops)

    def found(self, anomaly: str, *ops: int) -> Planted:
        return planted(anomaly, self.key, *ops)


Story = Callable[[_Plot], list[Planted]]


def plant(
    writer: HistoryWriter, anomaly: str, key: str, *, numbers: bool = False, process: int = 0
) -> list[Planted]:
    """Record operations on logs of their own, named `key` and what begins with it, that hold this anomaly.

    Returns everything that a check must report of them. Processes are `process` + 1 to 9.
    """
    return _PLANTS[anomaly](_Plot(writer, key, numbers, process))


def near_miss(
    writer: HistoryWriter, anomaly: str, key: str, *, numbers: bool = False, process: int = 0
) -> None:
    """Like `plant`, but record what only just avoids this anomaly, and holds no other."""
    _NEAR_MISSES[anomaly](_Plot(writer, key, numbers, process))


# -- values --------------------------------------------------------------------------------------------------


def _inconsistent(plot: _Plot) -> list[Planted]:
    plot.send("a", 0)
    holders = plot.send("b", 1), plot.send("d", 1, process=4)
    plot.send("c", 2)
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))
    plot.poll(3, (1, "d"))
    return [plot.found("inconsistent-offsets", *holders)]


def _consistent(plot: _Plot) -> None:
    """The second claim to the offset is a failed send's."""
    plot.send("a", 0)
    failed = plot.invoke(1, "send", "d")
    plot.writer.mops(failed, [plot.sent("d", 1)])
    plot.writer.fail(failed)
    plot.send("b", 1)
    plot.poll(2, (0, "a"), (1, "b"))


def _duplicate(plot: _Plot) -> list[Planted]:
    ids = plot.abc()
    poll = plot.poll(2, (0, "a"), (1, "b"), (2, "c"), (3, "a"))
    return [plot.found("duplicate", ids[0], poll)]


def _read_twice(plot: _Plot) -> None:
    """The same value twice, but at one offset."""
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))
    plot.poll(3, (0, "a"))


def _lost(plot: _Plot) -> list[Planted]:
    ids = plot.abc()
    plot.poll(2, (2, "c"))
    plot.poll(3, (0, "a"))
    return [plot.found("lost-write", ids[1])]


def _not_lost(plot: _Plot) -> None:
    """What nobody read lies behind all that was read, or its send failed."""
    plot.send("a", 0)
    plot.send("x", None, "fail")
    plot.send("b", 1)
    plot.send("c", 2)
    plot.poll(2, (0, "a"), (1, "b"))


def _unseen(plot: _Plot) -> list[Planted]:
    ids = plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), f=FINAL_POLL)
    return [plot.found("unseen", ids[2])]


def _acknowledged_later(plot: _Plot) -> None:
    """The final read began before the acknowledgement."""
    plot.send("a", 0)
    send = plot.invoke(1, "send", "b")
    poll = plot.invoke(2, FINAL_POLL)
    plot.writer.ok(send, offset=1, epoch=1)
    plot.end(poll, plot.read("a", 0))


def _missing(plot: _Plot) -> list[Planted]:
    ids = plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"), f=FINAL_POLL)
    plot.poll(3, (0, "a"), (1, "b"), f=FINAL_POLL)
    return [plot.found("missing-in-final-read", ids[2])]


def _final_in_parts(plot: _Plot) -> None:
    """Each final read takes several polls."""
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"), f=FINAL_POLL)
    plot.poll(3, (0, "a"), (1, "b"), f=FINAL_POLL)
    plot.poll(3, (2, "c"), f=FINAL_POLL)


def _aborted(plot: _Plot) -> list[Planted]:
    send = plot.send("a", None, "fail")
    poll = plot.poll(2, (0, "a"))
    return [plot.found("G1a", send, poll)]


def _read_of_unknown(plot: _Plot) -> None:
    """The send that was read is unknown, not failed; the read of the failed one was aborted itself."""
    plot.send("a", None, "info")
    plot.send("x", None, "fail", process=3)
    plot.poll(2, (0, "a"))
    plot.poll(4, (1, "x"), outcome="fail")


def _phantom(plot: _Plot) -> list[Planted]:
    plot.send("a", 0)
    poll = plot.poll(2, (0, "a"), (1, "x"))
    return [plot.found("phantom", poll)]


def _known_at_last(plot: _Plot) -> None:
    """The read ends before the send does, but not before it began."""
    send = plot.invoke(1, "send", "a")
    plot.poll(2, (0, "a"))
    plot.writer.ok(send, offset=0, epoch=1)


def _future(plot: _Plot) -> list[Planted]:
    poll = plot.poll(2, (0, "a"))
    send = plot.send("a", 0)
    return [plot.found("future-read", send, poll)]


def _reused(plot: _Plot) -> list[Planted]:
    plot.send("a", 0)
    second = plot.send("a", 1)
    poll = plot.poll(2, (0, "a"), (1, "a"))
    return [plot.found("reused-value", second, poll)]


def _reused_elsewhere(plot: _Plot) -> None:
    """The same value in two logs is no reuse."""
    op_id = plot.invoke(1, "txn")
    plot.end(op_id, plot.sent("a", 0), plot.sent("a", 0, "/other"))
    plot.poll(2, (0, "a"))


# -- order ---------------------------------------------------------------------------------------------------


def _realtime(plot: _Plot) -> list[Planted]:
    late = plot.send("b", 1)
    early = plot.send("a", 0, process=4)
    plot.poll(2, (0, "a"), (1, "b"))
    return [plot.found("realtime-order", late, early)]


def _overlapping(plot: _Plot) -> None:
    """The sends overlap, so either may be first."""
    first, second = plot.invoke(1, "send", "b"), plot.invoke(4, "send", "a")
    plot.writer.ok(first, offset=1, epoch=1)
    plot.writer.ok(second, offset=0, epoch=1)
    plot.poll(2, (0, "a"), (1, "b"))


def _falling_epoch(plot: _Plot) -> list[Planted]:
    """Of three epochs the first acknowledges something above the second, and nothing above the third."""
    plot.send("a", 0, epoch=3)
    newer = plot.send("b", 1, epoch=5)
    older = plot.send("c", 2, epoch=3)
    plot.send("d", 3, epoch=6)
    plot.poll(2, *((offset, letter) for offset, letter in enumerate("abcd")))
    return [plot.found("nonmonotonic-epoch", older, newer)]


def _growing_epochs(plot: _Plot) -> None:
    """Epochs grow with gaps; an acknowledgement of an older one comes last, for a lower offset."""
    slow = plot.invoke(4, "send", "a")
    plot.send("b", 1, epoch=9)
    plot.send("c", 2, epoch=None)
    plot.send("x", None, "info", process=5)
    plot.send("d", 3, epoch=12)
    plot.writer.ok(slow, offset=0, epoch=0)
    plot.poll(2, *((offset, letter) for offset, letter in enumerate("abcd")))


def _two_leaders(plot: _Plot) -> list[Planted]:
    one, other = plot.send("a", 0, epoch=4, leader=7), plot.send("b", 1, epoch=4, leader=9)
    plot.send("c", 2, epoch=4, leader=7)
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))
    return [plot.found("two-leaders", one, other)]


def _one_leader_each(plot: _Plot) -> None:
    """Another leader in the next epoch; one acknowledgement names none, and another log has its own."""
    plot.send("a", 0, epoch=4, leader=7)
    plot.send("b", 1, epoch=4)
    plot.send("c", 2, epoch=5, leader=9)
    txn = plot.invoke(4, "txn")
    plot.end(txn, Mop("send", plot.key + "/other", 0, plot.value("a"), 4, 9))
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))


def _nonmonotonic(plot: _Plot) -> list[Planted]:
    plot.abc()
    polls = plot.poll(2, (0, "a"), (1, "b")), plot.poll(2, (1, "b"), (2, "c"))
    return [plot.found("nonmonotonic-poll", *polls)]


def _back_after_assign(plot: _Plot) -> None:
    """Back, but after an assignment without this log."""
    plot.abc()
    plot.poll(2, (0, "a"), (1, "b"))
    assign = plot.writer.invoke(plot.first_process + 2, "assign")
    plot.end(assign, Mop("assign", plot.key + "/other"))
    plot.poll(2, (1, "b"), (2, "c"))


def _internal_nonmonotonic(plot: _Plot) -> list[Planted]:
    plot.abc()
    poll = plot.poll(2, (1, "b"), (0, "a"))
    plot.poll(3, (0, "a"), (1, "b"), (2, "c"))
    return [plot.found("int-nonmonotonic-poll", poll)]


def _two_logs_in_one_poll(plot: _Plot) -> None:
    """Offsets go back within the poll, but of different logs."""
    plot.abc()
    txn = plot.invoke(1, "txn")
    plot.end(txn, plot.sent("a", 0, "/other"))
    poll = plot.invoke(2, "poll")
    records = [plot.read(letter, offset) for offset, letter in enumerate("abc")]
    plot.end(poll, *records, plot.read("a", 0, "/other"))


def _skip(plot: _Plot) -> list[Planted]:
    plot.abc()
    polls = plot.poll(2, (0, "a")), plot.poll(2, (2, "c"))
    plot.poll(3, (0, "a"), (1, "b"))
    return [plot.found("poll-skip", *polls)]


def _over_a_hole(plot: _Plot) -> None:
    """The offset that two polls and one poll pass over was never there."""
    for letter, offset in (("a", 0), ("b", 1), ("c", 3), ("d", 5)):
        plot.send(letter, offset)
    plot.poll(2, (0, "a"), (1, "b"))
    plot.poll(2, (3, "c"), (5, "d"))


def _internal_skip(plot: _Plot) -> list[Planted]:
    plot.abc()
    poll = plot.poll(2, (0, "a"), (2, "c"))
    plot.poll(3, (1, "b"))
    return [plot.found("int-poll-skip", poll)]


# -- transactions --------------------------------------------------------------------------------------------


def _nonmonotonic_send(plot: _Plot) -> list[Planted]:
    late, early = plot.send("b", 1), plot.send("a", 0)
    plot.poll(2, (0, "a"), (1, "b"))
    return [plot.found("nonmonotonic-send", late, early), plot.found("realtime-order", late, early)]


def _internal_nonmonotonic_send(plot: _Plot) -> list[Planted]:
    op_id = plot.invoke(1, "txn")
    plot.end(op_id, plot.sent("b", 1), plot.sent("a", 0))
    plot.poll(2, (0, "a"), (1, "b"))
    return [plot.found("int-nonmonotonic-send", op_id)]


def _ascending_sends(plot: _Plot) -> None:
    op_id = plot.invoke(1, "txn")
    plot.end(op_id, plot.sent("a", 0), plot.sent("b", 1), plot.sent("a", 0, "/other"))
    plot.poll(2, (0, "a"), (1, "b"))


def _internal_send_skip(plot: _Plot) -> list[Planted]:
    txn, single = plot.invoke(1, "txn"), plot.invoke(4, "send", "b")
    plot.writer.ok(single, offset=1, epoch=1)
    plot.end(txn, plot.sent("a", 0), plot.sent("c", 2))
    plot.poll(2, (0, "a"), (1, "b"), (2, "c"))
    return [plot.found("int-send-skip", txn)]


def _sends_around_a_hole(plot: _Plot) -> None:
    op_id = plot.invoke(1, "txn")
    plot.end(op_id, plot.sent("a", 0), plot.sent("c", 2))
    plot.poll(2, (0, "a"), (2, "c"))


def _precommitted(plot: _Plot) -> list[Planted]:
    op_id = plot.invoke(1, "txn")
    plot.end(op_id, plot.sent("a", 0), plot.read("a", 0))
    plot.poll(2, (0, "a"))
    return [plot.found("precommitted-read", op_id)]


def _reads_of_others(plot: _Plot) -> None:
    """The transaction polls, but what another one sent."""
    first, second = plot.invoke(1, "txn"), plot.invoke(2, "txn")
    plot.end(first, plot.sent("a", 0))
    plot.end(second, plot.sent("b", 1), plot.read("a", 0))
    plot.poll(3, (0, "a"), (1, "b"))


# -- cycles --------------------------------------------------------------------------------------------------


def _cycle_g0(plot: _Plot) -> list[Planted]:
    """Two transactions, each before the other in one of two logs. Found only where writes are ordered."""
    first, second = plot.invoke(1, "txn"), plot.invoke(4, "txn")
    plot.end(first, plot.sent("a", 0), plot.sent("a", 1, "/y"))
    plot.end(second, plot.sent("b", 1), plot.sent("b", 0, "/y"))
    return [planted("G0", None, first, second)]


def _no_cycle_g0(plot: _Plot) -> None:
    first, second = plot.invoke(1, "txn"), plot.invoke(4, "txn")
    plot.end(first, plot.sent("a", 0), plot.sent("a", 0, "/y"))
    plot.end(second, plot.sent("b", 1), plot.sent("b", 1, "/y"))


def _cycle_g1c(plot: _Plot) -> list[Planted]:
    """Two transactions that each read what the other sent."""
    first, second = plot.invoke(1, "txn"), plot.invoke(4, "txn")
    plot.end(first, plot.sent("a", 0), plot.read("b", 0, "/y"))
    plot.end(second, plot.sent("b", 0, "/y"), plot.read("a", 0))
    return [planted("G1c", None, first, second)]


def _no_cycle_g1c(plot: _Plot) -> None:
    first, second = plot.invoke(1, "txn"), plot.invoke(4, "txn")
    plot.end(first, plot.sent("a", 0))
    plot.end(second, plot.sent("b", 0, "/y"), plot.read("a", 0))


def _g0_around(plot: _Plot, process: int) -> list[int]:
    """first ended before second began; second < third in the log, third < first in its neighbour /y."""
    third, first = plot.invoke(5, "txn"), plot.invoke(1, "txn")
    plot.end(first, plot.sent("a", 1, "/y"))
    second = plot.invoke(process, "txn")
    plot.end(second, plot.sent("b", 0))
    plot.end(third, plot.sent("c", 1), plot.sent("c", 0, "/y"))
    return [third, first, second]


def _g1c_around(plot: _Plot, process: int) -> list[int]:
    """first ended before second began; third reads of second, and first of third."""
    third, first = plot.invoke(5, "txn"), plot.invoke(1, "txn")
    plot.end(first, plot.sent("a", 0, "/x"), plot.read("c", 0, "/y"))
    second = plot.invoke(process, "txn")
    plot.end(second, plot.sent("b", 0))
    plot.end(third, plot.sent("c", 0, "/y"), plot.read("b", 0))
    return [third, first, second]


def _cycle_g0_process(plot: _Plot) -> list[Planted]:
    return [planted("G0-process", None, *_g0_around(plot, 1))]


def _cycle_g0_realtime(plot: _Plot) -> list[Planted]:
    return [planted("G0-realtime", None, *_g0_around(plot, 2))]


def _cycle_g1c_process(plot: _Plot) -> list[Planted]:
    return [planted("G1c-process", None, *_g1c_around(plot, 1))]


def _cycle_g1c_realtime(plot: _Plot) -> list[Planted]:
    return [planted("G1c-realtime", None, *_g1c_around(plot, 2))]


def _g0_overlapping(plot: _Plot) -> None:
    """As the cycle with real time, but its first two transactions overlap."""
    third, first, second = plot.invoke(5, "txn"), plot.invoke(1, "txn"), plot.invoke(2, "txn")
    plot.end(first, plot.sent("a", 1, "/y"))
    plot.end(second, plot.sent("b", 0))
    plot.end(third, plot.sent("c", 1), plot.sent("c", 0, "/y"))


def _g1c_overlapping(plot: _Plot) -> None:
    third, first, second = plot.invoke(5, "txn"), plot.invoke(1, "txn"), plot.invoke(2, "txn")
    plot.end(first, plot.sent("a", 0, "/x"), plot.read("c", 0, "/y"))
    plot.end(second, plot.sent("b", 0))
    plot.end(third, plot.sent("c", 0, "/y"), plot.read("b", 0))


_STORIES: dict[str, tuple[Story, Callable[[_Plot], None]]] = {
    "inconsistent-offsets": (_inconsistent, _consistent),
    "duplicate": (_duplicate, _read_twice),
    "lost-write": (_lost, _not_lost),
    "unseen": (_unseen, _acknowledged_later),
    "missing-in-final-read": (_missing, _final_in_parts),
    "G1a": (_aborted, _read_of_unknown),
    "phantom": (_phantom, _known_at_last),
    "future-read": (_future, _known_at_last),
    "realtime-order": (_realtime, _overlapping),
    "nonmonotonic-epoch": (_falling_epoch, _growing_epochs),
    "two-leaders": (_two_leaders, _one_leader_each),
    "nonmonotonic-poll": (_nonmonotonic, _back_after_assign),
    "int-nonmonotonic-poll": (_internal_nonmonotonic, _two_logs_in_one_poll),
    "poll-skip": (_skip, _over_a_hole),
    "int-poll-skip": (_internal_skip, _over_a_hole),
    "reused-value": (_reused, _reused_elsewhere),
    "nonmonotonic-send": (_nonmonotonic_send, _overlapping),
    "int-nonmonotonic-send": (_internal_nonmonotonic_send, _ascending_sends),
    "int-send-skip": (_internal_send_skip, _sends_around_a_hole),
    "precommitted-read": (_precommitted, _reads_of_others),
    "G0": (_cycle_g0, _no_cycle_g0),
    "G1c": (_cycle_g1c, _no_cycle_g1c),
    "G0-process": (_cycle_g0_process, _g0_overlapping),
    "G0-realtime": (_cycle_g0_realtime, _g0_overlapping),
    "G1c-process": (_cycle_g1c_process, _g1c_overlapping),
    "G1c-realtime": (_cycle_g1c_realtime, _g1c_overlapping),
}
_PLANTS = {name: story for name, (story, _) in _STORIES.items()}
_NEAR_MISSES = {name: story for name, (_, story) in _STORIES.items()}
CYCLES = ("G0", "G1c", "G0-process", "G0-realtime", "G1c-process", "G1c-realtime")
"""Found by the check of cycles only; those with G0 only if it orders writes."""
PLANTABLE = tuple(name for name in _STORIES if name not in CYCLES)
"""Found by the log checks."""
