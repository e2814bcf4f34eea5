"""How a queue works: the settings of `BigQueue.open`, each with its bound."""

from __future__ import annotations

import msgspec

from liftlog.codec import CODECS
from liftlog.types import LiftlogError


class QueueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue works. All of it may differ from one opening to the next."""

    durability: str = "os"
    """"os": an enqueue returns when the kernel has the item; "sync": when it is durable."""
    fronts: str = "auto"
    """"auto": `flush`, `close` and now and then a dequeue save the fronts; "commit": only `commit` does."""
    repeat_max: int = 1000
    """With "auto": so many items at most are handed out a second time after a crash, per group; 1 or more."""
    codec: str = "none"
    """Compression of what is enqueued from now on: "none", "zstd" or "lz4"."""
    segment_bytes: int = 64 * 1024 * 1024
    """Size of a back file. Whole files are removed from the front."""
    item_bytes_max: int = 16 * 1024 * 1024
    groups_max: int = 1000
    window_bytes: int = 8 * 1024 * 1024
    """Bound on the memory for decoded items."""

    def check(self) -> None:
        """Raises LiftlogError for a value out of range."""
        for name, values in (
            ("durability", ("os", "sync")),
            ("fronts", ("auto", "commit")),
            ("codec", CODECS),
        ):
            if getattr(self, name) not in values:
                raise LiftlogError(f"{name} {getattr(self, name)!r} is not one of {', '.join(values)}")
        for name in ("repeat_max", "segment_bytes", "item_bytes_max", "groups_max", "window_bytes"):
            if getattr(self, name) < 1:
                raise LiftlogError(f"{name} {getattr(self, name)} is not 1 or more")
