"""The streams in which the client library keeps its own: a subject for each cursor and each group."""

from __future__ import annotations

from liftlog.types import StreamConfig

INTERNAL = "__"
"""What the names of streams begin with that the client makes for itself."""
CURSORS, GROUPS = "__cursors", "__groups"
SEGMENT_BYTES = 4 * 1024 * 1024


def register_stream(name: str) -> StreamConfig:
    """As whoever first writes there makes it: of the cluster's default number of copies, compacted."""
    return StreamConfig(
        name, f"{name}.>", compact=True, segment_bytes=SEGMENT_BYTES, dirty_ratio_percent=50
    )
