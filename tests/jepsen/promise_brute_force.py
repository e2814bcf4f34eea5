"""The definitions of docs/promises.md, word by word, over operations instead of columns; slow and obvious.

And random histories with facts that make sense about half of the time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Mop, Op

Broken = tuple[Any, ...]
"""Anomaly, key, and what tells it from others of its kind."""
RECORDS = ("send", "poll")


def identity(row: dict[str, Any]) -> Broken:
    """A row of the result, as far as the definitions fix it."""
    name, e, ops = row["anomaly"], row["evidence"], row["ops"]
    told: dict[str, tuple[Any, ...]] = {
        "hw-back": tuple(ops),
        "read-above-hw": tuple(ops),
        "read-truncated": (e["offset"], e["value"]),
        "sequence-duplicate": (e["subject"], e["epoch"], e["sequence"]),
        "last-value-lost": (e["process"], e["subject"]),
        "deleted-value-back": (e["process"], e["subject"]),
        "generation-back": (ops[-1],),
        "two-owners": (e["subject"], e["epoch"]),
        "stale-commit": (ops[-1],),
        "cursor-back": (ops[-1],),
        "phantom-cursor": (ops[-1],),
        "output-duplicate": (e["subject"], e["offset"]),
        "output-missing": (e["subject"], e["offset"]),
        "cursor-apart": (e["subject"], ops[0]),
        "misplaced": (ops[0], e["offset"]),
        "refused-as-expected": tuple(ops),
        "stale-refusal": (ops[-1], e["offset"]),
        "dirty-refusal": (ops[0], e["offset"]),
        "late-append": (e["offset"],),
        "phantom-offset": (),
    }
    return (name, row["key"], *told.get(name, (e["subject"], e["offset"], e["other_offset"])))


def before(one: Op, other: Op) -> bool:
    return one.idx_ret is not None and one.idx_ret < other.idx_inv


class BruteForce:
    """All promises of one history."""

    def __init__(self, history: History) -> None:
        self.ops = sorted(history.ops(), key=lambda op: op.op_id)
        self.ok = [op for op in self.ops if op.outcome == "ok"]
        self.keys = sorted({mop.key for op in self.ops for mop in op.mops})

    def check(self) -> set[Broken]:
        found: set[Broken] = set()
        for key in self.keys:
            found |= set(self.reading(key)) | set(self.dedupe(key)) | set(self.compaction(key))
            found |= set(self.exactly_once(key)) | set(CompareAndSet(self, key).check())
        return found | set(self.groups())

    def polls(self, key: str) -> list[tuple[Op, int, Any]]:
        return [
            (op, mop.offset, mop.value)
            for op in self.ok
            for mop in op.mops
            if mop.f == "poll" and mop.key == key and mop.offset is not None
        ]

    def reading(self, key: str) -> Iterator[Broken]:
        sessions: dict[Any, tuple[Op, int]] = {}
        for op in sorted(self.ok, key=lambda op: op.idx_inv):
            told = [mop for mop in op.mops if mop.f == "hw" and mop.key == key]
            for mop in told:
                assert mop.offset is not None
                session = (op.process, mop.epoch if op.f == "replica" else None)
                if session in sessions and sessions[session][1] > mop.offset:
                    yield "hw-back", key, sessions[session][0].op_id, op.op_id
                sessions[session] = (op, mop.offset)
            hw = max((mop.offset or 0 for mop in told), default=None)
            if hw is not None and any(one is op and offset >= hw for one, offset, _ in self.polls(key)):
                yield "read-above-hw", key, op.op_id
        for op in self.ops:
            for mop in op.mops:
                if mop.f == "truncate" and mop.key == key:
                    same = [o for o, at, value in self.polls(key) if (at, value) == (mop.offset, mop.value)]
                    later = [at for o, at, _ in self.polls(key) if o.idx_inv > op.idx_inv]
                    again = any(one.idx_inv > op.idx_inv for one in same)
                    if same and not again and any(at >= (mop.offset or 0) for at in later):
                        yield "read-truncated", key, mop.offset, mop.value

    def records(self, key: str, kinds: tuple[str, ...]) -> list[tuple[Op, Mop, Mop | None]]:
        """Records with the fact of one of these kinds that stands behind them."""
        found = []
        for op in self.ops:
            last = -1
            mops = [mop for mop in op.mops if mop.key == key]
            facts: dict[int, Mop] = {}
            for place, mop in enumerate(mops):
                if mop.f in RECORDS:
                    last = place
                elif mop.f in kinds and last >= 0:
                    facts.setdefault(last, mop)
            found += [(op, mop, facts.get(place)) for place, mop in enumerate(mops) if mop.f in RECORDS]
        return found

    def named(self, key: str, kinds: tuple[str, ...], by_offset: bool) -> list[tuple[Op, Mop, Mop | None]]:
        """The same, with what is known from the value, or from the offset."""
        every = self.records(key, kinds)
        for field in ("value", "offset") if by_offset else ("value",):
            known: dict[Any, Mop] = {}
            for _, mop, fact in every:
                if fact is not None and getattr(mop, field) is not None:
                    known.setdefault(getattr(mop, field), fact)
            every = [(op, mop, fact or known.get(getattr(mop, field))) for op, mop, fact in every]
        return every

    def stored(
        self, key: str, kinds: tuple[str, ...], by_offset: bool = False
    ) -> list[tuple[Op, Mop, Mop | None]]:
        every = self.named(key, kinds, by_offset)
        return [one for one in every if one[0].outcome == "ok" and one[1].offset is not None]

    def dedupe(self, key: str) -> Iterator[Broken]:
        stored = self.stored(key, ("producer",))
        known = {mop.offset for _, mop, _ in stored}
        places: dict[tuple[Any, ...], set[int]] = {}
        for _, mop, fact in stored:
            if fact is not None:
                places.setdefault((fact.value, fact.epoch, fact.offset), set()).add(mop.offset or 0)
        for number, offsets in places.items():
            if len(offsets) > 1:
                yield "sequence-duplicate", key, *number
        for producer in sorted({number[0] for number in places}):
            line = sorted(
                (min(offsets), number[1], number[2])
                for number, offsets in places.items()
                if number[0] == producer
            )
            for (low, epoch, one), (high, newer, two) in pairwise(line):
                if newer < epoch:
                    yield "fenced-producer", key, producer, high, low
                elif newer == epoch and two < one:
                    yield "sequence-reordered", key, producer, high, low
                elif newer == epoch and two > one + 1 and known >= set(range(low + 1, high)):
                    yield "sequence-gap", key, producer, high, low

    def compaction(self, key: str) -> Iterator[Broken]:
        stored = self.stored(key, ("record-key", "tombstone"), by_offset=True)
        spoiled = {op.process for op in self.ops if op.f == FINAL_POLL and op.outcome != "ok"}
        finals: dict[int, list[tuple[Op, Mop, Mop | None]]] = {}
        for op, mop, fact in self.named(key, ("record-key", "tombstone"), by_offset=True):
            # Records without offset too: an empty log is one.
            if op.outcome == "ok" and op.f == FINAL_POLL and op.process not in spoiled and mop.f == "poll":
                finals.setdefault(op.process, []).append((op, mop, fact))
        for record_key in sorted({fact.value for _, _, fact in stored if fact is not None}, key=str):
            its = [one for one in stored if one[2] is not None and one[2].value == record_key]
            offset = max(mop.offset or 0 for _, mop, _ in its)
            last = min((one for one in its if one[1].offset == offset), key=lambda one: one[0].idx_ret or 0)
            for process, read in finals.items():
                began = min(op.idx_inv for op, _, _ in read)
                if (last[0].idx_ret or 0) >= began or offset in {mop.offset for _, mop, _ in read}:
                    continue
                assert last[2] is not None
                seen = [fact for _, mop, fact in read if mop.offset is not None and fact is not None]
                older = any(fact.value == record_key for fact in seen)
                if last[2].f == "record-key":
                    yield "last-value-lost", key, process, record_key
                elif older:
                    yield "deleted-value-back", key, process, record_key

    def facts(self, *kinds: str) -> list[tuple[Op, Mop, str]]:
        """Facts about groups, with their group."""
        return [
            (op, mop, mop.key if mop.f == "join" else str(mop.value))
            for op in self.ok
            for mop in op.mops
            if mop.f in kinds
        ]

    def groups(self) -> Iterator[Broken]:
        told = [one for one in self.facts("join", "own") if one[1].epoch is not None]
        for op, mop, group in told:
            first = next(m for o, m, g in told if o is op and g == group and m.epoch is not None)
            if any(g == group and before(o, op) and (m.epoch or 0) > (mop.epoch or 0) for o, m, g in told):
                assert first.epoch == mop.epoch
                yield "generation-back", first.key, op.op_id
        claims: dict[tuple[Any, ...], set[int]] = {}
        for op, mop, group in self.facts("own"):
            claims.setdefault((mop.key, group, mop.epoch), set()).add(op.process)
        yield from (("two-owners", *claim) for claim, processes in claims.items() if len(processes) > 1)
        commits = self.facts("commit")
        for op, mop, group in commits:
            newer = (before(o, op) and g == group and (m.epoch or 0) > (mop.epoch or 0) for o, m, g in told)
            if mop.epoch is not None and any(newer):
                yield "stale-commit", mop.key, op.op_id
        for op, mop, group in self.facts("commit", "fetch-commit"):
            cursor = -1 if mop.offset is None else mop.offset
            its = [(o, m.offset) for o, m, g in commits if g == group and m.key == mop.key]
            if any(before(o, op) and (offset or 0) > cursor for o, offset in its):
                yield "cursor-back", mop.key, op.op_id
            if mop.f == "fetch-commit" and mop.offset is not None and not self.committed(op, mop, group):
                yield "phantom-cursor", mop.key, op.op_id

    def committed(self, op: Op, told: Mop, group: str) -> bool:
        return any(
            mop.f == "commit" and (mop.key, mop.offset, str(mop.value)) == (told.key, told.offset, group)
            for one in self.ops
            if one.outcome != "fail" and one.idx_inv <= (op.idx_ret or 0)
            for mop in one.mops
        )

    def exactly_once(self, key: str) -> Iterator[Broken]:
        read = {(m.key, m.value) for op in self.ok for m in op.mops if m.f == "poll" and m.value is not None}
        took_place = [
            op
            for op in self.ops
            if op.outcome == "ok"
            or (op.outcome == "info" and any(m.f == "send" and (m.key, m.value) in read for m in op.mops))
        ]
        named: dict[str, list[tuple[Op, int]]] = {}
        for op in self.ops:
            for mop in op.mops:
                if mop.f == "source" and mop.key == key:
                    named.setdefault(str(mop.value), []).append((op, mop.offset or 0))
        there = {mop.offset for op in self.ok for mop in op.mops if mop.f in RECORDS and mop.key == key} - {
            None
        }
        for group, its in named.items():

            def cursors(ops: list[Op], group: str = group) -> list[int]:
                mops = [mop for op in ops for mop in op.mops if mop.f == "commit" and mop.key == key]
                return [mop.offset or 0 for mop in mops if str(mop.value) == group]

            for offset in sorted({offset for _, offset in its}):
                if len({op.op_id for op, at in its if at == offset and op in took_place}) > 1:
                    yield "output-duplicate", key, group, offset
            top, lowest = max(cursors(took_place), default=0), min(offset for _, offset in its)
            dealt_with = {offset for op, offset in its if op.outcome != "fail"}
            for offset in there:
                if lowest <= offset < top and offset not in dealt_with:
                    yield "output-missing", key, group, offset
            for op in self.ok:
                mine = [offset for one, offset in its if one is op]
                if mine and max(cursors([op]), default=-1) <= max(mine):
                    yield "cursor-apart", key, group, op.op_id


class CompareAndSet:
    """Compare and set, of one log."""

    def __init__(self, whole: BruteForce, key: str) -> None:
        self.key = key
        self.whole = whole
        self.sends = [
            (op, mop, expected and expected.offset, told and told.offset)
            for (op, mop, expected), (_, _, told) in zip(
                whole.records(key, ("expected",)), whole.records(key, ("refused",)), strict=True
            )
            if mop.f == "send"
        ]
        self.polls = whole.polls(key)
        self.refusals = [
            (op, told, expected) for op, _, expected, told in self.sends if told is not None and op.idx_ret
        ]
        self.told = {
            (op.idx_ret, mop.offset, mop.value)
            for op, mop, _, _ in self.sends
            if op.outcome == "ok" and mop.offset is not None
        }
        self.read = {(op.idx_ret, offset, value) for op, offset, value in self.polls}
        self.shown = [(ret, offset + 1, 2 * offset + 1) for ret, offset, _ in self.told | self.read]
        self.shown += [(op.idx_ret, told, 2 * told) for op, told, _ in self.refusals]
        self.offsets = {offset for _, offset, _ in self.told | self.read}

    def check(self) -> Iterator[Broken]:
        facts = [m for op in self.whole.ops for m in op.mops if m.f in ("expected", "refused")]
        if any(mop.key == self.key for mop in facts):
            yield from self.places()
            yield from self.refused()
            yield from self.late()
            if not self.fills():
                yield "phantom-offset", self.key

    def places(self) -> Iterator[Broken]:
        for op, mop, expected, _ in self.sends:
            if expected is None:
                continue
            own = [] if mop.offset is None or op.outcome == "fail" else [mop.offset]
            alone = mop.value is not None and sum(m.value == mop.value for _, m, _, _ in self.sends) == 1
            seen = sorted(offset for _, offset, value in self.polls if alone and value == mop.value)
            wrong = [offset for offset in (*own, *seen) if offset != expected]
            if wrong:
                yield "misplaced", self.key, op.op_id, wrong[0]

    def began(self, offset: int) -> int | None:
        """When the send of the record at an offset began: the earliest that it can have been."""
        values = {value for _, at, value in self.read if at == offset and value is not None}
        its = [
            op.idx_inv
            for op, mop, _, _ in self.sends
            if (op.outcome == "ok" and mop.offset == offset) or mop.value in values
        ]
        # Of several sends of a value the first counts.
        return min(its, default=None)

    def refused(self) -> Iterator[Broken]:
        rows = [(op, mop) for op in self.whole.ops for mop in op.mops if mop.key == self.key]
        spoiled = {op.process for op in self.whole.ops if op.f == FINAL_POLL and op.outcome != "ok"}
        finals = [(op, mop) for op, mop in rows if op.f == FINAL_POLL and mop.f == "poll"]
        finals = [(op, mop) for op, mop in finals if op.outcome == "ok" and op.process not in spoiled]
        tells = not any(m.offset is None for _, m in finals)
        tells &= not any(m.f in ("record-key", "tombstone") for _, m in rows)
        for op, told, expected in self.refusals:
            ret = op.idx_ret or 0
            if told == expected:
                yield "refused-as-expected", self.key, op.op_id
            if any(place > 2 * told and end < op.idx_inv for end, _, place in self.shown):
                yield "stale-refusal", self.key, op.op_id, told
            later = any((self.began(offset) or 0) > ret for offset in self.offsets if offset < told)
            short = all(offset < told - 1 for offset in self.offsets)
            if later or (short and tells and any(one.idx_inv > ret for one, _ in finals)):
                yield "dirty-refusal", self.key, op.op_id, told

    def late(self) -> Iterator[Broken]:
        for offset in self.offsets:
            began = self.began(offset)
            if began is not None and any(at > offset and end < began for end, at, _ in self.read):
                yield "late-append", self.key, offset

    def fills(self) -> bool:
        """Whether each gap gets a send of its own (Kuhn's matching)."""
        if not self.shown:
            return True
        low = min(place // 2 for _, _, place in self.shown)
        high = max(length for _, length, _ in self.shown)
        seen = {value for _, _, value in self.read if value is not None}
        unsure = [
            (op.idx_inv, expected if mop.offset is None else mop.offset)
            for op, mop, expected, _ in self.sends
            if op.outcome == "info" or (op.outcome == "ok" and mop.offset is None)
            if mop.value not in seen
        ]
        taken: dict[int, int] = {}

        def place(gap: int, tried: set[int]) -> bool:
            limit = min(end for end, _, where in self.shown if where > 2 * gap)
            for number, (began, only) in enumerate(unsure):
                if began < limit and only in (None, gap) and number not in tried:
                    tried.add(number)
                    if number not in taken or place(taken[number], tried):
                        taken[number] = gap
                        return True
            return False

        return all(place(gap, set()) for gap in range(low, high) if gap not in self.offsets)


def random_facts(rng: random.Random) -> History:
    """A history with facts of every kind; some operations overlap."""
    own = random.Random()
    own.setstate(rng.getstate())  # compare and set is drawn beside the others
    writer = HistoryWriter("random", clock_ns=iter(range(10**6)).__next__)
    open_ops: dict[int, tuple[int, list[Mop]]] = {}
    values = iter(f"v{number}" for number in range(10**6))
    polled: list[tuple[str, int, str | None]] = []

    def small() -> int:
        return rng.randrange(6)

    def record(f: str, key: str) -> list[Mop]:
        value = None if rng.random() < 0.1 else next(values) if f == "send" else f"v{rng.randrange(12)}"
        mops = [Mop(f, key, small() if rng.random() < 0.9 else None, value)]
        if f == "poll" and mops[0].offset is not None:
            polled.append((key, mops[0].offset, value))
        if rng.random() < 0.4:
            mops.append(Mop("producer", key, rng.randrange(4), f"p{rng.randrange(2)}", rng.randrange(2)))
        if f == "send" and own.random() < 0.8:
            mops.append(Mop("expected", key, own.randrange(6)))
            if own.random() < 0.7:
                mops.append(Mop("refused", key, own.randrange(6)))
        if rng.random() < 0.4:
            kind = rng.choice(("record-key", "record-key", "tombstone"))
            mops.append(Mop(kind, key, None, f"r{rng.randrange(3)}"))
        return mops

    def operation() -> tuple[str, list[Mop]]:
        key, group = rng.choice(("k", "j")), rng.choice(("g", "h"))
        generation = rng.randrange(3)
        kind = rng.randrange(9)
        if kind == 0:
            return "send", record("send", key)
        if kind <= 2:
            mops = [mop for _ in range(rng.randrange(4)) for mop in record("poll", key)]
            told = [Mop("hw", key, small(), None, rng.randrange(2))] if rng.random() < 0.6 else []
            return rng.choice(("poll", FINAL_POLL)), [*mops, *told]
        if kind == 3:
            key, offset, value = rng.choice(polled) if polled else (key, small(), "v0")
            cut = Mop("truncate", key, offset, value)
            return "replica", [cut, Mop("hw", key, small(), None, rng.randrange(2))]
        if kind == 4:
            return "join", [
                Mop("join", group, None, None, generation),
                Mop("own", key, None, group, generation),
            ]
        if kind == 5:
            return "commit", [Mop("commit", key, small(), group, rng.choice((None, generation)))]
        if kind == 6:
            return "fetch-commit", [Mop("fetch-commit", key, rng.choice((None, small())), group)]
        sources = [Mop("source", key, small(), group) for _ in range(rng.randrange(1, 3))]
        commit = [Mop("commit", key, small(), group)] if rng.random() < 0.8 else []
        return "txn", [Mop("send", rng.choice(("k", "j", "out")), None, next(values)), *sources, *commit]

    for _ in range(rng.randrange(4, 30)):
        process = rng.randrange(4)
        if process in open_ops:
            op_id, mops = open_ops.pop(process)
            writer.mops(op_id, mops)
            rng.choice((writer.ok, writer.ok, writer.ok, writer.ok, writer.fail, writer.info))(op_id)
        else:
            f, mops = operation()
            open_ops[process] = (writer.invoke(process, f), mops)
    for op_id, mops in open_ops.values():
        writer.mops(op_id, mops)
    return writer.close()
