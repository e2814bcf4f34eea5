"""JetStream's configuration of a consumer: what is asked for, what holds of it, what the core makes of it.

The core keeps what it honours, and the whole of it as a note of the consumer: what the door alone needs, and
what clients are told again. `unhonoured` names what nobody here does: that is refused.
"""

from __future__ import annotations

import datetime
from typing import Any, Literal

import msgspec

from liftlog.jetstream import consumerfaults as faults
from liftlog.jetstream.answers import NS_PER_MS, rfc3339
from liftlog.jetstream.errors import CONSUMER_CREATE, INVALID_JSON, Fault
from liftlog.jetstream.groups import PIN_NS, PriorityPolicy, check_groups
from liftlog.messages import (
    DELIVER_ALL,
    DELIVER_FROM,
    DELIVER_LAST,
    DELIVER_LASTS,
    DELIVER_NEW,
    DELIVER_TIME,
    GROUPS_MAX,
    INACTIVE_MS_MAX,
    PENDING_MAX,
    ConsumerConfig,
)
from liftlog.subjects.grammar import PatternRefused, is_literal, overlap, pattern_tokens

ACK_WAIT_NS = 30_000 * NS_PER_MS
EPHEMERAL_NS = 5_000 * NS_PER_MS
"""So long an ephemeral consumer stays when nobody uses it."""
HEARTBEAT_MIN_NS = 100 * NS_PER_MS
WAITING_MAX = 512
ACK_PENDING = 1000
DAY_MS = 86_400_000
NAME_MAX = 255
DESCRIPTION_MAX = 4 * 1024
NOTE = "jetstream"
CREATED_NOTE = "jetstream-created-ms"

DeliverPolicy = Literal["all", "last", "new", "by_start_sequence", "by_start_time", "last_per_subject"]
AckPolicy = Literal["none", "all", "explicit", "flow_control"]


class JsConsumerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Durations in ns, times in RFC 3339."""

    durable_name: str = ""
    name: str = ""
    description: str = ""
    deliver_policy: DeliverPolicy = "all"
    opt_start_seq: int = 0
    opt_start_time: str = ""
    ack_policy: AckPolicy = "none"
    ack_wait: int = 0
    max_deliver: int = 0
    backoff: list[int] | None = None
    filter_subject: str = ""
    filter_subjects: list[str] | None = None
    replay_policy: Literal["instant", "original"] = "instant"
    rate_limit_bps: int = 0
    sample_freq: str = ""
    max_waiting: int = 0
    max_ack_pending: int = 0
    flow_control: bool = False
    headers_only: bool = False
    max_batch: int = 0
    max_expires: int = 0
    max_bytes: int = 0
    deliver_subject: str = ""
    deliver_group: str = ""
    idle_heartbeat: int = 0
    inactive_threshold: int = 0
    num_replicas: int = 0
    mem_storage: bool = False
    direct: bool = False
    metadata: dict[str, str] | None = None
    pause_until: str = ""
    priority_groups: list[str] | None = None
    priority_policy: PriorityPolicy = ""
    priority_timeout: int = 0

    @property
    def filters(self) -> list[str]:
        return [self.filter_subject] if self.filter_subject else self.filter_subjects or []

    @property
    def is_push(self) -> bool:
        return bool(self.deliver_subject)

    def told(self) -> dict[str, Any]:
        """As clients are told it: without what says nothing."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in fields.items() if value or name in ALWAYS_TOLD}


NOT_NEGATIVE = (
    "max_waiting",
    "max_batch",
    "max_expires",
    "max_bytes",
    "idle_heartbeat",
    "inactive_threshold",
    "priority_timeout",
)
ALWAYS_TOLD = ("deliver_policy", "ack_policy", "replay_policy", "num_replicas")


def name_fault(name: str) -> Fault | None:
    """What JetStream has against a name."""
    if any(sign in name for sign in "/\\"):
        return faults.NAME_WITH_SEPARATORS
    if any(sign in name or sign.isspace() for sign in ".*>") or any(sign.isspace() for sign in name):
        return faults.BAD_DURABLE_NAME
    return None


