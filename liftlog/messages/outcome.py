"""What one step of a node came to: the effects, and what else whoever watches may want to know of it.

A node does not know who looks at its outcomes. What a step has changed is said here, so that a watcher looks
at that alone, and at the node's state for what it has become.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from liftlog.messages.effects import Effect
from liftlog.types import PartitionId


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """Of the start of a node, or of one step."""

    effects: list[Effect]
    """To be carried out in this order."""
    touched: Sequence[PartitionId] = ()
    """Replicas that were changed, made or removed, or about which the metadata says something new."""
    group_log_from: int = 0
    """The lowest index of the metadata group's log that was written or cut; 0: none was."""
