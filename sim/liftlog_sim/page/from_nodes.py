"""A chart from the traces that real nodes have written (`liftlog serve --trace`), in causal order.

The clocks of nodes cannot be compared, so the order is that of refinement checking: what a process did is in
its order, and a message is sent before it is received. The lines are held against the models on the way, and
the first that contradicts them is shown.
"""

from __future__ import annotations

from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import msgspec

from liftlog.trace.file import TraceHeader
from liftlog.trace.raft_lines import RaftLetter, RaftStep
from liftlog.trace.replica_lines import GroupStep, Letter, ReplicaStep
from liftlog.types import LiftlogError, PartitionId
from liftlog_sim.page.chart import (
    DISK,
    MESSAGE,
    OTHER,
    RAFT,
    START,
    TIMER,
    Arrival,
    Chart,
    ChartStep,
    Verdict,
)
from liftlog_sim.page.labels import role_label
from liftlog_sim.page.words import KINDS
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.order import Incomplete
from liftlog_spec.refine.traces import Checkers, in_order, survey

REPLICA_FIELDS = {
    "state": "state",
    "role": "role",
    "epoch": "epoch",
    "leo": "LEO",
    "durable": "durable LEO",
    "hw": "HW",
    "log_start": "log start",
}
RAFT_FIELDS = ("term", "role", "vote", "last", "durable", "commit")
LETTERS = {
    "fetch": "Fetch",
    "progress": "FetchProgress",
    "answer": "FetchReply",
    "ask": "VoteRequest",
    "vote": "VoteReply",
    "append": "AppendRequest",
    "ack": "AppendReply",
}
WORDS = {
    "Start": "begins",
    "TimerFired": "its timer fires",
    "Durable": "hears that a write is durable",
    "Published": "takes messages from NATS",
    "StorageFailed": "hears that a write failed",
}
_encode = msgspec.json.Encoder().encode


def chart_of_nodes(paths: list[Path]) -> Chart:
    """The chart of the traces of all nodes of one cluster. Raises LiftlogError."""
    reader = _Reader()
    try:
        runs, nodes = survey(paths)
        checkers = Checkers(nodes)
        try:
            for line in in_order(paths, runs):
                if not checkers.finding:
                    with checkers.judging():
                        checkers.take(line)
                    if checkers.finding:
                        reader.disagrees(line, checkers.finding)
                reader.take(line)
        except Incomplete as error:
            reader.notes.append(f"The traces end before everything could be brought into one order: {error}")
    except SpecError as error:
        raise LiftlogError(str(error)) from None
    return reader.chart(paths)


