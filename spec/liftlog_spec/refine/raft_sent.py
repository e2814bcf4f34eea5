"""The messages that the model has sent and that may yet come: the newest of them, in however long a run."""

from __future__ import annotations

from typing import Any

Message = tuple[Any, ...]
ASK, VOTE, APPEND, ACK = range(4)
"""As they are held: the model's kinds of messages in their order."""
SENT_MAX = 20_000
"""No network holds a message back until the group has sent so many others."""


class SentMessages:
    """Each once; one that is sent again is new again."""

    __slots__ = ("_acks", "_most", "_sent")

    def __init__(self, most: int = SENT_MAX) -> None:
        self._most = most
        self._sent: dict[Message, None] = {}
        self._acks: dict[Message, Message] = {}
        """Acknowledgements by what the trace says of them: all but the term of the index."""

    def add(self, message: Message) -> None:
        self._sent.pop(message, None)
        self._sent[message] = None
        if message[0] == ACK:
            self._acks[message[:5]] = message
        if len(self._sent) > self._most:
            self._forget(next(iter(self._sent)))

    def _forget(self, message: Message) -> None:
        del self._sent[message]
        if message[0] == ACK and self._acks.get(message[:5]) == message:
            del self._acks[message[:5]]

    def known(self, message: Message) -> Message | None:
        """The message that was sent, whole; None if it was not, or too long ago."""
        if message[0] == ACK:
            return self._acks.get(message[:5])
        return message if message in self._sent else None
