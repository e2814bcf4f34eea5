"""The big-array queue: an array without end that grows at its rear, and a front for every group of consumers.

Theory. Items have indexes 0, 1, 2, ... for ever: offsets of a log. Appending moves the rear; taking an item
moves one group's front and changes nothing else, so any number of groups read the same items independently
(fan-out), and a queue that is consumed once is one with a single group. Items leave only at the old end, by
whole segment files, when somebody asks for it.

Durability. An enqueued item is in the file when the call returns, so the death of the process keeps it; a
power loss keeps what `flush` had made durable, or with ``durability="sync"`` every item that was enqueued.
Fronts: see `liftlog.queue.fronts`. An item is handed out at least once to every group.

Threads. One lock guards everything; what holds it does bounded work. Enqueuing threads that wait for it leave
their items in a list, and the thread that gets it writes them all with one call and, when asked for, one sync
(group commit without a thread of its own).

After a failed sync nothing that follows the last good one can be trusted, and trying again would succeed
without doing anything (R5): the queue then refuses everything until it is opened again, which copies what is
good.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType

import msgspec

from liftlog.format import RECORD_HEAD_BYTES, CorruptBatch, compress, decode_records, encode_values
from liftlog.ports import Disk
from liftlog.queue.codes import (
    EARLIEST,
    EARLIEST_INDEX,
    LATEST,
    LATEST_INDEX,
    IndexOutOfBounds,
    InternalError,
    InvalidTopic,
    ItemTooLarge,
    QueueEmpty,
)
from liftlog.queue.folder import close_folder, delete_folder, open_folder
from liftlog.queue.fronts import Fronts
from liftlog.queue.guard import Guard, as_queue_error, text_of
from liftlog.queue.options import QueueOptions
from liftlog.queue.window import Window
from liftlog.real.disk import RealDisk
from liftlog.storage.log import Log
from liftlog.storage.sealing import NONCE_BYTES, Sealer
from liftlog.storage.segment import BadBytes
from liftlog.types import NUMBER_MAX, Batch, LiftlogError, LogOptions, OffsetRange, Record, TailState

GROUP_BYTES_MAX = 255
_BATCH_BYTES = 1024 * 1024
_READ_BYTES = 256 * 1024
_FIRST_READ_BYTES = 8 * 1024
_EPOCH = 1
"""A queue has one writer for ever: the log's epochs say nothing here."""


class Item(msgspec.Struct, frozen=True):
    """One stored item."""

    index: int
    timestamp_ms: int
    """When it was enqueued, milliseconds since 1970; never less than that of the item before it."""
    value: bytes


class _Turn:
    """The items of one call of `enqueue_many`, and what became of them."""

    __slots__ = ("first", "items", "problem")

    def __init__(self, items: Sequence[bytes]) -> None:
        self.items = items
        self.first = -1
        self.problem: InternalError | None = None


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


