"""Simulated clients, and what they did."""
