"""Which earlier steps a step came from: who sent the message, asked the disk, set the timer.

Told as the steps of a run are taken. A message is known by its content: of several that are equal the last
one sent counts, which says as much.
"""

from __future__ import annotations

import re

import msgspec

from liftlog.messages import (
    AckPublishes,
    AskLasts,
    AskSubjects,
    Compacted,
    CompactLog,
    Drain,
    Drained,
    Durable,
    Effect,
    Event,
    FoldSubjects,
    LastsTold,
    LogOpened,
    LogRead,
    LogRepaired,
    LogStartMoved,
    LookupTime,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RebuildLog,
    Received,
    RefusePublishes,
    RepairLog,
    ReplyClient,
    RetainLog,
    Scrubbed,
    ScrubLog,
    Send,
    SetTimer,
    StorageFailed,
    SubjectsFolded,
    SubjectsTold,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    TimeFound,
    TimerFired,
)

_encode = msgspec.msgpack.Encoder().encode
Key = tuple[object, ...]

_JOBS: dict[type[Effect], str] = {
    OpenLog: "open",
    RebuildLog: "open",
    CompactLog: "compact",
    ScrubLog: "scrub",
    RepairLog: "repair",
    MoveLogStart: "start",
    RetainLog: "start",
    FoldSubjects: "fold",
}
_ANSWERS: dict[type[Event], str] = {
    Compacted: "compact",
    Scrubbed: "scrub",
    LogRepaired: "repair",
    LogStartMoved: "start",
    SubjectsFolded: "fold",
}


class Origins:
    """See the module. Steps are numbered from 0."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}
        self._asked: dict[Key, int] = {}
        self.replies: dict[int, int] = {}
        """The last step of each node that answered a client."""

    def began(self, node: int) -> None:
        """A process starts: nothing that its predecessor waited for comes."""
        for key in [key for key in self._asked if key[0] == node and key[1] != "send"]:
            del self._asked[key]

    def stepped(self, step: int, node: int, event: Event | None, effects: list[Effect]) -> list[int]:
        """The steps that this one came from, besides the one before it on its node."""
        found = self._asked.get(_cause(node, event)) if event is not None else self._last.get(node)
        self._last[node] = step
        for effect in effects:
            if isinstance(effect, (ReplyClient, AckPublishes, RefusePublishes)):
                self.replies[node] = step
                continue
            key = _asks(node, effect)
            if key is not None:
                self._asked[key] = step
        return [] if found is None else [found]


def _asks(node: int, effect: Effect) -> Key | None:
    """What answers an effect is known by."""
    if isinstance(effect, Send):
        return node, "send", effect.to, _encode(effect.message)
    if isinstance(effect, SetTimer):
        return node, "timer", effect.kind
    if isinstance(effect, (ReadLog, LookupTime, AskSubjects, AskLasts)):
        return node, "read", effect.log, effect.request
    if isinstance(effect, (Subscribe, Drain)):
        return node, "bus", effect.partition
    name = _JOBS.get(type(effect))
    if name is not None:
        return node, name, effect.log  # type: ignore[attr-defined]
    ticket = getattr(effect, "ticket", 0)
    return (node, "ticket", ticket) if ticket else None


def _cause(node: int, event: Event) -> Key:
    if isinstance(event, Received):
        return event.sender, "send", node, _encode(event.message)
    if isinstance(event, (Durable, StorageFailed)):
        return node, "ticket", event.ticket
    if isinstance(event, TimerFired):
        return node, "timer", event.kind
    if isinstance(event, (LogRead, TimeFound, SubjectsTold, LastsTold)) or (
        isinstance(event, SubjectsFolded) and event.request
    ):
        return node, "read", event.log, event.request
    if isinstance(event, (Subscribed, Drained, SubscriptionRefused)):
        return node, "bus", event.partition
    if isinstance(event, LogOpened):
        return node, "open", event.summary.log
    return node, _ANSWERS.get(type(event), ""), getattr(event, "log", None)


NODE_NAMED = re.compile(r"\bnode (\d+)\b")


def named_node(text: str) -> int:
    """The node that a text names first; 0 = none."""
    found = NODE_NAMED.search(text)
    return int(found.group(1)) if found else 0
