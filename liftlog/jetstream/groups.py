"""Priority groups (ADR-42 of NATS): what a consumer may say of them, how a pull stands in one, and who is
pinned.

Who is given messages decides the leader of the partition (K10). A door asks it in slices: only the first
begins the pull, and the pin that its messages came with is named by all that follow.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from liftlog.jetstream import consumerfaults as faults
from liftlog.jetstream.answers import NS_PER_MS, ZERO_TIME, rfc3339
from liftlog.jetstream.errors import Fault

PriorityPolicy = Literal["", "none", "overflow", "pinned_client", "prioritized"]
PIN_NS = 120_000 * NS_PER_MS
"""So long a pin lasts, unless said."""
GROUP_NAME = re.compile(r"[a-zA-Z0-9/_=-]{1,16}")


class PinnedGroup(msgspec.Struct):
    """Of the first group of a consumer: who is pinned."""

    group: str
    pinned_client_id: str
    pinned_ts: str


def group_fault(name: str) -> Fault | None:
    """Why no group has this name."""
    if not name:
        return faults.EMPTY_GROUP
    return None if GROUP_NAME.fullmatch(name) else faults.BAD_GROUP


def check_groups(policy: str, groups: list[str], pin_ns: int) -> None:
    """What nats-server has against a configuration. Raises JsError."""
    if not policy:
        if groups:
            raise faults.GROUP_WITHOUT_POLICY.because()
        if pin_ns:
            raise faults.PIN_TIME_WITHOUT_POLICY.because()
        return
    if not groups:
        raise faults.POLICY_WITHOUT_GROUP.because()
    for name in groups:
        fault = group_fault(name)
        if fault is not None:
            raise fault.because()


def states_of(groups: list[str], pin: str, pinned_ms: int) -> list[PinnedGroup]:
    """What is told of groups: of the first alone, as nats-server does."""
    return [PinnedGroup(name, pin, rfc3339(pinned_ms) if pin else ZERO_TIME) for name in groups[:1]]


class PullStanding:
    """How one pull stands in its group, over all times that the leader is asked."""

    def __init__(
        self, policy: str, group: str, pin: str, least: tuple[int, int] = (0, 0), priority: int = 0
    ) -> None:
        """`least`: how many are to be pending, or wait for acks."""
        self._policy = policy
        self._group = group
        self._least = least
        self._priority = priority if policy == "prioritized" else 0
        self._begun = False
        self.pin = pin

    def asks(self) -> dict[str, Any]:
        """With what the leader is asked, this time."""
        if not self._policy:
            return {}
        begins, self._begun = not self._begun, True
        return {
            "group": self._group,
            "min_pending": self._least[0],
            "min_ack_pending": self._least[1],
            "priority": self._priority,
            "pin": self.pin,
            "begins": begins,
        }

    def told(self, pin: str) -> None:
        """It was given messages, with this pin."""
        self.pin = pin