def effective(wanted: JsConsumerConfig, name: str, subjects: list[str], replicas: int) -> JsConsumerConfig:
    """What holds of what is asked for, with all defaults. `subjects`: the stream's. Raises JsError."""
    _check_name(wanted, name)
    changes: dict[str, Any] = {"name": name}
    changes["max_deliver"] = wanted.max_deliver if wanted.max_deliver > 0 else -1
    for field in NOT_NEGATIVE:
        changes[field] = max(0, getattr(wanted, field))
    policy = changes["priority_policy"] = wanted.priority_policy.removeprefix("none")
    if policy == "pinned_client" and not changes["priority_timeout"]:
        changes["priority_timeout"] = PIN_NS
    acked = wanted.ack_policy != "none"
    if not wanted.is_push and not changes["max_waiting"]:
        changes["max_waiting"] = WAITING_MAX
    if wanted.ack_wait < 0:
        raise faults.ACK_WAIT_NEGATIVE.because()
    if not wanted.ack_wait and acked:
        changes["ack_wait"] = ACK_WAIT_NS
    if wanted.backoff:
        if min(wanted.backoff) < 0:
            raise faults.BACKOFF_NEGATIVE.because()
        changes["ack_wait"] = wanted.backoff[0]
    if not wanted.max_ack_pending and acked:
        changes["max_ack_pending"] = ACK_PENDING
    if wanted.max_ack_pending < -1:
        changes["max_ack_pending"] = -1
    if not wanted.durable_name and not changes["inactive_threshold"]:
        changes["inactive_threshold"] = EPHEMERAL_NS
    config = msgspec.structs.replace(wanted, **changes)
    _check(config, replicas)
    check_groups(policy, config.priority_groups or [], config.priority_timeout)
    _check_way(config, subjects)
    _check_filters(config)
    _check_start(config)
    text = unhonoured(config)
    if text:
        raise CONSUMER_CREATE.because(text)
    return config


def _check_name(wanted: JsConsumerConfig, name: str) -> None:
    for one in (name, wanted.name, wanted.durable_name):
        if len(one) > NAME_MAX:
            raise faults.NAME_TOO_LONG.because(NAME_MAX)
        fault = name_fault(one)
        if fault is not None:
            raise fault.because()
    if wanted.durable_name and wanted.name and wanted.durable_name != wanted.name:
        raise faults.NAMES_DIFFER.because()


def _check(config: JsConsumerConfig, replicas: int) -> None:
    """What holds of every consumer."""
    if config.num_replicas > replicas:
        raise faults.REPLICAS_EXCEED.because()
    if config.backoff and 0 < config.max_deliver < len(config.backoff):
        raise faults.BACKOFF_TOO_LONG.because()
    if len(config.description.encode()) > DESCRIPTION_MAX:
        raise faults.DESCRIPTION_TOO_LONG.because(DESCRIPTION_MAX)
    if config.max_ack_pending > PENDING_MAX:
        raise faults.PENDING_TOO_MANY.because(PENDING_MAX)
    if config.flow_control and not config.idle_heartbeat and config.is_push:
        raise faults.FLOW_CONTROL_NEEDS_HEARTBEATS.because()


def _check_way(config: JsConsumerConfig, subjects: list[str]) -> None:
    """What holds of pushing, and of pulling."""
    if config.is_push:
        try:
            tokens = pattern_tokens(config.deliver_subject)
        except PatternRefused:
            raise faults.BAD_DELIVER_SUBJECT.because() from None
        if not is_literal(tokens):
            raise faults.DELIVER_WILDCARDS.because()
        if any(overlap(config.deliver_subject, subject) for subject in subjects):
            raise faults.DELIVER_CYCLE.because()
        if config.max_waiting:
            raise faults.PUSH_MAX_WAITING.because()
        if config.max_ack_pending > 0 and config.ack_policy == "none":
            raise faults.PENDING_WITHOUT_ACKS.because()
        if 0 < config.idle_heartbeat < HEARTBEAT_MIN_NS:
            raise faults.SMALL_HEARTBEAT.because()
        if config.priority_groups:
            raise faults.PUSH_PRIORITY.because()
        return
    if config.rate_limit_bps > 0:
        raise faults.PULL_RATE_LIMIT.because()
    if config.idle_heartbeat > 0:
        raise faults.HEARTBEAT_NEEDS_PUSH.because()
    if config.flow_control:
        raise faults.FLOW_CONTROL_NEEDS_PUSH.because()
    if 0 < config.max_expires < NS_PER_MS:
        raise faults.EXPIRES_TOO_SMALL.because()


