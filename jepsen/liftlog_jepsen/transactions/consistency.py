"""Which anomalies contradict which consistency models.

A history is held against a model: it is valid if it shows no anomaly that the model forbids. Three relations
decide that, each closed transitively:

- a stronger model promises what a weaker one does (`WEAKER`);
- a model forbids some anomalies (`FORBIDS`, listed where the weakest model forbids them);
- an anomaly is a special case of another, or proves it (`PROVES`).

Sources: Adya, "Weak Consistency" (1999); Adya, Liskov and O'Neil, "Generalized Isolation Level Definitions"
(2000); Bailis et al., "Highly Available Transactions" (2013); Cerone, Bernardi and Gotsman, "A Framework for
Transactional Consistency Models with Atomic Visibility" (2015); Daudjee and Salem, "Lazy Database Replication
with Snapshot Isolation" (2006). The whole follows Elle, so that both judge alike. Names are those of
https://jepsen.io/consistency; Adya's are understood as well. All reads and writes here name their item, so
that `G-single`, `G-nonadjacent` and `G2-item` are never about predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from liftlog.types import LiftlogError
from liftlog_jepsen.transactions.classify import CYCLES, SUFFIXES, implies
from liftlog_jepsen.transactions.orders import FREE, REALTIME, SESSIONS, Rule

DEFAULT_MODEL = "strict-serializable"

ALIASES = {
    "PL-1": "read-uncommitted",
    "PL-2": "read-committed",
    "PL-CS": "cursor-stability",
    "PL-2L": "monotonic-view",
    "PL-MSR": "monotonic-snapshot-read",
    "PL-2+": "consistent-view",
    "PL-FCV": "forward-consistent-view",
    "PL-2.99": "repeatable-read",
    "PL-SI": "snapshot-isolation",
    "PL-3U": "update-serializable",
    "PL-3": "serializable",
    "PL-SS": "strict-serializable",
    "conflict-serializable": "serializable",
    "strong-serializable": "strict-serializable",
    "strong-session-PL-1": "strong-session-read-uncommitted",
    "strong-session-PL-2": "strong-session-read-committed",
    "strong-PL-1": "strong-read-uncommitted",
    "strong-PL-2": "strong-read-committed",
}

WEAKER: Mapping[str, tuple[str, ...]] = {
    "read-uncommitted": (),
    "read-committed": ("read-uncommitted",),
    "monotonic-view": ("read-committed",),
    "monotonic-snapshot-read": ("read-committed",),
    "monotonic-atomic-view": ("read-committed",),
    "cursor-stability": ("read-committed",),
    "consistent-view": ("cursor-stability", "monotonic-view"),
    "forward-consistent-view": ("consistent-view",),
    "read-atomic": ("monotonic-atomic-view",),
    "update-atomic": ("read-atomic",),
    "causal-cerone": ("read-atomic",),
    "prefix": ("causal-cerone",),
    "parallel-snapshot-isolation": ("causal-cerone", "update-atomic"),
    "repeatable-read": ("cursor-stability", "monotonic-atomic-view"),
    "snapshot-isolation": (
        "forward-consistent-view",
        "monotonic-snapshot-read",
        "parallel-snapshot-isolation",
        "prefix",
    ),
    "update-serializable": ("forward-consistent-view",),
    "serializable": ("repeatable-read", "snapshot-isolation", "update-serializable"),
    "strong-session-read-uncommitted": ("read-uncommitted",),
    "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
    "strong-session-snapshot-isolation": ("snapshot-isolation", "strong-session-read-committed"),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "strong-read-uncommitted": ("strong-session-read-uncommitted",),
    "strong-read-committed": ("strong-session-read-committed", "strong-read-uncommitted"),
    "strong-snapshot-isolation": ("strong-session-snapshot-isolation", "strong-read-committed"),
    "strict-serializable": ("strong-session-serializable", "strong-snapshot-isolation"),
}
"""Each model with the next weaker ones, weak before strong."""

FORBIDS: Mapping[str, tuple[str, ...]] = {
    "read-uncommitted": ("G0", "duplicate-elements", "cyclic-versions"),
    "read-committed": ("G1",),
    "cursor-stability": ("lost-update",),
    "consistent-view": ("G-single",),
    "read-atomic": ("internal", "G1a", "future-read"),
    "update-atomic": ("lost-update",),
    "snapshot-isolation": ("G-nonadjacent", "no-snapshot-order"),
    "repeatable-read": ("G2-item", "no-serial-order"),
    "serializable": ("G2", "internal"),
    "strong-session-read-uncommitted": ("G0-process",),
    "strong-session-read-committed": ("G1c-process",),
    "strong-session-snapshot-isolation": ("G1-process", "G-nonadjacent-process", "no-snapshot-order-process"),
    "strong-session-serializable": ("G2-process", "no-serial-order-process"),
    "strong-read-uncommitted": ("G0-realtime",),
    "strong-read-committed": ("G1c-realtime",),
    "strong-snapshot-isolation": ("G1-realtime", "G-nonadjacent-realtime", "no-snapshot-order-realtime"),
    "strict-serializable": ("G2-realtime", "no-serial-order-realtime"),
}

ORDERS: Mapping[str, Rule] = {
    "snapshot-isolation": Rule(True, FREE),
    "repeatable-read": Rule(False, FREE),
    "serializable": Rule(False, FREE),
    "strong-session-snapshot-isolation": Rule(True, SESSIONS),
    "strong-session-serializable": Rule(False, SESSIONS),
    "strong-snapshot-isolation": Rule(True, REALTIME),
    "strict-serializable": Rule(False, REALTIME),
}
"""Models that ask for an order of the transactions, and what this order has to respect."""
DECIDED = frozenset(
    f"{strong}{name}"
    for strong in ("", "strong-session-", "strong-")
    for name in ("read-uncommitted", "read-committed")
)
"""Models that a history obeys if it shows no anomaly that they forbid: versions can then be put in the order
of any order of the transactions that respects wr and time."""


def _proofs() -> dict[str, tuple[str, ...]]:
    """What each anomaly proves, besides itself. `G1` and `G2` are Adya's families, never found as such."""
    found: dict[str, tuple[str, ...]] = {name: tuple(implies(name))[1:] for name in CYCLES}
    for at, suffix in enumerate(SUFFIXES):
        longer = SUFFIXES[at + 1 :]
        found[f"G1{suffix}"] = tuple(f"G1{later}" for later in longer)
        found[f"G2{suffix}"] = tuple(f"G2{later}" for later in longer)
        found[f"G1c{suffix}"] += (f"G1{suffix}",)
        found[f"G2-item{suffix}"] += (f"G2{suffix}",)
        found[f"no-serial-order{suffix}"] = tuple(f"no-serial-order{later}" for later in longer)
        found[f"no-snapshot-order{suffix}"] = (
            f"no-serial-order{suffix}",
            *(f"no-snapshot-order{later}" for later in longer),
        )
    return found | {
        "G1a": ("G1",),
        "G1b": ("G1",),
        "incompatible-order": ("G1a",),
        "dirty-update": ("G1a",),
        "phantom": ("G1a",),
        "future-read": ("G1c",),
        "lost-update": ("G2-item",),
        "internal": (),
        "duplicate-elements": (),
        "cyclic-versions": (),
    }


