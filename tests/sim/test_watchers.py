"""What watches a run goes by what each process knew, and counts what took effect once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from liftlog.core.metadata.commands import ChangeIsr, ConfirmNode, ExpireNode, FinishMove, RequestId
from liftlog.core.metadata.records import OK, PartitionState
from liftlog.messages import HeartbeatReply, PeerLost, Send
from liftlog.mutants import NO_MUTANTS
from liftlog.nodeconfig import NodeConfig
from liftlog.types import PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import Kernel
from liftlog_sim.truth.account import Account
from liftlog_sim.truth.invariants import Checks
from liftlog_sim.watching.paces import Paces
from liftlog_sim.watching.sessions import WholeSessions

LOG = PartitionId(1, 0)
CONFIG = NodeConfig(node=1, voters=(1, 2, 3))


def machine_at(number: int, now_ms: list[float], partitions: dict[PartitionId, PartitionState]) -> Machine:
    running = SimpleNamespace(
        ctx=SimpleNamespace(nonce=100 + number, hints={}),
        metadata=SimpleNamespace(partitions=partitions),
        config=CONFIG,
    )
    knobs = SimpleNamespace(node_config=lambda number: CONFIG, clock_drift=0.0)
    clock = SimpleNamespace(monotonic_ms=lambda: now_ms[0])
    parts = SimpleNamespace(number=number, running=running, knobs=knobs, clock=clock, kernel=Kernel())
    return cast(Machine, parts)


@pytest.mark.parametrize("hinted", [True, False])
def test_a_session_is_judged_by_the_hints_of_the_controller_that_ended_it(hinted: bool) -> None:
    """The one before had renewed it, and was told of no hint. Seed 7809."""
    now_ms = [0.0]
    before, after = machine_at(1, now_ms, {}), machine_at(2, now_ms, {})
    sessions = WholeSessions(Checks())
    for machine in (before, after):
        sessions.created(machine)
        sessions.applied(machine, 5, ConfirmNode(RequestId(9, 1, 99), 3, 4, 4), OK)
    sessions.sent(before, Send(3, HeartbeatReply(4, 1)))
    now_ms[0] = CONFIG.lease_ms + CONFIG.fence_margin_ms + 100.0
    assert now_ms[0] < CONFIG.session_timeout_ms
    if hinted:
        sessions.hinted(after, PeerLost(3))
    sessions.applied(before, 6, ExpireNode(RequestId(102, 1, 99), 3, 4, 5), OK)
    assert (sessions.violation is None) is hinted


def test_a_removal_for_slowness_that_is_applied_once_more_is_not_judged_again() -> None:
    """By then somebody else had left the ISR. Seed 8209."""
    records = {LOG: PartitionState(LOG, (1, 2, 3), 2, isr=(1, 3))}
    machine = machine_at(1, [0.0], records)
    account = Account(machine.kernel, NO_MUTANTS)
    paces = Paces(account)
    removal = ChangeIsr(RequestId(1, 1, 99), LOG, 1, 1, 1, [1, 3], 0, 0, slow=True)
    paces.applied(machine, 7, removal, OK)
    records[LOG] = PartitionState(LOG, (1, 2, 3), 2, isr=(1,))
    paces.applied(machine, 8, removal, OK)
    assert paces.violation is None
    other = ChangeIsr(RequestId(1, 2, 99), LOG, 1, 1, 1, [1], 0, 0, slow=True)
    paces.applied(machine, 9, other, OK)
    assert paces.violation is not None and paces.violation.invariant == "SlowKeepsMinimum"


@pytest.mark.parametrize("dropped", [True, False])
def test_a_copy_that_was_dropped_and_begins_anew_has_no_probation_to_serve(dropped: bool) -> None:
    """R20 forgets it with the copy. Seed 4819."""
    slow = PartitionState(LOG, (1, 2, 3), 1, isr=(1, 3), slow={2: 1})
    records = {LOG: slow}
    machine = machine_at(1, [0.0], records)
    paces = Paces(Account(machine.kernel, NO_MUTANTS))
    removal = ChangeIsr(RequestId(1, 1, 99), LOG, 1, 1, 1, [1, 3], 0, 0, slow=True)
    paces.applied(machine, 7, removal, OK)
    if dropped:
        records[LOG] = PartitionState(LOG, (1, 3), 1, isr=(1, 3))
    paces.applied(machine, 8, FinishMove(RequestId(1, 2, 99), LOG, 5), OK)
    records[LOG] = PartitionState(LOG, (1, 3, 2), 1, isr=(1, 3, 2))
    paces.applied(machine, 9, ChangeIsr(RequestId(1, 3, 99), LOG, 1, 1, 1, [1, 3, 2], 2, 4), OK)
    assert (paces.violation is None) is dropped
