"""What a journal's entries say, and what clients ask of one, in words, from the plain data of a trace.

Entries name records of the data; a story asks for those that its violation names, so these come first,
however many an entry names (`InQuestion`). Runs that a trace has left out count as named, as they may be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from liftlog_sim.explain.cone import partition_in
from liftlog_sim.runs.trace import read_batch

Fields = dict[str, Any]
Span = tuple[int, int]
"""Offsets, end excluded."""

FEW_RUNS, FEW_ENTRIES = 4, 3
OFTEN = ("Delivered", "Done", "SaidAgain")
"""Entries that are as many as messages, or of which each consumer has one."""
_ENTRY = re.compile(r'(\w+)\(((?:[^"()]|"(?:[^"\\]|\\.)*")*)\)')
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s,"]+|,')
_RUN = re.compile(r"(\d+)(?:\.\.(\d+))?(?:x(\d+))?")
_HOW = {
    "acked": "acked",
    "terminated": "terminated",
    "limit": "delivered as often as may be",
    "gone": "gone, and written off",
}


class InQuestion(msgspec.Struct, frozen=True):
    """What a story is about: offsets of the data, and consumers by number or name."""

    offsets: Sequence[Span] = ()
    consumers: Sequence[str] = ()
    done: bool = False
    """Whether it matters with which of these messages consumers are done."""

    def meets(self, spans: Iterable[Span]) -> bool:
        """Whether one of these offsets is in one of the spans."""
        return any(start < high and low < end for start, end in spans for low, high in self.offsets)

    def share(self, spans: Iterable[Span]) -> float:
        """How much of what is in question is in these spans, 0 to 1."""
        whole = sum(high - low for low, high in self.offsets)
        found = sum(
            max(0, min(end, high) - max(start, low)) for start, end in spans for low, high in self.offsets
        )
        return min(1.0, found / whole) if whole else 0.0


class JournalEntry(msgspec.Struct, frozen=True):
    """One entry. `fields`: by name what stands there, word by word. `place`: its offset in the journal."""

    place: int
    kind: str
    fields: dict[str, list[str]]

    def first(self, name: str) -> str:
        return (self.fields.get(name) or ["0"])[0]

    @property
    def who(self) -> tuple[str, ...]:
        """Of which consumer it speaks: by number, and by name where that is said."""
        if self.kind == "Created":
            instead = self.fields.get("instead", [])
            return (str(self.place + 1), *self.fields["name"], *instead)
        return tuple(each for name in ("consumer", "name") for each in self.fields.get(name, []))

    def names(self, question: InQuestion) -> list[Span]:
        """The offsets that are gone by it; those with which a consumer is done, or that it is given, if that
        is in question.
        """
        of_consumer = bool(question.consumers) or (question.done and self.kind != "Delivered")
        if self.kind != "RemovedRuns" and not of_consumer:
            return []
        found, left_out = self.runs, _left_out(self.fields.get("runs", []))
        return [*found, (found[-1][1], left_out[1] + 1)] if left_out else found

    @property
    def runs(self) -> list[Span]:
        """Those that are there."""
        return [(start, end) for start, end, _ in _runs(self.fields.get("runs", []))]

    def matters(self, question: InQuestion) -> float:
        """How much of what is in question it names; more, if it speaks of a consumer that is."""
        return question.share(self.names(question)) + any(each in question.consumers for each in self.who)


class Journals:
    """What the journals of all nodes say, as far as a story has come."""

    def __init__(self, question: InQuestion) -> None:
        self._question = question
        self._known: dict[tuple[int, str], dict[int, JournalEntry]] = {}
        """By node, 0: whoever wrote last, and journal: what stands where."""
        self._read: dict[tuple[int, str], list[Span]] = {}
        """What a process has written of it, or read."""

    def started(self, node: int) -> None:
        """Its process knows nothing yet."""
        self._read = {key: spans for key, spans in self._read.items() if key[0] != node}

    def learn(self, node: int, journal: str, batches: Sequence[Any]) -> None:
        """A node has appended these, or read them."""
        entries = {entry.place: entry for entry in entries_in(batches)}
        for who in (0, node):
            self._known.setdefault((who, journal), {}).update(entries)
        found = [read_batch(batch) for batch in batches]
        self._read.setdefault((node, journal), []).extend(batch[:2] for batch in found if batch is not None)

    def heeds(self, node: int, journal: str, start: int, end: int, log_start: int) -> tuple[str, list[Span]]:
        """That a node heeds so much more, with what is in question of it, and what of it is named."""
        said, names = self.said(node, journal, start, end)
        if end <= log_start:
            return f"begins to heed {journal} at {end}, where it starts", names
        spans = self._read.get((node, journal), ())
        read = any(low < end and start < high for low, high in spans)
        return f"heeds {journal} up to {end}{'' if read else ' without having read it'}{said}", names

    def said(self, node: int, journal: str, start: int, end: int) -> tuple[str, list[Span]]:
        """What is in question of what a journal says there, as the end of a sentence, and what that names."""
        entries = [
            entry
            for entry in self._between(node, journal, start, end)
            if entry.matters(self._question) or self._question.meets(self._names(node, journal, entry))
        ]
        return self.words(node, journal, entries, len(entries))

    def words(
        self, node: int, journal: str, entries: Sequence[JournalEntry], count: int
    ) -> tuple[str, list[Span]]:
        """What some of so many entries say, as the end of a sentence: those that name most of what is in
        question. And what all of them name.
        """
        names = [span for entry in entries for span in self._names(node, journal, entry)]
        if not entries:
            return "", names
        chosen = sorted(entries, key=lambda each: -each.matters(self._question))[:FEW_ENTRIES]
        chosen.sort(key=lambda each: each.place)
        told = [self._silent(node, journal, each) or entry_words(each, self._question) for each in chosen]
        if count == 1:
            return f": {told[0]}", names
        text = "; ".join(f"at {each.place}: {words}" for each, words in zip(chosen, told, strict=True))
        return f": {text}" + (f"; and {count - len(chosen)} more" if count > len(chosen) else ""), names

    def _between(self, node: int, journal: str, start: int, end: int) -> list[JournalEntry]:
        """What stands there: on this node, or, where it has not looked, on who wrote last."""
        own, others = (self._known.get((who, journal), {}) for who in (node, 0))
        found = [own.get(place) or others.get(place) for place in range(start, end)]
        return [entry for entry in found if entry is not None]

    def _names(self, node: int, journal: str, entry: JournalEntry) -> list[Span]:
        """What an entry names. Of a restatement's end: what is in question of what was to be named again."""
        return self._due(node, journal, entry) if entry.kind == "Restated" else entry.names(self._question)

    def _due(self, node: int, journal: str, entry: JournalEntry) -> list[Span]:
        begin, start = int(entry.first("begin")), int(entry.first("data_start"))
        before = [each for each in self._between(node, journal, 0, begin) if each.kind == "RemovedRuns"]
        return [
            (max(low, start, first), min(high, last))
            for low, high in self._question.offsets
            for each in before
            for first, last in each.runs
            if max(low, start, first) < min(high, last)
        ]

    def _silent(self, node: int, journal: str, entry: JournalEntry) -> str:
        """That a restatement does not name what is in question, though it went before; empty if it does, or
        if a trace has not all of it.
        """
        begin = int(entry.first("begin"))
        entries = self._between(node, journal, begin, entry.place)
        if entry.kind != "Restated" or len(entries) < entry.place - begin:
            return ""
        said = [span for each in entries if each.kind == "RemovedRuns" for span in each.names(self._question)]
        due = {offset for low, high in self._due(node, journal, entry) for offset in range(low, high)}
        left = sorted(offset for offset in due if not any(low <= offset < high for low, high in said))
        few = ", ".join(map(str, left[:FEW_RUNS])) + (" and others" if len(left) > FEW_RUNS else "")
        ends = f"a restatement begun at {begin} ends"
        return f"{ends}, and does not name {few}, which went before" if left else ""


