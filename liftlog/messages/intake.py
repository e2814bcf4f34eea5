"""The one place where what comes from outside becomes a message, or is refused with a reason (V1, V2, V3).

    bytes --decode--> message (V1: types, ranges, lengths, nesting)
          --peer_problem--> a message that an honest peer could have sent (V2, V3)
          --the part it is meant for--> acted on, or refused because of what this node knows (V3, V4)

*V1* is in the types: each field of a message says what it may be (`liftlog.types.Number` and its
neighbours), and msgspec checks that while it decodes. Nothing is skipped, so nothing nests deeper than the
types.

*V2*: a message that names its author names its sender. A peer speaks for nobody else.

*V3* is here as far as a message alone shows that it contradicts itself. What can only be judged beside the
node's own state is judged where the message arrives, in the core, and marked "V3" there.

None of this is about malice by somebody who knows the cluster's secret and lies within what is plausible:
that a copy is durable up to an offset it could have reached, say. It is about a peer that is broken, about
bytes that flipped before they were sealed, about programs that speak something else, and about everybody who
tries.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import msgspec

from liftlog.messages.peers import (
    FETCH_BELOW_START,
    FETCH_DIVERGED,
    FETCH_OK,
    AppendReply,
    AppendRequest,
    BirthReply,
    Fetch,
    FetchProgress,
    FetchReply,
    MirrorReply,
    PeerMessage,
    RangeFetch,
    RangeReply,
    SnapshotChunk,
    SnapshotReply,
    VoteReply,
    VoteRequest,
)

T = TypeVar("T", covariant=True)


class InputRefused(Exception):
    """What came from outside is not acted on. The text says why, for the log and for who sent it."""


class Decodes(Protocol[T]):
    """A decoder of msgspec, for JSON or for msgpack."""

    def decode(self, data: bytes | memoryview, /) -> T: ...


def decode(decoder: Decodes[T], data: bytes | memoryview, what: str) -> T:
    """V1: `data` as what the decoder makes. Raises InputRefused for anything else, and nothing but that."""
    try:
        return decoder.decode(data)
    except RecursionError:
        raise InputRefused(f"not {what}: it is nested too deeply") from None
    except (msgspec.DecodeError, ValueError, OverflowError) as error:
        # Text that is not UTF-8 is a ValueError, and no DecodeError.
        raise InputRefused(f"not {what}: {error}") from None


_peer_decoder: msgspec.msgpack.Decoder[PeerMessage] = msgspec.msgpack.Decoder(PeerMessage)


def peer_message(frame: bytes | memoryview) -> PeerMessage:
    """V1: the message of a peer. Raises InputRefused."""
    return decode(_peer_decoder, frame, "a message of a node")


_NAME = re.compile(r"[A-Za-z0-9_\-]{1,64}")


def name_problem(name: str) -> str:
    """Why no stream can be called this; empty if one can (N7)."""
    if _NAME.fullmatch(name):
        return ""
    return f"stream name {name!r} is invalid: use 1 to 64 letters, digits, '_' or '-'"


# -- V2 ---------------------------------------------------------------------------------------------------

_AUTHOR: dict[type, str] = {
    VoteRequest: "candidate",
    VoteReply: "voter",
    AppendRequest: "leader",
    AppendReply: "follower",
    SnapshotChunk: "leader",
    SnapshotReply: "follower",
}


def names_another(sender: int, message: PeerMessage) -> str:
    """V2: which other node a message claims to be from; empty if none."""
    field = _AUTHOR.get(type(message))
    if field is None:
        return ""
    named = getattr(message, field)
    return "" if named == sender else f"its {field} is node {named}"


# -- V3 ---------------------------------------------------------------------------------------------------


def contradiction(message: PeerMessage) -> str:
    """V3: why no honest peer, whatever its state, has sent this message; empty if one may have."""
    check = _CHECKS.get(type(message))
    return "" if check is None else check(message)


def _vote_request(request: VoteRequest) -> str:
    if request.last_term >= request.term:
        return f"a candidate of term {request.term} with an entry of term {request.last_term}"
    return ""


def _append_request(request: AppendRequest) -> str:
    index, term = request.prev_index, request.prev_term
    if term > request.term:
        return f"a leader of term {request.term} with an entry of term {term}"
    for entry in request.entries:
        index += 1
        if entry.index != index:
            return f"entry {entry.index} where entry {index} is due"
        if not term <= entry.term <= request.term:
            return f"entry {index} of term {entry.term} after term {term}, from a leader of {request.term}"
        term = entry.term
    return ""


def _snapshot_chunk(chunk: SnapshotChunk) -> str:
    if not 0 < chunk.index_term <= chunk.term:
        return f"a leader of term {chunk.term} with a snapshot of term {chunk.index_term}"
    if chunk.number >= chunk.count:
        return f"chunk {chunk.number} of {chunk.count}"
    return f"a snapshot of {chunk.index}, committed {chunk.commit}" if chunk.index > chunk.commit else ""


def _birth_reply(reply: BirthReply) -> str:
    nodes = [node for node, _ in reply.signed]
    if reply.fresh == bool(nodes) or (reply.fresh and reply.knows_you):
        return "a disk that is fresh and has signed, or neither"
    if any(earlier >= later for earlier, later in pairwise(nodes)):
        return "a certificate that does not name its nodes in order, each once"
    return ""


def _fetch(fetch: Fetch) -> str:
    problem = _progress(fetch)
    if not problem and fetch.clean_point > fetch.offset:
        problem = f"compacted up to {fetch.clean_point}, beyond its end {fetch.offset}"
    return problem


def _progress(fetch: Fetch | FetchProgress) -> str:
    if fetch.durable_leo > fetch.offset:
        return f"durable up to {fetch.durable_leo}, beyond its end {fetch.offset}"
    if fetch.log_start > fetch.offset:
        return f"a log that begins at {fetch.log_start} and ends at {fetch.offset}"
    return ""


def _fetch_reply(reply: FetchReply) -> str:
    if reply.status == FETCH_OK:
        if not reply.log_start <= reply.hw <= reply.leader_leo:
            return f"log start {reply.log_start}, HW {reply.hw} and LEO {reply.leader_leo} are not in order"
        if reply.tombstones_below > reply.leader_leo:
            return f"compacted up to {reply.tombstones_below}, beyond its end {reply.leader_leo}"
        return ""
    if reply.batches or (reply.hw and reply.status in (FETCH_DIVERGED, FETCH_BELOW_START)):
        return f"records or an HW with status {reply.status}"
    if reply.status == FETCH_BELOW_START and not reply.end_offset <= reply.log_start <= reply.leader_leo:
        return f"epoch start {reply.end_offset}, log start {reply.log_start} and LEO {reply.leader_leo}"
    return ""


def _range_fetch(fetch: RangeFetch) -> str:
    return "" if fetch.offset < fetch.end else f"a range from {fetch.offset} to {fetch.end}"


def _range_reply(reply: RangeReply) -> str:
    if reply.batches and reply.status != FETCH_OK:
        return f"records with status {reply.status}"
    return ""


def _mirror_reply(reply: MirrorReply) -> str:
    if reply.status == FETCH_OK:
        if not reply.log_start <= reply.next_offset <= reply.hw or reply.next_offset < reply.offset:
            return f"log start {reply.log_start}, next {reply.next_offset} and HW {reply.hw} are not in order"
        return ""
    if reply.status == FETCH_BELOW_START and not reply.offset < reply.log_start <= reply.hw:
        return f"offset {reply.offset}, log start {reply.log_start} and HW {reply.hw}"
    return f"records with status {reply.status}" if reply.batches else ""


_CHECKS: dict[type, Callable[[Any], str]] = {
    VoteRequest: _vote_request,
    AppendRequest: _append_request,
    SnapshotChunk: _snapshot_chunk,
    BirthReply: _birth_reply,
    Fetch: _fetch,
    FetchProgress: _progress,
    FetchReply: _fetch_reply,
    RangeFetch: _range_fetch,
    RangeReply: _range_reply,
    MirrorReply: _mirror_reply,
}
