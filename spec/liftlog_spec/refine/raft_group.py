"""The model's state of the metadata group, whose servers come and go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from liftlog.trace.raft_lines import RaftState
from liftlog_spec.lang.types import Fn, Sort
from liftlog_spec.models.raft_steps import RaftSteps
from liftlog_spec.refine.raft_logs import log_of
from liftlog_spec.refine.raft_members import is_named
from liftlog_spec.refine.raft_servers import Servers
from liftlog_spec.run.stepwise import Stepper

HUGE = 10**9


@lru_cache(maxsize=64)
def _stepper(nodes: int) -> Stepper:
    """The model without bounds. Generated code is kept from one checker to the next."""
    names = [name for name in RaftSteps().bindings if name not in ("Nodes", "Learning")]
    return Stepper(RaftSteps(Nodes=nodes, **dict.fromkeys(names, HUGE)))


class ModelGroup:
    """A state of `liftlog_spec/models/raft_steps.py`. At first the voters are there and then the learners, of
    which nothing has been heard. Some places are kept by themselves, since they are looked up at each line.
    """

    def __init__(self, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
        voters = sorted(voters)
        nodes = [*voters, *sorted(learners)]
        self._servers = Servers(nodes)
        self._nodes, self._present = self._servers.nodes, self._servers.present
        self._steps = _stepper(len(nodes))
        self._place = {name: number for number, name in enumerate(self._steps.variables)}
        place = self._place
        self._messages, self._appends = place["messages"], place["appends"]
        self._term, self._vote, self._role, self._commit_at = (
            place[name] for name in ("term", "vote", "role", "commit")
        )
        self._log_at, self._barred, self._disk, self._writes = (
            place[name] for name in ("log", "barred", "disk", "writes")
        )
        self._changes = place["changes"]
        self._founders = (1 << len(voters)) - 1
        """Voters of the first configuration, as a bit mask."""
        self.state: tuple[Any, ...] = self._steps.with_values(
            self._steps.first(), {"first": (self._founders, 0)}
        )

    def _value(self, name: str, node: int) -> Any:
        return self.state[self._place[name]][node]

    def _grow(self, node: int, disk: str) -> int:
        """One more server, of which nothing has been heard."""
        server = self._servers.add(node, disk)
        self._steps = _stepper(len(self._nodes))
        first = self._steps.first()
        self.state = tuple(
            (*value, first[place][-1]) if isinstance(kind, Fn) and isinstance(kind.domain, Sort) else value
            for place, (kind, value) in enumerate(zip(self._steps.types.values(), self.state, strict=True))
        )
        return server

    def _server_of(self, node: int, disk: str) -> int:
        """The server with this disk. A member may be one whose process never began."""
        server = self._servers.of(node, disk)
        return server if server >= 0 else self._grow(node, disk)

    def _replace_founder(self, former: int, server: int) -> None:
        """Another disk was born with the cluster than it seemed."""
        self._founders ^= 1 << former | 1 << server
        self.state = self._steps.with_values(self.state, {"first": (self._founders, 0)})

    def _is_member(self, server: int) -> bool:
        """Whether a configuration names it, the first or one that is in its log."""
        if self._founders >> server & 1:
            return True
        return is_named(server, self.state[self._changes], self.state[self._log_at][server])

    def _learns(self, server: int) -> bool:
        """Whether what it acknowledges is so although it counts for nothing, since no quorum needs it."""
        return not (self._founders >> server & 1 or self.state[self._barred][server])

    def _adopt(self, node: int, memory: RaftState) -> None:
        """Put the model's node to what was found."""
        log = log_of(memory, self.state[self._place["decided"]])
        vote = self._present.get(memory.vote, -1)
        new = {
            "term": memory.term,
            "vote": vote,
            "log": log,
            "barred": memory.withheld,
            "role": 0,
            "commit": memory.commit,
            "disk": (memory.term, vote, log, memory.withheld),
            "writes": (),
            "held": (),
        }
        values = {}
        for name, value in new.items():
            old = self.state[self._place[name]]
            values[name] = (*old[:node], value, *old[node + 1 :])
        self.state = self._steps.with_values(self.state, values)
