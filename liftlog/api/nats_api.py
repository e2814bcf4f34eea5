"""The administration API: NATS request/reply, JSON in and out, so that the `nats` tool is a client already.

    $LIFTLOG.<cluster>.API.<OPERATION>             any node answers (they share a queue group)
    $LIFTLOG.<cluster>.API.NODE.<id>.<OPERATION>   this node answers, from what it knows itself

Operations and their request objects (an empty payload counts as ``{}``):

    STREAM.CREATE        {"name", "subject", "partitions", "replication_factor", "min_insync_replicas",
                          "ack_reply", "max_payload_bytes", and the other fields of `StreamConfig`}
    STREAM.LIST          {}                        STREAM.INFO          {"name", "known"}
    STREAM.DELETE        {"name"}                  CLUSTER.STATUS       {}
    STREAM.ALTER         {"name", "changes": {fields of `StreamChanges`}}
    STREAM.PURGE         {"partition": [stream id, index], "before"}    asked of the partition's leader
    LEADER.ELECT         {"name", "partition", "node", "unclean"}
    LEADER.REBALANCE     {}                        CONTROLLER.TRANSFER  {"to"}

A request may have a header `Liftlog-Protocol: 3`: the version of the protocol (U1) that the asker reads. Who
says none is taken for release 0.1.0, which speaks 2 and refuses an answer with a field that it does not know:
he is sent none.

An answer is an object with the fields of the reply message, or ``{"error": {"code", "err_code",
"description"}, "liftlog": {"code", "retryable", "leader"}}``. What a name or a subject may be is decided by
the metadata (N7); here only the JSON itself is judged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from liftlog.api.clients import ClientRegistry
from liftlog.api.handshake import VERSIONS
from liftlog.api.plain import Without, from_plain, to_plain
from liftlog.api.wire import request_problem
from liftlog.messages import (
    ERR_INVALID,
    AddNodeRequest,
    AlterStreamRequest,
    ClientMessage,
    ClientRequest,
    ClusterStatusRequest,
    Contact,
    CreateStreamRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    DrainNodeRequest,
    ElectLeaderRequest,
    ErrorReply,
    Event,
    MoveReplicasRequest,
    PartitionInfo,
    PurgeRequest,
    PurgeSubjectsRequest,
    RaiseLevelRequest,
    RebalanceRequest,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
    StreamChanges,
    StreamInfoRequest,
    TransferControllerRequest,
    intake,
)
from liftlog.types import OPTIONAL, StreamConfig

PREFIX = "$LIFTLOG"
QUEUE = "liftlog-api"
REQUEST_MAX_BYTES = 64 * 1024
PROTOCOL = "Liftlog-Protocol"
"""Header of a request: which version of the protocol the asker reads."""
SINCE: Mapping[type[msgspec.Struct], Mapping[str, int]] = {
    PartitionInfo: {"target": 3, "adding": 3, "dropping": 3, "assignment": 3},
    Contact: {"cluster": 3, "strangers": 3},
    StreamConfig: dict.fromkeys(OPTIONAL, 3),
}
"""With which version fields came that answers did not have before."""
_UNKNOWN: Mapping[int, Without] = {
    version: {
        kind: [name for name, since in fields.items() if since > version] for kind, fields in SINCE.items()
    }
    for version in range(VERSIONS[0], VERSIONS[1] + 1)
}
"""By version, what is left out of an answer for who speaks it."""
_decoder = msgspec.json.Decoder()
_protocol = re.compile(rb"\r\nliftlog-protocol:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)

Answer = Callable[[bytes, bytes], None]
"""Publishes (reply subject, payload)."""
Post = Callable[[Event], None]


class NamedRequest(msgspec.Struct, frozen=True):
    """A request object that holds a stream's name."""

    name: str
    known: bool = False
    """See `StreamInfoRequest`."""


def api_subject(cluster: str, operation: str, node: int = 0) -> str:
    """Subject of an operation; with `node` the one that only this node answers."""
    return (
        f"{PREFIX}.{cluster}.API.NODE.{node}.{operation}" if node else f"{PREFIX}.{cluster}.API.{operation}"
    )


def _create(body: Any) -> ClientMessage:
    return CreateStreamRequest(from_plain(StreamConfig, body))


def _alter(body: Any) -> ClientMessage:
    changes = body.get("changes") if isinstance(body, dict) else None
    named = changes if isinstance(changes, dict) else {}
    known = {*StreamConfig.__struct_fields__} - {*StreamChanges.__struct_fields__}
    fixed = [name for name in named if name in known]
    if fixed:
        raise intake.InputRefused(
            f"{', '.join(fixed)} cannot be altered: fixed when the stream is created; "
            f"what can be: {', '.join(StreamChanges.__struct_fields__)}"
        )
    return from_plain(AlterStreamRequest, body)


def _info(body: Any) -> ClientMessage:
    asked = from_plain(NamedRequest, body)
    if problem := intake.name_problem(asked.name):
        # Without a name the message asks for all streams: whoever purges the first of them meant none.
        raise intake.InputRefused(problem)
    return StreamInfoRequest(asked.name, asked.known)


