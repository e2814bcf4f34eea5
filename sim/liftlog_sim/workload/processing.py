"""Processors: processes that read an input and store what comes of it with how far they are (L10).

The input is imagined: a position has outputs, and can be read again (`truth/processors.py`). A processor has
one process, or two: one that was replaced and does not know it yet. A process opens a run, goes on from where
it is told, and has one message on its way, which it sends again until there is an answer. Messages that open
a run come twice now and then, the second time late. Now and then a process asks for what it must not.
"""

from __future__ import annotations

from liftlog.messages import ERR_NO_CURSOR, AckPublishes, RefusePublishes
from liftlog.parcel import ParcelRecord, seal_parcel
from liftlog.real.nats_wire import FAILS
from liftlog.types import NO_OFFSET, Message
from liftlog_jepsen.history import Mop
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.processors import NAME, output_value, outputs_of
from liftlog_sim.workload import processor_facts
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.parcelling import BATCH_LINE
from liftlog_sim.workload.targets import Target

INBOX = b"_INBOX.sim."
AGAIN_US = SECOND
"""For so long a process waits until it sends a message again."""
REPLACED_SHARE, DIES_SHARE, WRONG_SHARE, LATE_SHARE = 0.05, 0.03, 0.05, 0.4
POSITIONS_MAX = 4
"""With so many positions of the input a message goes on."""
INPUT, ANOTHER_INPUT = (1_000_000, 0), (1_000_001, 0)


class _Process:
    """`position`: of its input, what is next, once it has been told; `sequence`: of its next message."""

    __slots__ = (
        *("begin", "life", "message", "name", "operations", "position", "run", "sent_us", "sequence", "to"),
    )

    def __init__(self, run: int, begin: int) -> None:
        self.run = run
        self.begin = begin
        """Where it says that it begins, if nobody knows; NO_OFFSET: it says nothing."""
        self.life = -1
        """For a history: as `StoredCursors` tells it."""
        self.position = NO_OFFSET
        self.sequence = 0
        self.message: Message | None = None
        """On its way."""
        self.name = b""
        self.operations: list[ClientOperation] = []
        self.sent_us = 0
        self.to = 0
        """How far it is when that is stored."""


