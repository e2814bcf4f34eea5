"""Base of everything that is encoded: peer messages, client messages and metadata commands."""

from __future__ import annotations

import msgspec


class Struct(msgspec.Struct, tag=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Base of peer messages and commands: compact, tagged by class name, and no matter for the collector of
    cycles, since they hold nothing that could hold them.

    V1: a surplus element is refused, not skipped: it would be a field that is accepted and then ignored, and
    what nobody reads could nest without end.
    """
