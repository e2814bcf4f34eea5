"""Clients of durable consumers: they create them, pull, and say what became of what they were given (K1-K7).

Several share a consumer. Of what one was given it acks most, soon, late or never, gives some up, wants some
again; what is not answered in time is said once more, to another node. Consumers are deleted and created
again under their names; who is late then speaks of one that is no more, and some do so for ever.
"""

from __future__ import annotations

import msgspec

from liftlog.messages import (
    ACK,
    BY_NUMBER,
    BY_OVERFLOW,
    BY_PIN,
    DELIVER_ALL,
    DELIVER_FROM,
    DELIVER_LASTS,
    DELIVER_NEW,
    DELIVER_TIME,
    ERR_EXISTS,
    ERR_NOT_FOUND,
    NAK,
    PROGRESS,
    TERM,
    TO_FLOOR,
    AlterConsumerRequest,
    ClientMessage,
    ConsumerConfig,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DoneReply,
    ErrorReply,
    PullReply,
    PullRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    offsets_of,
)
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.clock import WALL_START_MS
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.sought import KnownThen
from liftlog_sim.workload import consumer_facts
from liftlog_sim.workload.clients import Clientele, OnReply
from liftlog_sim.workload.copied import MirrorTargets
from liftlog_sim.workload.inspecting import CountedPull, QuietQuestion, leading_of
from liftlog_sim.workload.targets import WORDS, Target

DEAD, LETTERS = "dead", "dead.letters"
"""The stream of dead letters (K9), in some worlds, and its subject."""
CONFIGS = {
    "work-0": ConsumerConfig(ack_wait_ms=1500, max_deliver=2, max_ack_pending=12),
    "work-1": ConsumerConfig(ack_wait_ms=4000, max_deliver=0, max_ack_pending=40),
    "work-2": ConsumerConfig(ack_wait_ms=1000, max_deliver=1, max_ack_pending=5, deliver=DELIVER_NEW),
    "some-0": ConsumerConfig(ack_wait_ms=1500, max_deliver=3, max_ack_pending=20),
    "some-1": ConsumerConfig(ack_wait_ms=2000, max_ack_pending=8, deliver=DELIVER_FROM, offset=7),
    "last-0": ConsumerConfig(ack_wait_ms=2000, deliver=DELIVER_LASTS),
    "last-1": ConsumerConfig(ack_wait_ms=1500, max_deliver=2, deliver=DELIVER_LASTS),
    "idle-0": ConsumerConfig(ack_wait_ms=2000, inactive_ms=5000),
    "late-0": ConsumerConfig(deliver=DELIVER_TIME, timestamp_ms=WALL_START_MS + 15_000),
    "dead-0": ConsumerConfig(ack_wait_ms=1000, max_deliver=1, max_ack_pending=15, dead_letter=LETTERS),
    "dead-1": ConsumerConfig(ack_wait_ms=2000, max_ack_pending=40, dead_letter=LETTERS),
}
"""What the consumer of each name is created with; those called so have filters beside. Those with dead
letters are there where there is a stream for them."""
GROUPS = ("g", "h")
GROUPED = {
    "flow-0": ConsumerConfig(ack_wait_ms=1500, max_ack_pending=30, priority=BY_OVERFLOW, groups=GROUPS),
    "pin-0": ConsumerConfig(ack_wait_ms=2000, priority=BY_PIN, groups=GROUPS[:1], pin_ms=700),
    "rank-0": ConsumerConfig(ack_wait_ms=2000, priority=BY_NUMBER, groups=GROUPS[:1]),
}
"""Those of clients of their own (`grouped.py`), in some worlds."""
ALL = CONFIGS | GROUPED
ALIVE = tuple(name for name, config in CONFIGS.items() if not config.dead_letter)
LATER = tuple(name for name in ALIVE if CONFIGS[name].deliver in (DELIVER_NEW, DELIVER_LASTS))
"""Those that do not begin at the front."""
FILTERED = {"some-0": (WORDS[0], WORDS[2]), "some-1": (WORDS[1],), "last-0": WORDS[:2]}
"""The words of the subjects that the filters let through, where they have one."""
OTHERS = {"some-0": (WORDS[1],), "some-1": (WORDS[1], WORDS[2]), "last-0": (WORDS[2],)}
"""What they let through when their filters are altered."""
REFILTERED_SHARE = 0.05
"""How often that is done where something is done with such a consumer."""
OF_QUEUE = ("some-0", "some-1", "some-0", "some-1", "work-0", "idle-0", "work-2")
"""Consumers of a work queue that somebody asks for. Of those that may be given the same the first is made;
the last of these is never."""
OF_INTEREST = ("some-0", "some-1", "last-0", "some-0", "some-1", "idle-0", "work-0")
"""Those of a stream whose messages go by interest (R27): few, so that some go. One without a filter holds all
that it was not given."""
STAYING, STAYING_OF_INTEREST = ("dead-0", "dead-1", "work-0"), ("some-0", "some-1", "last-0")
"""Those that there are where none is to go (`consumers_stay`)."""
ALTERED, OFTEN_ALTERED = 0.12, 0.25
"""Up to which draw a consumer is altered, of one that is to go when nobody uses it."""
LONGER = 4
"""So many times as long a consumer may stay unused when that is altered, if it was to go at all."""
ALONE_SHARE, ALONE = 0.5, 1500
"""How often nobody uses it then for longer than it was to stay before, and for how many microseconds for each
millisecond of that."""
DELETED_SHARE, EMPTIED_SHARE = 0.01, 0.05
"""How often a consumer is deleted; where its messages go by interest."""
RESET_SHARE = 0.02
"""How often it is reset, where consumers may go."""
TIMEOUT_US = 3 * SECOND
REPEATS = 3
"""So often an ack without an answer is sent again."""
SOON_US, LATE_US = 800 * MILLISECOND, 12 * SECOND
"""What became of a message is said within the one or the other."""
LATE_SHARE = 0.12
APART_SHARE = 0.5
"""How often each message of a run is acked by a request of its own, all in one instant."""
AGAIN_SHARE = 0.1
"""How often somebody has not heard the answer."""
MORE_SHARE, MORE_MAX, MORE_US = 0.6, 4, 100 * MILLISECOND
"""How often who was given something asks for more at once, up to so often, within this time."""
STUBBORN_SHARE = 0.05
"""How often somebody speaks of a consumer that is no more, and goes on so when told that it is none."""
LEADER_SHARE = 0.9
"""How often the one is asked who was last seen to lead."""


