"""What happened in a step, in words: who did what to what, and what about it is worth saying.

One pass over the trace, since much can only be said by who remembers: whose votes elected somebody, what a
node held before its process died.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from liftlog_sim.explain import consumer_words, journal_words
from liftlog_sim.explain.bundle import Bundle, TracedStep
from liftlog_sim.explain.command_words import command_words, partition_of
from liftlog_sim.explain.cone import GROUP, partition_in
from liftlog_sim.explain.journal_words import InQuestion, Journals, Span, entries_in, is_journal
from liftlog_sim.explain.states import State
from liftlog_sim.runs.trace import read_batch

_USUAL = ("Liftlog-Key:", "Liftlog-Tombstone:", "Liftlog-Ack: full", "Nats-Expected-Stream:")
"""Headers that need not be told."""


_OFTEN_ASKED = ("PullRequest", "SettleRequest")


class Fact(msgspec.Struct, frozen=True):
    """One thing that happened. `weight`: how much it matters in general, 0 to 10."""

    at_step: int
    node: int
    weight: float
    subject: str
    text: str
    span: tuple[int, int] = (0, 0)
    """Of offsets or indexes, end excluded, that it is about."""
    numbers: tuple[int, ...] = ()
    """Terms or epochs that it is about."""
    about: str = ""
    """The partition of which it speaks, though it is the group's."""
    who: tuple[str, ...] = ()
    """Of which consumers, by number or name."""
    names: tuple[tuple[int, int], ...] = ()
    """Offsets of the data that are to be gone, or are said to be, as a journal has it (R21)."""
    order: int = 0
    """The how-manieth it is."""


