"""What one client may do, as the file of clients says it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from liftlog.groups.streams import CURSORS, GROUPS
from liftlog.rights.names import covers, is_reserved, name_matches, text_matches

READ, CONSUME, ADMINISTER, OPERATE = "read", "consume", "administer", "operate"
BY_STREAM = (READ, CONSUME, ADMINISTER)
"""Rights that are given by patterns of streams' names."""


class ClientRights(msgspec.Struct, frozen=True):
    """Of one client. The fields, but for the first and the last, are keys of its table in the file."""

    name: str
    read: tuple[str, ...] = ()
    """Of these streams: records, offsets, questions about subjects."""
    consume: tuple[str, ...] = ()
    """Of these streams: durable consumers, all of them, and the messages that they are given."""
    administer: tuple[str, ...] = ()
    """These streams: created, altered, deleted, purged, their messages deleted, leaders and copies chosen."""
    groups: tuple[str, ...] = ()
    """What groups and cursors of these names have in the streams that the client library keeps them in."""
    subjects: tuple[str, ...] = ()
    """Patterns of NATS: where streams that it administers may listen, and its consumers' dead letters go."""
    operate: bool = False
    """Nodes, votes, the controller; and to see all streams, but not what is in them."""
    everything: bool = False
    """No right is asked for: who has the clients' secret that all share."""

    def allowing(self, right: str, stream: str) -> str | None:
        """The pattern that gives a right over a stream; None: there is none."""
        patterns: tuple[str, ...] = getattr(self, right)
        return next((pattern for pattern in patterns if name_matches(pattern, stream)), None)

    def may(self, right: str, stream: str) -> bool:
        return self.everything or self.allowing(right, stream) is not None

    def sees(self, stream: str) -> bool:
        """Whether it is told that there is such a stream, and how that is."""
        if self.everything or self.operate or any(self.may(right, stream) for right in BY_STREAM):
            return True
        return bool(self.groups) and stream in (CURSORS, GROUPS)

    def has_subject(self, subject: str) -> bool:
        """Whether a subject, or all that a pattern matches, is among its own; what is reserved never is."""
        if self.everything:
            return True
        return not is_reserved(subject) and any(covers(own, subject) for own in self.subjects)

    def may_read_part(self, stream: str, patterns: Iterable[str]) -> bool:
        """Whether these subjects of an internal stream are those of its groups and cursors, and nothing else
        is.
        """
        asked = [pattern.split(".") for pattern in patterns]
        return (
            stream in (CURSORS, GROUPS)
            and bool(asked)
            and all(
                len(tokens) > 1
                and tokens[0] == stream
                and any(text_matches(group, tokens[1]) for group in self.groups)
                for tokens in asked
            )
        )


EVERYTHING = ClientRights("", everything=True)
"""Of whoever has the clients' secret, or where none is asked for."""
