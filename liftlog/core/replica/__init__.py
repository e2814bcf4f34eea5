"""ISR replication of one partition; `state.py` opens with the theory."""