PROVES: Mapping[str, tuple[str, ...]] = _proofs()
"""Each anomaly with others that it proves: of two reads in incompatible orders, one saw what never was."""

FAMILIES = tuple(family + suffix for family in ("G1", "G2") for suffix in SUFFIXES)
ANOMALIES = tuple(name for name in PROVES if name not in FAMILIES)
"""All that can be found, cycles first."""


def canonical(model: str) -> str:
    """The model's name, for a name or an alias.

    Raises LiftlogError for a model that does not exist, or of which a history of transactions shows nothing.
    """
    name = ALIASES.get(model, model)
    if name not in WEAKER:
        raise LiftlogError(
            f"unknown consistency model {model!r}; give one of {', '.join(sorted(WEAKER))}, or Adya's name"
        )
    return name


def models(text: str | None) -> tuple[str, ...]:
    """The models that an option names, separated by commas; None = the default."""
    return tuple(canonical(name.strip()) for name in (text or DEFAULT_MODEL).split(","))


def forbidden(names: Iterable[str], anomalies: Iterable[str] = ()) -> frozenset[str]:
    """Every anomaly that contradicts one of the models, or that proves one of `anomalies`.

    Raises LiftlogError if one of `anomalies` does not exist.
    """
    anomalies = tuple(anomalies)
    for name in anomalies:
        if name not in PROVES:
            raise LiftlogError(f"unknown anomaly {name!r}; give some of {', '.join(PROVES)}")
    direct = {each for model in _reach(names, WEAKER) for each in FORBIDS.get(model, ())} | set(anomalies)
    return frozenset(name for name in PROVES if not direct.isdisjoint(_reach((name,), PROVES)))


def orders_of(names: Iterable[str]) -> dict[Rule, bool]:
    """The orders that show that a history obeys these models, and whether it disobeys one if there is none.

    For a model that is weaker than the nearest one with an order, that there is none proves nothing.
    """
    found: dict[Rule, bool] = {}
    for model in names:
        exact = ORDERS.get(model)
        if exact is not None:
            found[exact] = True
        elif model not in DECIDED:
            found.setdefault(next(ORDERS[each] for each in ORDERS if model in _reach((each,), WEAKER)), False)
    return found


def impossible(anomalies: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(not, also not): the weakest models that a history with these anomalies contradicts, and the stronger
    ones that fall with them. Each in the order of `WEAKER`.
    """
    proven = _reach(anomalies, PROVES)
    broken = {
        model
        for model in WEAKER
        if any(not proven.isdisjoint(FORBIDS.get(weaker, ())) for weaker in _reach((model,), WEAKER))
    }
    weakest = {model for model in broken if _reach((model,), WEAKER) & broken == {model}}
    return (
        tuple(model for model in WEAKER if model in weakest),
        tuple(model for model in WEAKER if model in broken - weakest),
    )


def _reach(names: Iterable[str], graph: Mapping[str, tuple[str, ...]]) -> set[str]:
    """`names` and everything behind them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(graph.get(name, ()))
    return found
