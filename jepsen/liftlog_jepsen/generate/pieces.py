"""The rows of a large generated history, piece by piece, as columns of numbers.

`mop_pieces` gives micro-operations by log and offset, `op_pieces` operations by position, each about a
hundred thousand rows at a time. `liftlog_jepsen.generate.layout` says where everything stands.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from liftlog_jepsen.generate.layout import INFO, OK, STORED_INFO, STRIDE, Bools, Ints, Layout
from liftlog_jepsen.history import MOP_FUNCTIONS, NULL

PIECE_ROWS = 1 << 17
"""Small enough for the processor's caches: eight times as many rows a piece take three times as long."""
OP_FUNCTIONS = ("send", "poll", "txn", "final-poll", "assign")
SEND, POLL, TXN, FINAL, ASSIGN = range(5)
SENDING, POLLING, ASSIGNING = (MOP_FUNCTIONS.index(f) for f in ("send", "poll", "assign"))
EPOCH, LEADER = 1, 1
"""A correct log that never changes its leader."""

Columns = dict[str, npt.NDArray[np.int64]]

MOP_COLUMNS = (
    "key", "op_id", "pos", "f", "offset", "value", "epoch", "leader",
    "process", "op_f", "outcome", "idx_inv", "idx_ret",
)  # fmt: skip
OP_COLUMNS = ("op_id", "idx_inv", "idx_ret", "process", "f", "outcome")


def stream_name(number: int, streams: int) -> str:
    """Names in the order of numbers, so that rows by number are rows by name."""
    return f"log/{number:0{len(str(max(streams - 1, 1)))}d}"


# -- micro-operations ----------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Some rows of mops.parquet, and what they can contain."""

    columns: Columns
    first_stream: int
    stop_stream: int
    start_round: int
    stop_round: int
    placed: bool
    """Has the rows with an offset."""
    late: bool
    """Has the rows without."""


class Sends(NamedTuple):
    """The sends of some groups in some rounds, by group and offset; flat arrays."""

    first_group: int
    first_round: int

    group: Ints
    round_: Ints
    op: Ints
    value: Ints
    """Counts the sends of a stream."""
    fate: npt.NDArray[np.int8]
    stored: Bools
    dense: Ints
    """Records of the stream before this one."""
    within: Ints
    """Records of the stream and round before this one."""
    burst: Ints
    member: Ints
    totals: Ints
    """[group, round]: records stored."""


Visit = Callable[[Sends], None]
"""Is shown the sends of a piece before its rows are made, once for each group and round."""