class Narrator:
    """Says what each step of a bundle was. `facts` in the order of the steps. `question`: of what a journal's
    entries name, what is not to be left out.
    """

    def __init__(self, bundle: Bundle, question: InQuestion | None = None) -> None:
        self._bundle = bundle
        self._question = question or InQuestion()
        self._state: dict[int, State] = {}
        self._former: dict[int, State] = {}
        self._votes: dict[tuple[int, int], list[int]] = {}
        self._opened: dict[tuple[int, str], int] = {}
        self._step = 0
        self._node = 0
        self.facts: list[Fact] = []
        self._events: dict[str, Callable[[Any], None]] = {
            "StorageFailed": self._storage_failed,
            "LogOpened": self._log_opened,
            "LogRead": self._log_read,
            "Compacted": self._compacted,
            "LogStartMoved": self._start_moved,
            "SubscriptionRefused": self._refused_by_nats,
            "Subscribed": self._subscribed,
            "BusDown": lambda fields: self._say(4, GROUP, "loses its connection to NATS"),
            "PeerLost": lambda fields: self._say(
                6, GROUP, f"is told that nobody listens where node {fields['peer']} was"
            ),
            "StopRequested": lambda fields: self._say(4, GROUP, "is asked to stop"),
            "ClientRequest": self._client_asks,
            "LogRepaired": lambda fields: self._say(
                3, partition_in(fields), f"puts refetched records of {partition_in(fields)} in place"
            ),
            "Scrubbed": self._scrubbed,
        }
        self._asked: set[str] = set()
        self._altered = frozenset(bundle.altered)
        self._entries: dict[tuple[int, int], Any] = {}
        """What the entries of a node's group log say, by node and index."""
        self._journals = Journals(self._question)
        self._purging: dict[tuple[int, int], Any] = {}
        """What the clients of a node have asked it to purge."""
        for step in range(len(bundle.trace)):
            self._tell(step)

    # -- one step ------------------------------------------------------------------------------------------

    def _say(
        self,
        weight: float,
        subject: str,
        text: str,
        span: tuple[int, int] = (0, 0),
        numbers: tuple[int, ...] = (),
        about: str = "",
        who: tuple[str, ...] = (),
        names: Sequence[Span] = (),
    ) -> None:
        text = f"node {self._node} {text}"
        order, named = len(self.facts), tuple(names)
        self.facts.append(
            Fact(self._step, self._node, weight, subject, text, span, numbers, about, who, named, order)
        )

    def _tell(self, step: int) -> None:
        traced = self._bundle.trace[step]
        changed = self._bundle.changes[step]
        self._step, self._node = step, traced.node
        if traced.event is None:
            # A process that ended before it opened a log knew nothing of it.
            self._former.setdefault(traced.node, {}).update(self._state.get(traced.node, {}))
            self._state[traced.node] = {}
            self._journals.started(traced.node)
            self._started(changed)
        self._learn(traced)
        before = self._state.setdefault(traced.node, {})
        after = {**before, **changed}
        if traced.event is not None:
            self._group(traced, before, after, changed)
            for partition in sorted({key.partition(" ")[0] for key in changed if "/" in key}):
                self._partition(traced, partition, before, after, changed)
            told = self._events.get(traced.event[0])
            if told is not None:
                told(traced.event[1])
        self._effects(traced, before, after)
        if step in self._altered and changed:
            self._deceived(traced)
        self._state[traced.node] = after

    def _deceived(self, traced: TracedStep) -> None:
        """It has taken what nobody honest had sent: that is told before what came of it."""
        event = traced.event
        if event is None or event[0] != "Received":
            return
        said = [fact for fact in self.facts if fact.at_step == self._step]
        first = max(said, key=lambda fact: fact.weight, default=None)
        subject, span, numbers = (first.subject, first.span, first.numbers) if first else (GROUP, (0, 0), ())
        name, sender = event[1]["message"][0], event[1]["sender"]
        article = "an" if name.startswith("A") else "a"
        text = f"takes {article} {name} of node {sender} that was altered on its way"
        self._say(9, subject, text, span, numbers)

    def _started(self, state: State) -> None:
        former = self._former[self._node]
        if not former:
            self._say(1, GROUP, "starts for the first time")
            return
        now, then = _memory(state), _memory(former)
        if now == then:
            self._say(3, GROUP, f"starts again and remembers {now}")
        else:
            self._say(6, GROUP, f"starts again and remembers {now}; before its process ended it had {then}")

    def _group(self, traced: TracedStep, before: State, after: State, changed: State) -> None:
        event, fields = traced.event
        term = after.get("raft term", 0)
        sender = fields.get("sender", 0)
        message, letter = fields["message"] if event == "Received" else ("", {})
        if message == "VoteReply" and letter.get("granted") and not letter.get("pre_vote"):
            self._votes.setdefault((self._node, letter["term"]), []).append(sender)
        if message == "HeartbeatReply":
            self._say(1.5, GROUP, f"hears from the controller, node {sender}: its session lives on")
        if "raft role" in changed:
            role, was = after["raft role"], before.get("raft role")
            if role == "leader":
                votes = sorted(set(self._votes.get((self._node, term), [])) | {self._node})
                last = after.get("raft last")
                text = f"becomes controller of term {term} with the votes of {_nodes(votes)}"
                self._say(8, GROUP, f"{text}; its log ends at index {last}", numbers=(term,))
            elif was == "leader":
                self._say(4, GROUP, f"is controller no more (term {term})", numbers=(term,))
            elif role == "candidate":
                self._say(3, GROUP, f"stands for election in term {term}", numbers=(term,))
        vote = after.get("raft vote", 0)
        voted = "raft vote" in changed or ("raft term" in changed and vote)
        if voted and vote not in (0, self._node) and message == "VoteRequest":
            early = _leaves_early(traced, "VoteReply", "SaveHardState")
            also = "; its answer leaves before that is synced" if early else ""
            length = many(letter["last_index"], "entry")
            also += f" (candidate's log: {length}, the last of term {letter['last_term']})"
            text = f"gives node {vote} its vote in term {term}{also}"
            self._say(6 + early, GROUP, text, numbers=(term,))
        elif message == "VoteRequest" and not letter["pre_vote"] and _grants(traced):
            text = f"says yes to node {sender} in term {letter['term']}"
            self._say(6, GROUP, text, numbers=(letter["term"],))
        last, was_last = after.get("raft last", 0), before.get("raft last", 0)
        if last < was_last:
            text = f"cuts the group's log from {many(was_last, 'entry')} to {last} (node {sender} leads)"
            self._say(6, GROUP, text, (last + 1, was_last + 1), (term,))
        elif last > was_last and message == "AppendRequest":
            early = _leaves_early(traced, "AppendReply", "AppendLog")
            also = "; its ack leaves before they are synced" if early else ""
            text = f"takes {_entries(was_last + 1, last + 1)} of the group's log from node {sender}{also}"
            self._say(1.5 + early, GROUP, text, (was_last + 1, last + 1), (letter["term"],))
        elif last > was_last:
            text = f"as controller of term {term} proposes {_entries(was_last + 1, last + 1)}"
            self._entries_say(2, text, was_last + 1, last + 1, term)
        commit, was_commit = after.get("raft commit", 0), before.get("raft commit", 0)
        if commit > was_commit:
            how = f"as node {sender} says" if message else "by its own synced copy"
            if message == "AppendReply":
                how = f"with the answer of node {sender}"
            text = f"takes {_entries(was_commit + 1, commit + 1)} for committed, {how}"
            heard = 1.5 if message == "AppendRequest" else 2.5
            self._entries_say(heard, text, was_commit + 1, commit + 1, term)
        if changed.get("incarnation"):
            again = 5 if self._former.get(self._node) else 2
            self._say(again, GROUP, f"is registered as incarnation {changed['incarnation']}")

    def _learn(self, traced: TracedStep) -> None:
        """Entries of the group's log that this node has sent or received."""
        letters = [fields["message"] for name, fields in traced.effects if name == "Send"]
        if traced.event is not None and traced.event[0] == "Received":
            letters.append(traced.event[1]["message"])
        for name, letter in letters:
            if name == "AppendRequest":
                for _, entry in letter["entries"]:
                    self._entries[traced.node, entry["index"]] = entry["data"]
        asked = [fields for name, fields in traced.effects if name == "AppendLog"]
        if traced.event is not None and traced.event[0] == "LogRead":
            asked.append(traced.event[1])
        for fields in asked:
            journal = partition_in(fields)
            if is_journal(journal):
                self._journals.learn(traced.node, journal, fields["batches"])

    def _entries_say(self, weight: float, text: str, start: int, end: int, term: int) -> None:
        """Say something about entries of the group's log, with what they say. Where all of them are about one
        partition, that is a fact about it.
        """
        commands = [self._entries.get((self._node, index)) for index in range(start, end)]
        said = [words for words in map(command_words, commands) if words]
        if 0 < len(said) <= 2:
            text += f": {'; '.join(said)}"
        about = {partition_of(command) for command in commands}
        partition = about.pop() if len(about) == 1 else ""
        self._say(weight, GROUP, text, (start, end), (term,), partition)

    def _asks(self, command: Any) -> None:
        """A node asks the group for something, for the first time."""
        if isinstance(command, list) and str(command[1]["request"]) not in self._asked:
            self._asked.add(str(command[1]["request"]))
            words = f"asks the group: {command_words(command)}"
            self._say(2, GROUP, words, about=partition_of(command))

    def _partition(
        self, traced: TracedStep, partition: str, before: State, after: State, changed: State
    ) -> None:
        def get(name: str, state: State = after) -> Any:
            return state.get(f"{partition} {name}")

        def moved(name: str) -> bool:
            return f"{partition} {name}" in changed

        epoch, role = get("epoch"), get("role")
        if moved("LEO") and get("LEO", before) is None:
            self._found(partition, get("LEO"))
        if (moved("role") or moved("epoch")) and role == "leader":
            text = f"becomes leader of {partition} in epoch {epoch}; its log ends at {get('LEO')}"
            # Of a journal that is told of the data, as what is said of its ISR.
            weight = 2 if is_journal(partition) else 8
            self._say(weight, partition, text, (get("LEO") or 0, (get("LEO") or 0) + 1), (epoch,))
        elif (moved("role") or moved("epoch")) and role == "follower":
            text = f"follows node {get('leader')} in {partition}, epoch {epoch}, from offset {get('LEO')}"
            self._say(3, partition, text, numbers=(epoch,))
        elif moved("role") and get("role", before) == "leader":
            self._say(5, partition, f"leads {partition} no more (epoch {epoch})", numbers=(epoch,))
        if moved("ISR") and get("ISR", before) is not None:
            text = f"applies the ISR of {partition}: {get('ISR', before)} -> {get('ISR')}"
            self._say(2 if is_journal(partition) else 5, partition, text)
        if moved("ready") and get("ready") and get("leader") == self._node:
            self._say(3, partition, f"is taken for ready to lead {partition}, as the group knows now")
        if (
            moved("HW")
            and get("HW", before) is not None
            and role == "leader"
            and get("HW") > get("HW", before)
        ):
            low, high = get("HW", before), get("HW")
            text = f"commits {partition} up to {high} with the ISR {get('ISR')}"
            said, names = self._journals.said(self._node, partition, low, high)
            text += _durable_of(traced) + said
            self._say(3, partition, text, (low, high), (epoch,), names=names)
        low, high = get("heeded", before) or 0, get("heeded") or 0
        # Of a leader it is said by what it commits.
        if high > low and not (role == "leader" and moved("HW") and high == get("HW")):
            text, names = self._journals.heeds(self._node, partition, low, high, get("log start") or 0)
            self._say(2, partition, text, (low, high), names=names)
        if moved("state") and get("state") == "failed":
            self._say(6, partition, f"stops its copy of {partition}: it can no longer trust it")
        if moved("damaged") and get("damaged"):
            self._say(6, partition, f"notes that {', '.join(get('damaged'))} of {partition} are damaged")

    # -- effects -------------------------------------------------------------------------------------------

    def _effects(self, traced: TracedStep, before: State, after: State) -> None:
        for name, fields in traced.effects:
            partition = partition_in(fields)
            if name == "AppendLog" and partition:
                self._append(traced, partition, fields, after)
            elif name == "TruncateLog" and partition:
                self._truncate(traced, partition, fields, before)
            elif name == "AckPublishes":
                self._ack(partition, fields, after)
            elif name == "RefusePublishes":
                self._say(2, partition, f"refuses messages to {partition}: {fields['description']}")
            elif name == "ResetLog":
                text = f"forgets all of {partition} and begins anew at {fields['start']}"
                self._say(6, partition, text, (0, before.get(f"{partition} LEO") or 0))
            elif name == "RebuildLog":
                self._say(6, partition, f"rebuilds {partition} from what lies below {fields['keep_below']}")
            elif name == "OpenLog" and fields["fresh"]:
                self._say(5, partition, f"begins its copy of {partition} empty")
            elif name == "MoveLogStart":
                self._say(4, partition, f"lets go of {partition} below {fields['offset']}")
            elif name == "RetainLog":
                self._say(2, partition, f"lets {partition} go below {fields['limit']} as retention allows")
            elif name == "CompactLog":
                below = f"compacts {partition} below {fields['below']}"
                self._say(2, partition, f"{below}, tombstones below {fields['tombstones_below']}")
            elif name == "Subscribe":
                self._say(3, partition, f"asks NATS for its subscription to {partition}")
            elif name == "ReplyClient":
                self._reply(fields, after)
            elif name == "ReadLog":
                self._say(1, partition, f"asks its disk for {partition} from {fields['offset']}")
            elif name == "Send" and fields["message"][0] == "FetchReply":
                self._fetch_reply(traced, fields["message"][1], fields["to"])
            elif name == "Send" and fields["message"][0] == "Forward":
                self._asks(fields["message"][1]["command"])
            elif name == "CheckpointHw":
                text = f"has the HW {fields['hw']} of {partition} remembered on its disk"
                self._say(1, partition, text)
            elif name == "Raised":
                self._raised(traced, fields)
            elif name == "StopNode":
                self._say(8, GROUP, f"ends its process: {fields['reason']}")

    def _raised(self, traced: TracedStep, fields: Any) -> None:
        event = traced.event
        subject = (partition_in(event[1]) if event is not None else "") or GROUP
        over = f"over {kind_of(event)}" if event is not None else "as it starts"
        where = f" ({fields['place']})" if fields["place"] else ""
        self._say(10, subject, f"raises {over}: {fields['error']}{where}")

    def _append(self, traced: TracedStep, partition: str, fields: Any, after: State) -> None:
        said = entries_in(fields["batches"]) if is_journal(partition) else []
        for start, end, epoch in _batches(fields["batches"]):
            span = f"{_offsets(start, end)} of {partition}"
            event = traced.event
            if event is not None and event[0] == "Published":
                values = [_value(message) for message in event[1]["messages"]]
                text = f"as leader in epoch {epoch} stores {_few(values)} at {span}"
                text += "".join(f"; {wish}" for wish in _wishes(event[1]["messages"])[:1])
                self._say(2, partition, text, (start, end), (epoch,))
                continue
            entries = [entry for entry in said if start <= entry.place < end]
            words, names = self._journals.words(self._node, partition, entries, end - start)
            if event is not None and event[0] == "Received" and event[1]["message"][0].endswith("Reply"):
                text = f"copies {span}, epoch {epoch}, from node {event[1]['sender']}{words}"
                self._say(1 if entries else 2, partition, text, (start, end), (epoch,))
                continue
            often = bool(entries) and all(each.kind in journal_words.OFTEN for each in entries)
            who = tuple(dict.fromkeys(each for entry in entries for each in entry.who))
            removes = any(each.kind == "RemovedRuns" for each in entries)
            by_index = removes and event is not None and event[0] in ("SubjectsTold", "LastsTold")
            why = ", as its subject index tells it" if by_index else ""
            text = f"writes {span}, epoch {epoch}{why}{words}"
            weight = 2 if not entries else 1 if often else 4
            self._say(weight, partition, text, (start, end), (epoch,), who=who, names=names)

    def _truncate(self, traced: TracedStep, partition: str, fields: Any, before: State) -> None:
        offset = fields["offset"]
        was = before.get(f"{partition} LEO") or self._opened.get((self._node, partition), 0)
        event = traced.event
        why = ""
        if event is not None and event[0] == "Received" and event[1]["message"][0] == "FetchReply":
            reply = event[1]["message"][1]
            where = f"epoch {reply['end_epoch']} ends at {reply['end_offset']}"
            why = f", since node {event[1]['sender']} says that {where}"
        elif (before.get(f"{partition} HW") or 0) == offset:
            why = ", where its HW is, without asking anybody"
        text = (
            f"cuts its copy of {partition} from {was} to {offset}{why}"
            if was > offset
            else f"cuts {partition} to {offset}{why}"
        )
        self._say(
            7, partition, text, (offset, max(was, offset + 1)), (before.get(f"{partition} epoch") or 0,)
        )

    def _ack(self, partition: str, fields: Any, after: State) -> None:
        start = fields["offsets_from"]
        end = start + (fields.get("records") or len(fields["replies"]))
        hw = after.get(f"{partition} HW") or 0
        also = f", but has committed only what lies below {hw}" if hw < end else ""
        if fields.get("by_leader"):
            also = " by its own word alone"
        text = f"acknowledges {_offsets(start, end)} of {partition} in epoch {fields['epoch']}{also}"
        unsaid = bool(also) and not fields.get("by_leader")
        self._say(7 if unsaid else 2, partition, text, (start, end), (fields["epoch"],))

    def _reply(self, fields: Any, after: State) -> None:
        name, reply = fields["reply"] if isinstance(fields["reply"], list) else ("", {})
        if name == "StreamInfoReply":
            streams = [each[1]["config"][1]["name"] for each in reply["streams"]]
            told = ", ".join(streams) or "there are none"
            self._say(2, GROUP, f"tells a client of streams, as of index {self._applied()}: {told}")
        elif name == "ErrorReply":
            self._say(2, GROUP, f"answers a client with {reply.get('code')}")
        elif gone := journal_words.told(
            name, reply, self._purging.get((self._node, fields["client"])), after
        ):
            text, names, too_much = gone
            self._say(7 if too_much else 2, partition_in(reply), f"tells a client{text}", names=names)
        elif about := consumer_words.told(name, reply):
            weight = 2 if reply.get("runs", True) else 1
            for text, who in about:
                self._say(weight, partition_in(reply), f"tells a client {text}", who=who)
        elif name in ("ReadReply", "VisibleReadReply", "LatestReply", "OffsetReply", "TimeReply"):
            text = f"answers a client's read with {name}{journal_words.heeding(reply)}"
            self._say(2, partition_in(reply), text)
        elif name:
            self._say(2, partition_in(reply) or GROUP, f"answers a client with {name}")

    def _applied(self) -> int:
        return int(self._state.get(self._node, {}).get("applied") or 0)

    def _fetch_reply(self, traced: TracedStep, reply: Any, to: int) -> None:
        if reply["status"] == 1:
            partition = partition_in({"partition": reply["partition"]})
            epoch, end = reply["end_epoch"], reply["end_offset"]
            whose = ""
            if traced.event is not None and traced.event[0] == "Received" and traced.event[1]["sender"] == to:
                asked = traced.event[1]["message"][1]
                whose = f", which says that its log ends at {asked['offset']} in epoch {asked['last_epoch']},"
            text = f"tells node {to}{whose} that epoch {epoch} of {partition} ends at {end}"
            self._say(5, partition, text, (end, end + 1), (epoch,))

    # -- events --------------------------------------------------------------------------------------------

    def _client_asks(self, fields: Any) -> None:
        name, request = fields["request"]
        if (about := consumer_words.asked(name, request)) is not None:
            text, who = about
            weight = 1 if name in _OFTEN_ASKED else 3
            self._say(weight, partition_in(request), f"is asked by a client to {text}", who=who)
        elif (gone := journal_words.asked(name, request)) is not None:
            if name == "PurgeSubjectsRequest":
                self._purging[self._node, fields["client"]] = request
            text, names = gone
            self._say(2, partition_in(request), f"is asked by a client to {text}", names=names)
        elif name in ("CreateStreamRequest", "DeleteStreamRequest", "PurgeRequest", "ElectLeaderRequest"):
            what = request.get("stream") or request.get("name") or partition_in(request) or ""
            if name == "CreateStreamRequest":
                what = request["config"][1]["name"]
            verb = {"C": "create", "D": "delete", "P": "purge", "E": "elect a leader of"}[name[0]]
            self._say(3, GROUP, f"is asked by a client to {verb} {what}")
        elif name == "AlterStreamRequest":
            changes = ", ".join(f"{field} {value}" for field, value in request["changes"][1].items())
            self._say(3, GROUP, f"is asked by a client to give {request['name']} {changes}")
        elif name == "StreamInfoRequest":
            self._say(2, GROUP, "is asked by a client what streams there are")
        elif name == "SetVoterRequest":
            vote = "give a vote to" if request["votes"] else "take the vote of"
            self._say(3, GROUP, f"is asked by a client to {vote} node {request['node']}")
        elif name == "RaiseLevelRequest":
            self._say(3, GROUP, "is asked to raise the feature level")
        elif name == "TransferControllerRequest":
            self._say(3, GROUP, "is asked to hand the controller's office over")

    def _storage_failed(self, fields: Any) -> None:
        what = "a sync" if fields["sync"] else "a write"
        partition = partition_in(fields)
        self._say(7, partition or GROUP, f"is told that {what} of {partition or 'the group log'} failed")

    def _log_opened(self, fields: Any) -> None:
        summary = fields["summary"][1]
        partition = partition_in(summary)
        if not partition:
            return
        leo = self._opened[self._node, partition] = summary["leo"]
        if not self._found(partition, leo):
            self._say(2, partition, f"opens {partition} up to {leo}")

    def _log_read(self, fields: Any) -> None:
        journal = partition_in(fields)
        if not is_journal(journal):
            return
        entries = entries_in(fields["batches"])
        for start, end, _ in _batches(fields["batches"]):
            some = [entry for entry in entries if start <= entry.place < end]
            words, _ = self._journals.words(self._node, journal, some, end - start)
            text = f"reads {_offsets(start, end)} of {journal} from its disk{words}"
            self._say(1, journal, text, (start, end))

    def _found(self, partition: str, leo: int) -> bool:
        """Say what a process begins with, if it is less than the one before it had: once."""
        known = self._former.get(self._node, {})
        former = known.pop(f"{partition} durable LEO", None)
        if former is None or former <= leo:
            return False
        text = f"finds its copy of {partition} to end at {leo}; before its process ended {former} was durable"
        self._say(8, partition, text, (leo, former))
        return True

    def _scrubbed(self, fields: Any) -> None:
        if fields["damage"]:
            self._say(6, partition_in(fields), f"finds damage in {partition_in(fields)}, by a scrub")

    def _compacted(self, fields: Any) -> None:
        partition = partition_in(fields)
        if fields["error"]:
            self._say(3, partition, f"cannot compact {partition}: {fields['error']}")
            return
        point, dropped = fields["clean_point"], fields["dropped_below"]
        text = f"has compacted {partition} up to {point}, tombstones below {dropped} may be gone"
        self._say(4, partition, text, (0, point))

    def _start_moved(self, fields: Any) -> None:
        partition = partition_in(fields)
        was = self._state.get(self._node, {}).get(f"{partition} log start") or 0
        if fields["log_start"] > was:
            text = f"has let {_offsets(was, fields['log_start'])} of {partition} go"
            self._say(4, partition, text, (was, fields["log_start"]))

    def _refused_by_nats(self, fields: Any) -> None:
        partition = partition_in(fields)
        self._say(7, partition, f"is refused its subscription to {partition} by NATS")

    def _subscribed(self, fields: Any) -> None:
        self._say(
            3, partition_in(fields), f"has its subscription to {partition_in(fields)} confirmed by NATS"
        )


