"""Invariants that watch every step while a world runs."""
