"""The parts of `liftlog demo`: input, publisher, cluster, consumer, processor, read-back, history, report."""
