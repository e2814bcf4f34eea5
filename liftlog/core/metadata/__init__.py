"""The metadata state machine: `metadata.py` applies commands to the records of `records.py`."""
