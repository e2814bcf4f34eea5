"""Explicit-state checking: every reachable state of a bounded model, or random walks through a larger one."""
