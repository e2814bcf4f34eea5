"""Durable consumers of a partition, without its logs: what entries say, and what follows from them (K2)."""