def is_journal(log: str) -> bool:
    """By its name."""
    return log.endswith(".journal")


def entries_in(batches: Sequence[Any]) -> list[JournalEntry]:
    """What batches say, as a trace has them; as far as it has their entries."""
    found: list[JournalEntry] = []
    for text in batches:
        where = read_batch(text)
        if where is None:
            continue
        said = _ENTRY.findall(text.partition(": ")[2])
        found += [
            JournalEntry(where[0] + place, kind, _fields(inner)) for place, (kind, inner) in enumerate(said)
        ]
    return found


def entry_words(entry: JournalEntry, question: InQuestion | None = None) -> str:
    """What an entry says, as a sentence without an end."""
    say = _SAY.get(entry.kind)
    return say(entry, question or InQuestion()) if say is not None else "an entry that cannot be read"


def asked(name: str, request: Fields) -> tuple[str, list[Span]] | None:
    """What a client wants that is done by the journal, as the end of "is asked by a client to", and of which
    offsets; None if it is something else.
    """
    if name == "DeleteMessageRequest":
        offset = request["offset"]
        return f"delete offset {offset} of {partition_in(request)}", [(offset, offset + 1)]
    if name == "PurgeSubjectsRequest":
        pattern, below, keep = request["pattern"], request["below"], request["keep"]
        kept = f", but for the newest {keep}" if keep else ""
        return f"purge {pattern!r} below {below} of {partition_in(request)}{kept}", [(0, below)]
    return None


