"""The exported TLA+ modules: up to date, well formed, and the same state space in TLC's eyes."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tla

from liftlog.cli import main
from liftlog_spec.lang import (
    Bool,
    Constant,
    Exists,
    Fn,
    Forall,
    Option,
    Or,
    Range,
    Record,
    Seq,
    Set,
    Sort,
    SpecError,
    Var,
    action,
    get,
    invariant,
    is_none,
    size,
    when,
)
from liftlog_spec.lang.model import Model
from liftlog_spec.models.kafka import Kafka
from liftlog_spec.models.twophase import TwoPhase
from liftlog_spec.registry import MODELS, build, every_model, variants_of
from liftlog_spec.tla.export import config_text, module_name, module_text
from liftlog_spec.tla.files import DIGESTS, FOLDER, TLC_VARIABLE, compare, differences, kept_files, run_tlc
from liftlog_spec.tla.lint import lint

JAR = os.environ.get(TLC_VARIABLE, "")
needs_tlc = pytest.mark.skipif(not JAR, reason=f"{TLC_VARIABLE} names no tla2tools.jar")


@pytest.fixture(scope="module")
def kept() -> dict[str, str]:
    return kept_files()


def test_the_committed_modules_are_those_of_the_models(kept: dict[str, str]) -> None:
    assert differences(kept, FOLDER) == [], "run: liftlog spec export"


def test_one_module_of_each_model_is_kept_and_every_other_variant_has_its_digest() -> None:
    assert len(list(FOLDER.glob("*.tla"))) == len(MODELS)
    known = {line.split()[1] for line in (FOLDER / DIGESTS).read_text().splitlines()}
    for model in every_model():
        name = f"{module_name(model)}.tla"
        assert (FOLDER / name).exists() != (name in known), name


def test_a_variant_that_changed_is_named(tmp_path: Path, kept: dict[str, str]) -> None:
    for name, text in kept.items():
        (tmp_path / name).write_text(text)
    old = kept[DIGESTS]
    (tmp_path / DIGESTS).write_text(old.replace(old[:8], "00000000", 1))
    assert differences(kept, tmp_path) == [f"{old.split()[1]} is another than {DIGESTS} says"]


def test_a_written_variant_has_the_digest_that_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["--model", "raft", "--variant", "ack-whole-log", "--folder", str(tmp_path)]
    assert main(["spec", "export", *wanted]) == 0
    assert capsys.readouterr().out.splitlines() == [str(path) for path in sorted(tmp_path.iterdir())][::-1]
    kept = [line for line in (FOLDER / DIGESTS).read_text().splitlines() if "RaftAckWholeLog." in line]
    done = subprocess.run(
        ["sha256sum", *(line.split()[1] for line in kept)], cwd=tmp_path, capture_output=True
    )
    assert done.stdout.decode().splitlines() == kept


def test_a_variant_is_not_written_into_the_committed_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", "export", "--model", "raft", "--variant", "all"]) == 2
    assert "need --folder" in capsys.readouterr().err


def modules() -> Iterator[object]:
    """The first variant of each model; the others, which differ in a line or two, in the nightly run."""
    for name in MODELS:
        for number, variant in enumerate(variants_of(name)):
            marks = [pytest.mark.nightly] if number else []
            yield pytest.param(name, variant, id=f"{name}-{variant}", marks=marks)


@pytest.mark.parametrize(("name", "variant"), list(modules()))
def test_a_module_parses_and_names_every_action_and_invariant(name: str, variant: str) -> None:
    model = build(name, variant, {})
    text = module_text(model)
    assert lint(text, config_text(model)) == []
    constants = text.partition("CONSTANTS\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"\.\.([A-Z]\w*)\b(?!\()", text)) <= set(re.findall(r"\w+", constants))
    for said in [*(a.name for a in model.actions), *(p.name for p in model.invariants)]:
        assert f"\n{said} ==" in text or f"\n{said}(" in text, said


def test_a_damaged_module_does_not_parse() -> None:
    """So that the test above can fail."""
    with pytest.raises(Exception, match=r".*"):
        tla.parse(module_text(TwoPhase()).replace("\\in", "\\inn", 1))


LINTED = r"""
---- MODULE M ----
EXTENDS Integers, Sequences
CONSTANTS None, Node, Many
VARIABLES log, known, chosen
MinOf(S) == CHOOSE x \in S : \A y \in S : x <= y
Last(n) == log[n][(Len(log[n]) - 1) + 1]
Op == %s
====
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (r"\A n \in Node : \E n \in Node : TRUE", ["Op: n is bound twice"]),
        (r"log \in UNION {[1..n -> UNION {[1..n -> Node] : n \in 0..2}] : n \in 0..2}",
         ["Op: writes out a set whose elements are sets", "Op: n is bound twice"]),
        (r"\A n \in {n \in Node : TRUE} : TRUE", []),
        (r"(\A n \in Node : TRUE) /\ (\E n \in Node : TRUE)", []),
        (r"\A log \in Node : TRUE", ["Op: log is bound, but the module has a log"]),
        (r"(Len(log) = 0) \/ (log[(Len(log) - 1) + 1] = 3)",
         ["Op: the right side of a disjunction has an element of a sequence; write IF"]),
        (r"IF (Len(log) = 0) THEN TRUE ELSE (log[(Len(log) - 1) + 1] = 3)", []),
        (r"\A n \in Node : ((log[n] = 1) \/ (Last(n) = 3))",
         ["Op: the right side of a disjunction has an element of a sequence; write IF"]),
        (r"\A n \in Node : ((known[n] = None) \/ (known[n].epoch = 3))",
         ["Op: the right side of a disjunction has a field of known[_], which may be None; write IF"]),
        (r"(log = {}) \/ (MinOf({n \in log : TRUE}) = 1)",
         ["Op: the right side of a disjunction has MinOf of a set that may be empty; write IF"]),
        (r"\E n \in [Node -> BOOLEAN] : TRUE", ["Op: runs through a set of functions"]),
        (r"\E n \in SUBSET Node : TRUE", ["Op: runs through a set of sets"]),
        (r"log = [n \in 0..Many - 1 |-> 0]", ["Op: runs through 20,000 numbers"]),
        (r"log \in [Node -> SUBSET Node]", []),
    ],
)  # fmt: skip
def test_what_sany_and_tlc_refuse_is_found_without_them(body: str, said: list[str]) -> None:
    assert lint(LINTED % body, "CONSTANTS\n    Many = 20000\n") == said


