"""The models by name: whatever their text and spec/README.md vary can be set on the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from liftlog_spec.lang.types import Constant
from liftlog_spec.registry import MODELS, build, entry_of, variants_of

ROOT = Path(__file__).resolve().parents[2]
README, MAKEFILE = ROOT / "spec" / "README.md", ROOT / "Makefile"


@pytest.mark.parametrize("name", MODELS)
def test_every_constant_of_a_model_has_a_flag(name: str) -> None:
    declared = entry_of(name).load().declared
    constants = {each for each, item in declared.items() if isinstance(item, Constant)}
    assert constants == set(entry_of(name).flags.values())


@pytest.mark.parametrize("name", MODELS)
def test_small_bounds_can_be_set(name: str) -> None:
    small = entry_of(name).small
    assert set(small) <= set(entry_of(name).flags)
    build(name, "", small)


def test_every_variant_that_the_page_names_is_there() -> None:
    """A row of a table of variants begins with their names."""
    known = {variant for name in MODELS for variant in variants_of(name)}
    named: set[str] = set()
    for row in re.findall(r"^\| (`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)[ (|]", README.read_text(), re.MULTILINE):
        named.update(re.findall(r"`([a-z0-9-]+)`", row))
    assert len(named) > 80
    assert named - known == set()


def test_every_model_is_explored_by_the_nightly_run() -> None:
    """Kafka's has bounds of its own there, at which the states of each variant are published."""
    (named,) = re.findall(r"^MODELS := (.+)$", MAKEFILE.read_text(), re.MULTILINE)
    assert {*named.split(), "kafka"} == {*MODELS}