class SimulatedProcessor:
    """One processor with its processes, of which the newest is the last."""

    def __init__(self, shared: Clientele, seat: int, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self.number = number
        """Under which its answers come, as a publisher's."""
        self._producer = NAME + b"%d" % seat
        self._seat = seat
        self._turns = self._cluster.chances.turns(f"processor/{seat}", 250 * MILLISECOND)
        self._processes: list[_Process] = []
        self._openings = processor_facts.SentOpenings(shared)
        self._runs = 0
        self._sent = 0
        self._target: Target | None = None

    def start(self) -> None:
        """Begin to work."""
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        fit = [target for target in self._shared.targets if target.config.remembers_ms]
        if fit and self._target is None:
            self._target = fit[self._seat % len(fit)]
        if self._target is not None:
            self._work(self._target, turn.draws)
        self._turns.take(self._fire)

    def _work(self, target: Target, draws: Draws) -> None:
        if not self._processes or draws.part("replaced").random() < REPLACED_SHARE:
            self._begin(NO_OFFSET)
            del self._processes[:-2]
        elif draws.part("dies").random() < DIES_SHARE:
            self._processes.pop()
        now_us = self._cluster.kernel.now_us
        for place, process in enumerate(self._processes):
            own = draws.part(place)
            if process.message is not None:
                if now_us >= process.sent_us + AGAIN_US:
                    self._send(target, process)
            elif process.position == NO_OFFSET:
                self._open(target, process, own)
            else:
                self._go_on(target, process, own)

    def _begin(self, begin: int) -> None:
        self._runs += 1
        self._processes.append(_Process(self._runs, begin))

    # -- messages ------------------------------------------------------------------------------------------

    def _lines(self, process: _Process, sequence: int, cursor: bytes) -> list[bytes]:
        numbers = (self._producer, process.run, sequence)
        lines = [b"Liftlog-Producer: %b\r\nLiftlog-Run: %d\r\nLiftlog-Sequence: %d" % numbers]
        return [*lines, b"Liftlog-Cursor: " + cursor, b"Liftlog-Ack: full"]

    def _open(self, target: Target, process: _Process, draws: Draws) -> None:
        where = b"" if process.begin == NO_OFFSET else b"/%d" % process.begin
        lines = self._lines(process, 0, b"%d/%d" % INPUT + where)
        self._put(target, process, [*lines, b"Liftlog-Open: 1"], [], 0, [])
        self._openings.sent(process.operations[0], process.run, process.begin)
        message = process.message
        if message is not None and draws.part("late").random() < LATE_SHARE:
            late_us = draws.part("how late").randrange(100, 4000) * MILLISECOND
            self._cluster.kernel.after(late_us, self._again, target, message)

    def _again(self, target: Target, message: Message) -> None:
        if not self._shared.stopping:
            self._cluster.bus.publish(target.subject, [message])

    def _go_on(self, target: Target, process: _Process, draws: Draws) -> None:
        """Send the outputs of the next positions, or what is to be refused."""
        to = process.position + 1 + draws.part("positions").randrange(POSITIONS_MAX)
        cursor, wrong = b"%d/%d/%d" % (*INPUT, to), draws.part("wrong").random()
        if wrong < WRONG_SHARE:
            kind = int(wrong / WRONG_SHARE * 3)
            back = max(0, process.position - 1)
            cursor = (b"%d/%d/%d" % (*INPUT, back), b"%d/%d/%d" % (*ANOTHER_INPUT, to), b"")[kind]
            if kind == 0 and back == process.position:
                return
            lines = self._lines(process, process.sequence, cursor)
            self._put(target, process, lines if cursor else [lines[0], lines[-1]], [], process.position, [])
            return
        values = [
            output_value(self._unique(process, place), position, nth)
            for place, position in enumerate(range(process.position, to))
            for nth in range(outputs_of(position))
        ]
        group = processor_facts.group_of(self._producer, process.life)
        facts = processor_facts.of_outputs(group, process.run, range(process.position, to))
        self._put(target, process, self._lines(process, process.sequence, cursor), values, to, facts)

    def _unique(self, process: _Process, place: int) -> bytes:
        return b"%d-%d-%d-%d" % (self.number, process.run, self._sent, place)

    def _put(
        self,
        target: Target,
        process: _Process,
        lines: list[bytes],
        values: list[bytes],
        to: int,
        facts: list[Mop],
    ) -> None:
        """Make the one message of a process that is on its way, and send it."""
        self._sent += 1
        payload, sent = b"%b-none" % self._unique(process, 0), values
        if len(values) > 1:
            self._shared.account.parcels.sent(tuple(values))
            lines = [*lines, BATCH_LINE]
            payload = seal_parcel([ParcelRecord(value) for value in values])
        elif values:
            payload = values[0]
        if not values:
            sent = [payload]
        process.name, process.to = sent[0], to
        now_us = self._cluster.kernel.now_us
        if self._shared.keep_values:
            process.operations = [processor_facts.begun(self._shared, target, sent, facts)]
        else:
            process.operations = [ClientOperation("send", self.number, target, now_us, one) for one in sent]
        self._shared.perform(process.operations)
        headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines)
        reply = INBOX + b"%d." % self.number + process.name
        process.message = Message(target.subject, reply, headers, payload)
        self._send(target, process)

    def _send(self, target: Target, process: _Process) -> None:
        process.sent_us = self._cluster.kernel.now_us
        if process.message is not None:
            self._cluster.bus.publish(target.subject, [process.message])

    # -- answers -------------------------------------------------------------------------------------------

    def _waits(self, value: bytes) -> _Process | None:
        return next((one for one in self._processes if one.message is not None and one.name == value), None)

    def acked(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        """A message is stored."""
        process = self._waits(value)
        if process is None:
            return
        account, now_us = self._shared.account, self._cluster.kernel.now_us
        for place, operation in enumerate(process.operations):
            operation.end("info" if acks.duplicate else "ok", now_us, offset=offset + place)
            if operation.kind == "txn":
                self._noted(process, operation, acks, offset)
        process.message = None
        if process.position == NO_OFFSET:
            if acks.cursor == NO_OFFSET:
                text = f"partition {acks.partition} opened run {process.run} and does not say where it begins"
                account.fail(Violation("OutputsOnce", text))
            process.position = acks.cursor
            account.count("runs of processors opened")
        else:
            process.position = process.to
            account.count("messages of processors stored")
        process.sequence += 1

    def _noted(
        self, process: _Process, transaction: ClientOperation, acks: AckPublishes, offset: int
    ) -> None:
        """For the history: what this answer says."""
        if not acks.duplicate:
            processor_facts.stored(transaction, offset)
        if process.position == NO_OFFSET:
            process.life = self._shared.account.truth(acks.partition).processors.life(offset)
            group = processor_facts.group_of(self._producer, process.life)
            begins = process.life == offset
            self._openings.answered(transaction, group, process.run, acks.cursor, begins)

    def refused(self, value: bytes, refusal: RefusePublishes, place: int) -> None:
        """A message is not stored by this leader."""
        process = self._waits(value)
        if process is None:
            return
        now_us = self._cluster.kernel.now_us
        if refusal.code == ERR_NO_CURSOR:
            known = self._shared.account.truth(refusal.partition).processors.cursor(self._producer)
            self._over(process, refusal.code)
            self._begin(0 if known is None else known.position)
        elif refusal.newest_run >= 0 or refusal.next_sequence >= 0:
            self._shared.account.count("runs of processors ended")
            self._over(process, refusal.code)
        elif refusal.code.startswith("cursor") or refusal.code in FAILS:
            for operation in process.operations:
                operation.end("info", now_us, error=refusal.code)
            process.message = None

    def _over(self, process: _Process, why: str) -> None:
        """A process ends."""
        for operation in process.operations:
            operation.end("info", self._cluster.kernel.now_us, error=why)
        self._processes.remove(process)

    def ended(self, value: bytes, code: str) -> None:
        """Of another value of a parcel that was refused: its first one tells."""
