"""Configurations of the metadata group, as entries of its log tell them and as the model holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

Disks = tuple[tuple[int, str], ...]
"""Nodes, each with the id of the disk that is meant."""
Config = tuple[int, int]
"""The model's: voters and learners, each a set of servers as a bit mask."""


class ToldMembers(NamedTuple):
    """What an entry says: who votes and who learns from there on."""

    voters: Disks
    learners: Disks

    def held(self, server: Callable[[int, str], int]) -> Config:
        """As the model holds it. `server`: that of a node's disk."""
        return _mask(self.voters, server), _mask(self.learners, server)


def _mask(disks: Disks, server: Callable[[int, str], int]) -> int:
    mask = 0
    for node, disk in disks:
        mask |= 1 << server(node, disk)
    return mask


def change_between(now: Config, then: Config) -> tuple[str, int] | None:
    """The model's action that makes one configuration of the other, and whom it is about; None if it takes
    more than one, or there is none.
    """
    differing = (now[0] ^ then[0]) | (now[1] ^ then[1])
    if not differing or differing & (differing - 1):
        return None
    voted, learned = bool(differing & now[0]), bool(differing & now[1])
    votes, learns = bool(differing & then[0]), bool(differing & then[1])
    match voted, learned, votes, learns:
        case False, False, False, True:
            action = "Add"
        case False, True, True, False:
            action = "Promote"
        case _, _, False, False:
            action = "Remove"
        case _:
            return None
    return action, differing.bit_length() - 1


def config_text(config: Config, name: Callable[[int], str]) -> str:
    """For people."""
    voters, learners = (
        ", ".join(name(server) for server in range(mask.bit_length()) if mask >> server & 1)
        for mask in config
    )
    return f"voters {voters or 'nobody'}" + (f", learners {learners}" if learners else "")


def is_named(server: int, changes: Iterable[tuple[int, int, Config]], log: tuple[int, ...]) -> bool:
    """Whether a change in this log names the server. `changes`: the model's, (index, term, configuration)."""
    return any(
        index <= len(log) and log[index - 1] == term and (voters | learners) >> server & 1
        for index, term, (voters, learners) in changes
    )
