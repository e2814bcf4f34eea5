"""Proofs that a model's invariants hold for any number of nodes, terms and records, by induction with z3.

Only this package may import z3. How to read and write proofs: docs/spec-proofs.md.
"""
