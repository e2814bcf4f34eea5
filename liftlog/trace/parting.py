"""Which effects of a step the trace speaks of: those of the metadata group, and those of replicas.

Each step is looked through once, for both kinds of lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.messages import (
    AppendLog,
    AppendReply,
    AppendRequest,
    Effect,
    Fetch,
    FetchProgress,
    FetchReply,
    InstallSnapshot,
    SaveHardState,
    Send,
    SnapshotChunk,
    TruncateLog,
    VoteReply,
    VoteRequest,
)
from liftlog.types import RAFT_LOG

OF_THE_GROUP = frozenset((VoteRequest, VoteReply, AppendRequest, AppendReply, SnapshotChunk))
OF_REPLICAS = frozenset((Fetch, FetchProgress, FetchReply))
"""Messages of which a line says what came and what was sent."""

WRITES = (SaveHardState, InstallSnapshot)

Parts = tuple[Sequence[Effect], Sequence[Effect]]
"""Of the group: its messages, and all writes that are its own. Of replicas: their messages, and appends."""


def parted(effects: Sequence[Effect]) -> Parts:
    group: tuple[Effect, ...] = ()
    replicas: tuple[Effect, ...] = ()
    for effect in effects:
        kind = type(effect)
        if kind is Send:
            message = type(effect.message)  # type: ignore[attr-defined]
            if message in OF_THE_GROUP:
                group += (effect,)
            elif message in OF_REPLICAS:
                replicas += (effect,)
        elif kind is AppendLog:
            if effect.log == RAFT_LOG:  # type: ignore[attr-defined]
                group += (effect,)
            else:
                replicas += (effect,)
        elif kind in WRITES or (kind is TruncateLog and effect.log == RAFT_LOG):  # type: ignore[attr-defined]
            group += (effect,)
    return group, replicas
