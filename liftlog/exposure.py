"""Whether a file that holds a secret lies open."""

from __future__ import annotations

import stat


def is_exposed(mode: int) -> bool:
    """By the mode of a file: whether others may read or change it, or its group may change it. Its group may
    read it, as what is mounted into containers needs.
    """
    return bool(mode & (stat.S_IRWXO | stat.S_IWGRP))
