"""Another cluster, as the nodes of this one see it: a stream that bears a name there, and who answers for it.

It is scripted, and not simulated: records are there when somebody puts them there, and are committed. What is
simulated is what a mirror hears of it: answers that are late, lost, or come twice, also to the next process
of a node; of a stream that was removed, or made again, or of another cluster at that address; and answers
whose bytes are spoilt.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from liftlog.core.metadata.elsewhere import identity
from liftlog.format import encode_sparse
from liftlog.messages import FETCH_BELOW_START, FETCH_OK, AskOrigin, Event, MirrorReply, OriginAnswered
from liftlog.types import PartitionId, Record, StreamConfig
from liftlog_sim.chance.chances import Chances
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND

NAME, CLUSTER = "far", "elsewhere"
ORIGIN = f"{NAME}@{CLUSTER}"
"""What streams here call it."""
LOST, LATE, TWICE, SPOILT, REFUSED = 0.1, 0.15, 0.1, 0.06, 0.05
LATE_US = 6 * SECOND
OFFSETS_MAX, BATCH_MAX = 24, 5

Post = Callable[[int, Event], None]


class FarLog:
    """One partition: all that it ever had, what of it was deleted, and where it begins."""

    __slots__ = ("gone", "records", "start")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.gone: set[int] = set()
        self.start = 0

    def has(self, offset: int) -> Record | None:
        """What a reader gets."""
        return None if offset < self.start or offset in self.gone else self.records[offset]


class FarStream:
    """One making of the stream. `cluster`: which one answers, by its birth or recovery."""

    __slots__ = ("cluster", "config", "id", "logs")

    def __init__(self, cluster: str, id: int, partitions: int) -> None:
        self.cluster = cluster
        self.id = id
        self.config = StreamConfig(NAME, NAME, partitions)
        self.logs = [FarLog() for _ in range(partitions)]

    @property
    def identity(self) -> str:
        return identity(self.cluster, self.id)

    def put(self, partition: int, count: int, now_ms: int) -> None:
        """So many records more are committed."""
        records = self.logs[partition].records
        for _ in range(count):
            offset = len(records)
            value = f"{self.identity}/{partition}/{offset}".encode()
            records.append(Record(offset, now_ms, f"far.{offset % 3}".encode(), b"", b"", None, value))

    def answer(self, question: AskOrigin) -> MirrorReply | None:
        """What its leader says; None: it has no such partition."""
        index, offset = question.partition.index, question.offset
        if index >= len(self.logs):
            return None
        log = self.logs[index]
        hw = len(log.records)
        below = offset < log.start
        end = offset if below else max(offset, min(hw, offset + OFFSETS_MAX))
        frames = []
        for start in range(offset, end, BATCH_MAX):
            stop = min(end, start + BATCH_MAX)
            left = [record for at in range(start, stop) if (record := log.has(at)) is not None]
            frames.append(encode_sparse(PartitionId(self.id, index), 1, start, stop, left).data)
        return MirrorReply(
            partition=question.partition,
            offset=offset,
            status=FETCH_BELOW_START if below else FETCH_OK,
            hw=max(hw, end),
            log_start=min(log.start, hw) if not below else log.start,
            next_offset=end,
            batches=frames,
            origin=self.id,
        )


class FarCluster:
    """See the module."""

    def __init__(self, chances: Chances, post: Post) -> None:
        self._chances = chances
        self._kernel = chances.kernel
        self._post = post
        self.stream: FarStream | None = None
        """What bears the name now."""
        self.made: dict[str, FarStream] = {}
        """All that ever did, by identity."""
        self.healed = False
        """Every question is answered, at once and truly."""

    def make(self, cluster: str, id: int, partitions: int) -> None:
        """A stream of that name is created, in the place of the one that bore it."""
        self.stream = FarStream(cluster, id, partitions)
        self.made[self.stream.identity] = self.stream

    def remove(self) -> None:
        self.stream = None

    def heal(self) -> None:
        self.healed = True

    # -- questions -----------------------------------------------------------------------------------------

    def ask(self, node: int, question: AskOrigin) -> None:
        """A node's leader asks: what comes of it comes later, if at all."""
        draws = self._chances.lane(f"{node}>far", "AskOrigin").draws()
        if not self.healed and draws.random() < LOST:
            return
        answer = self._answer(draws, question)
        late_us = draws.randrange(LATE_US) if not self.healed and draws.random() < LATE else 0
        self._send(node, answer, 20 * MILLISECOND + draws.randrange(100 * MILLISECOND) + late_us)
        if not self.healed and draws.random() < TWICE:
            self._send(node, answer, 200 * MILLISECOND + draws.randrange(LATE_US))

    def _send(self, node: int, answer: OriginAnswered, after_us: int) -> None:
        self._kernel.after(after_us, self._deliver, node, answer)

    def _deliver(self, node: object, answer: object) -> None:
        assert isinstance(node, int) and isinstance(answer, OriginAnswered)
        self._post(node, answer)

    def _answer(self, draws: Draws, question: AskOrigin) -> OriginAnswered:
        stream = self.stream
        if stream is None or (not self.healed and draws.random() < REFUSED):
            return OriginAnswered(question.partition, question.origin, problem="nobody answers there")
        reply = stream.answer(question)
        if reply is not None and not self.healed and draws.random() < SPOILT:
            reply = _spoilt(draws, reply)
        told = stream.cluster, stream.id, stream.config
        return OriginAnswered(question.partition, question.origin, *told, reply)


def _spoilt(draws: Draws, reply: MirrorReply) -> MirrorReply:
    """Something of it is wrong, and shows."""
    batches = list(reply.batches)
    if not batches:
        return msgspec.structs.replace(reply, batches=[b"none"], next_offset=reply.next_offset + 1)
    number = draws.randrange(len(batches))
    kind = draws.randrange(3)
    if kind == 0:
        frame = bytearray(batches[number])
        frame[draws.randrange(len(frame))] ^= 1 << draws.randrange(8)
        batches[number] = bytes(frame)
    elif kind == 1:
        del batches[number]
    else:
        return msgspec.structs.replace(reply, offset=reply.offset + 1 + draws.randrange(5))
    return msgspec.structs.replace(reply, batches=batches)
