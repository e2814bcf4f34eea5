"""The log: append, read, tail. Also in the form of the S2 stream store's checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from liftlog_jepsen.events import INFO, BadHistory
from liftlog_jepsen.formats.options import Options
from liftlog_jepsen.objects.fast_log import check_log, offset_of
from liftlog_jepsen.objects.model import Call, Contradiction, Model, State, freeze, show

_MASK = (1 << 64) - 1


class Stream(NamedTuple):
    """The state of a log: the next offset, a hash of everything before it, the fencing token, the values.

    Where histories give hashes instead of values, `values` stays empty and the size of a state constant.
    """

    tail: int
    chain: int
    token: str | None
    values: tuple[Any, ...]


class Log(Model):
    """Values at offsets 0, 1, 2, …

    `append V` answers its offset (a number, `[offset V]` or `{"offset": N}`; anything else = not said).
    `read N` answers the value at offset N, nil behind the end; `read` without an offset answers all values.
    `tail` (check-tail) answers the next offset.

    Appends of S2 have num_records, record_hashes (or last_record_xxh3), match_seq_num, fencing_token and
    set_fencing_token, and answer the tail after them; reads answer the tail and stream_hash, which chains the
    hashes of all records (or xxh3, that of the last one).
    """

    name = "log"
    words = "append, read by offset, tail; conditional appends and fencing tokens"
    functions = frozenset({"append", "read", "tail"})
    observers = frozenset({"read", "tail"})
    aliases: ClassVar[Mapping[str, str]] = {
        "check-tail": "tail",
        "send": "append",
        "produce": "append",
        "poll": "read",
        "get": "read",
    }

    def initial(self, options: Options) -> State:
        return Stream(0, 0, None, ())

    def step(self, state: Stream, f: str, argument: Any, result: Any, outcome: str) -> State | None:
        if f == "append":
            if isinstance(argument, dict) and "num_records" in argument:
                return _append_batch(state, argument, result, outcome)
            offset = None if outcome == INFO else offset_of(argument, result)
            if offset is not None and offset != state.tail:
                return None
            return state._replace(tail=state.tail + 1, values=(*state.values, freeze(argument)))
        if isinstance(result, dict) and "tail" in result:
            seen = result.get("stream_hash", result.get("xxh3"))
            fits = result["tail"] == state.tail and (seen is None or seen == state.chain)
            return state if fits else None
        if f == "tail":
            return state if result == state.tail else None
        if argument is None:
            return state if freeze(result) == state.values else None
        there = state.values[argument] if 0 <= argument < len(state.values) else None
        return state if there == freeze(result) else None

    def describe(self, state: Stream) -> str:
        token = f", with the fencing token {show(state.token)}" if state.token is not None else ""
        held = (
            f"the log is {show(state.values)}" if state.values else f"the log's next offset is {state.tail}"
        )
        return held + token

    def fast(self, calls: list[Call], options: Options) -> Contradiction | bool | None:
        return check_log(calls)


def _append_batch(state: Stream, argument: Any, result: Any, outcome: str) -> Stream | None:
    """S2's append: conditional, of several records, answered by the tail after them."""
    match, token = argument.get("match_seq_num"), argument.get("fencing_token")
    if (match is not None and match != state.tail) or (token is not None and token != state.token):
        return None
    tail = state.tail + argument["num_records"]
    if outcome != INFO and isinstance(result, dict) and result.get("tail") != tail:
        return None
    chain = state.chain
    if "record_hashes" in argument:
        if len(argument["record_hashes"]) != argument["num_records"]:
            raise BadHistory(f"expected one record_hashes for each of num_records, found {show(argument)}")
        for each in argument["record_hashes"]:
            chain = chain_hash(chain, each)
    elif argument["num_records"]:
        chain = argument.get("last_record_xxh3", chain)
    fence = argument.get("set_fencing_token")
    return Stream(tail, chain, state.token if fence is None else fence, ())


def chain_hash(seed: int, record_hash: int) -> int:
    """XXH3 of 64 bits, seeded, of the eight little-endian bytes of `record_hash`: S2's hash of a stream that
    has one record more. (xxHash specification, "XXH3 for 4 to 8 bytes".)
    """
    low = seed & 0xFFFFFFFF
    swapped = int.from_bytes(low.to_bytes(4, "little"), "big")
    seed = (seed ^ (swapped << 32)) & _MASK
    flip = (0xC73AB174C5ECD5A2 - seed) & _MASK
    first, last = record_hash & 0xFFFFFFFF, record_hash >> 32
    mixed = (last + (first << 32)) ^ flip
    mixed ^= _rotated(mixed, 49) ^ _rotated(mixed, 24)
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    mixed ^= (mixed >> 35) + 8
    mixed = mixed * 0x9FB21C651E98DF25 & _MASK
    return mixed ^ (mixed >> 28)


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _MASK
