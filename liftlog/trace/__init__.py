"""The protocol trace: what the steps of nodes did, as lines that are held against the specification."""
