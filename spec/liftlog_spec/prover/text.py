"""What `liftlog spec prove` prints."""

from __future__ import annotations

from liftlog_spec.proofs import Proof
from liftlog_spec.prover.fragment import Fragment
from liftlog_spec.prover.prove import Deletion, ProofReport, UnprovedQuery


def lines_of_report(proof: Proof, report: ProofReport, show: bool) -> list[str]:
    """One line if all is well; what failed in full. `show`: also the run and what each deletion does."""
    settings = "".join(f" ({value})" for value in report.settings.values())
    verdict = "holds" if report.holds else "does not hold"
    others = [deletion for deletion in report.deletions if deletion.conjunct not in report.safety]
    needed = sum(deletion.verdict == "needed" for deletion in others)
    left_out = f", {needed} of {len(others)} others needed" if others else ""
    lines = [
        f"{report.proof}{settings}: {verdict}. {len(report.conjuncts)} conjuncts, {len(report.safety)} wanted"
        f"{left_out}; {report.queries} queries, slowest {report.slowest_seconds:.2f} s; "
        f"{report.seconds:.1f} s"
    ]
    for failure in report.failures:
        lines += ["", *_failure(failure)]
    lines += [*_run(proof, report, show), _fragment(report.fragment)]
    for deletion in report.deletions:
        lines += _deletion(deletion, show)
    return lines


def _failure(failure: UnprovedQuery) -> list[str]:
    if failure.verdict == "unknown":
        return [f"{failure.action}, {failure.conjunct}: unknown; z3 ran out of time"]
    return [f"{failure.action} does not keep {failure.conjunct}:", *_indented(failure.states)]


def _run(proof: Proof, report: ProofReport, show: bool) -> list[str]:
    if report.run == "found":
        head = f"  a run of {len(proof.scenario)} steps reaches {proof.reaches}"
        return [head + ":", *_indented(report.run_steps)] if show else [head]
    why = "z3 ran out of time" if report.run == "unknown" else "there is none"
    return [f"  no run {' '.join(proof.scenario)} reaches {proof.reaches}: {why}"]


def _fragment(fragment: Fragment) -> str:
    if not fragment.decidable:
        way = " -> ".join(fragment.cycle)
        where = f"{fragment.action}, {fragment.conjunct}"
        return f"  not in EPR: {way} in {where}; whether z3 comes to an end there is not known beforehand"
    ways = "; ".join(f"{start} -> {', '.join(ends)}" for start, ends in fragment.edges.items())
    return f"  every query is in EPR, hence decidable: {ways or 'no sort gives rise to elements of another'}"


def _deletion(deletion: Deletion, show: bool) -> list[str]:
    if deletion.verdict == "redundant":
        return [f"  {deletion.conjunct} is redundant: everything is proved without it"]
    if deletion.verdict == "unknown":
        return [f"  whether {deletion.conjunct} is needed is unknown; z3 ran out of time"]
    if deletion.failure is None or not show:
        return []
    head = (
        f"without {deletion.conjunct}, {deletion.failure.action} does not keep {deletion.failure.conjunct}:"
    )
    return ["", head, *_indented(deletion.failure.states)]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