def test_what_only_makes_sense_after_a_disjunction_is_printed_as_a_condition() -> None:
    class Guarded(Model):
        Node = Sort(2)
        Entry = Record(epoch=Range(0, 1))
        log = Var(Fn(Node, Seq(Seq(Range(0, 1), 2), 2)))
        known = Var(Option(Entry), init=None)
        value = Var(Bool, init=False)

        @action
        def go(s, n: Node) -> None:  # type: ignore[no-untyped-def, valid-type]
            when(Or(size(s.log[n]) == 0, s.log[n][0][0] == 1))
            when(Or(is_none(s.known), get(s.known).epoch == 1), Or(s.value, n == n))
            when(Exists(s.Node, lambda n: s.log[n] == s.log[n]))
            s.value = True

    text = module_text(Guarded())
    assert "(IF (Len(log[n]) = 0) THEN TRUE ELSE" in text
    assert "(IF (known = None) THEN TRUE ELSE" in text
    assert "(value \\/ (n = n))" in text
    assert "\\E n2 \\in Node" in text
    assert lint(text, config_text(Guarded())) == []


@needs_tlc
@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_tlc_finds_the_same_states(name: str) -> None:
    found = compare(name, JAR)
    assert found.ours == found.theirs
    assert not found.theirs.violated


@needs_tlc
@pytest.mark.nightly
@pytest.mark.parametrize("variant", ["kip-279", "kip-320"])
def test_tlc_finds_the_published_counts_of_kafka(variant: str) -> None:
    found = run_tlc(Kafka(variant=variant, Replicas=2, LogSize=3, Records=3, Epochs=3), JAR)
    assert found.distinct_states == {"kip-279": 225_761, "kip-320": 120_879}[variant]


@needs_tlc
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "variant", "bounds", "invariant"),
    [
        ("twophase", "impatient", {}, "AllOrNothing"),
        ("isr", "hw-over-shrunk-isr", {"nodes": 2, "epochs": 1, "changes": 1}, "LeaderCandidateCompleteness"),
        ("raft", "half-quorum", {"nodes": 2, "terms": 1, "appends": 0, "restarts": 0}, "ElectionSafety"),
    ],
)
def test_tlc_finds_the_same_violation(
    name: str, variant: str, bounds: dict[str, int], invariant: str
) -> None:
    assert run_tlc(build(name, variant, bounds), JAR).violated == invariant


def test_a_name_that_tla_has_already_is_refused() -> None:
    class Taken(Model):
        value = Var(Bool, init=False)

        @action
        def Append(s) -> None:  # type: ignore[no-untyped-def]
            s.value = True

    with pytest.raises(SpecError, match="Append is a name of TLA"):
        module_text(Taken())


def test_functions_within_functions_use_different_variables() -> None:
    class Nested(Model):
        Node = Sort(2)
        value = Var(Fn(Node, Fn(Node, Bool)), init=False)

    assert re.search(r"\[x \\in Node \|-> \[x\d \\in Node \|-> FALSE\]\]", module_text(Nested()))


def test_what_is_printed_does_not_depend_on_what_was_read_before() -> None:
    """Two ranges of one size, with bounds of different names: as what is gone through, and within a value. In
    the module of priority groups stood a constant of batches, which it has not.
    """

    class First(Model):
        Runs = Constant(3)
        Numbers = Range(1, Runs)
        value = Var(Bool, init=False)
        kept = Var(Fn(Numbers, Set(Numbers)))

        @invariant
        def Holds(s):  # type: ignore[no-untyped-def]
            return Forall(s.Numbers, lambda n: n > 0)

    class Second(Model):
        Length = Constant(3)
        Numbers = Range(1, Length)
        value = Var(Bool, init=False)
        kept = Var(Fn(Numbers, Set(Numbers)))

        @invariant
        def Holds(s):  # type: ignore[no-untyped-def]
            return Forall(s.Numbers, lambda n: n > 0)

    for model, name, other in ((First(), "Runs", "Length"), (Second(), "Length", "Runs")):
        text = module_text(model)
        assert text.count(f"1..{name}") >= 3 and f"1..{other}" not in text