def _check_filters(config: JsConsumerConfig) -> None:
    if config.filter_subject and config.filter_subjects:
        raise faults.TWO_KINDS_OF_FILTER.because()
    if "" in (config.filter_subjects or []):
        raise faults.EMPTY_FILTER.because()
    filters = config.filters
    for number, pattern in enumerate(filters):
        try:
            pattern_tokens(pattern)
        except PatternRefused as refused:
            raise CONSUMER_CREATE.because(f"filter subject: {refused}") from None
        if any(overlap(pattern, other) for other in filters[:number]):
            raise faults.FILTERS_OVERLAP.because()


def _check_start(config: JsConsumerConfig) -> None:
    policy = config.deliver_policy
    said = policy.replace("_", " ")
    also = "consumer delivery policy is deliver {}, but optional start {} is also set"
    missing = "consumer delivery policy is deliver {}, but optional {} is not set"
    if policy == "by_start_sequence" and config.opt_start_seq <= 0:
        raise faults.INVALID_POLICY.because(missing.format(said, "start sequence"))
    if policy == "by_start_time" and not config.opt_start_time:
        raise faults.INVALID_POLICY.because(missing.format(said, "start time"))
    if policy == "last_per_subject" and not config.filters:
        raise faults.INVALID_POLICY.because(missing.format(said, "filter subject"))
    if config.opt_start_seq and policy != "by_start_sequence":
        what = "start sequence" if policy == "by_start_time" else "sequence"
        raise faults.INVALID_POLICY.because(also.format(said, what.removeprefix("start ")))
    if config.pause_until:
        milliseconds(config.pause_until)
    if config.opt_start_time:
        milliseconds(config.opt_start_time)
        if policy != "by_start_time":
            raise faults.INVALID_POLICY.because(also.format(said, "time"))


def unhonoured(config: JsConsumerConfig) -> str:
    """What would change something and that nobody here does; empty if there is nothing of it."""
    if config.ack_policy == "flow_control":
        return "ack_policy flow_control is not supported: use none, all or explicit"
    if config.replay_policy == "original":
        return "replay_policy original is not supported: use instant"
    if config.sample_freq.strip("0%"):
        return "sample_freq is not supported: leave it out"
    if config.direct:
        return "direct consumers are nats-server's own"
    if len(config.priority_groups or []) > GROUPS_MAX:
        return f"it has {len(config.priority_groups or [])} priority groups, and may have {GROUPS_MAX} here"
    if config.priority_timeout > DAY_MS * NS_PER_MS:
        return "priority_timeout may be at most 24 hours here"
    if config.ack_wait > DAY_MS * NS_PER_MS or max(config.backoff or [0]) > DAY_MS * NS_PER_MS:
        return "ack_wait and backoff may be at most 24 hours here"
    if len(config.backoff or []) > 16:
        return f"backoff has {len(config.backoff or [])} waits, and may have 16 here"
    if config.inactive_threshold > INACTIVE_MS_MAX * NS_PER_MS:
        return f"inactive_threshold may be at most {INACTIVE_MS_MAX // 3_600_000} hours here"
    return ""


def milliseconds(time: str) -> int:
    """A time in RFC 3339 as ms since 1970. Raises JsError."""
    try:
        moment = datetime.datetime.fromisoformat(time)
    except ValueError as error:
        raise INVALID_JSON.because(error) from None
    if moment.tzinfo is None:
        raise INVALID_JSON.because(f"time {time!r} has no zone")
    return int(moment.timestamp() * 1000)


def to_core(config: JsConsumerConfig, created_ms: int) -> ConsumerConfig:
    """The consumer that the core makes of an effective configuration."""
    deliver = {
        "all": DELIVER_ALL,
        "last": DELIVER_LAST,
        "new": DELIVER_NEW,
        "by_start_sequence": DELIVER_FROM,
        "by_start_time": DELIVER_TIME,
        "last_per_subject": DELIVER_LASTS,
    }[config.deliver_policy]
    waits = [max(1, _ms(wait)) for wait in config.backoff or []]
    filters = config.filters
    return ConsumerConfig(
        # JetStream's last wait holds for all later deliveries.
        ack_wait_ms=waits[-1] if waits else max(1, _ms(config.ack_wait or ACK_WAIT_NS)),
        max_deliver=max(0, config.max_deliver),
        max_ack_pending=_pending(config),
        deliver=deliver,
        offset=max(0, config.opt_start_seq - 1),
        filter=filters[0] if filters else "",
        backoff_ms=tuple(waits),
        filters=tuple(filters[1:]),
        notes=notes_of(config, created_ms),
        inactive_ms=_ms(config.inactive_threshold),
        pause_until_ms=max(0, milliseconds(config.pause_until)) if config.pause_until else 0,
        timestamp_ms=max(0, milliseconds(config.opt_start_time)) if config.opt_start_time else 0,
        priority=config.priority_policy,
        groups=tuple(dict.fromkeys(config.priority_groups or [])),
        # Elsewhere nats-server keeps the time, and nobody is pinned.
        pin_ms=_ms(config.priority_timeout) if config.priority_policy == "pinned_client" else 0,
    )