def _plainly(kind: type[Any]) -> Callable[[Any], ClientMessage]:
    return lambda body: from_plain(kind, body)


class ListRequest(msgspec.Struct, frozen=True):
    """`known`: see `StreamInfoRequest`."""

    known: bool = False


def _list(body: Any) -> ClientMessage:
    return StreamInfoRequest(known=from_plain(ListRequest, body).known)


OPERATIONS: dict[str, Callable[[Any], ClientMessage]] = {
    "STREAM.CREATE": _create,
    "STREAM.LIST": _list,
    "STREAM.INFO": _info,
    "STREAM.DELETE": _plainly(DeleteStreamRequest),
    "STREAM.ALTER": _alter,
    "STREAM.PURGE": _plainly(PurgeRequest),
    "MESSAGE.DELETE": _plainly(DeleteMessageRequest),
    "MESSAGES.PURGE": _plainly(PurgeSubjectsRequest),
    "CLUSTER.STATUS": _plainly(ClusterStatusRequest),
    "REPLICAS.MOVE": _plainly(MoveReplicasRequest),
    "LEADER.ELECT": _plainly(ElectLeaderRequest),
    "LEADER.REBALANCE": _plainly(RebalanceRequest),
    "CONTROLLER.TRANSFER": _plainly(TransferControllerRequest),
    "CONTROLLER.VOTER": _plainly(SetVoterRequest),
    "CONTROLLER.LEVEL": _plainly(RaiseLevelRequest),
    "NODE.ADD": _plainly(AddNodeRequest),
    "NODE.DRAIN": _plainly(DrainNodeRequest),
    "NODE.REMOVE": _plainly(RemoveNodeRequest),
    "NODE.RETIRE": _plainly(RetireNodeRequest),
}

ASKING = ("STREAM.LIST", "STREAM.INFO", "CLUSTER.STATUS")
"""Operations that change nothing: without an answer nothing is in doubt."""

HTTP_CODES = {"invalid": 400, "not-found": 404, "already-exists": 400, "stale": 409, "timeout": 504}


def parse_request(operation: str, payload: bytes) -> ClientMessage:
    """V1: the request in `payload`. Raises InputRefused with a text for the user."""
    build = OPERATIONS.get(operation)
    if build is None:
        raise intake.InputRefused(f"no operation {operation!r}; there are: {', '.join(OPERATIONS)}")
    if len(payload) > REQUEST_MAX_BYTES:
        raise intake.InputRefused(
            f"a request may have {REQUEST_MAX_BYTES} bytes, this one has {len(payload)}"
        )
    body = intake.decode(_decoder, payload, "JSON") if payload.strip() else {}
    try:
        request = build(body)
    except msgspec.ValidationError as error:
        raise intake.InputRefused(str(error)) from None
    problem = request_problem(request)
    if problem:
        raise intake.InputRefused(problem)
    return request


def spoken_version(headers: bytes) -> int:
    """U1: the version that the asker reads. Raises InputRefused."""
    lowest, highest = VERSIONS
    found = _protocol.search(headers)
    if found is None:
        return lowest
    text = found[1].decode("ascii", "replace")
    if not re.fullmatch(r"[0-9]{1,5}", text) or int(text) < lowest:
        raise intake.InputRefused(f"{PROTOCOL}: {text[:64]!r} is no version from {lowest} on")
    return min(int(text), highest)


def answer_payload(reply: object, version: int = VERSIONS[1]) -> bytes:
    """A reply as JSON, for who speaks this version."""
    if isinstance(reply, ErrorReply):
        http = HTTP_CODES.get(reply.code, 503)
        error = {"code": http, "err_code": 10000 + http, "description": reply.description}
        ours = {"code": reply.code, "retryable": reply.retryable, "leader": reply.leader}
        return json.dumps({"error": error, "liftlog": ours}).encode()
    return json.dumps(to_plain(reply, _UNKNOWN[version])).encode()


class NatsApi:
    """Turns API requests into `ClientRequest` events, and their replies into answers."""

    def __init__(self, cluster: str, node: int, clients: ClientRegistry, post: Post, answer: Answer) -> None:
        self.shared_subject = f"{PREFIX}.{cluster}.API.*.*"
        self.own_subject = f"{PREFIX}.{cluster}.API.NODE.{node}.>"
        self._shared_prefix = f"{PREFIX}.{cluster}.API."
        self._own_prefix = f"{PREFIX}.{cluster}.API.NODE.{node}."
        self._clients = clients
        self._post = post
        self._answer = answer
        self.counters = {"api.refused": 0}

    def handle(self, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """One request. Everything that is wrong with it is told to the asker at once."""
        text = subject.decode("utf-8", "replace")
        operation = text.removeprefix(self._own_prefix).removeprefix(self._shared_prefix)
        try:
            version = spoken_version(headers)
            request = parse_request(operation, payload)
        except intake.InputRefused as error:
            self.counters["api.refused"] += 1
            self._answer(reply, answer_payload(ErrorReply(ERR_INVALID, f"{operation}: {error}", False)))
            return
        client = self._clients.register(lambda result: self._answer(reply, answer_payload(result, version)))
        self._post(ClientRequest(client, request))
