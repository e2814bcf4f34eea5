"""A folder of queues, one per topic, with the calls of the remote service that the design describes.

Each call answers with a response that carries a `Result` and never raises for what its codes can tell, so
that a server of any kind can hand it on. Nothing here speaks over a network: liftlog's nodes do.

    produce, async_produce, consume, find_closest_index_by_time, delete_topic, get_size
"""

from __future__ import annotations

import hmac
import os
import queue as handover
import re
import threading
from contextlib import suppress
from types import TracebackType

import msgspec

from liftlog.queue.codes import (
    AllConsumed,
    AuthenticationFailed,
    ErrorCode,
    InternalError,
    InvalidTopic,
    ItemTooLarge,
    QueueEmpty,
    QueueError,
    ResultCode,
    TopicNotFound,
)
from liftlog.queue.folder import DELETED, finish_deletion
from liftlog.queue.options import QueueOptions
from liftlog.queue.queue import BigQueue
from liftlog.real.disk import RealDisk
from liftlog.storage.layout import STREAMS
from liftlog.types import LiftlogError

SERVICE_LOCK = ".lock"
"""In the folder of topics; no topic's name begins with a dot."""
TOPIC_BYTES_MAX = 200
_TOPIC = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*")
_HANDED_OVER_MAX = 10_000
_GROUP_MAX = 1000


class Result(msgspec.Struct, frozen=True):
    """How a call ended; `error` and `message` say why it did not succeed."""

    code: ResultCode = ResultCode.SUCCESS
    error: ErrorCode | None = None
    message: str = ""


class ProduceResponse(msgspec.Struct, frozen=True):
    result: Result
    index: int = -1


class ConsumeResponse(msgspec.Struct, frozen=True):
    result: Result
    items: list[bytes] = []
    last_consumed_index: int = -1
    """Index of the last of `items`, in both modes."""


class FindClosestIndexResponse(msgspec.Struct, frozen=True):
    result: Result
    index: int = -1
    timestamp_ms: int = -1
    """Of the item at the index; of the last item if the index is the rear; -1 if nothing is stored."""


class DeleteTopicResponse(msgspec.Struct, frozen=True):
    result: Result


class GetSizeResponse(msgspec.Struct, frozen=True):
    result: Result
    size: int = -1