def told(
    name: str, reply: Fields, purge: Fields | None, state: dict[str, Any]
) -> tuple[str, list[Span], bool] | None:
    """What a client is told of that, as what follows "tells a client", of which offsets, and whether more is
    said than the node has committed by its own `state`. `purge`: what it had asked for.
    """
    by = f"by the journal below {reply['journal']}" if "journal" in reply else ""
    if name == "MessageDeleted":
        offset = reply["offset"]
        text, below = f"that offset {offset} of {partition_in(reply)} is deleted, {by}", offset + 1
        names = [(offset, below)]
    elif name == "SubjectsPurged":
        count = reply["messages"]
        what = f" of {purge['pattern']!r} below {purge['below']}" if purge is not None else ""
        text = f"that its purge{what} of {partition_in(reply)} is done, {by}: "
        text += f"{count} {'message' if count == 1 else 'messages'} went"
        below = purge["below"] if purge is not None else 0
        names = [(0, below)]
    else:
        return None
    data = partition_in(reply)
    for log, end in ((data, below), (f"{data}.journal", reply["journal"])):
        hw = state.get(f"{log} HW")
        if hw is not None and hw < end:
            return f", with only what lies below {hw} of {log} committed, {text}", names, True
    return f" {text}", names, False


def heeding(reply: Fields) -> str:
    """How far the journal is heeded in an answer, as the end of a sentence."""
    return f", heeding {partition_in(reply)}.journal up to {reply['journal']}" if "journal" in reply else ""


# -- entries -------------------------------------------------------------------------------------------------


def _fields(inner: str) -> dict[str, list[str]]:
    """`epoch 1, runs 3 9..11`: the words behind each name."""
    fields: dict[str, list[str]] = {}
    words: list[str] | None = None
    for token in _TOKEN.findall(inner):
        if token == ",":
            words = None
        elif words is None:
            words = fields.setdefault(token, [])
        else:
            words.append(msgspec.json.decode(token) if token.startswith('"') else token)
    return fields


def _runs(words: Sequence[str]) -> list[tuple[int, int, int]]:
    """(start, end, how often it was delivered) of each run that is there."""
    shown = words[: words.index("and")] if "and" in words else words
    found = [_RUN.match(each) for each in shown]
    return [
        (int(run[1]), int(run[2] or run[1]) + 1, int(run[3] or 1)) for run in found if run is not None
    ]


def _left_out(words: Sequence[str]) -> tuple[int, int] | None:
    """How many runs of a list are not there, and the last offset of the last one."""
    if "and" not in words:
        return None
    count, last = words[words.index("and") + 1], _RUN.match(words[-1])
    return int(count), int(last[2] or last[1]) if last is not None else 0


