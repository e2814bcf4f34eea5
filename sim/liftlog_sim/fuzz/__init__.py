"""Anything, to all that faces a network."""
