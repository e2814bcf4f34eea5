"""Two lanes to a peer: control goes first, each lane keeps its order, every frame is the one that is due."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from liftlog.api.tags import FrameOpener, FrameSealer
from liftlog.api.wire import FrameSplitter
from liftlog.messages import FetchReply, Heartbeat, PeerMessage, intake
from liftlog.real.budget import Budget
from liftlog.real.lanes import OWN_SHARE, PIECE_BYTES, PeerLanes
from liftlog.types import PartitionId

KEY = bytes(32)
LIMIT = 1024 * 1024


class Kernel:
    """Takes as much as a test says, and keeps it."""

    def __init__(self) -> None:
        self.room = 0
        self.got = b""

    def send(self, data: bytes) -> int:
        taken = data[: self.room]
        self.room -= len(taken)
        self.got += taken
        return len(taken)

    def messages(self) -> list[PeerMessage]:
        """Raises WireError if a frame is not the next one."""
        opener, found = FrameOpener(KEY), []
        for frame in FrameSplitter().feed(self.got):
            with opener.open(frame) as opened:
                if opened:
                    found.append(intake.peer_message(opened))
        return found


def lanes_on(kernel: Any, limit: int = LIMIT) -> PeerLanes:
    return PeerLanes(FrameSealer(KEY), limit, Budget(64 * LIMIT), kernel)


def beat(number: int) -> Heartbeat:
    return Heartbeat(1, number, 0)


def data(number: int, size: int = 10) -> FetchReply:
    return FetchReply(
        partition=PartitionId(1, 0),
        epoch=1,
        incarnation=1,
        request=number,
        status=0,
        hw=0,
        log_start=0,
        leader_leo=0,
        end_epoch=0,
        end_offset=0,
        batches=[bytes(size)],
    )


def numbers(messages: list[PeerMessage], kind: type) -> list[int]:
    chosen = [one for one in messages if isinstance(one, kind)]
    return [one.sequence if isinstance(one, Heartbeat) else _request(one) for one in chosen]


def _request(message: PeerMessage) -> int:
    assert isinstance(message, FetchReply)
    return message.request


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("beat"), st.just(0)),
        st.tuples(st.just("data"), st.integers(0, 2 * PIECE_BYTES)),
        st.tuples(st.just("room"), st.integers(0, 3 * PIECE_BYTES)),
        st.tuples(st.just("alive"), st.just(0)),
    ),
    max_size=40,
)


@given(ACTIONS)
def test_each_lane_keeps_its_order_and_every_frame_is_the_next_one(actions: list[tuple[str, int]]) -> None:
    kernel = Kernel()
    lanes = lanes_on(kernel, 64 * LIMIT)
    sent: dict[type, list[int]] = {Heartbeat: [], FetchReply: []}
    for number, (kind, size) in enumerate(actions):
        if kind == "room":
            kernel.room += size
        elif kind == "alive":
            lanes.say_alive()
        else:
            message: PeerMessage = beat(number) if kind == "beat" else data(number, size)
            assert lanes.send(message)
            sent[type(message)].append(number)
        lanes.flush()
    kernel.room = 1 << 40
    lanes.flush()
    got = kernel.messages()
    assert {kind: numbers(got, kind) for kind in sent} == sent
    assert lanes.held == 0


@given(st.integers(0, 3 * PIECE_BYTES), st.integers(1, 20))
def test_control_waits_for_no_more_data_than_a_piece_and_a_frame(room: int, frames: int) -> None:
    kernel = Kernel()
    lanes = lanes_on(kernel, 64 * LIMIT)
    size = 50_000
    for number in range(frames):
        lanes.send(data(number, size))
    kernel.room = room
    lanes.flush()
    before = len(kernel.got)
    lanes.send(beat(7))
    kernel.room = 1 << 40
    lanes.flush()
    got = kernel.messages()
    place = next(place for place, one in enumerate(got) if isinstance(one, Heartbeat))
    overtaken = len(lanes_encoded(got[:place])) - before
    assert overtaken <= PIECE_BYTES + size + 200


def lanes_encoded(messages: list[PeerMessage]) -> bytes:
    sealer = FrameSealer(KEY)
    return b"".join(sealer.seal(message) for message in messages)


def test_data_that_is_not_taken_in_keeps_no_heartbeat_out() -> None:
    lanes = lanes_on(Kernel())
    number = 0
    while lanes.send(data(number, 10_000)):
        number += 1
    assert lanes.held <= LIMIT - LIMIT // OWN_SHARE
    assert lanes.send(beat(1))
    beats = 1
    while lanes.send(beat(beats)):
        beats += 1
    assert lanes.held <= LIMIT
    lanes.close()
    assert lanes.held == 0
    assert not lanes.send(beat(1))


def test_what_waits_is_given_back_to_the_budget() -> None:
    budget = Budget(LIMIT)
    lanes = PeerLanes(FrameSealer(KEY), LIMIT, budget, None)
    assert lanes.send(data(1, 600_000))
    assert not budget.take(600_000)
    lanes.close()
    assert budget.take(LIMIT)


def test_a_message_is_sent_as_it_was_when_it_was_queued() -> None:
    kernel = Kernel()
    lanes = lanes_on(kernel)
    message = data(1)
    lanes.send(message)
    message.batches.append(b"later")
    kernel.room = LIMIT
    lanes.flush()
    (got,) = kernel.messages()
    assert msgspec.msgpack.encode(got) == msgspec.msgpack.encode(data(1))
