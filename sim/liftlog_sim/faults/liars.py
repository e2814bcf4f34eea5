"""Who must not be believed: a stranger at every door, and a peer that is broken (V1 to V5).

*Stranger*: somebody without the secret. What he sends to the nodes' door is refused at the greeting; at the
clients' door, over TCP and over NATS, he asks for anything: bytes that are near to requests, requests with
numbers out of range, and proper requests for what must be refused. He deletes and purges nothing that exists,
since a client who may do so is a client.

*Broken peer*: a node whose messages leave it with fields out of place (`faults/lies.py`), or once more
after a while, in the right connection and under the right name. Its own state is whole.

*Flips*: bits flip on the wire between nodes. The frames' tags tell, and the connection is closed; here, the
message is lost.

All invariants hold all the same. Two more are about this: `NoInputEndsNode`, a lie ends no process, and
`HonestHeard`, no message of a working peer is refused in a world without broken ones: a rule that is too
strict would cost liveness, and nobody would look for it there.

Once a lie has been *taken*, as one may that an honest peer could have told, runs are no longer held
against the models: those know no lies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from liftlog.api import nats_api, wire
from liftlog.api.handshake import NONCE_BYTES, PEER, Answerer, Caller, HandshakeError, Party
from liftlog.api.plain import to_plain
from liftlog.api.tags import FrameOpener, FrameSealer
from liftlog.messages import (
    AlterStreamRequest,
    ClientMessage,
    ClientRequest,
    ClusterStatusRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    Event,
    OffsetRequest,
    PeerMessage,
    PurgeRequest,
    ReadRequest,
    Received,
    SetVoterRequest,
    StreamChanges,
    StreamInfoRequest,
    TransferControllerRequest,
    intake,
)
from liftlog.types import ClientRef, PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.cluster import Cluster
from liftlog_sim.devices.frames import OfEpoch
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults import lies
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.targets import Target

HEARD_MAX = 200
TOLD_MAX = 1000
LENGTH_BYTES = 4
WIRE_KEY = bytes(32)
STRANGER_REF = 1 << 40
"""His requests are numbered from here on: no client's numbers."""

_encode = msgspec.msgpack.Encoder().encode


class Lie(OfEpoch):
    """An encoded message that its sender's node has not sent, or not now."""


