"""An operator who alters streams while they are in use (R19): how their logs are written, how many copies
must be in sync, how many partitions there are, and that they take nothing: read-only (R19), or paused (N1).

What is asked for is judged in `truth/authors.py`: an alteration is somebody's who waited for it, and changes
what it names. A stream that was closed so is given back after a while, also when all load is over, so
that it can be written when everything is whole again. Partitions that were added are used by all clients, and
by them alone: somebody else wants a stream on such a subject (N7). He never deletes it: a node that has not
heard of a deletion may still answer for a moment.
"""

from __future__ import annotations

from typing import Any

from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    StreamChanges,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.types import StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.targets import Target

BESIDE = "beside"
MINIMUM_SHARE = 0.4
"""How often it is the minimum in sync that is altered, in worlds in which it is at all."""
TO_WHAT_THERE_IS = 0.7
"""How often who sees that too few are in sync for messages to be acked lowers the minimum to these."""
CLOSED_SHARE = 0.3
PAUSED_SHARE = 0.5
"""Of the streams that are closed."""
ELECTS_SHARE = 0.5
"""How often another leader is wanted for a partition just before its stream is paused."""
ELECTED_US = 150 * MILLISECOND
CLOSES = {"read_only": StreamChanges(read_only=True), "paused": StreamChanges(paused=True)}
OPENS = {"read_only": StreamChanges(read_only=False), "paused": StreamChanges(paused=False)}
RIVAL_SHARE = 0.4
"""How often two operators alter a stream at once, by two nodes."""
GROW_SHARE = 0.3
"""How often a stream is to have another number of partitions, where it may; fewer are refused."""
BESIDE_SHARE = 0.15
"""How often somebody asks for a stream on the subject of a partition instead."""
LIMIT_SHARE = 0.3
"""How often it is the limit that is altered of a stream that has one, by subject (R22) or another (R25)."""
SUBJECTS_SHARE = 0.6
"""How often it is the subjects that are altered, of a stream that has several (N10)."""
SUBJECTS_KEPT, OVERLAPPING_SHARE = 0.6, 0.1
ROLL_UP_SHARE = 0.2
"""And how often whether messages may roll up others, of a stream of which they may (R23)."""
TTL_SHARE = 0.1
"""And whether they may say for how long they stay (R24)."""
INTEREST_SHARE = 0.15
"""And whether messages go by interest, of a stream of which they did (R27)."""
LOCKED_MAX_US = 2 * SECOND
BATCHES_SHARE = 0.1
PAYLOAD_SHARE = 0.08
"""How often it is said anew how large a message may be (N10); all that are sent fit."""
AGAIN_US = 300 * MILLISECOND


