"""Makes histories: random ones in which a log keeps all its promises, and ones with planted anomalies.

Clients of a model log run in random turns: senders have one send open each, whose record enters the log at some
moment between invocation and completion, or later, or never; readers poll on from where they are; at the end every
final reader reads every log from its beginning. Anomalies are planted around the final reads, each on its own
records, so that one does not hide another; planting one may entail others (a lost write is also unseen).

Operations come out one by one, as they complete: memory holds 16 bytes per stored record, whatever the length.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jepsen.history import FINAL_POLL, Fault, History, Mop, Op, Value
from jepsen.result import MEANINGS
from liftlog.types import LiftlogError

PLANTS = tuple(MEANINGS)
FINAL_PROCESS = 1_000_000
"""Final readers are processes from here on, in the order of their numbers."""
STEP_MEAN_NS = 200_000
CLOSING_SENDS = 4
"""Sends that every log gets before the final reads, so that there is always something to plant in."""


class Spec(NamedTuple):
    """What to generate. Rates are shares of the operations that they concern."""

    seed: int = 0
    sends: int = 100
    """Besides those of the closing phase: CLOSING_SENDS per log, and what a plant needs."""
    keys: int = 2
    senders: int = 3
    readers: int = 2
    final_readers: int = 2
    batch: int = 10
    """Records of a poll at most."""
    poll_rate: float = 0.2
    """Share of the turns that readers get."""
    fail_rate: float = 0.05
    info_rate: float = 0.1
    gap_rate: float = 0.02
    """How often an offset is left out, as a log does that stores its own records between those of clients."""
    assign_rate: float = 0.05
    text: bool = False
    """Values are strings instead of integers."""
    plant: tuple[str, ...] = ()
    """Anomalies, of PLANTS."""


def generate(spec: Spec, name: str = "generated") -> History:
    """A whole history in memory."""
    history = History(name, {"seed": str(spec.seed), "planted": ", ".join(spec.plant)})
    for op in operations(spec):
        history.append(op)
    history.faults.extend(faults(spec))
    return history


def operations(spec: Spec) -> Iterator[Op]:
    """The operations in order of completion, those that never complete last. Raises LiftlogError for a bad spec."""
    for name in spec.plant:
        if name not in PLANTS:
            raise LiftlogError(f"cannot plant {name!r}: there are {', '.join(PLANTS)}")
    if min(spec.keys, spec.senders, spec.final_readers, spec.batch) < 1 or min(spec.sends, spec.readers) < 0:
        raise LiftlogError("a history needs at least one log, one sender, one final reader and a batch of one record")
    return _Run(spec).operations()


def faults(spec: Spec) -> list[Fault]:
    """A fault for the drawings; the model log does not care."""
    third_ns = spec.sends * STEP_MEAN_NS
    return [Fault("kill", "node 1", third_ns, third_ns + third_ns // 2)] if spec.sends else []


class _Log:
    """One log: offsets ascend; `hidden` offsets are returned by no read."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.offsets = array("q")
        self.values = array("q")
        self.next_offset = 0
        self.hidden: set[int] = set()

    def append(self, value: int, gap: bool) -> int:
        offset = self.next_offset + gap
        self.offsets.append(offset)
        self.values.append(value)
        self.next_offset = offset + 1
        return offset


class _Open:
    """A send or poll between invocation and completion."""

    __slots__ = ("f", "fate", "idx_inv", "log", "offset", "op_id", "process", "t_inv_ns", "value")

    def __init__(self, op_id: int, idx_inv: int, t_inv_ns: int, process: int, f: str, log: _Log, value: int) -> None:
        self.op_id = op_id
        self.idx_inv = idx_inv
        self.t_inv_ns = t_inv_ns
        self.process = process
        self.f = f
        self.log = log
        self.value = value
        self.fate = "ok"
        self.offset = -1


class _Reader:
    """A regular reader: the place in each log where it goes on."""

    def __init__(self, process: int, keys: int) -> None:
        self.process = process
        self.places = [0] * keys
        self.open: tuple[_Open, int] | None = None


