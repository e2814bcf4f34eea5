"""What a pull asks for: nothing, a number, or an object (nats-server, consumer.go, nextReqFromMsg)."""

from __future__ import annotations

import msgspec

from liftlog.jetstream.answers import NS_PER_MS, NS_PER_S
from liftlog.jetstream.consumerconfigs import JsConsumerConfig
from liftlog.jetstream.groups import PullStanding
from liftlog.jetstream.statuses import JsStatus, bad_request


class NextRequest(msgspec.Struct, frozen=True):
    """Durations in ns. `batch`: messages; `max_bytes` 0 = as many as they have. From `group` on: how it
    stands in a priority group.
    """

    batch: int = 1
    expires: int = 0
    no_wait: bool = False
    max_bytes: int = 0
    idle_heartbeat: int = 0
    group: str = ""
    min_pending: int = 0
    min_ack_pending: int = 0
    id: str = ""
    priority: int = 0


POSITIVE = ("expires", "max_bytes", "idle_heartbeat")


class PullRefused(Exception):
    """`status`: what is answered."""

    def __init__(self, status: JsStatus) -> None:
        super().__init__(status.text)
        self.status = status


def parse_next(payload: bytes) -> NextRequest:
    """What is asked for. Raises PullRefused. Text that is no number asks for one message, as nothing does."""
    text = payload.strip()
    if not text.startswith(b"{"):
        digits = text.removeprefix(b"-")
        number = int(text) if digits.isdigit() and len(digits) < 10 else 1
        return NextRequest(batch=max(1, number))
    try:
        request = msgspec.json.decode(text, type=NextRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise PullRefused(bad_request(str(error).replace("\n", " "))) from None
    if request.idle_heartbeat > 0 and request.idle_heartbeat * 2 > request.expires:
        raise PullRefused(bad_request("heartbeat value too large"))
    positive = {name: max(0, getattr(request, name)) for name in POSITIVE}
    return msgspec.structs.replace(request, batch=max(1, request.batch), **positive)


def check_limits(request: NextRequest, config: JsConsumerConfig) -> None:
    """What the consumer's configuration forbids. Raises PullRefused."""
    if 0 < config.max_batch < request.batch:
        raise PullRefused(JsStatus(409, f"Exceeded MaxRequestBatch of {config.max_batch}"))
    if 0 < config.max_expires < request.expires:
        raise PullRefused(JsStatus(409, f"Exceeded MaxRequestExpires of {go_duration(config.max_expires)}"))
    if 0 < config.max_bytes < request.max_bytes:
        raise PullRefused(JsStatus(409, f"Exceeded MaxRequestMaxBytes of {config.max_bytes}"))
    policy = config.priority_policy
    if (request.min_pending or request.min_ack_pending) and policy != "overflow":
        raise PullRefused(bad_request("Not a Overflow Priority consumer"))
    if request.id and policy != "pinned_client":
        raise PullRefused(bad_request("Not a Pinned Client Priority consumer"))
    if not 0 <= request.priority <= 9:
        raise PullRefused(bad_request("Priority must be between 0 and 9"))
    if policy and not request.group:
        raise PullRefused(bad_request("Priority Group missing"))
    if policy and request.group not in (config.priority_groups or []):
        raise PullRefused(bad_request("Invalid Priority Group"))


def standing_of(request: NextRequest, config: JsConsumerConfig) -> PullStanding:
    """How it stands in its priority group, if the consumer has any."""
    least = max(0, request.min_pending), max(0, request.min_ack_pending)
    return PullStanding(config.priority_policy, request.group, request.id, least, request.priority)


def go_duration(ns: int) -> str:
    """A duration as Go writes it: 1.5s, 2m0s, 1h0m0s, 20ms."""
    if ns < NS_PER_S:
        for unit, size in (("ms", NS_PER_MS), ("µs", 1000), ("ns", 1)):
            if ns >= size:
                return f"{ns / size:g}{unit}"
        return "0s"
    minutes, rest = divmod(ns, 60 * NS_PER_S)
    seconds = f"{rest / NS_PER_S:.9f}".rstrip("0").rstrip(".")
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
