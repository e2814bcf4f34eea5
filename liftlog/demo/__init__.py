"""The parts of `liftlog demo`: input, publisher, cluster, read-back, history, report."""
