"""Paths through a model's states, played on real nodes."""
