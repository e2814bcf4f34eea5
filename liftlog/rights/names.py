"""Patterns of names, and subjects that lie within others.

Streams' names are one token, so that a pattern is not one of NATS: `*` stands for any characters, none too,
and everything else for itself. What the client library keeps in streams of its own begins with `__`; such a
name is matched by a pattern only that begins so, too.
"""

from __future__ import annotations

import re

from liftlog.groups.streams import INTERNAL
from liftlog.messages.copying import AT
from liftlog.subjects.grammar import ANY, REST

_PATTERN = re.compile(r"[A-Za-z0-9_\-*]{1,64}(?:@[A-Za-z0-9_\-*]{1,64})?")


def pattern_problem(pattern: str) -> str:
    """Why this is no pattern of names; empty if it is one."""
    if _PATTERN.fullmatch(pattern):
        return ""
    return "use letters, digits, '_', '-', and '*' for any characters; STREAM@CLUSTER for another cluster's"


def name_matches(pattern: str, name: str) -> bool:
    """Whether a stream of this name, here or STREAM@CLUSTER, is meant by a good pattern."""
    if name.startswith(INTERNAL) and not pattern.startswith(INTERNAL):
        return False
    of, at, where = pattern.partition(AT)
    stream, there, cluster = name.partition(AT)
    return at == there and text_matches(of, stream) and text_matches(where, cluster)


def text_matches(pattern: str, text: str) -> bool:
    """`*` stands for any characters. Without backtracking: what stands between stars is found in turn."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, last = rest
    if not text.startswith(first):
        return False
    place = len(first)
    for part in middle:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return len(text) - len(last) >= place and text.endswith(last)


def is_reserved(subject: str) -> bool:
    """Whether a subject is one of NATS, of an inbox, or of what liftlog itself has: nobody's own."""
    first = subject.partition(".")[0]
    return first.startswith(("$", INTERNAL)) or first == "_INBOX"


def is_wide(pattern: str) -> bool:
    """Whether a pattern of NATS matches reserved subjects, too: it begins with a wildcard."""
    return pattern.partition(".")[0] in (ANY, REST)


def covers(wide: str, narrow: str) -> bool:
    """Whether every subject that the pattern `narrow` of NATS matches is matched by `wide`, too."""
    outer, inner = wide.split("."), narrow.split(".")
    for place, token in enumerate(outer):
        if place >= len(inner):
            return False
        if token == REST:
            return True
        if inner[place] == REST or token not in (ANY, inner[place]):
            return False
    return len(outer) == len(inner)
