"""Which anomalies contradict which models."""

from __future__ import annotations

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.transactions.consistency import (
    ALIASES,
    DEFAULT_MODEL,
    FORBIDS,
    PROVES,
    WEAKER,
    canonical,
    forbidden,
    impossible,
    models,
)


def test_a_stronger_model_forbids_what_a_weaker_one_does() -> None:
    for model, weaker in WEAKER.items():
        for other in weaker:
            assert forbidden((other,)) <= forbidden((model,)), (model, other)


def test_weaker_models_are_listed_first_and_every_model_forbids_something() -> None:
    listed: list[str] = []
    for model, weaker in WEAKER.items():
        assert set(weaker) <= set(listed)
        assert forbidden((model,))
        listed.append(model)
    assert set(FORBIDS) <= set(listed) and set(ALIASES.values()) <= set(listed)


def test_what_proves_a_forbidden_anomaly_is_forbidden() -> None:
    for model in WEAKER:
        for anomaly, proven in PROVES.items():
            if forbidden((model,)) & set(proven):
                assert anomaly in forbidden((model,))


@pytest.mark.parametrize(
    ("anomaly", "allowed", "not_allowed"),
    [
        ("G0", (), ("read-uncommitted",)),
        ("G1a", ("read-uncommitted",), ("read-committed",)),
        ("dirty-update", ("read-uncommitted",), ("read-committed",)),
        ("G1c", ("read-uncommitted",), ("read-committed", "cursor-stability")),
        ("lost-update", ("read-committed", "read-atomic"), ("cursor-stability", "update-atomic")),
        ("G-single", ("read-committed",), ("consistent-view", "snapshot-isolation")),
        ("G-nonadjacent", ("consistent-view", "update-serializable"), ("snapshot-isolation",)),
        ("G2-item", ("snapshot-isolation", "prefix"), ("repeatable-read", "serializable")),
        ("internal", ("read-committed",), ("read-atomic", "serializable")),
        ("future-read", ("read-uncommitted",), ("read-committed",)),
        ("G-single-process", ("serializable",), ("strong-session-snapshot-isolation",)),
        ("G2-item-process", ("strong-session-snapshot-isolation",), ("strong-session-serializable",)),
        ("G-single-realtime", ("strong-session-serializable",), ("strong-snapshot-isolation",)),
        ("G2-item-realtime", ("strong-snapshot-isolation",), ("strict-serializable",)),
        ("G0-realtime", ("serializable",), ("strong-read-uncommitted",)),
        ("duplicate-elements", (), ("read-uncommitted",)),
    ],
)
def test_well_known_boundaries(anomaly: str, allowed: tuple[str, ...], not_allowed: tuple[str, ...]) -> None:
    assert all(anomaly not in forbidden((model,)) for model in allowed)
    assert all(anomaly in forbidden((model,)) for model in not_allowed)
    weakest, stronger = impossible((anomaly,))
    assert set(not_allowed) <= {*weakest, *stronger}
    assert not set(allowed) & {*weakest, *stronger}
    assert "strict-serializable" in (*weakest, *stronger)


def test_the_weakest_broken_models_are_told_from_those_that_fall_with_them() -> None:
    assert impossible(()) == ((), ())
    assert impossible(("G2-item-realtime",)) == (("strict-serializable",), ())
    weakest, stronger = impossible(("lost-update",))
    assert weakest == ("cursor-stability", "update-atomic")
    assert "snapshot-isolation" in stronger and "read-committed" not in stronger


def test_names_and_their_aliases() -> None:
    assert models(None) == (DEFAULT_MODEL,) == ("strict-serializable",)
    assert models("PL-3, strong-session-PL-2") == ("serializable", "strong-session-read-committed")
    assert canonical("strong-serializable") == "strict-serializable"
    with pytest.raises(LiftlogError, match="unknown consistency model 'linearizable'; give one of"):
        models("linearizable")


def test_more_anomalies_can_be_named() -> None:
    assert "G2-item" in forbidden(("read-committed",), ("G2",))
    assert "G2-item" not in forbidden(("read-committed",))
    with pytest.raises(LiftlogError, match="unknown anomaly 'G3'; give some of G0, G1c,"):
        forbidden(("read-committed",), ("G3",))
