"""Small scenes with one anomaly each, and their near misses: scenes that differ in one fact and break no promise.

Every scene plays on a log of its own, so scenes can be added to any history without touching what is there.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from jepsen.history import FINAL_POLL, Mop, Op, Value

STEP_MEAN_NS = 200_000


class Begun:
    """An operation that was invoked and has not completed."""

    __slots__ = ("f", "idx_inv", "op_id", "process", "t_inv_ns")

    def __init__(self, op_id: int, idx_inv: int, process: int, f: str, t_inv_ns: int) -> None:
        self.op_id = op_id
        self.idx_inv = idx_inv
        self.process = process
        self.f = f
        self.t_inv_ns = t_inv_ns


class Recorder:
    """Hands out operation ids, positions, times, values and processes, each once."""

    def __init__(self, seed: int, text: bool, processes: int) -> None:
        self.random = random.Random(seed)
        self._text = text
        self._position = 0
        self._op_id = 0
        self._value = 0
        self._process = processes
        self._now_ns = 0

    def process(self) -> int:
        """A process that has done nothing yet."""
        self._process += 1
        return self._process - 1

    def value(self) -> int | str:
        """A value that is nowhere yet. Texts look like numbers, markup or nothing special."""
        self._value += 1
        return (
            ("{}", "v{}", '<b>"{}', "line\n{}")[self._value % 4].format(self._value)
            if self._text
            else self._value
        )

    def begin(self, process: int, f: str) -> Begun:
        self._op_id += 1
        return Begun(self._op_id - 1, self._next_position(), process, f, self._now_ns)

    def end(self, begun: Begun, outcome: str, mops: tuple[Mop, ...], error: str | None = None) -> Op:
        position = self._next_position()
        return Op(
            begun.op_id, begun.idx_inv, position, begun.process, None, begun.f, outcome,
            begun.t_inv_ns, self._now_ns, error, mops,
        )  # fmt: skip

    def never(self, begun: Begun, mops: tuple[Mop, ...]) -> Op:
        """The operation never completes."""
        return Op(
            begun.op_id,
            begun.idx_inv,
            None,
            begun.process,
            None,
            begun.f,
            "info",
            begun.t_inv_ns,
            None,
            None,
            mops,
        )

    def _next_position(self) -> int:
        self._now_ns += 1 + int(self.random.random() * 2 * STEP_MEAN_NS)
        self._position += 1
        return self._position - 1


class Scene:
    """One log and the means to play on it."""

    def __init__(self, recorder: Recorder, key: str, near_miss: bool) -> None:
        self.recorder = recorder
        self.key = key
        self.near_miss = near_miss

    def send(
        self, offset: int | None, outcome: str = "ok", value: Value = None, key: str | None = None
    ) -> tuple[Value, Op]:
        """A whole send by a new process."""
        value = self.recorder.value() if value is None else value
        begun = self.recorder.begin(self.recorder.process(), "send")
        return value, self.end_send(begun, value, offset, outcome, key)

    def end_send(
        self, begun: Begun, value: Value, offset: int | None, outcome: str = "ok", key: str | None = None
    ) -> Op:
        return self.recorder.end(begun, outcome, (Mop("send", key or self.key, offset, value),))

    def poll(self, process: int, *records: tuple[int, Value], f: str = "poll") -> Op:
        """A whole poll that returns `records`, pairs of offset and value."""
        return self.end_poll(self.recorder.begin(process, f), *records)

    def end_poll(self, begun: Begun, *records: tuple[int, Value]) -> Op:
        mops = tuple(Mop("poll", self.key, offset, value) for offset, value in records)
        return self.recorder.end(begun, "ok", mops)

    def three(self) -> tuple[list[Value], list[Op]]:
        """Three acknowledged sends at offsets 0, 1, 2."""
        sends = [self.send(offset) for offset in range(3)]
        return [value for value, _ in sends], [op for _, op in sends]


def play(recorder: Recorder, name: str, near_miss: bool = False) -> Iterator[Op]:
    """The scene of the anomaly `name`, or of its near miss."""
    kind = "near-miss" if near_miss else "planted"
    return SCENES[name](Scene(recorder, f"{kind}/{name}", near_miss))


def _inconsistent_offsets(scene: Scene) -> Iterator[Op]:
    """Near miss: the other value lies at the next offset."""
    first, op = scene.send(0)
    yield op
    other, op = scene.send(None, "info")
    yield op
    yield scene.poll(scene.recorder.process(), (0, first))
    yield scene.poll(scene.recorder.process(), (int(scene.near_miss), other))


def _duplicate(scene: Scene) -> Iterator[Op]:
    """Near miss: both reads find the value at the same offset."""
    value, op = scene.send(0)
    yield op
    yield scene.poll(scene.recorder.process(), (0, value))
    yield scene.poll(scene.recorder.process(), (0 if scene.near_miss else 1, value))


def _lost_write(scene: Scene) -> Iterator[Op]:
    """Near miss: the value that is not there was not acknowledged."""
    _, op = scene.send(None if scene.near_miss else 0, "info" if scene.near_miss else "ok")
    yield op
    later, op = scene.send(1)
    yield op
    yield scene.poll(scene.recorder.process(), (1, later))


def _unseen(scene: Scene) -> Iterator[Op]:
    """Near miss: the acknowledgement came when the final read had begun."""
    first, op = scene.send(0)
    yield op
    value, begun = scene.recorder.value(), scene.recorder.begin(scene.recorder.process(), "send")
    if not scene.near_miss:
        yield scene.end_send(begun, value, 1)
    read = scene.recorder.begin(scene.recorder.process(), FINAL_POLL)
    if scene.near_miss:
        yield scene.end_send(begun, value, 1)
    yield scene.end_poll(read, (0, first))


def _missing_in_final_read(scene: Scene) -> Iterator[Op]:
    """Near miss: the acknowledgement came when the second final read had begun."""
    first, op = scene.send(0)
    yield op
    value, begun = scene.recorder.value(), scene.recorder.begin(scene.recorder.process(), "send")
    if not scene.near_miss:
        yield scene.end_send(begun, value, 1)
    read = scene.recorder.begin(scene.recorder.process(), FINAL_POLL)
    if scene.near_miss:
        yield scene.end_send(begun, value, 1)
    yield scene.poll(scene.recorder.process(), (0, first), (1, value), f=FINAL_POLL)
    yield scene.end_poll(read, (0, first))


def _aborted_read(scene: Scene) -> Iterator[Op]:
    """Near miss: nobody knows whether the send failed."""
    value, op = scene.send(None, "info" if scene.near_miss else "fail")
    yield op
    yield scene.poll(scene.recorder.process(), (0, value))


def _phantom(scene: Scene) -> Iterator[Op]:
    """Near miss: the send never completes, but it was invoked."""
    value = scene.recorder.value()
    if scene.near_miss:
        begun = scene.recorder.begin(scene.recorder.process(), "send")
        yield scene.recorder.never(begun, (Mop("send", scene.key, None, value),))
    yield scene.poll(scene.recorder.process(), (0, value))


def _future_read(scene: Scene) -> Iterator[Op]:
    """Near miss: the send was invoked just before the poll completed."""
    value = scene.recorder.value()
    poll = scene.recorder.begin(scene.recorder.process(), "poll")
    if scene.near_miss:
        begun = scene.recorder.begin(scene.recorder.process(), "send")
        yield scene.end_poll(poll, (0, value))
    else:
        yield scene.end_poll(poll, (0, value))
        begun = scene.recorder.begin(scene.recorder.process(), "send")
    yield scene.end_send(begun, value, 0)


def _realtime_order(scene: Scene) -> Iterator[Op]:
    """Near miss: the two sends overlap by a moment."""
    first = scene.recorder.begin(scene.recorder.process(), "send")
    value, other = scene.recorder.value(), scene.recorder.value()
    if scene.near_miss:
        second = scene.recorder.begin(scene.recorder.process(), "send")
        yield scene.end_send(first, value, 1)
    else:
        yield scene.end_send(first, value, 1)
        second = scene.recorder.begin(scene.recorder.process(), "send")
    yield scene.end_send(second, other, 0)


def _nonmonotonic_poll(scene: Scene) -> Iterator[Op]:
    """Near miss: between the polls the reader was assigned to another log, and came back."""
    values, sends = scene.three()
    yield from sends
    process = scene.recorder.process()
    yield scene.poll(process, (0, values[0]), (1, values[1]), (2, values[2]))
    if scene.near_miss:
        assign = scene.recorder.begin(process, "assign")
        yield scene.recorder.end(assign, "ok", (Mop("assign", f"{scene.key}/other"),))
    yield scene.poll(process, (1, values[1]))


def _int_nonmonotonic_poll(scene: Scene) -> Iterator[Op]:
    """Near miss: the same records in order."""
    values, sends = scene.three()
    yield from sends
    records = [(0, values[0]), (1, values[1]), (2, values[2])]
    if not scene.near_miss:
        records[1:] = reversed(records[1:])
    yield scene.poll(scene.recorder.process(), *records)


def _poll_skip(scene: Scene) -> Iterator[Op]:
    """Near miss: nobody ever saw anything at the offset that is passed over."""
    yield from _skip(scene, scene.recorder.process())


def _int_poll_skip(scene: Scene) -> Iterator[Op]:
    """Near miss: as with `_poll_skip`."""
    yield from _skip(scene, None)


def _skip(scene: Scene, process: int | None) -> Iterator[Op]:
    first, op = scene.send(0)
    yield op
    if not scene.near_miss:
        middle, op = scene.send(1)
        yield op
        yield scene.poll(scene.recorder.process(), (1, middle))
    last, op = scene.send(2)
    yield op
    if process is None:
        yield scene.poll(scene.recorder.process(), (0, first), (2, last))
    else:
        yield scene.poll(process, (0, first))
        yield scene.poll(process, (2, last))


def _reused_value(scene: Scene) -> Iterator[Op]:
    """Near miss: the second send of the value goes to another log."""
    value, op = scene.send(None, "info")
    yield op
    yield scene.send(None, "info", value, f"{scene.key}/other" if scene.near_miss else None)[1]


SCENES: dict[str, Callable[[Scene], Iterator[Op]]] = {
    "inconsistent-offsets": _inconsistent_offsets,
    "duplicate": _duplicate,
    "lost-write": _lost_write,
    "unseen": _unseen,
    "missing-in-final-read": _missing_in_final_read,
    "aborted-read": _aborted_read,
    "phantom": _phantom,
    "future-read": _future_read,
    "realtime-order": _realtime_order,
    "nonmonotonic-poll": _nonmonotonic_poll,
    "int-nonmonotonic-poll": _int_nonmonotonic_poll,
    "poll-skip": _poll_skip,
    "int-poll-skip": _int_poll_skip,
    "reused-value": _reused_value,
}