class Liars:
    """The faults of this kind that are under way. Does nothing, and costs nothing, while there is none."""

    def __init__(
        self, cluster: Cluster, account: Account, strikes: Strikes, targets: Sequence[Target]
    ) -> None:
        self._cluster = cluster
        self._account = account
        self._strikes = strikes
        self._targets = targets
        self._broken: dict[int, tuple[Draws, float]] = {}
        self._flips: tuple[Draws, float] | None = None
        self._heard: dict[tuple[int, int], deque[bytes]] = {}
        self.lies: dict[int, Event] = {}
        """The newest events that are lies, by their identity."""
        self._next_ref = STRANGER_REF
        self.any_broken = False
        """Whether a peer was broken at any time in this world."""
        self.any_taken = False
        """Whether a lie was taken that an honest peer could have told."""

    def end(self) -> None:
        """Everybody tells the truth from now on."""
        self._broken.clear()
        self._flips = None
        self._update()

    def _update(self) -> None:
        active = bool(self._broken) or self._flips is not None
        self._cluster.network.tamper = self._tamper if active else None

    # -- what is a lie -------------------------------------------------------------------------------------

    def is_lie(self, event: Event | None) -> bool:
        """Whether an event comes from a stranger or from a broken peer."""
        return event is not None and self.lies.get(id(event)) is event

    def told(self, event: Event) -> None:
        """Remember that this event is a lie, for as long as it may be on its way."""
        self._account.checks.counts["NoInputEndsNode"] += 1
        self.lies[id(event)] = event
        if len(self.lies) > TOLD_MAX:
            del self.lies[next(iter(self.lies))]

    def refused(self, link: tuple[int, int], data: bytes, error: intake.InputRefused) -> None:
        """A frame was no message: the connection would be closed."""
        if not isinstance(data, Lie):
            finding = f"node {link[1]} refuses a message of node {link[0]}: {error}"
            self._account.fail(Violation("HonestHeard", finding))
        self._account.count("lies refused as bytes")

    def judge(self, machine: Machine, event: Event | None, refused: bool) -> None:
        """A step refused a message, and so did nothing, or a lie may have been taken. HonestHeard."""
        if self.is_lie(event):
            self._account.count("lies refused" if refused else "lies taken")
            if not refused and isinstance(event, Received):
                self.any_taken = True
        elif isinstance(event, Received) and machine.running.metadata.is_removed(event.sender):
            # It had arrived before this node, which was paused, heard of the removal (I3).
            self._account.count("messages of removed nodes")
        elif refused and not self.any_broken:
            finding = f"node {machine.number} refuses {machine.running.ctx.last_refusal}"
            raise Violation("HonestHeard", finding)

    # -- a broken peer -------------------------------------------------------------------------------------

    def broken_peer(self, machine: Machine, fault: Fault, draws: Draws) -> None:
        """Until the fault is over, some of what this node sends is altered or sent again."""
        share = draws.choice((0.03, 0.2, 0.6))
        self._broken[machine.number] = (draws.part("frames"), share)
        self.any_broken = True
        self._update()
        self._strikes.done(fault, f"node {machine.number} is broken: it alters {share:.0%} of what it sends")
        self._cluster.kernel.after(fault.duration_us, self._mended, machine.number)

    def _mended(self, number: int, second: object) -> None:
        self._broken.pop(number, None)
        self._update()

    def _tamper(self, sender: int, to: int, message: PeerMessage, data: bytes, name: str) -> list[bytes]:
        """What arrives in place of a message; drawn by the fault's name and the message's."""
        carried = [data]
        broken = self._broken.get(sender)
        if broken is not None:
            draws, share = broken[0].part(name), broken[1]
            heard = self._heard.setdefault((sender, to), deque(maxlen=HEARD_MAX))
            heard.append(data)
            if draws.random() < share:
                carried = self._lie(message, data, heard, draws)
        if self._flips is not None:
            draws, share = self._flips[0].part(name), self._flips[1]
            if draws.random() < share:
                carried = self._flipped(message, draws)
        return carried

    def _lie(self, message: PeerMessage, data: bytes, heard: deque[bytes], draws: Draws) -> list[bytes]:
        if draws.random() < 0.2:
            return [data, Lie(heard[draws.randrange(len(heard))])]
        lie = lies.altered(message, draws)
        if lie is None:
            return [data]
        self._account.count("lies")
        return [Lie(_encode(lie))] if draws.random() < 0.5 else [data, Lie(_encode(lie))]

    # -- the wire ------------------------------------------------------------------------------------------

    def flips(self, fault: Fault, draws: Draws) -> None:
        """Until the fault is over, bits flip on the wire between nodes."""
        share = draws.choice((0.01, 0.05, 0.2))
        self._flips = (draws.part("frames"), share)
        self._update()
        self._strikes.done(fault, f"a bit flips in {share:.0%} of the frames between nodes")
        self._cluster.kernel.after(fault.duration_us, self._flips_end)

    def _flips_end(self, first: object, second: object) -> None:
        self._flips = None
        self._update()

    def _flipped(self, message: PeerMessage, draws: Draws) -> list[bytes]:
        """What is left of a frame in which a bit flips: nothing, for its tag tells."""
        self._account.count("frames flipped")
        frame = FrameSealer(WIRE_KEY).seal(message)[LENGTH_BYTES:]
        try:
            opener = FrameOpener(WIRE_KEY, any_tag=self._account.mutants.frame_tag_ignored)
            opened = opener.open(memoryview(lies.flipped(frame, draws)))
        except wire.WireError:
            return []
        return [Lie(opened)]

    # -- a stranger ----------------------------------------------------------------------------------------

    def stranger(self, fault: Fault, draws: Draws) -> None:
        """Until the fault is over, somebody tries one door after the other."""
        self._strikes.done(fault, "a stranger tries the doors")
        until_us = self._cluster.kernel.now_us + fault.duration_us
        self._cluster.kernel.after(0, self._try_a_door, (draws, 0), until_us)

    def _try_a_door(self, attempt: tuple[Draws, int], until_us: int) -> None:
        kernel = self._cluster.kernel
        if not self._strikes.active or kernel.now_us >= until_us:
            return
        fault, number = attempt
        draws = fault.part("door", number)
        kernel.after(draws.randrange(5, 100) * MILLISECOND, self._try_a_door, (fault, number + 1), until_us)
        machines = [machine for machine in self._cluster.machines.values() if machine.up]
        if not machines:
            return
        machine = machines[draws.randrange(len(machines))]
        request = self._request(draws)
        door = draws.randrange(3)
        if door == 0:
            self._greet(machine, draws)
        elif door == 1:
            self._call(machine, request, draws)
        else:
            self._ask_by_nats(machine, request, draws)

    def _greet(self, machine: Machine, draws: Draws) -> None:
        """At the nodes' door: the handshake as it should be or nearly so, but without the secret."""
        nodes = list(self._cluster.machines)
        me = Party("sim", machine.number, (draws.randbytes(32),))
        door = Answerer(me, PEER, lambda node: node in nodes, lambda: draws.randbytes(NONCE_BYTES))
        claims = Party("sim", draws.choice(nodes), (draws.randbytes(32),))
        caller = Caller(claims, PEER, machine.number, draws.randbytes(NONCE_BYTES))
        try:
            hello = caller.hello()
            challenge = door.receive(lies.mutated(hello, draws) if draws.random() < 0.5 else hello)
            proof = caller.receive(challenge)
            door.receive(lies.mutated(proof, draws) if draws.random() < 0.5 else proof)
        except HandshakeError:
            self._account.count("strangers refused at the greeting")
        if door.session is not None:
            finding = f"node {machine.number} takes a stranger for node {door.session.node}"
            self._account.fail(Violation("NoInputEndsNode", finding))

    def _call(self, machine: Machine, request: ClientMessage, draws: Draws) -> None:
        """Over TCP, as the real door does it."""
        frame = _encode((1, request))
        if draws.random() < 0.6:
            frame = lies.mutated(frame, draws)
        try:
            call = wire.client_call(frame)
        except intake.InputRefused:
            self._account.count("strangers refused by a client's door")
            return
        if wire.request_problem(call.request) or not self._harmless(call.request):
            return
        self._ask(machine, call.request)

    def _ask_by_nats(self, machine: Machine, request: ClientMessage, draws: Draws) -> None:
        operation, body = _as_json(request)
        payload = msgspec.json.encode(body)
        if draws.random() < 0.6:
            payload = lies.mutated(payload, draws)
        try:
            asked = nats_api.parse_request(operation, payload)
        except intake.InputRefused:
            self._account.count("strangers refused by the API")
            return
        if self._harmless(asked):
            self._ask(machine, asked)

    def _ask(self, machine: Machine, request: ClientMessage) -> None:
        self._next_ref += 1
        event = ClientRequest(ClientRef(self._next_ref), request)
        self.told(event)
        self._account.count("strangers heard")
        machine.post(event)

    def _request(self, draws: Draws) -> ClientMessage:
        """What he asks for: anything that any client may ask for, and what makes no sense."""
        partitions = [target.partition for target in self._targets] or [PartitionId(1, 0)]
        partition = draws.choice([*partitions, PartitionId(draws.randrange(99), draws.randrange(1024))])
        offset = draws.choice((0, 1, draws.randrange(100), lies.number(0, draws)))
        names = [stream.name for stream in self._cluster.knobs.streams]
        name = draws.choice((*names, "none", "\x00", "x" * 2000))
        asked: tuple[ClientMessage, ...] = (
            ReadRequest(partition, offset, wait_ms=draws.choice((0, 500, 1 << 60)), seen_hw=offset),
            OffsetRequest(partition, draws.choice(("earliest", "latest", "new", "time", "?")), offset),
            StreamInfoRequest(name),
            ClusterStatusRequest(),
            ElectLeaderRequest(name, lies.number(0, draws), lies.node(1, draws)),
            TransferControllerRequest(lies.node(1, draws)),
            SetVoterRequest(lies.node(1, draws), True),
            PurgeRequest(partition, lies.number(0, draws)),
            DeleteStreamRequest(f"{name}-"),
            AlterStreamRequest(f"{name}-", StreamChanges(segment_bytes=lies.number(0, draws))),
            CreateStreamRequest(StreamConfig(f" {name}", "s0.in", lies.number(0, draws))),
        )
        return draws.choice(asked)

    def _harmless(self, request: ClientMessage) -> bool:
        """Whether it changes nothing that the world counts on: deleting is every client's right."""
        match request:
            case DeleteStreamRequest() | AlterStreamRequest():
                return all(stream.name != request.name for stream in self._cluster.knobs.streams)
            case PurgeRequest():
                return request.before == 0 or request.before > 1 << 32
            case CreateStreamRequest():
                return bool(intake.name_problem(request.config.name))
            case ElectLeaderRequest() | SetVoterRequest():
                return request.node not in self._cluster.machines
            case _:
                return True


def _as_json(request: ClientMessage) -> tuple[str, object]:
    """The operation of the API and its request object, for what both doors offer."""
    body = msgspec.structs.asdict(request)
    match request:
        case DeleteStreamRequest():
            return "STREAM.DELETE", body
        case AlterStreamRequest():
            return "STREAM.ALTER", {**body, "changes": request.changes.named}
        case PurgeRequest():
            return "STREAM.PURGE", body
        case StreamInfoRequest():
            return "STREAM.INFO", body
        case ElectLeaderRequest():
            return "LEADER.ELECT", body
        case TransferControllerRequest():
            return "CONTROLLER.TRANSFER", body
        case SetVoterRequest():
            return "CONTROLLER.VOTER", body
        case CreateStreamRequest():
            return "STREAM.CREATE", to_plain(request.config)
        case _:
            return "CLUSTER.STATUS", body
