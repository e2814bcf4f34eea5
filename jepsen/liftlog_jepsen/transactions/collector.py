"""Python's collector of reference cycles, held back while a history is judged."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for unreachable cycles of objects within the block, or within the function decorated with it.

    A check makes millions of small objects and no such cycles, but each search would walk all of them again:
    half of the time. What reference counts free is freed as ever.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