class Alterer:
    """Alters one stream after the other, without waiting for what becomes of it."""

    __slots__ = ("_account", "_cluster", "_lifts", "_locked", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._turns = self._cluster.chances.turns("alterer/0", self._cluster.knobs.alter_interval_us)
        self._locked: set[str] = set()
        """Streams that are read-only or paused, or may yet become so."""
        self._lifts = 0

    def start(self) -> None:
        if self._cluster.knobs.alter_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        draws = turn.draws
        turn.noted()
        target = self._shared.any_target(draws)
        if target is not None and not self._alters_minimum(turn, target):
            self._alter(turn, target)
        self._turns.take(self._fire)

    def _alter(self, turn: Turn, target: Target) -> None:
        draws, stream = turn.draws, target.stream
        if self._cluster.knobs.partitions_max and draws.part("grow").random() < GROW_SHARE:
            self._grow(turn.name, target, draws.part("grown"))
        elif target.config.keeps_of_subject and draws.part("limit").random() < LIMIT_SHARE:
            keeps = StreamChanges(max_messages_per_subject=draws.part("keeps").choice((0, 1, 2, 3, 8)))
            self._ask(turn.name, stream, draws, keeps)
        elif target.config.limits_front and draws.part("front").random() < LIMIT_SHARE:
            self._ask(turn.name, stream, draws, _front_changes(target, draws.part("fronts")))
        elif target.more_subjects and draws.part("subjects").random() < SUBJECTS_SHARE:
            self._ask(turn.name, stream, draws, _subjects(target, draws.part("subjects", "chosen")))
        elif target.config.rolls_up and draws.part("roll-up").random() < ROLL_UP_SHARE:
            allows = StreamChanges(allow_rollup=draws.part("allows").random() < 0.7)
            self._ask(turn.name, stream, draws, allows)
        elif target.config.has_ttl and draws.part("times").random() < TTL_SHARE:
            self._ask(turn.name, stream, draws, StreamChanges(allow_ttl=draws.part("lets").random() < 0.8))
        elif target.config.interest is True and draws.part("interest").random() < INTEREST_SHARE:
            self._ask(turn.name, stream, draws, StreamChanges(interest=draws.part("by").random() < 0.8))
        elif target.config.allow_batches is True and draws.part("batches").random() < BATCHES_SHARE:
            changes = StreamChanges(allow_batches=draws.part("takes").random() < 0.8)
            self._ask(turn.name, stream, draws, changes)
        elif draws.part("payload").random() < PAYLOAD_SHARE:
            largest = StreamChanges(max_payload_bytes=draws.part("largest").choice((4096, 65_536, 1 << 20)))
            self._ask(turn.name, stream, draws, largest)
        elif draws.random() < CLOSED_SHARE and stream not in self._locked:
            self._lock(target, turn)
        else:
            self._ask(turn.name, stream, draws, _changes(draws))
            if draws.random() < RIVAL_SHARE:
                rival = draws.part("rival")
                self._ask(f"{turn.name}/rival", stream, rival, _changes(rival))

    def _alters_minimum(self, turn: Turn, target: Target) -> bool:
        """R19: to what there is, if nothing is acked for want of copies; else to any that may be."""
        least, draws = self._cluster.knobs.minimum_from, turn.draws.part("minimum")
        if not least or draws.random() >= MINIMUM_SHARE:
            return False
        self._account.count("minima asked for")
        factor = max(least, target.config.replication_factor)
        newest = self._cluster.newest_metadata()
        state = newest.partitions.get(target.partition) if newest is not None else None
        lacks = state is not None and len(state.isr) < state.min_insync
        for name in (turn.name, f"{turn.name}/rival") if draws.random() < RIVAL_SHARE else (turn.name,):
            minimum = least + draws.randrange(factor - least + 1)
            if lacks and state is not None and draws.random() < TO_WHAT_THERE_IS:
                minimum = max(least, len(state.isr))
            self._ask(name, target.stream, draws, StreamChanges(min_insync_replicas=minimum))
        return True

    def _ask(self, name: str, stream: str, draws: Draws, changes: StreamChanges) -> None:
        self._account.count("alterations asked for")
        request = AlterStreamRequest(stream, changes)
        node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us
        self._shared.hub.request(name, node, request, self._answered, patience_us)

    def _answered(self, reply: object) -> None:
        if isinstance(reply, DoneReply):
            self._account.count("alterations")

    def _grow(self, name: str, target: Target, draws: Draws) -> None:
        """Have as many partitions as is drawn; who did not ask hears of them by looking."""
        hub, patience_us = self._shared.hub, self._cluster.knobs.admin_patience_us
        most, node, stream = self._cluster.knobs.partitions_max, self._shared.any_node(draws), target.stream
        if draws.random() < BESIDE_SHARE:
            subject = f"{target.config.subject.replace('*', 'own')}.{1 + draws.randrange(most - 1)}"
            config = StreamConfig(BESIDE, subject, 1, min(3, self._cluster.knobs.nodes))
            hub.request(name, node, CreateStreamRequest(config), lambda reply: None, patience_us)
            return
        self._account.count("partitions asked for")

        def looked(reply: object) -> None:
            if isinstance(reply, StreamInfoReply) and reply.streams[0].id == target.partition.stream:
                self._shared.know(target.config, reply.streams[0].id, len(reply.streams[0].partitions))

        def answered(reply: object) -> None:
            self._answered(reply)
            hub.request(f"{name}/look", node, StreamInfoRequest(stream), looked, patience_us)

        request = AlterStreamRequest(stream, StreamChanges(partitions=1 + draws.randrange(most)))
        hub.request(name, node, request, answered, patience_us)

    def _lock(self, target: Target, turn: Turn) -> None:
        stream = target.stream
        self._locked.add(stream)
        locked_us = turn.draws.randrange(LOCKED_MAX_US)
        way = "paused" if turn.draws.part("way").random() < PAUSED_SHARE else "read_only"

        def answered(reply: object) -> None:
            self._answered(reply)
            self._cluster.kernel.after(locked_us, self._lift, (stream, way))

        self._account.count("pauses" if way == "paused" else "read-only streams")
        request = AlterStreamRequest(stream, CLOSES[way])
        hub, patience_us = self._shared.hub, self._cluster.knobs.admin_patience_us
        elects, node = turn.draws.part("elects"), self._shared.any_node(turn.draws)
        if way == "read_only" or elects.random() >= ELECTS_SHARE:
            hub.request(turn.name, node, request, answered, patience_us)
            return
        election = ElectLeaderRequest(stream, target.partition.index, self._shared.any_node(elects))
        hub.request(f"{turn.name}/elect", node, election, self._answered, patience_us)

        def pause(first: object, second: object) -> None:
            hub.request(turn.name, node, request, answered, patience_us)

        self._cluster.kernel.after(elects.randrange(ELECTED_US), pause)

    def _lift(self, closed: tuple[str, str], second: object) -> None:
        """Until somebody says that it is done."""
        stream, way = closed
        self._lifts += 1
        name = f"lift/{self._lifts}"

        def answered(reply: object) -> None:
            self._answered(reply)
            if isinstance(reply, DoneReply):
                self._locked.discard(stream)
            else:
                self._cluster.kernel.after(AGAIN_US, self._lift, closed)

        request = AlterStreamRequest(stream, OPENS[way])
        node = self._shared.any_node(self._cluster.chances.draws(name))
        self._shared.hub.request(name, node, request, answered, self._cluster.knobs.admin_patience_us)


def _subjects(target: Target, draws: Draws) -> StreamChanges:
    """N10: other ones of those that clients publish to; now and then they overlap, and are refused."""
    more = target.config.subjects[1:]
    if draws.random() < OVERLAPPING_SHARE:
        return StreamChanges(more_subjects=(*more, f"{more[0]}.>", f"{more[0]}.own"))
    some = tuple(subject for subject in more if draws.random() < SUBJECTS_KEPT)
    return StreamChanges(more_subjects=some or more[:1])


def _front_changes(target: Target, draws: Draws) -> StreamChanges:
    """Other limits by number, bytes and age (R25), of a stream that refuses no messages while it is full."""
    refuses = target.config.holds_most or target.config.holds_bytes
    most = 0 if refuses else draws.choice((0, 2, 6, 30))
    age_ms = draws.choice((1000, 4000, 10_000))
    size = 0 if target.config.holds_bytes else draws.part("bytes").choice((0, 0, 200, 1000, 5000))
    return StreamChanges(
        retention_messages=most, retention_bytes=size, retention_ms=age_ms if most % 4 == 0 else 0
    )


def _changes(draws: Draws) -> StreamChanges:
    """How the log is written from now on; one change or two."""
    values: dict[str, Any] = {
        "segment_records": draws.randrange(5, 200),
        "segment_bytes": draws.randrange(1, 64) * 1024,
        "segment_ms": draws.randrange(1, 60) * 1000,
    }
    names = list(values)
    chosen = {names[draws.randrange(len(names))], names[draws.randrange(len(names))]}
    return StreamChanges(**{name: values[name] for name in names if name in chosen})
