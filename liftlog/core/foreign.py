"""Which commands of others are not to be believed (V2, V5), or not for this process to read (U2)."""

from __future__ import annotations

from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import CONTROLLERS, Command, author, decode_command
from liftlog.core.raft.members import decode_members, is_change
from liftlog.messages import AppendRequest, Forward, PeerMessage, intake
from liftlog.types import NO_NODE, Entry

CARRY_COMMANDS = frozenset((Forward, AppendRequest))


class TooNew(intake.InputRefused):
    """A command that a later feature level has brought: no lie, and not for this process to read."""


def known_command(data: bytes, can: int) -> Command:
    """V5, U2: a command that a process knows which can this feature level. Raises InputRefused."""
    command = decode_command(data)
    if can < levels.NEWEST and levels.since(command) > can:
        raise TooNew(f"not a command: an {type(command).__name__} is of a later feature level")
    return command


def command_in(entry: Entry) -> Command | None:
    """What an entry of the own log asks for; None if it is no command, or cannot be read: who applies it says
    so.
    """
    if not entry.data or is_change(entry.data):
        return None
    try:
        return decode_command(entry.data)
    except intake.InputRefused:
        return None


def foreign_command(sender: int, message: PeerMessage, can: int) -> str:
    """V2, V5: why the commands in a message are not to be believed. Raises InputRefused for what is none."""
    if isinstance(message, Forward):
        command = known_command(message.command, can)
        if isinstance(command, CONTROLLERS):
            return f"a {type(command).__name__}, which the controller alone says"
        named = author(command)
        return f"a command of node {named}" if named not in (NO_NODE, sender) else ""
    if isinstance(message, AppendRequest):
        for entry in message.entries:
            if is_change(entry.data):
                decode_members(entry.data)
            elif entry.data:
                known_command(entry.data, can)
    return ""