class QueueService:
    """All topics below one folder. Safe to use from several threads of one process; close it at the end."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        options: QueueOptions | None = None,
        password: str = "",
        topics_max: int = 1000,
    ) -> None:
        """`password`: what `delete_topic` must be given. `topics_max`: so many topics may exist.

        Raises LiftlogError if another process serves this folder, or an option is out of range.
        """
        self.options = options or QueueOptions()
        self.options.check()
        self.async_failures = 0
        """Items of `async_produce` that were not stored."""
        self.async_error = ""
        """Why, the latest time."""
        self._folder = os.fspath(folder)
        self._password = password
        self._topics_max = topics_max
        self._root = RealDisk(self._folder)
        try:
            self._root.lock(SERVICE_LOCK)
            self._finish_deletions()
        except BaseException:
            self._root.close()
            raise
        self._lock = threading.Lock()
        self._open: dict[str, BigQueue] = {}
        self._closing = False
        self._handed_over: handover.Queue[tuple[str, bytes] | None] = handover.Queue(_HANDED_OVER_MAX)
        self._worker: threading.Thread | None = None

    def __enter__(self) -> QueueService:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ----- the calls -----

    def produce(self, topic: str, item: bytes) -> ProduceResponse:
        """Append an item; a topic that does not exist is created."""
        try:
            return ProduceResponse(Result(), self.queue(topic, create=True).enqueue(item))
        except LiftlogError as error:
            return ProduceResponse(_result(error))

    def async_produce(self, topic: str, item: bytes) -> None:
        """Hand an item to a thread that appends it soon, in the order of these calls; nobody is told.

        What could not be stored is counted in `async_failures`. `close` waits for all of them. Raises
        InternalError (TRY_LATER) if 10,000 items wait already, InternalError if the service is closed.
        """
        with self._lock:
            self._check()
            if self._worker is None:
                self._worker = threading.Thread(target=self._append_handed_over, name="liftlog-queue")
                self._worker.start()
            try:
                self._handed_over.put_nowait((topic, item))
            except handover.Full:
                raise InternalError(
                    f"{_HANDED_OVER_MAX} items wait to be appended: slow down, or call produce",
                    ResultCode.TRY_LATER,
                ) from None

    def consume(
        self, topic: str, fanout_id: str = "", start_index: int | str = 0, max_fetch_size: int = 0
    ) -> ConsumeResponse:
        """Items by fan-out id, or if there is none by index; by index no front moves.

        `max_fetch_size` counts bytes: whole items up to it, at least one; 0 or less means one item.
        """
        limits = {"max_bytes": max_fetch_size} if max_fetch_size > 0 else {"max_items": 1}
        try:
            found = self.queue(topic)
            if not len(found):
                raise QueueEmpty(f"topic {topic!r} is empty: try again later")
            items = found.take(fanout_id, **limits) if fanout_id else found.read(start_index, **limits)
            if not items:
                raise AllConsumed(f"every item of topic {topic!r} has been consumed: try again later")
        except LiftlogError as error:
            return ConsumeResponse(_result(error))
        return ConsumeResponse(Result(), [item.value for item in items], items[-1].index)

    def find_closest_index_by_time(self, topic: str, timestamp_ms: int) -> FindClosestIndexResponse:
        """The index of the item closest to a time; EARLIEST and LATEST work on an empty topic as well."""
        try:
            found = self.queue(topic)
            index = found.find_closest_index(timestamp_ms)
            stamped = min(index, found.end_index - 1)
            stamp = found.item(stamped).timestamp_ms if stamped >= found.first_index else -1
        except LiftlogError as error:
            return FindClosestIndexResponse(_result(error))
        return FindClosestIndexResponse(Result(), index, stamp)

    def delete_topic(self, topic: str, password: str = "") -> DeleteTopicResponse:
        """Remove a topic with all its items and fronts, durably."""
        try:
            if not hmac.compare_digest(password.encode(), self._password.encode()):
                raise AuthenticationFailed(f"topic {topic!r}: the password is wrong")
            self.queue(topic)
            with self._lock:
                found = self._open.pop(topic, None)
                if found is None:
                    raise _not_found(topic)
                found.delete()
                with suppress(OSError):
                    self._root.remove_tree(topic)
        except LiftlogError as error:
            return DeleteTopicResponse(_result(error))
        return DeleteTopicResponse(Result())

    def get_size(self, topic: str, fanout_id: str = "") -> GetSizeResponse:
        """Items that the fan-out group has not had; without an id, items stored."""
        try:
            found = self.queue(topic)
            return GetSizeResponse(Result(), found.size(fanout_id) if fanout_id else len(found))
        except LiftlogError as error:
            return GetSizeResponse(_result(error))

    # ----- topics -----

    def topics(self) -> list[str]:
        """Names of all topics, sorted. Raises DiskError."""
        return [name for name in self._root.list("") if _TOPIC.fullmatch(name) and self._exists(name)]

    def queue(self, topic: str, *, create: bool = False) -> BigQueue:
        """The topic's queue, opened if need be. Raises InvalidTopic, TopicNotFound, InternalError."""
        if len(topic) > TOPIC_BYTES_MAX or not _TOPIC.fullmatch(topic):
            raise InvalidTopic(
                f"topic {topic!r}: use at most {TOPIC_BYTES_MAX} letters, digits, '_', '-' and '.', "
                "and no '.' at the beginning"
            )
        with self._lock:
            if threading.current_thread() is not self._worker:
                self._check()
            found = self._open.get(topic)
            if found is not None:
                return found
            if not self._exists(topic):
                if not create:
                    raise _not_found(topic)
                if len(self.topics()) >= self._topics_max:
                    raise InvalidTopic(
                        f"topic {topic!r}: there are topics_max = {self._topics_max} topics already; "
                        "delete one, or serve the folder with a greater limit"
                    )
            opened = BigQueue.open(os.path.join(self._folder, topic), options=self.options)
            self._open[topic] = opened
            return opened

    def _exists(self, topic: str) -> bool:
        return self._root.exists(f"{topic}/{STREAMS}")

    def _finish_deletions(self) -> None:
        """A deletion that a crash cut short is finished before anybody asks for the topic."""
        for name in self._root.list(""):
            if self._root.exists(f"{name}/{DELETED}"):
                finish_deletion(RealDisk(os.path.join(self._folder, name)))

    def flush(self) -> None:
        """Flush every open topic. Raises InternalError."""
        with self._lock:
            opened = list(self._open.values())
        for one in opened:
            one.flush()

    def close(self) -> None:
        """Append what `async_produce` still holds, close every topic, release the folder.

        Raises InternalError if something could not be made durable; everything is closed all the same.
        """
        with self._lock:
            if self._closing:
                return
            self._closing = True
            worker = self._worker
        if worker is not None:
            self._handed_over.put(None)
            worker.join()
        failed: InternalError | None = None
        for one in self._open.values():
            try:
                one.close()
            except InternalError as error:
                failed = error
        self._open.clear()
        self._root.close()
        if failed is not None:
            raise failed

    def _check(self) -> None:
        if self._closing:
            raise InternalError("the queue service is closed: open it again")

    # ----- the thread behind async_produce -----

    def _append_handed_over(self) -> None:
        """Take what is there, append it topic by topic, until the end is handed over."""
        ended = False
        while not ended:
            taken = [self._handed_over.get()]
            while len(taken) < _GROUP_MAX and not self._handed_over.empty():
                taken.append(self._handed_over.get())
            by_topic: dict[str, list[bytes]] = {}
            for entry in taken:
                if entry is None:
                    ended = True
                else:
                    by_topic.setdefault(entry[0], []).append(entry[1])
            for topic, items in by_topic.items():
                self._append(topic, items)

    def _append(self, topic: str, items: list[bytes]) -> None:
        """One by one if not all of them can be stored together: one bad item must not take others with it."""
        try:
            self.queue(topic, create=True).enqueue_many(items)
        except (LiftlogError, TypeError) as error:
            if len(items) > 1 and isinstance(error, (ItemTooLarge, TypeError)):
                for item in items:
                    self._append(topic, [item])
            else:
                self.async_failures += len(items)
                self.async_error = str(error)


def _not_found(topic: str) -> TopicNotFound:
    return TopicNotFound(f"there is no topic {topic!r}: produce to it first")


def _result(error: LiftlogError) -> Result:
    if isinstance(error, QueueError):
        return Result(error.result, error.code, str(error))
    return Result(ResultCode.FAILURE, ErrorCode.INTERNAL_ERROR, str(error))
