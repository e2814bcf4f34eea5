"""What a client with a name needs in NATS, as permissions that nats-server reads.

It is little: to ask where nodes are, to publish to its own subjects and what its groups and cursors write.
Everything else it asks nodes over TCP, and they know its rights.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from liftlog.groups.streams import CURSORS, GROUPS
from liftlog.rights.client import ClientRights
from liftlog.rights.names import is_wide
from liftlog.types import LiftlogError

INBOX = "_INBOX.>"


def permissions(clients: Sequence[ClientRights], cluster: str) -> str:
    """A block for each client, to be named as `permissions: $client_NAME`. Raises LiftlogError."""
    blocks = []
    for client in clients:
        for subject in client.subjects:
            if is_wide(subject):
                raise LiftlogError(
                    f"client '{client.name}': subjects = {subject!r} cannot be said to NATS without giving "
                    "$LIFTLOG.>, and so all administration: begin each with a name"
                )
        publish = json.dumps([f"$LIFTLOG.{cluster}.API.CLUSTER.STATUS", *client.subjects, *_kept(client)])
        blocks.append(
            f"client_{client.name}: {{\n"
            f"  publish: {{ allow: {publish} }}\n"
            f'  subscribe: {{ allow: ["{INBOX}"] }}\n'
            "}\n"
        )
    return "".join(blocks)


def _kept(client: ClientRights) -> list[str]:
    """Where its groups and cursors are written."""
    subjects = []
    for group in client.groups:
        if "*" in group and group != "*":
            raise LiftlogError(
                f"client '{client.name}': groups = {group!r} cannot be said to NATS, which matches whole "
                "tokens alone: name the groups one by one, or all with '*'"
            )
        subjects += [f"{GROUPS}.{group}", f"{CURSORS}.{group}.>"]
    return subjects
