"""Which commands of others are not to be believed (V2, V5)."""

from __future__ import annotations

from liftlog.core.metadata.commands import CONTROLLERS, author, decode_command
from liftlog.core.raft.members import decode_members, is_change
from liftlog.messages import AppendRequest, Forward, PeerMessage
from liftlog.types import NO_NODE

CARRY_COMMANDS = frozenset((Forward, AppendRequest))


def foreign_command(sender: int, message: PeerMessage) -> str:
    """V2, V5: why the commands in a message are not to be believed. Raises InputRefused for what is none."""
    if isinstance(message, Forward):
        command = decode_command(message.command)
        if isinstance(command, CONTROLLERS):
            return f"a {type(command).__name__}, which the controller alone says"
        named = author(command)
        return f"a command of node {named}" if named not in (NO_NODE, sender) else ""
    if isinstance(message, AppendRequest):
        for entry in message.entries:
            if is_change(entry.data):
                decode_members(entry.data)
            elif entry.data:
                decode_command(entry.data)
    return ""
