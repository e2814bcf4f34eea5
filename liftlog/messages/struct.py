"""Base of everything that is encoded: peer messages, client messages and metadata commands."""

from __future__ import annotations

import msgspec


class Struct(msgspec.Struct, tag=True, array_like=True):
    """Base of peer messages and commands: compact, tagged by class name."""
