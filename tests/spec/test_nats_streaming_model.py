"""The NATS Streaming clustering proposal: what goes wrong as it is written, and what repairs it."""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.nats_streaming import NatsStreaming

CALM = {"Restarts": 0, "Panics": 0}
# variant, constants, invariant, number of states in the counterexample, an action that is in it
VARIANTS = [
    ("catching-up-never-leads", {"Restarts": 0}, "MajorityCanElect", 5, "LeaderPanics"),
    ("delivers-before-quorum", CALM, "ConsistentRead", 6, "Deliver"),
    ("failure-is-no", CALM, "ErrorMeansNotStored", 6, "Refuse"),
    ("resent", CALM, "NoDuplicate", 6, "LeaderWrites"),
    ("leader-counts-itself-early", CALM, "LeaderCompleteness", 7, "Acknowledge"),
    ("as-written", CALM, "LogMatching", 8, "LeaderWrites"),
    ("catch-up-by-sequence", CALM, "LogMatching", 8, "LeaderWrites"),
    ("old-term-stored", CALM, "LogMatching", 8, "FollowerStores"),
    ("cuts-to-leaders-end", CALM, "LeaderCompleteness", 10, "CutWhatDiffers"),
    ("election-by-sequence", {**CALM, "Terms": 3, "Length": 1}, "LeaderCompleteness", 11, "Acknowledge"),
    ("no-gap-check", CALM, "LeaderCompleteness", 12, "FollowerStores"),
]


@pytest.mark.parametrize(("variant", "constants", "invariant", "states", "needed"), VARIANTS)
def test_a_variant_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int, needed: str
) -> None:
    report = check(NatsStreaming(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states
    assert needed in {step.action.partition("(")[0] for step in report.trace}


def test_every_variant_is_tested() -> None:
    tested = {name for name, *_ in VARIANTS}
    assert tested == set(NatsStreaming.variant.choices) - {"repaired", "resent-guid-kept"}


def less(*names: str) -> type[NatsStreaming]:
    """The model without these invariants, to see what else comes of it."""
    return type("Less", (NatsStreaming,), dict.fromkeys(names))


@pytest.mark.parametrize(
    ("constants", "how"),
    [
        ({**CALM, "Terms": 2}, "a gap"),
        ({**CALM, "Terms": 3, "Length": 1}, "a divergent message under the same number"),
    ],
    ids=lambda value: value.split()[1] if isinstance(value, str) else "",
)
def test_as_written_an_acknowledged_message_is_lost(constants: dict[str, int], how: str) -> None:
    """In ten states, in either of two ways: the new leader's history is as long, and lacks the message."""
    report = check(less("LogMatching")(variant="as-written", **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", "LeaderCompleteness", 10)
    last = report.trace[-1].state
    (told,) = last["acked"]
    newest = max(last["term"].values())
    (leader,) = [r for r in last["leads"] if last["leads"][r] and last["term"][r] == newest]
    found = last["store"][leader][told["sequence"]]
    assert (found is None) if how == "a gap" else (found["guid"] != told["guid"])


@pytest.mark.parametrize(
    ("variant", "constants", "besides", "invariant", "states"),
    [
        ("leader-counts-itself-early", {}, ("NoCommittedRecordLost",), "StateMachineSafety", 11),
        ("election-by-sequence", {"Terms": 3}, (), "NoCommittedRecordLost", 14),
    ],
)
def test_an_incomplete_leader_ends_in_loss(
    variant: str, constants: dict[str, int], besides: tuple[str, ...], invariant: str, states: int
) -> None:
    """What LeaderCompleteness and LogMatching are for: the harm itself comes a few steps later."""
    model = less("LogMatching", "LeaderCompleteness", *besides)
    report = check(model(variant=variant, Length=1, **CALM, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


def test_as_written_a_majority_may_be_unable_to_elect() -> None:
    """The leader is gone for good, who has more is out of sync, and who has less gets no vote."""
    report = check(NatsStreaming(variant="as-written", Restarts=0), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", "MajorityCanElect", 6)
    assert sum(report.trace[-1].state["up"].values()) == 2


def test_the_repaired_protocol_holds_when_a_leader_panics() -> None:
    report = check(NatsStreaming(Restarts=0), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 5_318, 21)


@pytest.mark.nightly
def test_a_publisher_may_resend_where_guids_are_kept() -> None:
    report = check(NatsStreaming(variant="resent-guid-kept", **CALM), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 10_250, 24)


@pytest.mark.nightly
def test_the_repaired_protocol_holds_at_the_registrys_bounds() -> None:
    report = check(NatsStreaming(), Bounds(jobs=2))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 238_819, 22)


@pytest.mark.nightly
def test_the_repaired_protocol_holds_in_three_terms() -> None:
    """Where election by sequence number alone, and the proposal as written, lose what was acknowledged."""
    report = check(NatsStreaming(Terms=3), Bounds(jobs=2, symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 86_274, 24)
