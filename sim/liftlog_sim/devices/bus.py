"""The simulated NATS: one server, and a connection to it per node; mirrors `liftlog/real/bus.py`.

What matters of NATS to the protocol: a message goes to the subscriptions that the server knows at that moment
and is then forgotten; a subscription is confirmed some time after it was asked for; each connection carries
its messages in order; a requester without any subscriber is told so at once ("no responders"); a connection
that breaks loses what is under way in both directions, and both sides notice only later.

Clients sit at the server: `publish` is the instant at which the server has read their messages. What comes
back to them (acks, refusals, no responders) goes through `on_reply`, may be late and may get lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import msgspec

from liftlog.messages import (
    AckPublishes,
    BusDown,
    BusUp,
    Drained,
    Event,
    LetterAnswered,
    Published,
    PublishLetter,
    RefusePublishes,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
    TellFast,
    TellStaged,
)
from liftlog.options.fast import any_fast
from liftlog.options.reading import are_plain
from liftlog.subjects.trie import Trie
from liftlog.types import Message, PartitionId
from liftlog_sim.chance.chances import Chances, amount, below
from liftlog_sim.devices.clock import SimClock
from liftlog_sim.devices.options import BusOptions
from liftlog_sim.kernel import Kernel

FOR_EVER_US = 1 << 62

Post = Callable[[Event], None]
FAST = b"_FAST."
"""What reply subjects of fast batches begin with; nobody waits for a refusal there (L12)."""
ACKS = "AckPublishes"
LETTER = b"_INBOX.letter."

Told = TypeVar("Told", AckPublishes, RefusePublishes)
OnAcks = Callable[[AckPublishes], None]
OnRefusals = Callable[[RefusePublishes], None]


class _Subscription:
    """One subscription as the server knows it, under the number that it gets there."""

    __slots__ = ("active", "connection", "number", "request")

    def __init__(self, connection: BusConnection, request: Subscribe) -> None:
        self.connection = connection
        self.request = request
        self.number = 0
        self.active = True


class _Listeners(NamedTuple):
    """Who gets a message: each of these, and one of each queue group, by its name."""

    alone: list[_Subscription]
    queues: dict[str, list[_Subscription]]


class SimBus:
    """The server: who is subscribed to what.

    A message goes to its subscriptions in the order in which the server got them: their numbers rise. What
    matched a subject is kept until the subscriptions change.
    """

    __slots__ = (
        "_chances",
        "_connections",
        "_cut",
        "_denied",
        "_held",
        "_kernel",
        "_matches",
        "_numbers",
        "_patterns",
        "_subscriptions",
        "on_acks",
        "on_fast",
        "on_publish",
        "on_refusals",
        "options",
        "published",
        "unheard",
    )

    def __init__(self, chances: Chances, options: BusOptions) -> None:
        self._kernel: Kernel = chances.kernel
        self._chances = chances
        self._numbers = 0
        self._subscriptions: dict[int, _Subscription] = {}
        self._patterns = Trie()
        self._matches: dict[bytes, _Listeners] = {}
        self._connections: list[BusConnection] = []
        """All that there ever were."""
        self._cut: dict[int, int] = {}
        self._denied: dict[int, int] = {}
        self._held: dict[tuple[PartitionId, int, str], int] = {}
        """Until when the server had the subscription of a leader in an epoch to a subject."""
        self.options = options
        self.on_acks: OnAcks = lambda acks: None
        self.on_fast: Callable[[TellFast], None] = lambda told: None
        self.on_refusals: OnRefusals = lambda refusal: None
        self.on_publish: Callable[[bytes], None] = lambda subject: None
        self.published = 0
        self.unheard = 0

    # -- clients -------------------------------------------------------------------------------------------

    def publish(self, subject: bytes, messages: list[Message]) -> bool:
        """Messages on one subject, read from one client at this instant. False: there are no responders."""
        listeners = self._matches.get(subject)
        if listeners is None:
            listeners = self._matches[subject] = self._listeners(subject)
        self.published += len(messages)
        self.on_publish(subject)
        alone, queues = listeners
        if not alone and not queues:
            self.unheard += len(messages)
            return False
        for subscription in alone:
            subscription.connection.carry(subscription, messages)
        for queue, members in queues.items():
            self._among(queue, members, messages)
        return True

    def _listeners(self, subject: bytes) -> _Listeners:
        alone: list[_Subscription] = []
        queues: dict[str, list[_Subscription]] = {}
        for number in self._patterns.match(subject.decode()):
            subscription = self._subscriptions[number]
            queue = subscription.request.queue
            (queues.setdefault(queue, []) if queue else alone).append(subscription)
        return _Listeners(alone, queues)

    def _among(self, queue: str, members: list[_Subscription], messages: list[Message]) -> None:
        """N11: of a queue group one subscription gets a message, any of them."""
        draws = self._chances.draws("queue", queue, self.published)
        drawn = [members[draws.randrange(len(members))] for _ in messages]
        for member in members:
            mine = [one for one, whose in zip(messages, drawn, strict=True) if whose is member]
            if mine:
                member.connection.carry(member, mine)

    def heard(self, subject: bytes) -> bool:
        """Whether a subscription for this subject is in place, even one whose node is gone unnoticed."""
        return bool(self._patterns.match(subject.decode()))

    # -- faults --------------------------------------------------------------------------------------------

    def cut(self, node: int) -> None:
        """Cut a node's connection to the server. Cuts add up."""
        self._cut[node] = self._cut.get(node, 0) + 1

    def restore(self, node: int) -> None:
        """Take back one `cut`."""
        left = self._cut.get(node, 0) - 1
        if left > 0:
            self._cut[node] = left
        else:
            self._cut.pop(node, None)

    def heal(self) -> None:
        """Take back all cuts and denials."""
        self._cut.clear()
        self._denied.clear()

    def is_cut(self, node: int) -> bool:
        return node in self._cut

    def deny(self, node: int) -> None:
        """The server's permissions no longer let this node subscribe, of several subjects of a stream to the
        last one; what it has of that is taken away. Adds up.
        """
        self._denied[node] = self._denied.get(node, 0) + 1
        for subscription in list(self._subscriptions.values()):
            if subscription.connection.node == node and subscription.connection.is_last(subscription):
                self.remove(subscription)
                subscription.connection.taken_away(subscription)

    def allow(self, node: int) -> None:
        """Take back one `deny`."""
        left = self._denied.get(node, 0) - 1
        if left > 0:
            self._denied[node] = left
        else:
            self._denied.pop(node, None)

    def is_denied(self, node: int) -> bool:
        return node in self._denied

    def has(self, node: int, partition: PartitionId, epoch: int, subject: str = "") -> bool:
        """Whether the server has this node's subscription now, to one subject or any."""
        return any(
            entry.connection.node == node
            and (entry.request.partition, entry.request.epoch) == (partition, epoch)
            and subject in ("", entry.request.subject)
            for entry in self._subscriptions.values()
        )

    def held(
        self, partition: PartitionId, epoch: int, subjects: Iterable[str], since_us: int = 0
    ) -> bool:
        """Whether the server has had the subscriptions of this partition's leader in this epoch to all these
        subjects, at `since_us` or later (N1, N10).
        """
        return all(self._held.get((partition, epoch, one), -1) >= since_us for one in subjects)

    # -- dead letters (K9) ---------------------------------------------------------------------------------

    def connect(self, connection: BusConnection) -> int:
        """Its number, by which answers to its letters find it."""
        self._connections.append(connection)
        return len(self._connections) - 1

    def without_letters(self, told: Told, problem: str) -> Told:
        """What is told without its answers to letters, which go back to where the letters came from."""
        letters = [reply for reply in told.replies if reply.startswith(LETTER)]
        if any(reply.startswith(FAST) for reply in told.replies):
            others = [b"" if reply.startswith(FAST) else reply for reply in told.replies]
            told = msgspec.structs.replace(told, replies=others)
        if not letters:
            return told
        for reply in letters:
            self.answer_letter(reply, problem)
        others = [b"" if reply.startswith(LETTER) else reply for reply in told.replies]
        return msgspec.structs.replace(told, replies=others)

    def answer_letter(self, reply: bytes, problem: str) -> None:
        """What this reply says of its letter goes back to where that came from."""
        number, stream, index, epoch, token = map(int, reply[len(LETTER) :].split(b"."))
        event = LetterAnswered(PartitionId(stream, index), epoch, token, problem)
        self._connections[number].letter_answered(event)

    # -- connections ---------------------------------------------------------------------------------------

    def delay_us(self, link: str, kind: str) -> int:
        """One way between the server and somebody; -1: it is lost there."""
        lane, options = self._chances.lane(link, kind), self.options
        drawn = lane.next()
        stated = lane.stated
        lost, late_us = kind == ACKS and below(drawn[0], options.ack_loss), 0
        if stated is not None:
            lost, late_us = stated.lost, stated.late_us
        if lost:
            lane.note(lane.place, lost=True)
            return -1
        if late_us:
            lane.note(lane.place, late_us=late_us)
        return options.latency_us + amount(drawn[1], options.jitter_us) + late_us

    def add(self, subscription: _Subscription) -> None:
        self._numbers += 1
        subscription.number = self._numbers
        self._subscriptions[subscription.number] = subscription
        self._patterns.subscribe(subscription.request.subject, subscription.number)
        request = subscription.request
        self._held[request.partition, request.epoch, request.subject] = FOR_EVER_US
        self._matches.clear()

    def remove(self, subscription: _Subscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is not None:
            self._patterns.unsubscribe(subscription.request.subject, subscription.number)
            self._matches.clear()
            request = subscription.request
            key = request.partition, request.epoch, request.subject
            if not self.has(subscription.connection.node, *key):
                self._held[key] = self._kernel.now_us


class BusConnection:
    """`Bus` port of one process: its connection, which it keeps opening until the process dies.

    The connection looks at its cable every `notice_us`: that is how both sides find out that it was cut, and
    how it comes back. A cable that was cut and joined between two looks is a broken connection all the same.
    """

    __slots__ = (
        "_attached",
        "_bus",
        "_clock",
        "_cut_seen",
        "_free_at_us",
        "_kernel",
        "_mine",
        "_number",
        "_post",
        "_silent",
        "_up",
        "_written_us",
        "node",
    )

    def __init__(self, bus: SimBus, kernel: Kernel, node: int, clock: SimClock, post: Post) -> None:
        self._bus = bus
        self._kernel = kernel
        self.node = node
        self._clock = clock
        self._post = post
        self._mine: dict[tuple[PartitionId, int], _Subscription] = {}
        """By the partition and the number that its leader has given it."""
        self._silent: set[PartitionId] = set()
        """N8: whose publishers are told nothing, wherever they want their acks."""
        self._number = bus.connect(self)
        self._attached = True
        self._up = False
        self._cut_seen = False
        self._free_at_us = 0
        self._written_us = 0
        """When the server reads the last line that is on its way; what is written behind it comes later."""
        kernel.after(bus.options.connect_us, self._connect)

    def detach(self) -> None:
        """The process is gone. The server notices when the cable is whole (the kernel closes the socket)."""
        self._attached = False
        self._drop_all()

    def cable_cut(self) -> None:
        """The network between this node and the server was cut: what is under way is lost."""
        if self._attached and self._up and not self._cut_seen:
            self._cut_seen = True
            self._kernel.after(self._bus.options.notice_us, self._notice)

    def _notice(self, first: object, second: object) -> None:
        if self._attached and self._up:
            self._up = False
            self._drop_all()
            self._post(BusDown())
            self._kernel.after(self._bus.options.connect_us, self._connect)

    def _connect(self, first: object, second: object) -> None:
        if not self._attached or self._up:
            return
        if self._bus.is_cut(self.node):
            self._kernel.after(self._bus.options.notice_us, self._connect)
            return
        self._up = True
        self._cut_seen = False
        self._post(BusUp())

    def _drop_all(self) -> None:
        for subscription in self._mine.values():
            subscription.active = False
            self._bus.remove(subscription)
        self._mine.clear()

    # -- the port ------------------------------------------------------------------------------------------

    def subscribe(self, request: Subscribe) -> None:
        if not self._attached or not self._up:
            return
        for key, former in list(self._mine.items()):
            if key[0] == request.partition and (
                former.request.epoch != request.epoch or key[1] == request.number
            ):
                self._end(key)
        if not request.ack_reply:
            self._silent.add(request.partition)
        subscription = _Subscription(self, request)
        self._mine[request.partition, request.number] = subscription
        if not self._broken():
            read_us = max(self._kernel.now_us + self._bus.options.subscribe_us, self._written_us)
            self._written_us = read_us
            self._kernel.at(read_us, self._at_server, subscription)

    def unsubscribe(self, partition: PartitionId) -> None:
        for key in [key for key in self._mine if key[0] == partition]:
            self._end(key)

    def _end(self, key: tuple[PartitionId, int]) -> None:
        subscription = self._mine.pop(key)
        subscription.active = False
        # The server goes on sending until it has read the UNSUB; `arrive` drops that.
        self._kernel.after(self._bus.options.latency_us, self._remove_at_server, subscription)

    def drain(self, partition: PartitionId, number: int = 0) -> None:
        """The server stops sending when it has read the UNSUB; its answer comes behind what it had sent."""
        subscription = self._mine.get((partition, number))
        if subscription is not None and not self._broken():
            self._written_us = max(self._kernel.now_us + self._bus.options.latency_us, self._written_us)
            self._kernel.at(self._written_us, self._drain_at_server, subscription)

    def is_last(self, subscription: _Subscription) -> bool:
        """Whether it is the last of its partition's."""
        partition, number = subscription.request.partition, subscription.request.number
        return all(key[1] <= number for key in self._mine if key[0] == partition)

    def acknowledge(self, acks: AckPublishes) -> None:
        if self._answers(acks):
            self._carry_back(ACKS, self._acks_arrive, acks)

    def staged(self, told: TellStaged) -> None:
        """Simulated publishers send on and do not wait for that."""

    def fast(self, told: TellFast) -> None:
        """Simulated publishers send on; what is said is judged as it is said (L12)."""
        self._bus.on_fast(told)

    def refuse(self, refusal: RefusePublishes) -> None:
        if self._answers(refusal):
            self._carry_back("RefusePublishes", self._refusals_arrive, refusal)

    def publish(self, letter: PublishLetter) -> None:
        if self._attached and self._up and not self._broken():
            self._carry_back("PublishLetter", self._letter_arrives, letter)

    def _letter_arrives(self, letter: PublishLetter, second: object) -> None:
        """The server has read it."""
        partition = letter.partition
        named = self._number, partition.stream, partition.index, letter.epoch, letter.token
        reply = LETTER + b".".join(b"%d" % one for one in named)
        message = Message(letter.subject.encode(), reply, letter.headers, letter.value)
        if not self._bus.publish(message.subject, [message]):
            self._bus.answer_letter(reply, "nobody listens")

    def letter_answered(self, event: LetterAnswered) -> None:
        """The server sends it what a stream says of its letter."""
        delay_us = self._bus.delay_us(f"nats>{self.node}", "LetterAnswered")
        if delay_us >= 0 and not self._broken():
            self._kernel.after(delay_us, self._answer_arrives, event)

    def _answer_arrives(self, event: LetterAnswered, second: object) -> None:
        if self._attached and self._up and not self._broken():
            self._post(event)

    # -- under way -----------------------------------------------------------------------------------------

    def _carry_back(self, kind: str, arrive: Callable[[Any, Any], None], what: object) -> None:
        delay_us = self._bus.delay_us(f"{self.node}>nats", kind)
        if delay_us >= 0:
            self._kernel.after(delay_us, arrive, what)

    def _answers(self, told: AckPublishes | RefusePublishes) -> bool:
        """Whether this leaves; what nobody is to hear takes its time all the same."""
        silent = told.partition in self._silent and any(told.replies)
        return self._attached and self._up and not self._broken() and not silent

    def _broken(self) -> bool:
        return self._cut_seen or self._bus.is_cut(self.node)

    def _at_server(self, subscription: _Subscription, second: object) -> None:
        if subscription.active and not self._broken():
            if self._bus.is_denied(self.node) and self.is_last(subscription):
                self.taken_away(subscription)
                return
            self._bus.add(subscription)
            self._kernel.after(self._bus.options.subscribe_us, self._confirmed, subscription)

    def _confirmed(self, subscription: _Subscription, second: object) -> None:
        if subscription.active and not self._broken():
            request = subscription.request
            self._post(Subscribed(request.partition, request.epoch, request.number))

    def taken_away(self, subscription: _Subscription) -> None:
        """The server says that it refuses it; that takes its time."""
        if not self._broken():
            self._kernel.after(self._bus.options.subscribe_us, self._refused, subscription)

    def _refused(self, subscription: _Subscription, second: object) -> None:
        if subscription.active and not self._broken():
            request = subscription.request
            subscription.active = False
            del self._mine[request.partition, request.number]
            reason = f'Permissions Violation for Subscription to "{request.subject}"'
            self._post(SubscriptionRefused(request.partition, request.epoch, reason, request.number))

    def _remove_at_server(self, subscription: _Subscription, second: object) -> None:
        self._bus.remove(subscription)

    def _drain_at_server(self, subscription: _Subscription, second: object) -> None:
        self._bus.remove(subscription)
        if subscription.active and not self._broken():
            delay_us = self._bus.delay_us(f"nats>{self.node}", "Drained")
            if delay_us < 0:
                return
            self._free_at_us = max(self._free_at_us + 1, self._kernel.now_us + delay_us)
            self._kernel.at(self._free_at_us, self._drained, subscription)

    def _drained(self, subscription: _Subscription, second: object) -> None:
        if subscription.active and not self._broken():
            subscription.active = False
            request = subscription.request
            if self._mine.get((request.partition, request.number)) is subscription:
                del self._mine[request.partition, request.number]
            self._post(Drained(request.partition, request.epoch, request.number))

    def carry(self, subscription: _Subscription, messages: list[Message]) -> None:
        """From the server to the node, behind everything the connection carries already."""
        if self._broken():
            return
        delay_us = self._bus.delay_us(f"nats>{self.node}", "Published")
        if delay_us < 0:
            return
        arrival_us = max(self._free_at_us + 1, self._kernel.now_us + delay_us)
        self._free_at_us = arrival_us
        self._kernel.at(arrival_us, self._arrive, subscription, messages)

    def _arrive(self, subscription: _Subscription, messages: list[Message]) -> None:
        if not subscription.active or self._broken():
            return
        request = subscription.request
        if not request.ack_reply:
            messages = [message._replace(reply=b"") for message in messages]
        partition, epoch, now_ms = request.partition, request.epoch, self._clock.wall_ms()
        plain = are_plain(messages) and not any_fast(messages)
        self._post(Published(partition, epoch, list(messages), now_ms, plain))

    def _acks_arrive(self, acks: AckPublishes, second: object) -> None:
        self._bus.on_acks(self._bus.without_letters(acks, ""))

    def _refusals_arrive(self, refusal: RefusePublishes, second: object) -> None:
        self._bus.on_refusals(self._bus.without_letters(refusal, refusal.description))