def mop_pieces(layout: Layout, visit: Visit = lambda sends: None) -> Iterator[Piece]:
    """All micro-operations, sorted by key and offset, those without offset at the end of their key."""
    shape = layout.shape
    width = 1 + shape.reads + shape.final_readers
    finals = 0
    group = 0
    while group < layout.groups:
        bursts = int(layout.bursts[group])
        rows = layout.rounds * bursts * shape.concurrency * shape.sends_per_op * width
        if rows > PIECE_ROWS:
            rounds = max(1, PIECE_ROWS // (bursts * shape.concurrency * width))
            finals = yield from _large_group(layout, group, rounds, finals, visit)
            group += 1
            continue
        same = np.flatnonzero(layout.bursts[group:] != bursts)
        stop = min(layout.groups if not len(same) else group + int(same[0]), group + PIECE_ROWS // rows)
        piece, finals = _small_groups(layout, group, stop, finals, visit)
        yield piece
        group = stop


def _large_group(
    layout: Layout, group: int, rounds: int, finals: int, visit: Visit
) -> Generator[Piece, None, int]:
    """Piece by piece of its rounds, once for each of its streams. Returns the final reads' blocks so far."""
    for member in range(layout.shape.sends_per_op):
        stream = group * layout.shape.sends_per_op + member
        carry = np.zeros(1, np.int64)
        late = []
        for start in range(0, layout.rounds, rounds):
            stop = min(start + rounds, layout.rounds)
            sends = _sends(layout, group, group + 1, start, stop, carry)
            if member == 0:
                visit(sends)
            carry = carry + sends.totals.sum(axis=1)
            records = _records(layout, sends, member, np.array([finals]))
            yield Piece(records, stream, stream + 1, start, stop, True, False)
            late.append(_without_offset(layout, sends, member))
        yield Piece(concatenate(late), stream, stream + 1, 0, layout.rounds, False, True)
        finals += final_blocks(layout, int(carry[0]))
    return finals


def _small_groups(layout: Layout, group: int, stop: int, finals: int, visit: Visit) -> tuple[Piece, int]:
    """Whole groups at once."""
    sends = _sends(layout, group, stop, 0, layout.rounds, np.zeros(stop - group, np.int64))
    visit(sends)
    each = layout.shape.sends_per_op
    blocks = np.array([final_blocks(layout, int(total)) for total in sends.totals.sum(axis=1)])
    first = finals + each * (np.cumsum(blocks) - blocks)
    parts = []
    for member in range(each):
        parts.append(_records(layout, sends, member, first + member * blocks))
        parts.append(_without_offset(layout, sends, member))
    rows = concatenate(parts)
    order = np.argsort(rows["key"], kind="stable")
    rows = {name: column[order] for name, column in rows.items()}
    piece = Piece(rows, group * each, stop * each, 0, layout.rounds, True, True)
    return piece, finals + each * int(blocks.sum())


def _sends(layout: Layout, group: int, stop: int, start_round: int, stop_round: int, carry: Ints) -> Sends:
    """The sends of groups of one size. `carry`: records that each group stored before."""
    bursts, size = int(layout.bursts[group]), layout.shape.concurrency
    first, last = int(layout.first_burst[group]), int(layout.first_burst[stop - 1]) + bursts
    slots = layout.burst_slots[first:last].reshape(stop - group, 1, bursts, 1)
    rounds = np.arange(start_round, stop_round).reshape(1, -1, 1, 1)
    burst = rounds * layout.round_bursts + slots
    member = layout.member_at(burst, np.arange(size).reshape(1, 1, 1, -1))
    op = layout.send_op(burst, member)
    fate = layout.fate(op)
    stored = (fate == OK) | (fate == STORED_INFO)
    by_round = stored.reshape(stop - group, stop_round - start_round, bursts * size)
    within = np.cumsum(by_round, axis=2) - 1
    totals = within[:, :, -1] + 1
    before = np.cumsum(totals, axis=1) - totals + carry[:, None]
    value = (rounds * bursts + np.arange(bursts).reshape(1, 1, -1, 1)) * size + member
    full = op.shape
    groups = np.arange(group, stop).reshape(-1, 1, 1, 1)
    return Sends(
        group,
        start_round,
        np.broadcast_to(groups, full).ravel(),
        np.broadcast_to(rounds, full).ravel(),
        op.ravel(),
        value.ravel(),
        fate.ravel(),
        stored.ravel(),
        (within + before[:, :, None]).ravel(),
        within.ravel(),
        np.broadcast_to(burst, full).ravel(),
        member.ravel(),
        totals,
    )


def _records(layout: Layout, sends: Sends, member: int, finals: Ints) -> Columns:
    """Everything with an offset, of one stream of each group: acknowledged sends, polls and final reads."""
    shape = layout.shape
    chosen = np.flatnonzero(sends.stored)
    group, round_, within = sends.group[chosen], sends.round_[chosen], sends.within[chosen]
    dense = sends.dense[chosen]
    acked = sends.fate[chosen] == OK
    width = 1 + shape.reads + shape.final_readers
    columns = {name: np.empty((len(chosen), width), np.int64) for name in MOP_COLUMNS}
    columns["key"][:] = (group * shape.sends_per_op + member)[:, None]
    offset = dense + dense // shape.gap_every if shape.gap_every else dense
    columns["offset"][:] = offset[:, None]
    columns["value"][:] = sends.value[chosen][:, None]
    columns["f"][:] = POLLING
    columns["outcome"][:] = OK
    columns["epoch"][:] = NULL
    columns["leader"][:] = NULL
    _fill(
        columns, 0,
        f=SENDING, epoch=EPOCH, leader=LEADER, op_f=_send_f(layout), pos=member, op_id=sends.op[chosen],
        **_send_cells(layout, sends.burst[chosen], sends.member[chosen], sends.fate[chosen]),
    )  # fmt: skip
    place = layout.first_poll[group] + within // shape.batch
    pos = within % shape.batch
    if shape.sends_per_op > 1:
        total = sends.totals[group - sends.first_group, round_ - sends.first_round]
        pos = pos + member * np.minimum(shape.batch, total - (within - pos))
    for reader in range(shape.reads):
        invoked = layout.poll_invoked(round_, reader, place)
        _fill(
            columns, 1 + reader,
            op_f=POLL, pos=pos, op_id=layout.poll_op(round_, reader, place),
            process=layout.consumer[reader][group], idx_inv=invoked, idx_ret=invoked + STRIDE,
        )  # fmt: skip
    block = finals[group - sends.first_group] + dense // shape.batch
    for reader in range(shape.final_readers):
        number = block * shape.final_readers + reader
        invoked = layout.final_position + 2 * STRIDE * number
        _fill(
            columns, 1 + shape.reads + reader,
            op_f=FINAL, pos=dense % shape.batch, op_id=layout.final_op + number,
            process=layout.first_final_reader + reader, idx_inv=invoked, idx_ret=invoked + STRIDE,
        )  # fmt: skip
    keep = np.ones((len(chosen), width), np.bool_)
    keep[:, 0] = acked
    mask = keep.ravel()
    return {name: column.ravel()[mask] for name, column in columns.items()}


def _without_offset(layout: Layout, sends: Sends, member: int) -> Columns:
    """What knows no offset, of one stream of each group: unacknowledged sends, empty polls, assigns."""
    shape = layout.shape
    group, start = sends.first_group, sends.first_round
    unknown = np.flatnonzero(sends.fate != OK)
    parts = [
        _rows(
            key=sends.group[unknown] * shape.sends_per_op + member,
            op_id=sends.op[unknown], pos=member, f=SENDING, op_f=_send_f(layout), value=sends.value[unknown],
            **_send_cells(layout, sends.burst[unknown], sends.member[unknown], sends.fate[unknown]),
        )
    ]  # fmt: skip
    most = int(layout.polls[group])
    empty = np.arange(most)[None, None, :] * shape.batch >= sends.totals[:, :, None]
    where, round_, place = np.nonzero(empty)
    for reader in range(shape.reads):
        place_of_all = layout.first_poll[where + group] + place
        invoked = layout.poll_invoked(round_ + start, reader, place_of_all)
        parts.append(
            _rows(
                key=(where + group) * shape.sends_per_op + member,
                op_id=layout.poll_op(round_ + start, reader, place_of_all), pos=member, f=POLLING, op_f=POLL,
                process=layout.consumer[reader][where + group], outcome=OK,
                idx_inv=invoked, idx_ret=invoked + STRIDE,
            )
        )  # fmt: skip
    rounds = layout.assigning_rounds(start, start + sends.totals.shape[1])
    groups = np.arange(group, group + len(sends.totals))
    for reader in range(shape.reads if len(rounds) else 0):
        round_, of = (axis.ravel() for axis in np.meshgrid(rounds, groups, indexing="ij"))
        process = layout.consumer[reader][of]
        invoked = layout.assign_invoked(round_, process - layout.first_consumer)
        parts.append(
            _rows(
                key=of * shape.sends_per_op + member,
                op_id=layout.assign_op(round_, process - layout.first_consumer),
                pos=layout.assign_place[reader][of] * shape.sends_per_op + member,
                f=ASSIGNING, op_f=ASSIGN, process=process, outcome=OK,
                idx_inv=invoked, idx_ret=invoked + STRIDE,
            )
        )  # fmt: skip
    rows = concatenate(parts)
    order = np.argsort(rows["op_id"], kind="stable")
    return {name: column[order] for name, column in rows.items()}


def _send_f(layout: Layout) -> int:
    return TXN if layout.shape.sends_per_op > 1 else SEND


def _send_cells(layout: Layout, burst: Ints, member: Ints, fate: npt.NDArray[np.int8]) -> dict[str, Ints]:
    invoked, ended = layout.send_positions(burst, member)
    outcome = np.minimum(fate, INFO).astype(np.int64)
    if layout.shape.sends_per_op == 1:
        # Half of the clients that were never told wait for ever; the others have given up.
        ended = np.where((outcome == INFO) & (member & 1 == 1), NULL, ended)
    return {
        "process": layout.send_process(burst, member),
        "outcome": outcome,
        "idx_inv": invoked,
        "idx_ret": ended,
    }


def final_blocks(layout: Layout, records: int) -> int:
    """The final reads that one reader makes of a stream with so many records."""
    return -(-records // layout.shape.batch) if layout.shape.final_readers else 0


def _fill(columns: Columns, place: int, **cells: Ints | int) -> None:
    for name, cell in cells.items():
        columns[name][:, place] = cell


def _rows(**cells: Ints | int) -> Columns:
    """Rows from columns and constants; what is not named is null."""
    count = max(len(cell) for cell in cells.values() if isinstance(cell, np.ndarray))
    columns = {}
    for name in MOP_COLUMNS:
        cell = cells.get(name, NULL)
        columns[name] = cell if isinstance(cell, np.ndarray) else np.full(count, cell, np.int64)
    return columns


def concatenate(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


# -- operations ----------------------------------------------------------------------------------------------


Change = Callable[[Columns, int, int], Columns]
"""Makes operations of some rounds what they shall be."""


def op_pieces(layout: Layout, final_ops: int, change: Change | None = None) -> Iterator[Columns]:
    """All operations, sorted by `idx_inv`. `final_ops`: how many final reads there are."""
    rounds = max(1, PIECE_ROWS // layout.round_ops)
    for start in range(0, layout.rounds, rounds):
        stop = min(start + rounds, layout.rounds)
        piece = _rounds_ops(layout, start, stop)
        yield piece if change is None else change(piece, start, stop)
    readers = max(layout.shape.final_readers, 1)
    for start in range(0, final_ops, PIECE_ROWS):
        number = np.arange(start, min(start + PIECE_ROWS, final_ops))
        invoked = layout.final_position + 2 * STRIDE * number
        yield {
            "op_id": layout.final_op + number,
            "idx_inv": invoked,
            "idx_ret": invoked + STRIDE,
            "process": layout.first_final_reader + number % readers,
            "f": np.full(len(number), FINAL, np.int64),
            "outcome": np.full(len(number), OK, np.int64),
        }


def _rounds_ops(layout: Layout, start: int, stop: int) -> Columns:
    shape = layout.shape
    rounds = np.arange(start, stop)[:, None]
    columns = {name: np.empty((stop - start, layout.round_ops), np.int64) for name in OP_COLUMNS}
    columns["op_id"][:] = rounds * layout.round_ops + np.arange(layout.round_ops)[None, :]
    sends, assigns = layout.round_sends, layout.round_assigns
    send = np.arange(sends)[None, :]
    burst = rounds * layout.round_bursts + send // shape.concurrency
    member = np.broadcast_to(send % shape.concurrency, burst.shape)
    part = np.s_[:, :sends]
    cells = _send_cells(layout, burst, member, layout.fate(columns["op_id"][part]))
    for name, cell in cells.items():
        columns[name][part] = cell
    columns["f"][part] = _send_f(layout)
    others = np.s_[:, sends:]
    ahead = np.arange(sends, layout.round_ops)[None, :]
    columns["idx_inv"][others] = rounds * layout.round_positions + 2 * STRIDE * ahead
    columns["idx_ret"][others] = columns["idx_inv"][others] + STRIDE
    columns["outcome"][others] = OK
    columns["f"][:, sends : sends + assigns] = ASSIGN
    columns["process"][:, sends : sends + assigns] = layout.first_consumer + np.arange(assigns)
    columns["f"][:, sends + assigns :] = POLL
    columns["process"][:, sends + assigns :] = np.repeat(
        layout.consumer.ravel(), np.tile(layout.polls, shape.reads)
    )
    keep = np.ones(columns["f"].shape, np.bool_)
    if assigns:
        keep[:, sends : sends + assigns] = (np.arange(start, stop) % shape.assign_every == 0)[:, None]
    mask = keep.ravel()
    return {name: column.ravel()[mask] for name, column in columns.items()}