# -- parts of sentences --------------------------------------------------------------------------------------


def many(number: int, noun: str, plural: str = "") -> str:
    """`1 node`, `3 nodes`."""
    plural = plural or {"entry": "entries", "batch": "batches"}.get(noun, noun + "s")
    return f"{number} {noun if number == 1 else plural}"


def kind_of(event: list[Any]) -> str:
    """What an event is, in a word or two."""
    name, fields = event
    if name == "Received":
        return f"{fields['message'][0]} from node {fields['sender']}"
    if name == "StorageWork":
        return "what its storage has to do"
    where = partition_in(fields)
    return f"{name} of {where}" if where else f"{name}"


def _memory(state: State) -> str:
    vote = state.get("raft vote") or 0
    voted = f"its vote for node {vote}" if vote else "no vote"
    return f"term {state.get('raft term', 0)}, {voted}, {many(state.get('raft last', 0), 'entry')}"


def _nodes(nodes: list[int]) -> str:
    return ("node " if len(nodes) == 1 else "nodes ") + ", ".join(map(str, nodes))


def _entries(start: int, end: int) -> str:
    return f"index {start}" if end == start + 1 else f"indexes {start}..{end - 1}"


def _offsets(start: int, end: int) -> str:
    return f"offset {start}" if end == start + 1 else f"offsets {start}..{end - 1}"


