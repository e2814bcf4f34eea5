"""Models as TLA+: the same definition, printed, so that TLC and people who know it can read it."""
