"""Every step of a running world held against the models."""
