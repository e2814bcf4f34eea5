"""Bounds on what a message may say of itself."""

from __future__ import annotations

TTL_LEAST_MS, TTL_MOST_MS = 1000, (2**63 - 1) // 1_000_000
"""R24: for how long a message may say that it is to stay: no more than a duration of Go's can say."""
ID_BYTES_MAX = 256
"""L7: a message id may have so many bytes: a leader keeps ids in memory, and bounds their number."""
PRODUCER_BYTES_MAX = 256
"""L2: the name of a producer may have so many."""
PRODUCERS_MAX = 10_000
"""L2: so many producers a partition remembers, or as many as ids, if that is less."""
