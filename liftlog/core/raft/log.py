"""The log of the metadata group in memory, and its shadow on disk.

Two lengths describe a Raft log: how far it goes (`last_index`) and how far it is certain to survive a power
loss (`durable_index`). Everything between the two is only a plan. Sub-rules M1f (log matching) and M1g (no
acknowledgement before the sync) rest on this module: it knows, for each index, the ticket after which that
index is durable.

The log lies on disk as the log `RAFT_LOG`, on the same storage code as the streams: Raft index i is the
record at offset i - 1, a batch's epoch is the entries' term, and each run of equal terms makes one batch.

Once there is a snapshot a log does not begin at its beginning (M1p): what lies up to `start` is in the
snapshot, and only the term of the last of it is known here.

Storage carries out jobs in the order of submission. So when a ticket is durable, all earlier ones are; and a
truncation that was submitted before an append is on disk when the append is.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.format import encode_values
from liftlog.messages import AppendLog, Effect, MoveLogStart, TruncateLog
from liftlog.types import (
    BEGINNING,
    NO_TICKET,
    RAFT_LOG,
    Batch,
    Entry,
    InvariantViolation,
    LogBase,
    Ticket,
    invariant,
)


def batches_of(entries: list[Entry]) -> list[Batch]:
    """Encode consecutive entries: one batch for each run of equal terms."""
    batches: list[Batch] = []
    start = 0
    while start < len(entries):
        term = entries[start].term
        end = start + 1
        while end < len(entries) and entries[end].term == term:
            end += 1
        values = [entry.data for entry in entries[start:end]]
        # Raft entries carry no time of their own: the core has no clock, and equal logs must be equal bytes.
        batches.append(encode_values(RAFT_LOG, entries[start].index - 1, term, 0, values))
        start = end
    return batches


class RaftLog:
    """Entries `start` + 1 to `last_index`, of which those up to `durable_index` are known to be synced.

    What lies up to `start` is in a snapshot; of that the log knows one thing, the term of the last.
    """

    __slots__ = (
        "_changed_from",
        "_effects",
        "_new_ticket",
        "_writing",
        "durable_index",
        "entries",
        "start",
        "start_term",
    )

    def __init__(
        self,
        entries: list[Entry],
        effects: list[Effect],
        new_ticket: Callable[[], Ticket],
        base: LogBase = BEGINNING,
    ) -> None:
        """`entries` came from the disk, follow `base` and are durable. Raises InvariantViolation if they are
        no Raft log.
        """
        self.start, self.start_term = base
        index, term = base
        for entry in entries:
            index += 1
            invariant(entry.index == index, f"Raft entry {index} has index {entry.index}")
            invariant(entry.term >= term, f"Raft entry {entry.index} goes back from term {term}")
            term = entry.term
        self.entries = entries
        self.durable_index = index
        self._changed_from = 0
        self._effects = effects
        self._new_ticket = new_ticket
        self._writing: dict[Ticket, int] = {}

    @property
    def last_index(self) -> int:
        return self.start + len(self.entries)

    @property
    def last_term(self) -> int:
        return self.entries[-1].term if self.entries else self.start_term

    def term_at(self, index: int) -> int:
        """Term of the entry at `index`; 0 at index 0, -1 where there is no entry, or none any more."""
        position = index - self.start
        if 0 < position <= len(self.entries):
            return self.entries[position - 1].term
        return self.start_term if position == 0 else -1

    def between(self, after: int, upto: int) -> list[Entry]:
        """The entries behind index `after`, up to `upto`."""
        return self.entries[after - self.start : upto - self.start]

    def append(self, entries: list[Entry]) -> int:
        """Add entries that continue the log, and submit their write. Returns the last one's term."""
        index, term = self.last_index, self.last_term
        self._note_change(index + 1)
        for entry in entries:
            index += 1
            if entry.index != index or entry.term < term:
                found = f"{entry.index} of term {entry.term}"
                raise InvariantViolation(f"Raft entry {index}, after term {term}, is {found}")
            term = entry.term
        self.entries.extend(entries)
        ticket = self._new_ticket()
        self._writing[ticket] = index
        self._effects.append(AppendLog(RAFT_LOG, batches_of(entries), ticket))
        return term

    def truncate(self, keep: int) -> None:
        """Remove every entry above index `keep`, and submit the truncation."""
        self._note_change(keep + 1)
        del self.entries[keep - self.start :]
        self.durable_index = min(self.durable_index, keep)
        # Appends under way reach the disk before this truncation does, so what they prove ends at `keep`.
        for ticket, index in self._writing.items():
            self._writing[ticket] = min(index, keep)
        ticket = self._new_ticket()
        self._writing[ticket] = keep
        self._effects.append(TruncateLog(RAFT_LOG, keep, ticket))

    def forget(self, upto: int) -> None:
        """Drop the entries up to `upto`, which a durable snapshot holds, and have the disk drop them."""
        term = self.term_at(upto)
        invariant(self.start < upto <= self.durable_index and term >= 0, f"Raft log forgets up to {upto}")
        del self.entries[: upto - self.start]
        self.start, self.start_term = upto, term
        self._note_change(upto + 1)
        self._effects.append(MoveLogStart(RAFT_LOG, upto))

    def begin_anew(self, base: LogBase, agreed: int) -> None:
        """Every entry goes, and a snapshot that ends at `base` stands in their place; whoever calls tells
        storage. Up to `agreed` what is durable is part of that snapshot.
        """
        self._note_change(base.index)
        self.entries.clear()
        self.start, self.start_term = base
        self.durable_index = min(self.durable_index, agreed)
        for ticket, index in self._writing.items():
            self._writing[ticket] = min(index, agreed)

    def await_write(self, ticket: Ticket, index: int) -> None:
        """Another write was submitted, after which the log is durable up to `index`."""
        self._writing[ticket] = index

    def _note_change(self, index: int) -> None:
        self._changed_from = min(self._changed_from or index, index)

    def take_changed(self) -> int:
        """The lowest index that was written or cut since this was last called; 0: none was."""
        changed_from, self._changed_from = self._changed_from, 0
        return changed_from

    def on_durable(self, ticket: Ticket) -> bool:
        """Note that a write is synced; True if `durable_index` moved. Foreign tickets are ignored."""
        if ticket not in self._writing:
            return False
        reached = self.durable_index
        for earlier in list(self._writing):
            reached = max(reached, self._writing.pop(earlier))
            if earlier == ticket:
                break
        if reached > self.last_index:
            raise InvariantViolation(f"Raft entry {reached} is durable of {self.last_index}")
        moved = reached > self.durable_index
        self.durable_index = reached
        return moved

    def ticket_for(self, index: int) -> Ticket:
        """The ticket to wait for until everything up to `index` is durable; NO_TICKET if it is already."""
        if index <= self.durable_index:
            return NO_TICKET
        for ticket, reached in self._writing.items():
            if reached >= index:
                return ticket
        invariant(False, f"Raft entry {index} is neither durable nor being written")
        return NO_TICKET

    def slice(self, start: int, max_bytes: int) -> list[Entry]:
        """Entries from index `start` on, at least one if there is one, up to about `max_bytes` of data."""
        entries = self.entries
        end = position = start - self.start - 1
        size = 0
        while end < len(entries):
            size += len(entries[end].data) + ENTRY_OVERHEAD_BYTES
            if size > max_bytes and end > position:
                break
            end += 1
        return entries[position:end]

    def retry_hint(self, prev_index: int, floor: int) -> int:
        """Where a leader should try next after this log did not match it at `prev_index`.

        A log that is too short names its end. A log with another term there names the index before the whole
        run of that term, so that one round trip undoes one term and not one entry (Raft paper, end of 5.3).
        Nothing at or below `floor`, the commit index, can conflict.
        """
        if prev_index > self.last_index:
            return self.last_index
        term = self.term_at(prev_index)
        hint = prev_index - 1
        floor = max(floor, self.start)
        while hint > floor and self.term_at(hint) == term:
            hint -= 1
        return hint


ENTRY_OVERHEAD_BYTES = 32
"""What an entry adds to a message beyond its data, roughly, so that a million empty entries are not free."""
