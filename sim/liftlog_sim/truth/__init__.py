"""What is known of a run for sure, and what must always hold of it."""
