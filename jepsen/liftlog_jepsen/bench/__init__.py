"""Measures the checks on generated histories: time, CPU, memory, and whether they find what is there."""