def _pending(config: JsConsumerConfig) -> int:
    """Without acks the door settles at once: there is room for a few pulls."""
    if config.ack_policy == "none":
        return ACK_PENDING
    return config.max_ack_pending if config.max_ack_pending > 0 else PENDING_MAX


def _ms(ns: int) -> int:
    """Not shorter than asked for."""
    return -(-ns // NS_PER_MS)


def notes_of(config: JsConsumerConfig, created_ms: int) -> tuple[tuple[str, str], ...]:
    told = msgspec.json.encode(config.told(), order="deterministic").decode()
    return ((NOTE, told), (CREATED_NOTE, str(created_ms)))


def from_core(name: str, core: ConsumerConfig) -> tuple[JsConsumerConfig, int]:
    """What JetStream would call a consumer, and when it was made, in ms; of one that the door did not make
    that is not known (0).
    """
    notes = dict(core.notes)
    if NOTE in notes:
        try:
            config = msgspec.json.decode(notes[NOTE], type=JsConsumerConfig)
            return config, int(notes.get(CREATED_NOTE, "0"))
        except (msgspec.MsgspecError, ValueError):
            pass
    patterns = list(core.patterns)
    policies: dict[str, DeliverPolicy] = {
        DELIVER_ALL: "all",
        DELIVER_LAST: "last",
        DELIVER_NEW: "new",
        DELIVER_FROM: "by_start_sequence",
        DELIVER_TIME: "by_start_time",
        DELIVER_LASTS: "last_per_subject",
    }
    config = JsConsumerConfig(
        durable_name=name,
        name=name,
        deliver_policy=policies.get(core.deliver, "all"),
        opt_start_seq=core.offset + 1 if core.deliver == DELIVER_FROM else 0,
        opt_start_time=rfc3339(core.timestamp_ms) if core.deliver == DELIVER_TIME else "",
        ack_policy="explicit",
        ack_wait=(core.backoff_ms[0] if core.backoff_ms else core.ack_wait_ms) * NS_PER_MS,
        max_deliver=core.max_deliver or -1,
        backoff=[wait * NS_PER_MS for wait in core.backoff_ms] or None,
        filter_subject=patterns[0] if len(patterns) == 1 else "",
        filter_subjects=patterns if len(patterns) > 1 else None,
        max_waiting=WAITING_MAX,
        max_ack_pending=core.max_ack_pending,
        inactive_threshold=core.inactive_ms * NS_PER_MS,
    )
    return config, 0


IMMUTABLE = {
    "deliver_policy": "deliver policy",
    "mem_storage": "storage type",
    "direct": "direct",
    "opt_start_seq": "start sequence",
    "opt_start_time": "start time",
    "ack_policy": "ack policy",
    "replay_policy": "replay policy",
    "idle_heartbeat": "heart beats",
    "flow_control": "flow control",
    "max_waiting": "max waiting",
}
"""What a consumer keeps, and how nats-server calls it."""


def check_update(old: JsConsumerConfig, new: JsConsumerConfig) -> None:
    """What cannot be altered. Raises JsError."""
    for field, said in IMMUTABLE.items():
        if getattr(old, field) != getattr(new, field):
            raise CONSUMER_CREATE.because(f"{said} can not be updated")
    for field in ("priority_policy", "priority_groups", "priority_timeout"):
        if getattr(old, field) != getattr(new, field):
            raise CONSUMER_CREATE.because(f"{field} cannot be altered here: delete it, and make it anew")
    if old.is_push != new.is_push:
        text = "push consumer to pull based" if old.is_push else "pull consumer to push based"
        raise CONSUMER_CREATE.because(f"can not update {text}")
