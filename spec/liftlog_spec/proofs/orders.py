"""Axioms that several models share, as plain functions."""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


def is_total_order(kind, le):
    """`le` orders a sort: terms, epochs, offsets are nothing more."""
    return And(
        Forall(kind, lambda a: le[a][a]),
        Forall(kind, kind, lambda a, b: Implies(And(le[a][b], le[b][a]), a == b)),
        Forall(kind, kind, kind, lambda a, b, c: Implies(And(le[a][b], le[b][c]), le[a][c])),
        Forall(kind, kind, lambda a, b: Or(le[a][b], le[b][a])),
    )


def any_two_meet(quorum, node, within):
    """Any two quorums have a member in common: all that proofs need to know of majorities."""
    return Forall(quorum, quorum, lambda q, r: Exists(node, lambda n: And(within[q][n], within[r][n])))
