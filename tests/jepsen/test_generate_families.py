"""Generated histories of objects, transactions and tallies: the checks agree with what was generated."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.types import LiftlogError
from liftlog_jepsen.events import pair
from liftlog_jepsen.formats import FORMATS, read_history, write_edn
from liftlog_jepsen.generate.families import FAMILIES, family_events, plantable, write_family
from liftlog_jepsen.judgement import Budget, Judgement
from liftlog_jepsen.models import NamedModel, checker_of

OPERATIONS = 60


def judged(family: str, anomaly: str | None, seed: int) -> Judgement:
    """What the family's own check says, by way of EDN."""
    form = FORMATS["kv-edn" if family == "kv" else "edn-lines"]
    text = write_edn(family_events(family, OPERATIONS, seed, anomaly))
    operations = pair(form.read(text, "generated", form.options), "generated")
    assert len(operations) >= OPERATIONS
    return checker_of(NamedModel(family)).check(operations, form.options, Budget(30, 100_000))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_valid_family_is_found_valid(family: str) -> None:
    for seed in (0, 1):
        found = judged(family, None, seed)
        assert (found.valid, dict(found.totals)) == (True, {})


@pytest.mark.parametrize(
    ("family", "anomaly"), [(family, anomaly) for family in FAMILIES for anomaly in plantable(family)]
)
def test_a_planted_anomaly_is_found(family: str, anomaly: str) -> None:
    for seed in (0, 1):
        found = judged(family, anomaly, seed)
        assert found.valid is False
        assert found.totals[anomaly] == 1


def test_the_seed_decides() -> None:
    assert family_events("queue", 100, 1) == family_events("queue", 100, 1)
    assert family_events("queue", 100, 1) != family_events("queue", 100, 2)


def test_a_family_is_written_as_edn(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    assert write_family("list-append", path, 50, anomaly="G1c") == "G1c"
    assert read_history(path) == family_events("list-append", 50, anomaly="G1c")
    with pytest.raises(LiftlogError, match="exists already"):
        write_family("list-append", path, 50)


def test_what_there_is_not_is_refused() -> None:
    with pytest.raises(LiftlogError, match="--family heap: there is no such family; there are register"):
        family_events("heap", 10)
    with pytest.raises(
        LiftlogError, match="--plant G0: there is no such anomaly of bank; there are wrong-total"
    ):
        family_events("bank", 10, anomaly="G0")
    with pytest.raises(LiftlogError, match="--operations 0"):
        family_events("bank", 0)
