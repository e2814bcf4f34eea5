"""Whether faults may strike yet, and what has struck: counted, and shown to who wants to know."""

from __future__ import annotations

from collections.abc import Callable

from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.truth.account import Account


class Strikes:
    """Shared by all who break something; `active` until the fault phase is over."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self.active = True
        self.beyond_models: Callable[[], None] = lambda: None
        """Called when something strikes that no model knows: a copy loses the epochs of its end (R6)."""
        self.on_fault: Callable[[str, str, int], None] | None = None
        """Called with kind, detail and duration in µs."""
        self.on_strike: Callable[[Fault], None] = lambda fault: None

    def done(self, fault: Fault, detail: str) -> None:
        """A fault strikes now: count it and show it. Called before it does anything, where that is known."""
        self._account.count(f"fault {fault.kind}")
        self._account.row(fault.kind, detail)
        self.on_strike(fault)
        if self.on_fault is not None:
            self.on_fault(fault.kind, detail, fault.duration_us)