def filtered(config: ConsumerConfig, target: Target, words: tuple[str, ...]) -> ConsumerConfig:
    """With filters that let subjects with these words through; none: all."""
    patterns = tuple(dict.fromkeys(target.subject_with(word).decode() for word in words))
    return msgspec.structs.replace(config, filter=patterns[0] if patterns else "", filters=patterns[1:])


def config_of(target: Target, name: str) -> ConsumerConfig:
    """What the consumer of this name is created with there."""
    config = filtered(ALL[name], target, FILTERED.get(name, ()))
    if target.config.is_queue and name in OF_QUEUE[:-1]:
        config = msgspec.structs.replace(config, deliver=DELIVER_ALL, offset=0)
    return config


class ConsumingClient:
    """One of them. What it knows of consumers is what it was told itself."""

    __slots__ = (
        *("_account", "_cluster", "_former", "_known", "_mirrors", "_numbers", "_shared", "_turns"),
        "kernel",
    )

    def __init__(self, shared: Clientele, number: int) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self.kernel = shared.cluster.kernel
        cluster = shared.cluster
        self._turns = cluster.chances.turns(self.called(number), cluster.knobs.consume_interval_us)
        self._numbers: dict[tuple[Target, str], int] = {}
        self._known: dict[tuple[Target, str], ConsumerConfig] = {}
        """What a consumer is taken to be configured with."""
        self._former: dict[tuple[Target, str], int] = {}
        """Of those that are no more."""
        self._mirrors = MirrorTargets(shared)

    @property
    def stopping(self) -> bool:
        return self._shared.stopping

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        targets = [target for target in self._shared.targets if target.config.has_journal]
        targets += self._mirrors.there()
        if targets:
            draws = turn.draws
            target = targets[draws.randrange(len(targets))]
            names = self.names(target)
            if names and not self._makes_anew(target, turn):
                self._act(target, draws.choice(names), turn)
        self._turns.take(self._fire)

    def called(self, number: int) -> str:
        """By which name its turns are drawn."""
        return f"consumer/{number}"

    def names(self, target: Target) -> tuple[str, ...]:
        """Of which consumers it is a client there."""
        if self._cluster.knobs.consumers_stay:
            return STAYING_OF_INTEREST if target.config.interest is True else STAYING
        if target.config.goes_when_done:
            return OF_QUEUE if target.config.is_queue else OF_INTEREST
        buries = any(stream.name == DEAD for stream in self._cluster.knobs.streams)
        return tuple(CONFIGS) if buries else ALIVE

    def config(self, target: Target, name: str) -> ConsumerConfig:
        """What it asks for under this name."""
        return config_of(target, name)

    def wishes(self, target: Target, request: PullRequest, draws: Draws, had: int) -> PullRequest:
        """What it wants of whom to give messages, beside that."""
        return request

    def heard(self, target: Target, request: PullRequest, reply: object, sent: tuple[int, int]) -> bool:
        """A pull was answered, or nobody has. Whether it goes on with it, though it was given nothing."""
        return False

    def time(self, target: Target) -> tuple[int, int]:
        """The epoch of who leads, and its ticks, where pulls are judged by that."""
        return -1, 0

    def _makes_anew(self, target: Target, turn: Turn) -> bool:
        """In some worlds those that do not begin at the front are deleted and created all the time."""
        share = self._cluster.knobs.consumers_anew
        draws = turn.draws.part("anew")
        if not share or target.config.goes_when_done or draws.random() >= share:
            return False
        name = draws.choice(LATER)
        if self._numbers.pop((target, name), 0):
            self._delete(target, name, turn)
        else:
            self._create(target, name, turn)
        return True

    def _act(self, target: Target, name: str, turn: Turn) -> None:
        if self.kernel.now_us < self._shared.alone_until.get((target.partition, name), 0):
            return
        number, chance = self._numbers.get((target, name), 0), turn.draws.random()
        if number and name in OTHERS and turn.draws.part("filters").random() < REFILTERED_SHARE:
            self._alter(target, name, number, turn, refilters=True)
            return
        former = self._former.get((target, name), 0)
        deleted = EMPTIED_SHARE if target.config.interest is True else DELETED_SHARE
        stays = self._cluster.knobs.consumers_stay
        deleted = 0.0 if stays else deleted
        if number and not stays and turn.draws.part("reset").random() < RESET_SHARE:
            self._reset(target, name, turn)
        elif former and chance > 1 - STUBBORN_SHARE:
            self._pull(target, former, turn.name, turn.draws, MORE_MAX)
        elif not number or chance < 0.03:
            self._create(target, name, turn)
        elif chance < 0.03 + deleted and not ALL[name].inactive_ms:
            self._delete(target, name, turn)
        elif chance < 0.1:
            self._inspect(target, name, turn)
        elif chance < (OFTEN_ALTERED if ALL[name].inactive_ms else ALTERED):
            self._alter(target, name, number, turn)
        else:
            self._pull(target, number, turn.name, turn.draws, 0)

    def ask(
        self,
        name: str,
        target: Target,
        request: ClientMessage,
        draws: Draws,
        on_reply: OnReply,
        way: str = "",
    ) -> None:
        """Mostly of who was last seen to lead. `way`: as of `ClientHub.request`."""
        node, leading = self._shared.any_node(draws), leading_of(self._account, target)
        if leading is not None and draws.random() < LEADER_SHARE:
            node = leading[1]
        self._account.count("requests about consumers")
        operation = consumer_facts.begun(self._shared, target, request)

        def answered(reply: object) -> None:
            consumer_facts.ended(operation, reply, self.kernel.now_us)
            try:
                on_reply(reply)
            except Violation as violation:
                self._account.fail(violation)

        self._shared.hub.request(name, node, request, answered, TIMEOUT_US, way)

    def _create(self, target: Target, name: str, turn: Turn) -> None:
        truth = self._account.consumers(target.partition)
        told = self._account.deletions(target.partition).told
        acked = self._account.truth(target.partition).acked_end
        known = KnownThen(truth.written, acked, told)

        def answered(reply: object) -> None:
            if isinstance(reply, ConsumersReply) and reply.consumers:
                self._account.count("consumers created")
                truth.created(name, reply, ended)
                truth.begun(name, reply.consumers[0].number, known)
                self._is_there(target, name, reply.consumers[0].number)
            elif isinstance(reply, ErrorReply):
                truth.sought.refused(name, known)

        ended = truth.ended()
        truth.sought.wants(name, known)
        request = CreateConsumerRequest(target.partition, name, self.config(target, name))
        self.ask(turn.name, target, request, turn.draws, answered)

    def _is_there(self, target: Target, name: str, number: int) -> None:
        self._numbers[target, name] = number

    def _delete(self, target: Target, name: str, turn: Turn) -> None:
        truth = self._account.consumers(target.partition)
        there = truth.there(name)
        truth.to_go(name)

        def answered(reply: object) -> None:
            if isinstance(reply, DoneReply):
                self._account.count("consumers deleted")
                truth.deleted(there)

        request = DeleteConsumerRequest(target.partition, name)
        self.ask(turn.name, target, request, turn.draws, answered)

    def _reset(self, target: Target, name: str, turn: Turn) -> None:
        """Have it begin again, at what is not done or at any offset, one beyond the end among them."""
        truth, draws = self._account.consumers(target.partition), turn.draws.part("reset", "to")
        offset = draws.choice((TO_FLOOR, 0, draws.randrange(self._account.truth(target.partition).hw + 2)))
        there = truth.there(name)
        truth.resets(name)

        def answered(reply: object) -> None:
            if isinstance(reply, ConsumersReply) and reply.consumers:
                self._account.count("consumers reset")
                truth.was_reset(reply, offset, there)
                if former := self._numbers.get((target, name), 0):
                    self._former[target, name] = former
                self._is_there(target, name, reply.consumers[0].number)

        request = ResetConsumerRequest(target.partition, name, offset)
        self.ask(turn.name, target, request, turn.draws, answered)

    def _alter(self, target: Target, name: str, number: int, turn: Turn, refilters: bool = False) -> None:
        """Have it wait otherwise for acks, and now and then pause for a while, or be again as it was made.
        `refilters`: have it be given others.
        """
        draws = turn.draws.part("alter")
        made = config_of(target, name)
        until_ms = WALL_START_MS + self.kernel.now_us // MILLISECOND + draws.choice((0, 500, 1500))
        other = msgspec.structs.replace(
            made,
            ack_wait_ms=made.ack_wait_ms + 500,
            max_ack_pending=6,
            pause_until_ms=until_ms,
            inactive_ms=LONGER * made.inactive_ms,
        )
        if refilters:
            other = filtered(made, target, OTHERS[name])
        known = self._known.get((target, name), made)
        config = made if known != made else other

        def answered(reply: object) -> None:
            if isinstance(reply, ConsumersReply) and reply.consumers:
                self._account.count("consumers altered")
                now = self._known[target, name] = reply.consumers[0].config
                if now.patterns != known.patterns:
                    self._account.count("filters altered")
                if now.inactive_ms > made.inactive_ms and draws.part("alone").random() < ALONE_SHARE:
                    alone_us = ALONE * made.inactive_ms
                    self._shared.alone_until[target.partition, name] = self.kernel.now_us + alone_us
            elif isinstance(reply, ErrorReply) and reply.code == ERR_EXISTS:
                self._known[target, name] = other if known == made else made

        request = AlterConsumerRequest(target.partition, number, known, config)
        self.ask(turn.name, target, request, turn.draws, answered)

    def _inspect(self, target: Target, name: str, turn: Turn) -> None:
        question = QuietQuestion(self._cluster, self._account, target)
        request = ConsumersRequest(target.partition, name)
        self.ask(turn.name, target, request, turn.draws, question.exact)

    def _pull(self, target: Target, number: int, name: str, draws: Draws, had: int) -> None:
        """`had`: how often something was given in a row before."""
        truth = self._account.consumers(target.partition)
        told = self._account.deletions(target.partition).told
        ended, purged, counted = truth.ended(), truth.purged(), CountedPull(self._account, target)

        def answered(reply: object) -> None:
            if self.heard(target, request, reply, sent) and had < MORE_MAX and not self._shared.stopping:
                asked = target, number, f"{name}/goes-on", draws.part("goes on"), had + 1
                self.kernel.after(MORE_US, self._pull_more, asked)
            if isinstance(reply, PullReply) and reply.runs:
                self._account.count("pulls answered with messages")
                truth.pulled(number, reply, ended, told, purged)
                counted.judge(reply)
                self._given(name, target, reply, draws.part("given"))
                more = draws.part("more")
                if had < MORE_MAX and more.random() < MORE_SHARE and not self._shared.stopping:
                    asked = target, number, f"{name}/more", more.part("pull"), had + 1
                    self.kernel.after(more.randrange(MORE_US), self._pull_more, asked)
            elif isinstance(reply, ErrorReply) and reply.code == ERR_NOT_FOUND:
                truth.no_more(number, self.kernel.now_us)
                self._is_no_more(target, number, draws.part("no more"))

        wait_ms = draws.choice((0, 200, 1000))
        request = PullRequest(target.partition, number, 1 + draws.randrange(8), 1 << 20, wait_ms)
        request, sent = self.wishes(target, request, draws, had), self.time(target)
        self.ask(name, target, request, draws, answered)

    def _pull_more(self, asked: tuple[Target, int, str, Draws, int], second: object) -> None:
        if not self._shared.stopping:
            self._pull(*asked)

    def _is_no_more(self, target: Target, number: int, draws: Draws) -> None:
        """Somebody says so. Most give that number up."""
        for key, known in self._numbers.items():
            if key[0] is target and known == number and draws.random() >= STUBBORN_SHARE:
                self._former[key] = number
                self._numbers[key] = 0

    def _given(self, name: str, target: Target, reply: PullReply, draws: Draws) -> None:
        """What becomes of these is said some time, of each run at once."""
        for place, (first, length, _) in enumerate(reply.runs):
            own = draws.part(place)
            chance = own.random()
            if chance < 0.15:
                continue  # Forgotten.
            how = ACK if chance < 0.8 else TERM if chance < 0.87 else NAK if chance < 0.95 else PROGRESS
            after_us = own.randrange(LATE_US if own.random() < LATE_SHARE else SOON_US)
            if how in (ACK, TERM):
                self._account.consumers(target.partition).says(reply.consumer, range(first, first + length))
            apart = how == ACK and own.part("apart").random() < APART_SHARE
            runs = [(offset, 1) for offset in range(first, first + length)] if apart else [(first, length)]
            way = f"{name}/settles/{place}"
            for run in runs:
                request = SettleRequest(target.partition, reply.consumer, how, [run])
                told = Settling(self, f"{way}/{run[0]}" if apart else way, target, request, own, way)
                self._cluster.kernel.after(after_us, told.send)

    def settled(
        self, target: Target, request: SettleRequest, reply: SettledReply, asked_us: int
    ) -> None:
        """A leader says that it is done, as somebody asked for at that time. AckStays."""
        if request.how not in (ACK, TERM):
            return
        self._account.consumers(target.partition).served(request.consumer, asked_us)
        self._account.count("messages settled")
        unknown = set(offsets_of(reply.unknown))
        asked = dict.fromkeys(offsets_of(request.runs))
        known = [offset for offset in asked if offset not in unknown]
        foreign = [offset for offset in sorted(unknown) if offset not in asked]
        self._account.consumers(target.partition).settled(request.consumer, known, reply.journal, foreign)