class BigQueue:
    """An open queue. Safe to use from several threads of one process; close it at the end."""

    def __init__(
        self, disk: Disk, log: Log, fronts: Fronts, options: QueueOptions, clock_ms: Callable[[], int]
    ) -> None:
        """Use `BigQueue.open`."""
        self.options = options
        self._disk = disk
        self._log = log
        self._fronts = fronts
        self._clock_ms = clock_ms
        self._window = Window(options.window_bytes)
        self._turns: deque[_Turn] = deque()
        self._lock = threading.RLock()
        self._more = threading.Condition(self._lock)
        self._unusable = ""
        self._closed = False
        self._own_disk: RealDisk | None = None
        self._guard = Guard(self._lock, self._check, self._give_up, writing=False)
        self._writing = Guard(self._lock, self._check, self._give_up, writing=True)
        self._latest_ms = self._last_time()

    @classmethod
    def open(
        cls,
        folder: str | os.PathLike[str] | None = None,
        *,
        disk: Disk | None = None,
        options: QueueOptions | None = None,
        encryption_key: bytes | None = None,
        accept_loss: bool = False,
        take_over_open_logs: bool = False,
        clock_ms: Callable[[], int] = wall_ms,
        new_id: int | None = None,
    ) -> BigQueue:
        """Open the queue in a folder, or on a `Disk` of your own; a new one is made where there is none.

        `encryption_key`: 32 bytes; items are then encrypted on disk, and only this key opens the queue.
        `accept_loss`: go on with what is left although items or fronts were destroyed. `take_over_open_logs`:
        the key comes to a queue that was not encrypted; what it holds is believed. `new_id`: of a new queue,
        drawn at random if None. Raises LiftlogError for options out of range or a wrong key,
        QueueError if another process has the queue open, the folder is something else, or it is damaged.
        """
        options = options or QueueOptions()
        options.check()
        if (folder is None) == (disk is None):
            raise LiftlogError("a queue needs a folder or a disk, one of the two")
        sealer = None if encryption_key is None else Sealer(encryption_key, _nonce)
        own = RealDisk(os.fspath(folder)) if folder is not None else None
        used: Disk = own if own is not None else disk  # type: ignore[assignment]  # one of the two is there
        if new_id is None:
            new_id = int.from_bytes(os.urandom(8), "little") & NUMBER_MAX or 1
        try:
            log_options = LogOptions(segment_bytes=options.segment_bytes)
            found = open_folder(
                used,
                new_id,
                log_options,
                sealer,
                accept_loss=accept_loss,
                take_over_open_logs=take_over_open_logs,
            )
            queue = cls(used, found.log, found.fronts, options, clock_ms)
        except BaseException as error:
            if own is not None:
                own.close()
            if isinstance(error, OSError):
                raise InternalError(f"the queue cannot be opened: {error}") from error
            raise
        queue._own_disk = own
        return queue

    def __enter__(self) -> BigQueue:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def tail(self) -> TailState:
        """What the start found at the end of the log (R14); docs/queue.md says what each value means."""
        return self._log.tail

    @property
    def damage(self) -> tuple[OffsetRange, ...]:
        """Indexes whose items are known to be unreadable, ascending."""
        with self._guard:
            return self._log.damage

    # ----- the rear -----

    def enqueue(self, item: bytes) -> int:
        """Append one item; returns its index. Raises like `enqueue_many`."""
        return self.enqueue_many((item,))

    def enqueue_many(self, items: Sequence[bytes]) -> int:
        """Append items, next to each other and in this order; returns the index of the first.

        All are stored, or none if this raises; a crash in between may keep the first ones of them. Raises
        ItemTooLarge; InternalError: TRY_LATER if the disk was full, FAILURE if it failed.
        """
        for item in items:
            if not isinstance(item, bytes):
                raise TypeError(f"an item is bytes, not {type(item).__name__}: encode it first")
            if len(item) > self.options.item_bytes_max:
                raise ItemTooLarge(
                    f"an item of {len(item)} bytes is larger than item_bytes_max = "
                    f"{self.options.item_bytes_max}: split it, or open the queue with a greater limit"
                )
        turn = _Turn(items)
        self._turns.append(turn)
        with self._writing:
            if turn.first < 0 and turn.problem is None:
                self._write_turns()
        # Another thread may have written them while this one waited for the lock.
        if turn.problem is not None:
            raise turn.problem
        return turn.first

    def _write_turns(self) -> None:
        """Append what all waiting calls have brought: the lock is held."""
        turns = [self._turns.popleft() for _ in range(len(self._turns))]
        try:
            self._append([item for turn in turns for item in turn.items])
        except BaseException as error:
            for turn in turns:
                turn.problem = as_queue_error(error)
            raise
        index = self._log.leo
        for turn in reversed(turns):
            index -= len(turn.items)
            turn.first = index
        self._more.notify_all()

    def _append(self, items: list[bytes]) -> None:
        log = self._log
        self._latest_ms = max(self._latest_ms, self._clock_ms())
        batches: list[Batch] = []
        base = log.leo
        start = size = 0
        for number, item in enumerate(items):
            if size + len(item) > _BATCH_BYTES and number > start:
                batches.append(self._encode(base + start, items[start:number]))
                start, size = number, 0
            size += len(item) + RECORD_HEAD_BYTES
        if start < len(items):
            batches.append(self._encode(base + start, items[start:]))
        if batches:
            log.append(batches)
        if self.options.durability == "sync":
            log.sync()

    def _encode(self, base: int, items: list[bytes]) -> Batch:
        batch = encode_values(self._log.id, base, _EPOCH, self._latest_ms, items)
        codec = self.options.codec
        return batch if codec == "none" else compress(self._log.id, batch, codec)

    # ----- the fronts -----

    def dequeue(self, group: str = "", *, wait_s: float = 0.0) -> bytes | None:
        """The group's next item, or None if it has had them all. Raises like `take`."""
        records = self._hand_out(group, 1, 1, wait_s)
        return (records[0].value or b"") if records else None

    def dequeue_many(
        self, group: str = "", *, max_items: int = 1000, max_bytes: int = 1024 * 1024, wait_s: float = 0.0
    ) -> list[bytes]:
        """The values of `take`."""
        return [record.value or b"" for record in self._hand_out(group, max_items, max_bytes, wait_s)]

    def take(
        self, group: str = "", *, max_items: int = 1000, max_bytes: int = 1024 * 1024, wait_s: float = 0.0
    ) -> list[Item]:
        """The group's next items: at least one if there is one, as many as fit into both limits.

        With `wait_s` it waits so long for the first one. Raises InvalidTopic, InternalError; then nothing was
        handed out.
        """
        return [_item(record) for record in self._hand_out(group, max_items, max_bytes, wait_s)]

    def _hand_out(self, group: str, max_items: int, max_bytes: int, wait_s: float) -> list[Record]:
        with self._guard:
            front = self._join(group)
            if wait_s > 0 and front >= self._log.leo:
                self._more.wait_for(lambda: self._unusable or self._where(group) < self._log.leo, wait_s)
                self._check()
                front = self._join(group)
            records = self._records(front, self._log.leo, max_items, max_bytes)
            after = front + len(records)
            if self.options.fronts == "auto":
                saved = max(self._fronts.saved.get(group, 0), self._log.log_start)
                if after - saved > self.options.repeat_max and front > saved:
                    self._save_fronts({group: front})
            self._fronts.reached[group] = after
            return records

    def peek(self, group: str = "") -> bytes | None:
        """The item that `dequeue` would return next. Raises InternalError."""
        with self._guard:
            front = self._where(group)
            return (self._record(front).value or b"") if front < self._log.leo else None

    def commit(self, group: str = "", index: int | None = None) -> None:
        """Save the group's front durably: items below `index` are never handed to it again.

        None = all that it was handed. Raises IndexOutOfBounds for an index it has not reached, InternalError.
        """
        with self._guard:
            front = self._join(group)
            index = front if index is None else index
            if not self._log.log_start <= index <= front:
                raise IndexOutOfBounds(
                    f"group {group!r} cannot commit {index}: its items are [{self._log.log_start}, {front})"
                )
            self._save_fronts({group: index})

    def move_front(self, group: str, index: int | str) -> int:
        """Hand the group the item at `index` next, also after a crash; returns the index.

        `index` may be EARLIEST or LATEST, also as words. Raises IndexOutOfBounds, InternalError.
        """
        with self._guard:
            index = self._resolve(index)
            if not self._log.log_start <= index <= self._log.leo:
                raise self._out_of_bounds(index)
            self._join(group)
            self._save_fronts({group: index})
            self._fronts.reached[group] = index
            self._more.notify_all()
            return index

    def drop_group(self, group: str) -> None:
        """Forget a group; should it come back, it begins at the first item. Raises InternalError."""
        with self._guard:
            self._fronts.drop(group)

    def groups(self) -> dict[str, int]:
        """Every known group's front."""
        with self._guard:
            return {group: self._where(group) for group in sorted(self._fronts.reached)}

    def front(self, group: str = "") -> int:
        """Index of the item that the group is handed next."""
        with self._guard:
            return self._where(group)

    def _where(self, group: str) -> int:
        """A front below the first item has moved to it; an unknown group stands there."""
        return max(self._fronts.reached.get(group, 0), self._log.log_start)

    def _join(self, group: str) -> int:
        """The group's front; one that was unknown is known from now on."""
        if group not in self._fronts.reached:
            if len(group.encode(errors="replace")) > GROUP_BYTES_MAX or not group.isprintable():
                raise InvalidTopic(f"group {group!r}: use at most {GROUP_BYTES_MAX} printable characters")
            if len(self._fronts.reached) >= self.options.groups_max:
                raise InvalidTopic(
                    f"group {group!r}: there are groups_max = {self.options.groups_max} groups already; "
                    "drop one, or open the queue with a greater limit"
                )
        front = self._fronts.reached[group] = self._where(group)
        return front

    def _save_fronts(self, changed: dict[str, int]) -> None:
        """The log first: a front never lies above its durable end."""
        if max(changed.values()) > self._log.durable_leo:
            self._log.sync()
        self._fronts.save(changed)

    # ----- the array -----

    @property
    def first_index(self) -> int:
        """Index of the first item that is still stored."""
        return self._log.log_start

    @property
    def end_index(self) -> int:
        """Index that the next item will get: the rear."""
        return self._log.leo

    def __len__(self) -> int:
        """Items stored, whoever has read them."""
        with self._guard:
            return self._log.leo - self._log.log_start

    def size(self, group: str = "") -> int:
        """Items that the group has not been handed yet."""
        with self._guard:
            return self._log.leo - self._where(group)

    def is_empty(self, group: str = "") -> bool:
        """Whether the group has been handed everything."""
        return self.size(group) == 0

    def get(self, index: int) -> bytes:
        """The item at an index; no front moves. Raises IndexOutOfBounds, InternalError."""
        return self.item(index).value

    def __getitem__(self, index: int) -> bytes:
        return self.item(index).value

    def __iter__(self) -> Iterator[bytes]:
        """Every stored item, from the first on."""
        return (item.value for item in self.items())

    def item(self, index: int) -> Item:
        """The item at an index with its timestamp. Raises IndexOutOfBounds, InternalError."""
        with self._guard:
            if not self._log.log_start <= index < self._log.leo:
                raise self._out_of_bounds(index)
            return _item(self._record(index))

    def read(self, index: int | str, *, max_items: int = 1000, max_bytes: int = 1024 * 1024) -> list[Item]:
        """Items from an index on, as many as fit into both limits but at least one; none at the rear.

        `index` may be EARLIEST or LATEST, also as words. Raises IndexOutOfBounds, InternalError.
        """
        with self._guard:
            index = self._resolve(index)
            if not self._log.log_start <= index <= self._log.leo:
                raise self._out_of_bounds(index)
            return [_item(record) for record in self._records(index, self._log.leo, max_items, max_bytes)]

    def items(self, index: int | str = EARLIEST, end: int | None = None) -> Iterator[Item]:
        """Every item from `index` on, below `end` or the rear as it is now. Raises like `read`."""
        with self._guard:
            at = self._resolve(index)
            end = self._log.leo if end is None else min(end, self._log.leo)
        while at < end:
            for item in self.read(at, max_items=end - at):
                yield item
                at = item.index + 1

    def find_closest_index(self, timestamp_ms: int) -> int:
        """Index of the item enqueued closest to a time; the earlier one if two are as close.

        Of several items with the same timestamp it is the first. EARLIEST and LATEST stand for the first
        index and the rear. Raises QueueEmpty if nothing is stored, InternalError.
        """
        if timestamp_ms in (EARLIEST, LATEST):
            with self._guard:
                return self._resolve(timestamp_ms)
        with self._guard:
            log = self._log
            if log.leo == log.log_start:
                raise QueueEmpty("nothing is stored: there is no index to find yet")
            after = log.find_time(timestamp_ms)
            if after == log.log_start:
                return after
            before_ms = self._record(after - 1).timestamp_ms
            if after < log.leo and self._record(after).timestamp_ms - timestamp_ms < timestamp_ms - before_ms:
                return after
            return log.find_time(before_ms)

    def _resolve(self, index: int | str) -> int:
        if index in (EARLIEST, EARLIEST_INDEX):
            return self._log.log_start
        if index in (LATEST, LATEST_INDEX):
            return self._log.leo
        if isinstance(index, str):
            raise IndexOutOfBounds(
                f"index {index!r} is neither a number nor {EARLIEST_INDEX!r} nor {LATEST_INDEX!r}"
            )
        return index

    def _out_of_bounds(self, index: int) -> IndexOutOfBounds:
        return IndexOutOfBounds(
            f"there is no item at index {index}: items are [{self._log.log_start}, {self._log.leo})"
        )

    def _last_time(self) -> int:
        """Timestamp of the last item, so that a clock that stepped back between two runs is noticed."""
        try:
            return self._record(self._log.leo - 1).timestamp_ms if len(self) else 0
        except InternalError:
            return 0

    def _record(self, index: int) -> Record:
        return self._records(index, index + 1, 1, 1)[0]

    def _records(self, index: int, end: int, max_items: int, max_bytes: int) -> list[Record]:
        """Records [index, end) up to the limits, at least one if there is one. The lock is held.

        They end before damage; raises InternalError if the first one is damaged.
        """
        found: list[Record] = []
        size = 0
        end = min(end, index + max(1, max_items))
        while index < end:
            try:
                first, records = self._window.find(index) or self._load(index)
            except InternalError:
                if found:
                    return found
                raise
            for record in records[index - first : end - first]:
                size += len(record.value or b"")
                if found and size > max_bytes:
                    return found
                found.append(record)
            index = found[-1].offset + 1
        return found

    def _load(self, index: int) -> tuple[int, list[Record]]:
        """Read and decode a stretch that begins at the item or before it; a long one for who reads on."""
        ahead = _READ_BYTES if self._window.ends_at(index) else _FIRST_READ_BYTES
        try:
            batches = self._log.read(index, self._log.leo, ahead)
            records = [record for batch in batches for record in decode_records(batch)]
        except BadBytes as error:
            raise self._damaged(error, index) from error
        except CorruptBatch as error:
            raise InternalError(f"item {index} cannot be decoded: {error}") from error
        self._window.add(records)
        return records[0].offset, records

    # ----- the files -----

    def flush(self) -> None:
        """Make every item durable, and with ``fronts="auto"`` every front. Raises InternalError."""
        with self._guard:
            self._flush()

    def _flush(self) -> None:
        self._log.sync()
        if self.options.fronts == "auto":
            saved = self._fronts.saved
            changed = {g: f for g, f in self._fronts.reached.items() if saved.get(g) != f}
            if changed:
                self._save_fronts(changed)

    def remove_before(self, timestamp_ms: int) -> int:
        """Remove every item that was enqueued before a time; returns the first index that is left.

        Back files that hold nothing else are deleted. A front that stood on a removed item moves to the first
        one that is left. Raises InternalError.
        """
        with self._writing:
            self._log.move_start(self._log.find_time(timestamp_ms))
            return self._log.log_start

    def limit_back_file_size(self, bytes_max: int) -> int:
        """Delete the oldest back files until the rest has at most so many bytes; returns the first index.

        The file that is being appended to stays. Fronts move as with `remove_before`. Raises InternalError.
        """
        with self._writing:
            total = self._log.bytes
            start = self._log.log_start
            for segment in self._log.sealed:
                if total <= bytes_max:
                    break
                total -= segment.size
                start = segment.end_offset
            self._log.move_start(start)
            return self._log.log_start

    def back_file_size(self) -> int:
        """Bytes of all back files."""
        with self._guard:
            return self._log.bytes

    def close(self) -> None:
        """Make durable what `flush` would, leave a marker of the clean close, release the folder.

        A second time does nothing. Raises InternalError if something could not be made durable; the queue is
        closed all the same.
        """
        with self._lock:
            if self._closed:
                return
            try:
                if not self._unusable:
                    with self._guard:
                        self._flush()
                    # Without the marker the next start takes this stop for an unclean one: slower, as safe.
                    with suppress(OSError):
                        close_folder(self._disk, self._log)
            finally:
                self._release("the queue is closed: open it again")

    def delete(self) -> None:
        """Remove every item and front, durably, and close; the empty folder stays. Raises InternalError."""
        with self._writing:
            try:
                delete_folder(self._disk)
            finally:
                self._release("the queue was deleted")

    def _release(self, why: str) -> None:
        self._closed = True
        self._unusable = self._unusable or why
        self._log.close()
        self._window.clear()
        self._more.notify_all()
        if self._own_disk is not None:
            self._own_disk.close()

    # ----- failures -----

    def _check(self) -> None:
        """Raises InternalError unless the queue may be used. The lock is held."""
        if self._unusable:
            raise InternalError(self._unusable)

    def _give_up(self, error: BaseException) -> None:
        """What the log and its file hold may differ now: only a new start may look at them (R5)."""
        self._unusable = f"{text_of(error)}; close the queue and open it again"
        self._more.notify_all()

    def _damaged(self, error: BadBytes, index: int) -> InternalError:
        """Remember it, so that the next start knows, and say how to go on. Raises DiskError, SyncFailed."""
        lost = error.range or OffsetRange(index, index + 1)
        self._log.note_damage(lost)
        return InternalError(
            f"item {index} is damaged ({error}); move_front(group, {lost.end}) passes over the damage"
        )


def _item(record: Record) -> Item:
    return Item(record.offset, record.timestamp_ms, record.value or b"")
