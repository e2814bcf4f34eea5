"""What a test of this folder proves: lines of the table in docs/jetstream.md, and how liftlog differs there.

A test runs unmodified on nats-server and on liftlog. Where liftlog does something else on purpose, the test
is marked with the reason and asserts what liftlog does instead; the reason stands in the table.
`scripts/jetstream_page.py` makes the table of these marks and of the results of the last whole run
(tests/golden/jetstream.json).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

F = TypeVar("F", bound=Callable[..., Any])

SECTIONS = (
    "Account and answers",
    "Streams",
    "Messages of a stream",
    "Direct get",
    "Publishing",
    "Consumers",
    "Pull",
    "Acknowledgements",
    "Push",
    "Ordered consumers",
    "Key-value",
    "Object store",
    "Other clients",
)
"""In the order of the page."""


@dataclass
class Proof:
    """What is known of one test: lines as (section, call, what)."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)
    differs: str = ""
    refused: str = ""
    cases: dict[str, Proof] = field(default_factory=dict)
    """What is known of one case of a test that has several, by the case's line."""


def proof(function: Callable[..., Any]) -> Proof:
    """The marks of a test, which it gets here if it has none."""
    found: Proof | None = getattr(function, "proof", None)
    if found is None:
        found = Proof()
        function.proof = found  # type: ignore[attr-defined]
    return found


def proves(section: str, call: str, *whats: str) -> Callable[[F], F]:
    """This test shows these lines: fields, headers or statuses of a call; none = the call itself."""
    assert section in SECTIONS, section

    def mark(function: F) -> F:
        proof(function).lines += [(section, call, what) for what in whats or ("",)]
        return function

    return mark


def differs(reason: str) -> Callable[[F], F]:
    """liftlog does something else here, for this reason; the test asserts what."""

    def mark(function: F) -> F:
        proof(function).differs = reason
        return function

    return mark


def refused(reason: str) -> Callable[[F], F]:
    """liftlog refuses this, for this reason; the test asserts the error."""

    def mark(function: F) -> F:
        proof(function).refused = reason
        return function

    return mark


@dataclass(frozen=True)
class Case:
    """One case of a test: what the test is given, and what differs of this case alone."""

    given: Any
    differs: str = ""
    refused: str = ""


def proves_each(section: str, call: str, cases: dict[str, Any]) -> Callable[[F], F]:
    """A test with a case for each line: `given` is what stands beside the line here, or in a Case."""
    assert section in SECTIONS, section

    def mark(function: F) -> F:
        known = proof(function)
        parameters = []
        for what, given in cases.items():
            case = given if isinstance(given, Case) else Case(given)
            line = (section, call, what)
            known.cases[what] = Proof([line], case.differs, case.refused)
            parameters.append(pytest.param(case.given, id=what))
        return pytest.mark.parametrize("given", parameters)(function)  # type: ignore[return-value]

    return mark