class Settling:
    """What became of messages, said until somebody answers, and now and then once more."""

    __slots__ = ("_asked_us", "_client", "_draws", "_left", "_name", "_request", "_target", "_way")

    def __init__(
        self,
        client: ConsumingClient,
        name: str,
        target: Target,
        request: SettleRequest,
        draws: Draws,
        way: str,
    ) -> None:
        """`way`: those of one have what they say arrive in one instant."""
        self._way = way
        self._client = client
        self._name = name
        self._target = target
        self._request = request
        self._draws = draws
        self._left = REPEATS
        self._asked_us = 0

    def send(self, first: object, second: object) -> None:
        if self._client.stopping or not self._left:
            return
        self._left -= 1
        draws = self._draws.part("send", self._left)
        name = f"{self._name}/{self._left}"
        self._asked_us = self._client.kernel.now_us
        way = f"{self._way}/{self._left}"
        self._client.ask(name, self._target, self._request, draws, self._answered, way)

    def _answered(self, reply: object) -> None:
        draws = self._draws.part("again", self._left)
        if isinstance(reply, SettledReply):
            self._client.settled(self._target, self._request, reply, self._asked_us)
            if draws.random() >= AGAIN_SHARE:
                return
        self._client.kernel.after(draws.randrange(SOON_US), self.send)
