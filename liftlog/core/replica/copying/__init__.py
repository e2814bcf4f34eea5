"""What a leader writes that nobody has published to it: of other streams (R28, R29), the metadata (N12)."""
