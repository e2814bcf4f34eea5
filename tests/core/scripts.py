"""Scripts of commands with what nodes make of them: the text files in tests/golden/scripts.

A script is a list of paragraphs: a command, a line `----`, and what happened: each event that a node took,
each effect that it asked for, and then how the logs stand wherever that has changed. `pytest
tests/core/test_scripts.py --rewrite` writes anew what happened; the difference is to be read before it is
committed. Lines that begin with `#` are comments.

    nodes 3                    a cluster; it runs until it has a controller
    create NAME key=value...   a stream of one partition, whose log is followed from here on
    publish WORD...            through NATS, one message for each word, with a reply subject
    run MS                     so much time passes
    until settled              time passes until every running replica has committed all that the leader has
    until led                  time passes until a leader takes messages
    read NODE OFFSET           a client asks that node for records
    hold NODE, release NODE    syncs of its logs wait, and end again
    kill NODE, restart NODE    its process dies, of which the others are told; and another one starts
    cut NODE, heal             no message reaches another node from it, nor it from another; all is well again
    show WHAT, hide WHAT       `raft`: the metadata group's own traffic; `upkeep`: scrubbing, checkpoints of
                               the HW; `idle`: fetches and answers that say what the ones
                               before them said. At first all three are hidden

Time is that of `tests/core/node_harness.py`: a message takes 1 ms, a sync 2 ms. Nothing else is left out but
timers that changed nothing, and what is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from liftlog.core.metadata.commands import Command, decode_command
from liftlog.core.metadata.records import CommandResult
from liftlog.format import decode_records, read_header
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DAMAGED,
    FETCH_DIVERGED,
    FETCH_FENCED,
    FETCH_UNKNOWN,
    AppendReply,
    AppendRequest,
    BirthQuery,
    BirthReply,
    CheckpointHw,
    CompactLog,
    Durable,
    Effect,
    Event,
    Fetch,
    FetchReply,
    Heartbeat,
    HeartbeatReply,
    LevelReport,
    Outcome,
    PeerLost,
    ReadIndexReply,
    ReadIndexRequest,
    ReadRequest,
    Received,
    RetainLog,
    SaveHardState,
    SaveIdentity,
    Scrubbed,
    ScrubLog,
    Send,
    SetTimer,
    TimeoutNow,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.types import RAFT_LOG, Batch, Entry, LiftlogError, Message, PartitionId
from tests.core.node_harness import NETWORK_S, World

SEPARATOR = "----"
RAFT = (
    *(VoteRequest, VoteReply, AppendRequest, AppendReply, ReadIndexRequest, ReadIndexReply, TimeoutNow),
    *(BirthQuery, BirthReply, Heartbeat, HeartbeatReply, LevelReport, SaveHardState, SaveIdentity),
)
"""What the metadata group says to itself, sessions included."""
UPKEEP = (ScrubLog, Scrubbed, RetainLog, CompactLog, CheckpointHw)
OFFSETS = frozenset(("offset", "durable_leo", "hw"))
"""Shown when they are 0 too."""
STATUS = {
    FETCH_DIVERGED: "DIVERGED",
    FETCH_FENCED: "FENCED",
    FETCH_UNKNOWN: "UNKNOWN",
    FETCH_DAMAGED: "DAMAGED",
    FETCH_BELOW_START: "BELOW_START",
}
LONG = 48
"""Longer texts are cut."""


class ScriptError(LiftlogError):
    """The script asks for what there is not."""


class Paragraph(msgspec.Struct):
    """`comments` stand before it, `blank` lines too, as they are in the file."""

    comments: str
    command: str
    output: str


def parse(text: str) -> tuple[list[Paragraph], str]:
    """The paragraphs of a script and what stands behind the last. Raises ScriptError."""
    found: list[Paragraph] = []
    comments: list[str] = []
    lines = iter(text.split("\n"))
    for line in lines:
        if not line.strip() or line.startswith("#"):
            comments.append(line)
            continue
        if next(lines, None) != SEPARATOR:
            raise ScriptError(f"no line {SEPARATOR} behind the command '{line}'")
        output = []
        for each in lines:
            if not each:
                break
            output.append(each)
        found.append(Paragraph("".join(f"{each}\n" for each in comments), line, "\n".join(output)))
        comments = []
    return found, "\n".join(comments)


def play(text: str) -> str:
    """The script with what happens now. Raises ScriptError for a command that cannot be carried out."""
    paragraphs, rest = parse(text)
    stage = Stage()
    parts = []
    for paragraph in paragraphs:
        output = "".join(f"{line}\n" for line in stage.carry_out(paragraph.command))
        parts.append(f"{paragraph.comments}{paragraph.command}\n{SEPARATOR}\n{output}\n")
    return "".join(parts).rstrip("\n") + "\n" + (f"\n{rest.strip()}\n" if rest.strip() else "")


class WatchedWorld(World):
    """Tells of each step what went in and what came out."""

    def __init__(self, count: int, stepped: Callable[[int, Event, list[Effect]], None]) -> None:
        self.stepped = stepped
        self.applied: list[tuple[int, Command, CommandResult]] = []
        """What the node has applied in the step under way."""
        # Nodes that can no more than the first feature level have nothing to say of levels.
        super().__init__(count, can_level=1)

    def learned(self, node: int, index: int, command: Command, result: CommandResult) -> None:
        self.applied.append((index, command, result))

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        if event is not None:
            self.stepped(node, event, outcome.effects)
        self.applied.clear()


class Stage:
    """A cluster, and the log that is looked at."""

    def __init__(self) -> None:
        self.world: WatchedWorld | None = None
        self.log: PartitionId | None = None
        self.name = ""
        self.shown: dict[str, bool] = {"raft": False, "upkeep": False, "idle": False}
        self.lines: list[str] = []
        self._stands: dict[int, str] = {}
        self._untold: set[tuple[int, int]] = set()
        """Tickets of writes that were not shown."""
        self._said: dict[tuple[type, int, int], Fetch | FetchReply] = {}

    # -- commands ----------------------------------------------------------------------------------------

    def carry_out(self, command: str) -> list[str]:
        """Returns what is to stand below it."""
        word, *arguments = command.split()
        action: Callable[..., None] | None = getattr(self, f"_do_{word}", None)
        if action is None:
            raise ScriptError(f"no command '{word}'")
        self.lines = []
        action(*arguments)
        self.lines.extend(self._standings())
        return self.lines or ["(nothing)"]

    def _do_nodes(self, count: str) -> None:
        self.world = WatchedWorld(int(count), self._stepped)
        world = self.world
        if not world.run_until(lambda: self._controller() != 0):
            raise ScriptError("no controller was elected")
        self.lines = [f"node {self._controller()} is the controller"]

    def _do_create(self, name: str, *settings: str) -> None:
        values = {key: int(value) for key, value in (each.split("=") for each in settings)}
        self.name = name
        self.log = self._running().create(name, **values)
        self._until_led()
        self.lines = [f"{name}/0 is the log {self.log}"]

    def _do_publish(self, *words: str) -> None:
        if not self._running().publish(self._watched(), *(word.encode() for word in words)):
            self.lines.append("no responders: nobody subscribes")
        self._running().run(0)

    def _do_run(self, milliseconds: str) -> None:
        self._running().run(int(milliseconds) / 1000)

    def _do_until(self, what: str) -> None:
        if what == "led":
            self._until_led()
        elif what == "settled":
            if not self._running().run_until(self._settled):
                raise ScriptError("it does not settle")
        else:
            raise ScriptError(f"until '{what}': settled or led")

    def _do_read(self, node: str, offset: str) -> None:
        request = ReadRequest(self._watched(), int(offset), 1 << 20)
        self._running().answer(int(node), request)

    def _do_hold(self, node: str) -> None:
        self._running().hold_storage(int(node))

    def _do_release(self, node: str) -> None:
        self._running().release_storage(int(node))

    def _do_kill(self, node: str) -> None:
        world, killed = self._running(), int(node)
        world.kill(killed)
        for other in world.nodes:
            world.post(other, PeerLost(killed), NETWORK_S)

    def _do_restart(self, node: str) -> None:
        self._untold = {(other, ticket) for other, ticket in self._untold if other != int(node)}
        self._running().restart(int(node))

    def _do_cut(self, node: str) -> None:
        alone = int(node)
        self._running().drop = lambda sender, to, message: alone in (sender, to)

    def _do_heal(self) -> None:
        self._running().drop = lambda sender, to, message: False

    def _do_show(self, what: str) -> None:
        self._switch(what, True)

    def _do_hide(self, what: str) -> None:
        self._switch(what, False)

    def _switch(self, what: str, shown: bool) -> None:
        if what not in self.shown:
            raise ScriptError(f"'{what}' cannot be shown or hidden; {', '.join(self.shown)} can")
        self.shown[what] = shown

    # -- the cluster -------------------------------------------------------------------------------------

    def _running(self) -> WatchedWorld:
        if self.world is None:
            raise ScriptError("the first command must be `nodes`")
        return self.world

    def _watched(self) -> PartitionId:
        if self.log is None:
            raise ScriptError("there is no stream yet: `create` one")
        return self.log

    def _controller(self) -> int:
        leaders = [
            (node.raft.term, number)
            for number, node in self._running().nodes.items()
            if node.raft.is_leader and node.metadata.applied
        ]
        return max(leaders, default=(0, 0))[1]

    def _until_led(self) -> None:
        world, log = self._running(), self._watched()
        if not world.run_until(lambda: world.leader(log) != 0 and log in world.subscriptions):
            raise ScriptError("nobody leads")

    def _settled(self) -> bool:
        world, log = self._running(), self._watched()
        leader = world.leader(log)
        return leader != 0 and world.committed(log, world.replica(leader, log).leo)

    # -- what happened -----------------------------------------------------------------------------------

    def _stepped(self, node: int, event: Event, effects: list[Effect]) -> None:
        for effect in effects:
            ticket = getattr(effect, "ticket", None)
            if ticket is not None and not self._matters(node, effect):
                self._untold.add((node, ticket))
        shown = [self._tell(effect) for effect in effects if self._matters(node, effect)]
        applied = list(self._newly_applied())
        matters = self._matters(node, event)
        if not (shown or applied or matters):
            return
        taken = self._tell(event) if matters else _kind(event)
        self.lines.append(f"{self._running().now * 1000:.0f} ms  node {node} <- {taken}")
        self.lines.extend(f"    applied {each}" for each in applied)
        self.lines.extend(f"    {each}" for each in shown)

    def _newly_applied(self) -> Iterator[str]:
        for index, command, result in self._running().applied:
            outcome = f" -> {result.code}" if result.code else ""
            yield f"{index}: {self._value(command)}{outcome}"

    def _matters(self, node: int, subject: Event | Effect) -> bool:
        """Whether it is about the log that is looked at, or a client, and not hidden."""
        message = subject.message if isinstance(subject, Received | Send) else subject
        if isinstance(message, SetTimer | TimerFired):
            return False
        if isinstance(message, Durable) and (node, message.ticket) in self._untold:
            return False
        summary = getattr(message, "summary", message)
        about = getattr(summary, "partition", getattr(summary, "log", None))
        if about == RAFT_LOG or isinstance(message, RAFT):
            return self.shown["raft"]
        if isinstance(message, UPKEEP):
            return self.shown["upkeep"]
        if about not in (None, self.log):
            return False
        if isinstance(message, Fetch | FetchReply):
            return self._says_more(node, subject, message) or self.shown["idle"]
        return True

    def _says_more(self, node: int, subject: Event | Effect, message: Fetch | FetchReply) -> bool:
        """Not what was said before, with another number."""
        other = subject.to if isinstance(subject, Send) else getattr(subject, "sender", 0)
        key = (type(subject), node, other)
        content = msgspec.structs.replace(message, request=0)
        before, self._said[key] = self._said.get(key), content
        return content != before

    def _tell(self, subject: Event | Effect) -> str:
        if isinstance(subject, Received):
            return f"from node {subject.sender}: {self._value(subject.message)}"
        if isinstance(subject, Send):
            after = f", once ticket {subject.after} is durable" if subject.after else ""
            return f"to node {subject.to}{after}: {self._value(subject.message)}"
        return self._value(subject)

    def _value(self, value: Any) -> str:
        match value:
            case PartitionId():
                return f"{self.name}/{value.index}" if value == self.log else str(value)
            case Batch():
                words = ",".join(self._value(record.value) for record in decode_records(value))
                return f"[{value.base_offset},{value.end_offset}) epoch {value.epoch}: {words}"
            case Message():
                return self._value(value.value)
            case Entry():
                return f"{value.index}: {self._value(decode_command(value.value)) if value.value else ''}"
            case msgspec.Struct():
                return f"{type(value).__name__}({', '.join(self._fields(value))})"
            case bytes():
                text = value.decode("utf-8", "backslashreplace")
                return text if len(text) <= LONG else f"{len(value)} bytes"
            case list() | tuple():
                return f"[{', '.join(map(self._value, value))}]"
            case float():
                return f"{value:.0f}"
        return str(value)

    def _fields(self, value: msgspec.Struct) -> Iterator[str]:
        """Those that have not their default, nor 0 but in `OFFSETS`; frames as the batches that they are."""
        for field in msgspec.structs.fields(value):
            content = getattr(value, field.name)
            default = field.default_factory() if callable(field.default_factory) else field.default
            if content == default or (not content and field.name not in OFFSETS):
                continue
            if field.name == "batches" and content and isinstance(content[0], bytes):
                content = [_batch(each) for each in content]
            elif field.name == "command":
                content = decode_command(content)
            elif field.name == "status":
                content = STATUS[content]
            yield f"{field.name}={self._value(content)}"

    def _standings(self) -> Iterator[str]:
        """How each copy stands, if that has changed since the last command."""
        if self.world is None or self.log is None:
            return
        for number in sorted(self.world.disks):
            text = self._standing(number)
            if self._stands.get(number) != text:
                self._stands[number] = text
                yield text

    def _standing(self, number: int) -> str:
        world, log = self._running(), self._watched()
        words = " ".join(
            "-" if value is None else value.decode()
            for value in (world.values(number, log) if log in world.disks[number].logs else [])
        )
        node = world.nodes.get(number)
        replica = node.replicas.get(log) if node is not None else None
        if node is None or replica is None:
            return f"  node {number}: {'down' if node is None else 'no replica'} | {words}"
        record = node.metadata.partitions[log]
        role = "leads" if replica.leading is not None else "follows"
        members = ",".join(map(str, record.isr))
        ends = f"LEO {replica.leo}, durable {replica.durable_leo}, HW {replica.hw}"
        return f"  node {number}: {role} in epoch {replica.epoch}, ISR {members}; {ends} | {words}"


def _kind(event: Event) -> str:
    """What it is, in short: it matters only for what came of it."""
    if isinstance(event, TimerFired):
        return f"{event.kind} timer"
    return type(event.message if isinstance(event, Received) else event).__name__


def _batch(frame: bytes) -> Batch:
    header = read_header(frame)
    return Batch(header.base_offset, header.count, header.epoch, frame)
