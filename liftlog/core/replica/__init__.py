"""ISR replication of one partition; `state/log.py` opens with the theory, `replica.py` routes."""
