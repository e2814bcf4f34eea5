"""Bank: transfers move money between accounts, so that every read of all balances has the same total.

After `jepsen.tests.bank`: a read is at fault for the first of these that it shows: `unexpected-key` (an
account that there is not), `nil-balance`, `wrong-total`, `negative-value` (unless balances may be negative).
What the test map of Jepsen would say, elle-cli takes from the first read: its accounts, and its sum as total.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Number
from typing import Any

from liftlog_jepsen.events import Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies.common import Collected, TallyOptions, completed, frozen, listed, unknown


def check_bank(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge the `ok` reads, each a map from account to balance."""
    chosen = options or TallyOptions()
    reads = completed(operations, "read")
    if not reads:
        return unknown("the bank was never read")
    first = reads[0].result
    broken = next((read for read in reads if not _is_balances(read.result)), None)
    if broken is not None:
        return unknown(
            f"the read of operation {broken.number} is no map of accounts to balances: {write(broken.result)}"
        )
    accounts = frozenset(map(frozen, first)) if chosen.accounts is None else chosen.accounts
    total: Any = chosen.total
    if total is None:
        if None in first.values():
            return unknown(
                f"the first read (operation {reads[0].number}) has an account without balance, so it does "
                "not say what the total is: give it with --set total=AMOUNT"
            )
        total = sum(first.values())
    found = Collected(chosen.examples)
    for read in reads:
        _check_read(read, accounts, total, chosen.negative_balances, found)
    return found.judgement()


def _is_balances(value: Any) -> bool:
    return isinstance(value, dict) and all(
        balance is None or (isinstance(balance, Number) and not isinstance(balance, bool | complex))
        for balance in value.values()
    )


def _check_read(
    read: Operation, accounts: frozenset[Any], total: Any, negative_allowed: bool, found: Collected
) -> None:
    balances: dict[Any, Any] = {frozen(account): balance for account, balance in read.result.items()}
    reader = f"the read of process {read.process}"
    unexpected = [account for account in balances if account not in accounts]
    if unexpected:
        words = f"{reader} shows accounts that there are not: {listed(unexpected)}"
        return found.add("unexpected-key", [read.number], words, count=len(unexpected))
    nils = [account for account, balance in balances.items() if balance is None]
    if nils:
        words = f"{reader} shows no balance for these accounts: {listed(nils)}"
        return found.add("nil-balance", [read.number], words, count=len(nils))
    summed = sum(balances.values())
    if summed != total:
        words = f"the balances in {reader} add up to {write(summed)} instead of {write(total)}"
        return found.add("wrong-total", [read.number], words, total=str(summed), expected=str(total))
    negative = [account for account, balance in balances.items() if balance < 0]
    if negative and not negative_allowed:
        words = f"{reader} shows balances below zero in these accounts: {listed(negative)}"
        return found.add("negative-value", [read.number], words, count=len(negative))
    return None
