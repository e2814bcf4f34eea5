"""How a node calls a replica: what is broken in one ends that one alone (V5)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from liftlog.core.context import Context
from liftlog.core.replica.state.log import LogState
from liftlog.types import GroupInDoubt, InvariantViolation


class Contained(Protocol):
    """What is called, and can end alone."""

    ctx: Context
    log: LogState

    def end(self, begun: int, broken: str) -> None: ...


Called = TypeVar("Called", bound=Contained)
Arguments = ParamSpec("Arguments")


def entry(
    handle: Callable[Concatenate[Called, Arguments], None],
) -> Callable[Concatenate[Called, Arguments], None]:
    """What a node calls: a promise of the state that is broken in it may end this replica alone (V5)."""

    @wraps(handle)
    def guarded(replica: Called, /, *args: Arguments.args, **named: Arguments.kwargs) -> None:
        if replica.log.broken:
            return
        begun = len(replica.ctx.effects)
        try:
            handle(replica, *args, **named)
        except InvariantViolation as error:
            if not replica.ctx.contains or isinstance(error, GroupInDoubt):
                raise
            replica.end(begun, str(error))

    return guarded
