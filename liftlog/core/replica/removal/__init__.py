"""What a leader does for the second log of a partition, and what that says to be gone (R21)."""