class _Run:
    """The clients and the logs of one history."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._random = random.Random(spec.seed)
        self._logs = [_Log(f"log-{number}") for number in range(spec.keys)]
        self._position = 0
        self._now_ns = 0
        self._op_id = 0
        self._value = 0
        self._crashed: list[_Open] = []
        self._late: list[_Open] = []
        self._next_process = spec.senders + spec.readers

    def operations(self) -> Iterator[Op]:
        yield from self._workload()
        yield from self._closing()
        for send in self._crashed:
            yield self._finish(send, "info", self._send_mops(send, None), completes=False)

    # -- the regular workload --------------------------------------------------------------------------------

    def _workload(self) -> Iterator[Op]:
        spec, rng = self._spec, self._random
        processes = list(range(spec.senders))
        sending: list[_Open | None] = [None] * spec.senders
        readers = [_Reader(spec.senders + number, spec.keys) for number in range(spec.readers)]
        left = spec.sends
        while left or any(sending):
            if self._late and rng.random() < 0.05:
                self._store(self._late.pop(rng.randrange(len(self._late))))
            if readers and rng.random() < spec.poll_rate:
                yield from self._turn_of_reader(rng.choice(readers))
                continue
            lane = rng.randrange(spec.senders)
            send = sending[lane]
            if send is None:
                if left:
                    left -= 1
                    sending[lane] = self._new_send(processes[lane])
            elif send.fate == "ok" and send.offset < 0:
                self._store(send)
            else:
                sending[lane] = None
                op = self._end_send(send)
                if op is None or op.outcome == "info":
                    processes[lane] = self._fresh_process()
                if op is not None:
                    yield op
        for reader in readers:
            if reader.open is not None:
                yield from self._turn_of_reader(reader)

    def _new_send(self, process: int) -> _Open:
        rng, spec = self._random, self._spec
        send = self._invoke_send(process, self._logs[rng.randrange(spec.keys)])
        luck = rng.random()
        if luck < spec.fail_rate:
            send.fate = "fail"
        elif luck < spec.fail_rate + spec.info_rate:
            send.fate = rng.choice(("never", "late", "late"))
        return send

    def _end_send(self, send: _Open) -> Op | None:
        """Complete a send whose turn it is; None if its client crashed and it stays open for ever."""
        if send.fate == "ok":
            return self._finish(send, "ok", self._send_mops(send, send.offset))
        if send.fate == "fail":
            return self._finish(send, "fail", self._send_mops(send, None), "no leader")
        if send.fate == "late":
            self._late.append(send)
        if self._random.random() < 0.5:
            self._crashed.append(send)
            return None
        return self._finish(send, "info", self._send_mops(send, None), "timeout")

    def _turn_of_reader(self, reader: _Reader) -> Iterator[Op]:
        rng, spec = self._random, self._spec
        if reader.open is None:
            number = rng.randrange(spec.keys)
            if rng.random() < spec.assign_rate:
                log = self._logs[number]
                reader.places = [rng.randrange(len(log.offsets) + 1) for log in self._logs]
                kept = reader.places[number]
                assign = self._invoke(reader.process, "assign", log)
                # The named log keeps its position: go on where it was, which is where it is read from next.
                reader.places[number] = kept
                yield self._finish(assign, "ok", ())
                return
            reader.open = (self._invoke(reader.process, "poll", self._logs[number]), number)
            return
        poll, number = reader.open
        reader.open = None
        if rng.random() < spec.fail_rate:
            yield self._finish(poll, rng.choice(("fail", "info")), (), "disconnected")
            return
        place = reader.places[number]
        reader.places[number] = min(place + rng.randint(0, spec.batch), len(poll.log.offsets))
        yield self._finish(poll, "ok", self._records(poll.log, place, reader.places[number]))

    # -- the end: planted anomalies and final reads ----------------------------------------------------------

    def _closing(self) -> Iterator[Op]:
        for send in self._late:
            self._store(send)
        for log in self._logs:
            for _ in range(CLOSING_SENDS):
                yield self._whole_send(log)
        plants = {name: self._random.choice(self._logs) for name in self._spec.plant}
        yield from self._plant_sends(plants)
        yield from self._final_reads(plants)
        yield from self._plant_polls(plants)

    def _final_reads(self, plants: dict[str, _Log]) -> Iterator[Op]:
        batch = self._spec.batch
        for number in range(self._spec.final_readers):
            process = FINAL_PROCESS + number
            for log in self._logs:
                length = len(log.offsets)
                if number == 0 and plants.get("missing-in-final-read") is log:
                    length -= 1
                for place in range(0, length, batch):
                    poll = self._invoke(process, FINAL_POLL, log)
                    records = self._records(log, place, min(place + batch, length))
                    if number == 0 and place + batch >= length:
                        records = self._doctored(log, records, plants)
                    yield self._finish(poll, "ok", records)

    def _plant_sends(self, plants: dict[str, _Log]) -> Iterator[Op]:
        for name, log in plants.items():
            if name == "lost-write":
                yield self._whole_send(log, hidden=True)
                yield self._whole_send(log)
            elif name == "realtime-order":
                yield from self._swapped_sends(log)
            elif name == "reused-value":
                first = self._invoke_send(self._fresh_process(), log)
                yield self._finish(first, "info", self._send_mops(first, None), "timeout")
                again = self._invoke_send(self._fresh_process(), log)
                again.value = first.value
                yield self._finish(again, "info", self._send_mops(again, None), "timeout")
        for log in self._logs:
            # Plants at the end of a log want an acknowledged record there that nobody else doctors.
            if log in plants.values():
                yield self._whole_send(log)
        if "unseen" in plants:
            log = plants["unseen"]
            yield self._whole_send(log, hidden=True)

    def _doctored(self, log: _Log, records: Sequence[Mop], plants: dict[str, _Log]) -> tuple[Mop, ...]:
        """The last records of one final read, plus what its log never held."""
        extra = []
        if plants.get("duplicate") is log:
            extra.append(self._shown(int(log.values[0])))
        if plants.get("phantom") is log:
            self._value += 1
            extra.append(self._shown(self._value))
        for name, fate in (("aborted-read", "fail"), ("future-read", "ok")):
            if plants.get(name) is log:
                self._value += 1
                extra.append(self._shown(self._value))
                self._owed.append((fate, self._value, log, log.next_offset + len(extra) - 1))
        return (
            *records,
            *(Mop("poll", log.key, log.next_offset + n, value) for n, value in enumerate(extra)),
        )
