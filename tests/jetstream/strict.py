"""Answers held against the clients' own types: no key that clients do not know, none missing that they need.

The fields of nats-py's types, and beside them the few that nats.go and the JavaScript client read of newer
servers.
A key with `!` is always there.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nats.js import api

Shape = dict[str, Any]


def _of(kind: type[api.Base], *required: str, **nested: Shape | list[Shape]) -> Shape:
    shape: Shape = {one.name + ("!" if one.name in required else ""): None for one in fields(kind)}
    for key, inner in nested.items():
        shape.pop(key, None)
        shape[key + "!" if key in required else key] = inner
    return shape


ANY: Shape = {"*": None}

ERROR: Shape = {"code!": None, "err_code!": None, "description": None}
SUBJECT_TRANSFORM = _of(api.SubjectTransform)
EXTERNAL = _of(api.ExternalStream)
SOURCE = _of(api.StreamSource, "name", external=EXTERNAL, subject_transforms=[SUBJECT_TRANSFORM])
SOURCE_INFO = _of(api.StreamSourceInfo, "name", "lag", "active", error=ERROR) | {
    "filter_subject": None,
    "subject_transforms": [SUBJECT_TRANSFORM],
    "external": EXTERNAL,
    "seq": None,
}
STREAM_CONFIG = _of(
    api.StreamConfig,
    *("name", "retention", "max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject"),
    *("max_msg_size", "discard", "storage", "num_replicas"),
    placement=_of(api.Placement),
    mirror=SOURCE,
    sources=[SOURCE],
    subject_transform=SUBJECT_TRANSFORM,
    republish=_of(api.RePublish),
    consumer_limits=_of(api.StreamConsumerLimits),
    metadata=ANY,
)
PEER = _of(api.PeerInfo, "name", "current", "active") | {"peer": None}
CLUSTER = _of(api.ClusterInfo, replicas=[PEER]) | {"system_account": None, "traffic_account": None}
STREAM_STATE = _of(
    api.StreamState,
    *("messages", "bytes", "first_seq", "last_seq", "consumer_count"),
    subjects=ANY,
    lost=_of(api.LostStreamData),
) | {"first_ts!": None, "last_ts!": None, "num_subjects": None}
STREAM_INFO = _of(
    api.StreamInfo,
    *("config", "state"),
    config=STREAM_CONFIG,
    state=STREAM_STATE,
    cluster=CLUSTER,
    mirror=SOURCE_INFO,
    sources=[SOURCE_INFO],
) | {"ts": None, "domain": None, "alternates": None}
CONSUMER_CONFIG = _of(api.ConsumerConfig, "deliver_policy", "ack_policy", "replay_policy", metadata=ANY) | {
    "max_batch": None,
    "max_expires": None,
    "max_bytes": None,
    "priority_groups": None,
    "priority_policy": None,
    "priority_timeout": None,
}
SEQUENCES = _of(api.SequenceInfo, "consumer_seq", "stream_seq")
CONSUMER_INFO = _of(
    api.ConsumerInfo,
    *("name", "stream_name", "config", "created", "delivered", "ack_floor", "num_ack_pending"),
    *("num_redelivered", "num_waiting", "num_pending"),
    config=CONSUMER_CONFIG,
    delivered=SEQUENCES,
    ack_floor=SEQUENCES,
    cluster=CLUSTER,
) | {"ts": None, "priority_groups": [ANY]}
PAGE: Shape = {"total!": None, "offset!": None, "limit!": None}
ACCOUNT_LIMITS = _of(api.AccountLimits, *(one.name for one in fields(api.AccountLimits)))
TIER: Shape = {
    "memory!": None,
    "storage!": None,
    "reserved_memory": None,
    "reserved_storage": None,
    "streams!": None,
    "consumers!": None,
    "limits!": ACCOUNT_LIMITS,
}
ACCOUNT_INFO = TIER | {
    "domain": None,
    "api!": {"total!": None, "errors!": None, "level": None, "inflight": None},
    "tiers": {"*": TIER},
}
SUCCESS: Shape = {"success!": None}
MESSAGE: Shape = {"subject!": None, "seq!": None, "time!": None, "data": None, "hdrs": None}

ANSWERS: dict[str, Shape] = {
    "account_info": ACCOUNT_INFO,
    "stream_create": STREAM_INFO,
    "stream_update": STREAM_INFO,
    "stream_info": STREAM_INFO | {key.strip("!"): None for key in PAGE},
    "stream_names": PAGE | {"streams!": None},
    "stream_list": PAGE | {"streams!": [STREAM_INFO], "missing": None, "offline": None},
    "stream_delete": SUCCESS,
    "stream_purge": SUCCESS | {"purged!": None},
    "stream_msg_get": {"message!": MESSAGE},
    "stream_msg_delete": SUCCESS,
    "stream_leader_stepdown": SUCCESS,
    "stream_snapshot": {},
    "stream_restore": {"deliver_subject": None},
    "stream_remove_peer": {},
    "consumer_create": CONSUMER_INFO,
    "consumer_info": CONSUMER_INFO,
    "consumer_names": PAGE | {"consumers!": None},
    "consumer_list": PAGE | {"consumers!": [CONSUMER_INFO], "missing": None, "offline": None},
    "consumer_delete": SUCCESS,
    "consumer_pause": {"paused!": None, "pause_until": None, "pause_remaining": None},
    "consumer_reset": CONSUMER_INFO | {"reset_seq!": None},
    "consumer_leader_stepdown": SUCCESS,
    "consumer_unpin": {},
}
"""By the name in the answer's type, `io.nats.jetstream.api.v1.<name>_response`."""
PUB_ACK: Shape = {"stream!": None, "seq!": None} | dict.fromkeys(
    ("domain", "duplicate", "batch", "count", "val")
)