def _batches(batches: list[Any]) -> Iterator[tuple[int, int, int]]:
    """(start, end, epoch) of what neighbours together."""
    joined: list[tuple[int, int, int]] = []
    for batch in batches:
        found = read_batch(batch)
        if found is None:
            continue
        start, end, epoch = found
        if joined and joined[-1][1] == start and joined[-1][2] == epoch:
            joined[-1] = (joined[-1][0], end, epoch)
        else:
            joined.append(found)
    return iter(joined)


def _value(message: Any) -> str:
    return str(message["value"]).rstrip(".")[:16]


def _wishes(messages: list[Any]) -> list[str]:
    """What messages ask for in their headers, besides what is done anyway."""
    found: list[str] = []
    for message in messages:
        headers = str(message["headers"]).rstrip(".")
        if headers.startswith("0x"):
            headers = bytes.fromhex(headers[2:]).decode("ascii", "replace")
        lines = [line for line in headers.split("\r\n") if ":" in line and not line.startswith(_USUAL)]
        found += [f"{_value(message)} asks for {line}" for line in lines]
    return found


def _few(values: list[str]) -> str:
    return ", ".join(values[:3]) + (f" and {len(values) - 3} more" if len(values) > 3 else "")


def _grants(traced: TracedStep) -> bool:
    return any(
        name == "Send" and fields["message"][0] == "VoteReply" and fields["message"][1]["granted"]
        for name, fields in traced.effects
    )


def _leaves_early(traced: TracedStep, reply: str, write: str) -> bool:
    """Whether a step lets a positive answer go at once although it asks for a write that it rests on."""
    writes = any(name == write for name, _ in traced.effects)
    return writes and any(
        name == "Send"
        and fields["message"][0] == reply
        and not fields["after"]
        and (fields["message"][1].get("granted") or fields["message"][1].get("success"))
        for name, fields in traced.effects
    )


def _durable_of(traced: TracedStep) -> str:
    """Whose word moved the HW."""
    event, fields = traced.event
    if event != "Received" or fields["message"][0] not in ("Fetch", "FetchProgress"):
        return ""
    durable = fields["message"][1]["durable_leo"]
    return f", since node {fields['sender']} is durable up to {durable}"
