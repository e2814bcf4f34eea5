"""What members of consumer groups asked and were told, as the facts of docs/promises.md.

A generation is of a grant here, and not of the whole group, so that what the facts call a group is a group's
share: one partition of a stream with one id. The same that `liftlog_jepsen.grouping` writes of a real run, so
that the same promises judge both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from liftlog.groups.state import MISSING, NOBODY, GroupShare, GroupState, share_place
from liftlog_jepsen.history import Mop
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consumer_facts import PROCESSES
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target

RUNS, RUNS_MAX = 2_000_000, 10_000
"""From here on the runs of members are numbered, as processes that ask. What they write, and when they leave,
is somebody new each time, as they do several things at once.
"""


def _group_in(state: GroupState, share: str) -> str:
    """What the facts call the group of a share."""
    return f"work of {share} of stream {state.streams.get(share_place(share)[0], 0)}"


class MemberFacts:
    """Of one run of one member. Of nobody who wants no history."""

    __slots__ = ("_process", "_shared")

    def __init__(self, shared: Clientele, member: int, run: int) -> None:
        self._shared = shared
        self._process = RUNS + member * RUNS_MAX + run

    def _begun(self, kind: str, target: Target, facts: list[Mop], process: int = 0) -> ClientOperation:
        process = process or PROCESSES + self._shared.performed
        operation = ClientOperation(kind, process, target, self._shared.cluster.kernel.now_us)
        operation.facts = facts
        self._shared.perform([operation])
        return operation

    def asks(self, register: Target, leaves: bool) -> ClientOperation | None:
        """It asks for the group's newest state."""
        if not self._shared.keep_values:
            return None
        return self._begun("group-info", register, [], 0 if leaves else self._process)

    def told(self, operation: ClientOperation | None, member: str, state: GroupState | None) -> None:
        """What it was told; None: nothing, which changes nothing either."""
        if operation is None:
            return
        now_us = self._shared.cluster.kernel.now_us
        if state is None:
            operation.end("fail", now_us)
            return
        owner = member if operation.client == self._process else NOBODY
        operation.facts = list(_told(state, owner))
        operation.end("ok", now_us)

    def writes(
        self, register: Target, before: GroupState, after: GroupState, held: Mapping[str, int]
    ) -> ClientOperation | None:
        """It has `after` follow on `before`: which commits are in that. `held`: which partitions it took for
        its own, each with the generation of its grant.
        """
        if not self._shared.keep_values:
            return None
        facts = []
        for share, its in sorted(after.shares.items()):
            if its.cursor != before.shares.get(share, GroupShare()).cursor:
                group = _group_in(after, share)
                facts.append(Mop("commit", share, its.cursor, group, held.get(share)))
        return self._begun("commit", register, facts) if facts else None


def _told(state: GroupState, member: str) -> Iterator[Mop]:
    for share, its in sorted(state.shares.items()):
        group = _group_in(state, share)
        if its.owner != NOBODY:
            yield Mop("join", group, None, None, its.granted)
        if its.owner == member != NOBODY:
            yield Mop("own", share, None, group, its.granted)
        if its.cursor != MISSING:
            yield Mop("fetch-commit", share, its.cursor, group)
