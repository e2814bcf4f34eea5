"""Which client may do what, by a file of each node (V9, ADR 0099). No IO but reading that file."""
