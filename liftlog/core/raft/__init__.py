"""Raft for the metadata group: `raft.py` opens with the theory and the rules."""
