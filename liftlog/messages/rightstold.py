"""Counters in a node's status that tell of its clients' rights (V9)."""

from __future__ import annotations

NAMED = "rights.named"
"""Shown to a client with a name, and to no other."""
CLIENTS = "rights.clients"
"""How many have a name."""
DIGEST = "rights.digest"
"""Of the secrets and rights that are in force."""
READ_AGAIN = "rights.read"
"""How often the files were read again."""
MISTAKEN = "rights.mistaken"
"""1: the files have a mistake, and older rights stay."""
REFUSALS = "rights.refused"
"""Requests that were refused for want of a right."""
