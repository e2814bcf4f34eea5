"""Anything from outside is taken or refused: no other exception, and no memory that grows (V1 to V5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.cli import main
from liftlog.messages import intake
from liftlog.mutants import Mutants
from liftlog.types import LiftlogError
from liftlog_sim.chance.draws import Draws
from liftlog_sim.faults import lies
from liftlog_sim.fuzz import node as fuzz_node
from liftlog_sim.fuzz import parsers as fuzzing

Decode = Callable[[Any, bytes | memoryview, str], Any]


@pytest.mark.parametrize("target", fuzzing.TARGETS, ids=lambda target: target.name)
def test_v1_each_target_takes_what_is_good(target: fuzzing.FuzzTarget) -> None:
    for number in range(30):
        assert fuzzing.tried(target, target.good(Draws(number))) == (False, "")


@pytest.mark.parametrize("target", fuzzing.TARGETS, ids=lambda target: target.name)
@given(st.binary(max_size=80), st.integers(0, 1 << 30), st.booleans())
@settings(max_examples=150, deadline=None)
def test_v1_hypothesis_finds_nothing_but_refusals(
    target: fuzzing.FuzzTarget, data: bytes, number: int, beside: bool
) -> None:
    """Bytes of any kind, alone or beside an input that was mutated."""
    given_ = data + fuzzing.input_of(target, 0, number) if beside else data
    assert fuzzing.tried(target, given_)[1] == ""


@pytest.mark.slow
def test_200_000_inputs_are_taken_or_refused() -> None:
    report = fuzzing.run(fuzzing.NAMES, 0, 200_000)
    assert report.finding is None
    assert report.good
    assert sum(report.inputs.values()) >= 200_000
    assert all(report.inputs[name] > 10_000 for name in fuzzing.NAMES)
    # Whoever refuses everything, or nothing, tests little.
    for target in fuzzing.TARGETS:
        share = report.refused[target.name] / report.inputs[target.name]
        assert (0.02 < share < 0.95) == bool(target.refusals)


def test_an_input_follows_from_its_number() -> None:
    target = fuzzing.target_named("api")
    inputs = [fuzzing.input_of(target, 3, number) for number in range(20)]
    assert inputs == [fuzzing.input_of(target, 3, number) for number in range(20)]
    assert len(set(inputs)) > 10


@pytest.mark.parametrize("name", ["peer-message", "client-call", "api", "command"])
def test_a_decoder_whose_errors_are_not_all_caught_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program as it once was: text that is not UTF-8, or brackets without end, ended a node."""

    def decode(decoder: Any, data: bytes | memoryview, what: str) -> Any:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as error:
            raise intake.InputRefused(f"not {what}: {error}") from None

    monkeypatch.setattr(intake, "decode", decode)
    report = fuzzing.run([name], 0, 20_000)
    assert report.finding is not None
    assert report.finding.target == name
    again = fuzzing.run([name], 0, 1, report.finding.number)
    assert again.finding == report.finding


def test_a_node_that_believes_too_much_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_node, "NO_MUTANTS", Mutants(commands_not_validated=True))
    assert fuzzing.run([fuzzing.NODE], 0, 40_000).finding is not None


def test_the_node_s_episodes_reach_every_role_and_rule() -> None:
    marks: set[str] = set()
    roles: set[str] = set()
    for number in range(250, 345):
        episode = fuzz_node.Episode(f"roles/{number}")
        episode.run()
        marks |= set(episode.node.marks)
        roles |= {replica.role for replica in episode.node.replicas.values()}
    assert {"leader", "follower"} <= roles
    wanted = {"R2.commit", "R6.truncate", "M1.truncate", "M1.vote", "R8.commit", "V3.FetchReply"}
    assert wanted <= marks, wanted - marks


def test_mutations_are_near_to_what_they_come_from() -> None:
    draws = Draws(1)
    data = bytes(range(50))
    changed = [lies.mutated(data, draws) for _ in range(500)]
    assert sum(one != data for one in changed) > 450
    assert {len(one) for one in changed} >= {len(data), len(data) - 1, len(data) + 1}


@pytest.mark.parametrize("text", ["", "k", "0", "-5", "5x", "2000M"])
def test_a_number_of_inputs_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "fuzz", "--inputs", text]) == 2
    assert "--inputs" in capsys.readouterr().err


def test_a_target_that_there_is_not_is_named_with_those_that_there_are() -> None:
    with pytest.raises(LiftlogError, match=r"'x'; choose from nats, .*node"):
        fuzzing.target_named("x")