_OF_CONSUMER: Shape = {"stream!": None, "consumer!": None, "domain": None}
ADVISORIES: dict[str, Shape] = {
    "terminated": _OF_CONSUMER
    | {"consumer_seq!": None, "stream_seq!": None, "deliveries!": None, "reason": None},
    "max_deliver": _OF_CONSUMER | {"stream_seq!": None, "deliveries!": None},
    "stream_batch_abandoned": dict.fromkeys(("stream!", "batch!", "reason!", "account", "domain")),
    "consumer_group_pinned": _OF_CONSUMER | {"account": None, "group!": None, "pinned_id!": None},
    "consumer_group_unpinned": _OF_CONSUMER | {"account": None, "group!": None, "reason!": None},
}
"""By the name in the advisory's type, `io.nats.jetstream.advisory.v1.<name>`."""


def strange(value: Any, shape: Shape | list[Shape] | None, where: str = "") -> list[str]:
    """What a client's strict types would complain of."""
    if shape is None or value is None:
        return []
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where} is no list"]
        inner = shape[0]
        return [each for at, one in enumerate(value) for each in strange(one, inner, f"{where}[{at}]")]
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    if "*" in shape:
        return [each for key, one in value.items() for each in strange(one, shape["*"], f"{where}.{key}")]
    known = {key.strip("!"): inner for key, inner in shape.items()}
    found = [f"{where}.{key[:-1]} is missing" for key in shape if key.endswith("!") and key[:-1] not in value]
    found += [f"{where}.{key} is unknown" for key in value if key not in known]
    for key in known.keys() & value.keys():
        found += strange(value[key], known[key], f"{where}.{key}")
    return sorted(found)


def strange_answer(answer: dict[str, Any]) -> list[str]:
    """The same of a whole answer of the API, or of a publish."""
    if "type" not in answer:
        if "error" in answer:
            return strange(answer, {"error!": ERROR, "stream": None, "seq": None}, "publish")
        return strange(answer, PUB_ACK, "publish")
    name = answer["type"].removeprefix("io.nats.jetstream.api.v1.").removesuffix("_response")
    if name not in ANSWERS:
        return [f"type {answer['type']} is unknown"]
    shape = ANSWERS[name] | {"type!": None}
    if "error" in answer:
        shape = {key.strip("!"): inner for key, inner in shape.items()} | {"error!": ERROR}
    return strange(answer, shape, name)


def strange_advisory(told: dict[str, Any]) -> list[str]:
    """The same of an advisory."""
    name = str(told.get("type", "")).removeprefix("io.nats.jetstream.advisory.v1.")
    if name not in ADVISORIES:
        return [f"type {told.get('type')} is unknown"]
    return strange(told, ADVISORIES[name] | {"type!": None, "id!": None, "timestamp!": None}, name)