class _Reader:
    """Lines in order, made into steps."""

    def __init__(self) -> None:
        self._steps: list[ChartStep] = []
        self._sent: dict[bytes, deque[int]] = defaultdict(deque)
        self._before: dict[bytes, int] = {}
        self._applied: dict[tuple[int, PartitionId], int] = {}
        self._known: dict[tuple[int, str], Any] = {}
        self._logs = {RAFT: "metadata group"}
        self._clusters: dict[str, None] = {}
        self._disagreement: Verdict | None = None
        self.notes: list[str] = []

    def disagrees(self, line: Any, finding: str) -> None:
        """The line that is taken next contradicts the models."""
        model = "raft" if isinstance(line, RaftStep) else "isr-steps"
        self._disagreement = Verdict(
            name=model, finding=finding, at_step=len(self._steps), node=line.node, at_us=line.at_us
        )

    def take(self, line: Any) -> None:
        if isinstance(line, TraceHeader):
            self._clusters[line.cluster] = None
            self._known = {key: value for key, value in self._known.items() if key[0] != line.node}
            self._add(line.node, line.at_us, START, "starts", {}, label="starts")
        elif isinstance(line, GroupStep):
            self._group(line)
        elif isinstance(line, ReplicaStep):
            self._replica(line)
        elif isinstance(line, RaftStep):
            self._raft(line)

    def chart(self, paths: list[Path]) -> Chart:
        return Chart(
            title=f"cluster {', '.join(self._clusters)}",
            source="the traces of real nodes, in causal order",
            clocks=False,
            facts=[("files", ", ".join(path.name for path in paths))],
            nodes=sorted({step.node for step in self._steps}),
            logs=self._logs,
            steps=self._steps,
            disagreement=self._disagreement,
            notes=self.notes,
        )

    # -- lines -----------------------------------------------------------------------------------------------

    def _group(self, line: GroupStep) -> None:
        log = self._log(line.partition)
        about = f" about node {line.about}" if line.about else ""
        outcome = f", refused: {line.code}" if line.code else ""
        words = f"applies {line.command} of {log} at index {line.index}{about}{outcome}"
        first = self._applied.setdefault((line.index, line.partition), len(self._steps))
        after = line.after
        told = {} if after is None else {"ISR": list(after.isr), "version": after.version}
        changes = self._changed(line.node, {f"{log} {key}": value for key, value in told.items()})
        place = self._add(line.node, line.at_us, OTHER, words, changes, [first])
        self._steps[place].label = role_label(changes, self._logs)

    def _replica(self, line: ReplicaStep) -> None:
        log = self._log(line.partition)
        words, kind, causes, arrival = self._cause(line.cause.event, line.cause.letter, f" for {log}")
        now: dict[str, Any] = {f"{log} role": None}
        if line.after is not None:
            now = {f"{log} {name}": getattr(line.after, field) for field, name in REPLICA_FIELDS.items()}
            waiting = line.after.waiting
            now[f"disk {log}"] = (
                f"{waiting} {'write' if waiting == 1 else 'writes'} of {log}" if waiting else None
            )
        effects = [f"appends up to {end} in epoch {epoch}" for epoch, end in line.appended]
        effects += [f"sends {_letter_words(letter)} to node {letter.receiver}" for letter in line.sent]
        before = self._known.get((line.node, f"{log} LEO"))
        changes = self._changed(line.node, now)
        place = self._add(line.node, line.at_us, kind, words, changes, causes, arrival, effects)
        step = self._steps[place]
        step.label = role_label(changes, self._logs)
        after = changes.get(f"{log} LEO")
        if not step.label and after is not None and before is not None and after < before:
            step.label = f"cuts to {after}"
        self._send(place, line.sent)

    def _raft(self, line: RaftStep) -> None:
        words, kind, causes, arrival = self._cause(line.cause.event, line.cause.letter, "")
        if line.cause.ticket:
            words = f"hears that ticket {line.cause.ticket} is durable"
        now = {f"raft {field}": getattr(line.state, field) for field in RAFT_FIELDS}
        writes: dict[str, Any] = {
            f"disk {job.ticket}": f"{job.kind} of the metadata group" for job in line.jobs
        }
        if line.cause.ticket:
            writes[f"disk {line.cause.ticket}"] = None
        effects = [f"writes {job.kind} (ticket {job.ticket})" for job in line.jobs]
        effects += [f"sends {_letter_words(letter)} to node {letter.receiver}" for letter in line.sent]
        changes = self._changed(line.node, now) | writes
        place = self._add(line.node, line.at_us, kind, words, changes, causes, arrival, effects)
        self._steps[place].label = role_label(changes, self._logs)
        self._send(place, line.sent)

    # -- parts -----------------------------------------------------------------------------------------------

    def _add(
        self,
        node: int,
        at_us: int,
        kind: int,
        words: str,
        changes: dict[str, Any],
        causes: list[int] | None = None,
        arrival: Arrival | None = None,
        effects: list[str] | None = None,
        label: str = "",
    ) -> int:
        place = len(self._steps)
        self._steps.append(
            ChartStep(
                number=place,
                at_us=at_us,
                node=node,
                kind=kind,
                words=words,
                effects=effects or [],
                changes=changes,
                causes=sorted({cause for cause in causes or [] if 0 <= cause < place}),
                arrival=arrival,
                label=label,
            )
        )
        return place

    def _cause(
        self, event: str, letter: Letter | RaftLetter | None, what: str
    ) -> tuple[str, int, list[int], Arrival | None]:
        if letter is None:
            words = WORDS.get(event, f"takes in {event}")
            return words + what, TIMER if event == "TimerFired" else KINDS.get(event, DISK), [], None
        key = _key(letter)
        waiting = self._sent.get(key)
        if waiting:
            self._before[key] = waiting.popleft()
        sent = self._before.get(key, -1)
        words = f"receives {_letter_words(letter)} from node {letter.sender}{what}"
        return words, MESSAGE, [sent], Arrival(LETTERS.get(letter.kind, letter.kind), letter.sender, sent)

    def _send(self, place: int, letters: tuple[Letter, ...] | tuple[RaftLetter, ...]) -> None:
        for letter in letters:
            self._sent[_key(letter)].append(place)

    def _log(self, partition: PartitionId) -> str:
        log = str(partition)
        self._logs.setdefault(log, log)
        return log

    def _changed(self, node: int, now: dict[str, Any]) -> dict[str, Any]:
        changes = {key: value for key, value in now.items() if self._known.get((node, key)) != value}
        self._known |= {(node, key): value for key, value in changes.items()}
        return changes


def _key(letter: Letter | RaftLetter) -> bytes:
    if isinstance(letter, RaftLetter) and letter.after:
        letter = msgspec.structs.replace(letter, after=0)
    return _encode((type(letter).__name__, letter))


def _letter_words(letter: Letter | RaftLetter) -> str:
    fields = (
        ("term", "index", "commit")
        if isinstance(letter, RaftLetter)
        else ("epoch", "offset", "durable", "hw", "end")
    )
    told = [f"{field} {getattr(letter, field)}" for field in fields if getattr(letter, field)]
    name = LETTERS.get(letter.kind, letter.kind)
    return f"{name} ({', '.join(told)})" if told else name