def _offsets(words: Sequence[str], question: InQuestion, of: str = "") -> tuple[str, bool]:
    """Runs in words, those that are in question first of all, and whether it is one offset."""
    runs = _runs(words)
    chosen = sorted(sorted(runs, key=lambda run: not question.meets([run[:2]]))[:FEW_RUNS])
    told = [f"{start}" if end == start + 1 else f"{start}..{end - 1}" for start, end, _ in chosen]
    left_out = _left_out(words)
    more = len(runs) - len(chosen) + (left_out[0] if left_out else 0)
    alone = len(runs) == 1 and not more and runs[0][1] == runs[0][0] + 1
    text = f"{'offset' if alone else 'offsets'} {', '.join(told)}"
    if more:
        text += f" and {more} more, the last one {left_out[1] if left_out else runs[-1][1] - 1},"
    return f"{text}{of}", alone


def _of(words: Sequence[str], question: InQuestion, what: str, of: str = "") -> str:
    offsets, alone = _offsets(words, question, of)
    return f"{offsets} {'is' if alone else 'are'} {what}"


def _removed(entry: JournalEntry, question: InQuestion) -> str:
    what = "done with" if "done_with" in entry.fields else "gone"
    return _of(entry.fields["runs"], question, what, f" of epoch {entry.first('epoch')}")


def _restated(entry: JournalEntry, question: InQuestion) -> str:
    begin, start = entry.first("begin"), entry.first("data_start")
    return f"a restatement begun at {begin} ends, of what is gone from offset {start} on"


def _created(entry: JournalEntry, question: InQuestion) -> str:
    instead = entry.first("instead")
    begins = f"begins in place of consumer {instead}" if int(instead) else "is created"
    text = f"consumer {entry.place + 1} ({entry.first('name')!r}) {begins}, {_filters(entry)}, "
    return f"{text}from offset {entry.first('start')}"


def _filters(entry: JournalEntry) -> str:
    filters = entry.fields.get("filters", [])
    return f"filtered by {', '.join(filters)}" if filters else "not filtered"


def _delivered(entry: JournalEntry, question: InQuestion) -> str:
    words, consumer = entry.fields.get("runs", []), entry.first("consumer")
    text = f"consumer {consumer} goes on to {entry.first('end')}"
    if not words:
        return text
    again = max(times for _, _, times in _runs(words))
    often = f" up to {again} times by now" if again > 1 else ""
    return f"{text}: {_of(words, question, 'delivered')}{often}"


def _done(entry: JournalEntry, question: InQuestion) -> str:
    how = _HOW.get(entry.first("how"), entry.first("how"))
    return f"consumer {entry.first('consumer')}: {_of(entry.fields['runs'], question, how)}"


def _dead(entry: JournalEntry, question: InQuestion) -> str:
    how = _HOW.get(entry.first("how"), entry.first("how"))
    return f"consumer {entry.first('consumer')}: {_of(entry.fields['runs'], question, 'dead')}, as {how}"


def _said_again(entry: JournalEntry, question: InQuestion) -> str:
    words = entry.fields.get("pending", [])
    pending = _of(words, question, "pending") if words else "nothing is pending"
    who = f"consumer {entry.first('consumer')} ({entry.first('name')!r})"
    return f"{who} stands at {entry.first('position')}, {pending}"


_SAY: dict[str, Callable[[JournalEntry, InQuestion], str]] = {
    "RemovedRuns": _removed,
    "Restated": _restated,
    "RolledUp": lambda e, _: f"all roll-ups below {e.first('through')} are acted on",
    "Outlived": lambda e, _: f"below {e.first('through')} none is left that is to go after a time",
    "Created": _created,
    "Altered": lambda e, _: f"consumer {e.first('consumer')} is altered, {_filters(e)}",
    "Delivered": _delivered,
    "Done": _done,
    "Dead": _dead,
    "Rewound": lambda e, _: (
        f"consumer {e.first('consumer')} goes back to {e.first('to')}, from where on the data are other ones"
    ),
    "ConsumerDeleted": lambda e, _: f"consumer {e.first('consumer')} is deleted",
    "SaidAgain": _said_again,
}
