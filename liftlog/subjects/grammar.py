"""The grammar of subjects, as in NATS: tokens joined by dots, and patterns with wildcards.

In a pattern `*` stands for one token, and `>`, as the last token, for one or more. A token that merely
contains one of these characters stands for itself; no stream of ours is attached to such a subject.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.types import LiftlogError

SEPARATOR = "."
ANY = "*"
"""One token, whichever."""
REST = ">"
"""One or more tokens, whichever: the last token of a pattern."""
SUBJECT_LENGTH_MAX = 255


class PatternRefused(LiftlogError):
    """A structure was handed a pattern that means nothing."""


def subject_problem(subject: str) -> str:
    """Why `subject` is not a valid NATS subscription subject; empty if it is one."""
    if not subject or len(subject) > SUBJECT_LENGTH_MAX:
        return f"it must have 1 to {SUBJECT_LENGTH_MAX} characters"
    tokens = subject.split(SEPARATOR)
    for position, token in enumerate(tokens):
        if not token:
            return "it has an empty token"
        if any(ch.isspace() or not ch.isprintable() for ch in token):
            return "it contains white space or a control character"
        if token == REST:
            if position != len(tokens) - 1:
                return "'>' must be its last token"
        elif token != ANY and (ANY in token or REST in token):
            return "'*' and '>' must stand alone in a token"
    return ""


def publish_problem(subject: str) -> str:
    """Why nobody can publish to `subject`; empty if one can.

    A NATS server takes a message to `orders.*` or `orders..new`, and hands it to whoever listens on such a
    pattern, or to nobody.
    """
    tokens = subject.split(SEPARATOR)
    if "" in tokens:
        return "it has an empty token" if subject else "it is empty"
    if any(ch.isspace() or not ch.isprintable() for ch in subject):
        return "it contains white space, a control character or bytes that are no UTF-8"
    if ANY in tokens or REST in tokens:
        return "it has a wildcard, which is for those who subscribe: name a literal subject"
    return ""


def pattern_tokens(pattern: str) -> list[str]:
    """The tokens of a pattern that a structure can take. Raises PatternRefused for one that means nothing.

    It asks for what matching needs, and for nothing else that `subject_problem` does: it is called at each
    subscription.
    """
    tokens = pattern.split(SEPARATOR)
    if "" in tokens:
        raise PatternRefused(f"{pattern!r} is no pattern: it has an empty token; put a name or '*' there")
    if REST in tokens and tokens.index(REST) != len(tokens) - 1:
        raise PatternRefused(f"{pattern!r} is no pattern: '>' must be its last token; write '*' before it")
    return tokens


def is_literal(tokens: Sequence[str]) -> bool:
    """Whether a pattern of these tokens matches one subject only: itself."""
    return ANY not in tokens and (not tokens or tokens[-1] != REST)


def tokens_match(pattern: Sequence[str], subject: Sequence[str]) -> bool:
    """`matches`, of what is split already."""
    for position, token in enumerate(pattern):
        if token == REST:
            return len(subject) > position
        if position >= len(subject) or token not in (ANY, subject[position]):
            return False
    return len(pattern) == len(subject)


def matches(pattern: str, subject: str) -> bool:
    """Whether a literal `subject` is matched by `pattern`."""
    return tokens_match(pattern.split(SEPARATOR), subject.split(SEPARATOR))


def overlap(first: str, second: str) -> bool:
    """Whether some literal subject is matched by both patterns."""
    left, right = first.split(SEPARATOR), second.split(SEPARATOR)
    for position in range(max(len(left), len(right))):
        if position >= len(left) or position >= len(right):
            return False
        if left[position] == REST or right[position] == REST:
            return True
        if ANY not in (left[position], right[position]) and left[position] != right[position]:
            return False
    return True
