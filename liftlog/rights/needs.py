"""V9: which right each request of a client needs, and why it is not taken in where that is missing.

    request --need_of--> right, and of which streams --refusal--> None, or what the client is told

A request names streams by their names or by their numbers. What a number means the node that is asked looks
up in the metadata that it has applied. Whether there is such a stream is told to nobody who may not see it:
by a name, and by a number that may have been given by now, a missing right and a missing stream are one and
the same answer. A number of a later command than the last that was applied is one that the node may not have
heard of yet: it says so, and may be asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET

from liftlog.groups.streams import CURSORS, GROUPS, register_stream
from liftlog.messages import (
    ERR_NOT_ALLOWED,
    ERR_NOT_READY,
    AddNodeRequest,
    AlterConsumerRequest,
    AlterStreamRequest,
    ClientMessage,
    ClusterStatusRequest,
    ConsumersRequest,
    CreateConsumerRequest,
    CreateStreamRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DeleteStreamRequest,
    DrainNodeRequest,
    ElectLeaderRequest,
    ErrorReply,
    FilteredReadRequest,
    MoveReplicasRequest,
    OffsetRequest,
    PullRequest,
    PurgeRequest,
    PurgeSubjectsRequest,
    RaiseLevelRequest,
    ReadRequest,
    RebalanceRequest,
    RemoveNodeRequest,
    ResetConsumerRequest,
    RetireNodeRequest,
    SettleRequest,
    SetVoterRequest,
    StreamChanges,
    StreamInfoRequest,
    SubjectRequest,
    TransferControllerRequest,
    UnpinRequest,
    VisibleReadRequest,
)
from liftlog.rights.client import ADMINISTER, CONSUME, OPERATE, READ, ClientRights
from liftlog.types import PartitionId, StreamConfig

SEE = "see"
"""Not a key of the file: who has any right over a stream."""
FREE = "free"
"""Asked of everybody who has proved a secret: where the nodes are. The answer shows what one may see."""

NEEDS: Mapping[type[Any], str] = {
    ReadRequest: READ,
    VisibleReadRequest: READ,
    FilteredReadRequest: READ,
    OffsetRequest: READ,
    SubjectRequest: READ,
    CreateConsumerRequest: CONSUME,
    AlterConsumerRequest: CONSUME,
    DeleteConsumerRequest: CONSUME,
    ResetConsumerRequest: CONSUME,
    ConsumersRequest: CONSUME,
    PullRequest: CONSUME,
    SettleRequest: CONSUME,
    UnpinRequest: CONSUME,
    CreateStreamRequest: ADMINISTER,
    AlterStreamRequest: ADMINISTER,
    DeleteStreamRequest: ADMINISTER,
    PurgeRequest: ADMINISTER,
    DeleteMessageRequest: ADMINISTER,
    PurgeSubjectsRequest: ADMINISTER,
    ElectLeaderRequest: ADMINISTER,
    MoveReplicasRequest: ADMINISTER,
    StreamInfoRequest: SEE,
    ClusterStatusRequest: FREE,
    RebalanceRequest: OPERATE,
    TransferControllerRequest: OPERATE,
    SetVoterRequest: OPERATE,
    RaiseLevelRequest: OPERATE,
    AddNodeRequest: OPERATE,
    RemoveNodeRequest: OPERATE,
    DrainNodeRequest: OPERATE,
    RetireNodeRequest: OPERATE,
}
"""Of every request that there is; a test compares it with `ClientMessage`."""


class NamedStream(Protocol):
    """What is asked of a stream that the metadata know."""

    @property
    def config(self) -> StreamConfig: ...


class KnownStreams(Protocol):
    """The metadata that a node has applied."""

    @property
    def applied(self) -> int: ...

    @property
    def by_id(self) -> Mapping[int, NamedStream]: ...


class Need(NamedTuple):
    """`stream` None: the right is over no stream. `shown`: how the client has called the stream."""

    right: str
    stream: str | None
    shown: str


def refusal(client: ClientRights, request: ClientMessage, streams: KnownStreams) -> ErrorReply | None:
    """V9: why a request is not taken in; None: it is."""
    if client.everything:
        return None
    right = NEEDS.get(type(request))
    if right == FREE or (type(request) is StreamInfoRequest and not request.name):
        return None
    if isinstance(request, CreateStreamRequest) and client.groups and _keeps_groups(request.config):
        return None
    if right is None or right == OPERATE:
        return None if right and client.operate else _not_allowed(client, Need(right or OPERATE, None, ""))
    about = getattr(request, "partition", None)
    if isinstance(about, PartitionId):
        if about.stream > streams.applied:
            text = f"this node has not heard of a stream with number {about.stream} yet"
            return ErrorReply(ERR_NOT_READY, text, True)
        known = streams.by_id.get(about.stream)
        need = Need(right, None if known is None else known.config.name, f"the stream number {about.stream}")
        if known is None or not _has(client, need, request):
            return _not_allowed(client, need)
    else:
        named = request.config if isinstance(request, CreateStreamRequest) else request
        name = str(getattr(named, "name", ""))
        need = Need(right, name, f"stream {name!r}")
        if not _has(client, need, request):
            return _not_allowed(client, need)
    return _way_around(client, request)


def _keeps_groups(config: StreamConfig) -> bool:
    """Whether it is what the first of all cursors or groups is written to, as the client library makes it."""
    return config.name in (CURSORS, GROUPS) and config == register_stream(config.name)


def _has(client: ClientRights, need: Need, request: ClientMessage) -> bool:
    assert need.stream is not None
    if need.right == SEE:
        return client.sees(need.stream)
    if client.may(need.right, need.stream):
        return True
    if isinstance(request, FilteredReadRequest):
        return client.may_read_part(need.stream, request.subjects)
    return isinstance(request, SubjectRequest) and client.may_read_part(need.stream, [request.pattern])


def _not_allowed(client: ClientRights, need: Need) -> ErrorReply:
    if need.stream is None and not need.shown:
        text = f"client '{client.name}' may not operate the cluster: nodes, votes and the controller"
        remedy = "operate = true"
    elif need.right == READ and need.stream in (CURSORS, GROUPS) and client.groups:
        text = f"client '{client.name}' may read of {need.shown} what its groups have there and nothing else"
        remedy = "a name to groups = [...]"
    else:
        text = f"client '{client.name}' may not {need.right} {need.shown}, or there is none"
        key = READ if need.right == SEE else need.right
        remedy = f"its name, or a pattern of it, to {key} = [...]"
    return _error(text, f"add {remedy} under [clients.{client.name}]")


def _error(text: str, remedy: str) -> ErrorReply:
    where = "in each node's [security] clients_file, and have the nodes read it (SIGHUP)"
    return ErrorReply(ERR_NOT_ALLOWED, f"{text}; if it should, {remedy} {where}", False)


# -- what could lead around the rights --------------------------------------------------------------------


def _way_around(client: ClientRights, request: ClientMessage) -> ErrorReply | None:
    """A stream that copies others, or listens where others publish, and letters that go anywhere."""
    check = _WAYS.get(type(request))
    return None if check is None else check(client, request)


def _of_config(client: ClientRights, name: str, config: StreamConfig | StreamChanges) -> ErrorReply | None:
    if isinstance(config, StreamConfig) and config.activity is not UNSET and not client.operate:
        return _error(
            f"client '{client.name}' may not have stream {name!r} tell the cluster's activity, which is that "
            "of all streams",
            f"add operate = true under [clients.{client.name}]",
        )
    copied = [] if config.mirror is UNSET else [config.mirror]
    copied += [] if config.sources is UNSET else [source for source, _ in config.sources]
    for origin in copied:
        if origin and not client.may(READ, origin):
            return _error(
                f"client '{client.name}' may not read {origin!r}, or there is none: {name!r} cannot copy it",
                f"add its name to read = [...] under [clients.{client.name}]",
            )
    listens = [] if config.subject is UNSET else [config.subject]
    listens += [] if config.more_subjects is UNSET else config.more_subjects
    return _foreign_subject(client, f"stream {name!r} listen on", listens)


def _foreign_subject(client: ClientRights, what: str, subjects: list[str]) -> ErrorReply | None:
    for subject in subjects:
        if subject and not client.has_subject(subject):
            return _error(
                f"client '{client.name}' may not have {what} {subject!r}, which is not among its subjects",
                f"add a subject that covers it to subjects = [...] under [clients.{client.name}]",
            )
    return None


def _dead_letters(
    client: ClientRights, request: CreateConsumerRequest | AlterConsumerRequest
) -> ErrorReply | None:
    return _foreign_subject(client, "dead letters published to", [request.config.dead_letter])


_WAYS: Mapping[type[Any], Callable[[ClientRights, Any], ErrorReply | None]] = {
    CreateStreamRequest: lambda client, asked: _of_config(client, asked.config.name, asked.config),
    AlterStreamRequest: lambda client, asked: _of_config(client, asked.name, asked.changes),
    CreateConsumerRequest: _dead_letters,
    AlterConsumerRequest: _dead_letters,
}
