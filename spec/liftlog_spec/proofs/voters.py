"""Sets of voters as bits, for instances of proofs that know no more of them than that some quorums meet."""

from __future__ import annotations

SETS = 7
"""Of three nodes, without the empty one: the number of quorums, and of configurations at a time."""


def voters_of(config: int) -> int:
    """Configurations of three nodes are all sets over and over, so that the same voters can come again."""
    return config % SETS + 1


def is_quorum(members: int, voters: int) -> bool:
    """More than half of the voters."""
    return 2 * (members & voters).bit_count() > voters.bit_count()


def are_neighbours(one: int, other: int) -> bool:
    """At most one voter apart."""
    return (one ^ other).bit_count() <= 1
