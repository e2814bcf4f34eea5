"""Which format a file has, by its beginning."""

from __future__ import annotations

import re

from liftlog_jepsen.events import BadHistory

HEAD_BYTES = 16 << 10
"""How much of a file is looked at."""
OWN = "own"

_TYPE = "(?:invoke|ok|fail|info)"
_RECORD = r"(?:#[\w.]+\s*)?\{"
_END = r"[ \t\r]*(?:\n|\Z)"
_FORMATS = (
    (r'\{\s*"record"\s*:\s*"history"', OWN),
    (r'\{(?=[^\n]*"(?:Start|Finish)")(?=[^\n]*"client_id")', "s2-jsonl"),
    (r'\[?\s*\{[^}]*"ClientId"', "porcupine-json"),
    (rf'\[?\s*\{{(?:[^{{}}]|\{{[^{{}}]*\}})*?"type"\s*:\s*"{_TYPE}"', "json"),
    (rf"{_RECORD}[^{{}}\"]*:f\s+:(?:get|put|append)\b[^{{}}\"]*:key\b", "kv-edn"),
    (rf'{_RECORD}[^"]*?:type\b', "edn-lines"),
    (rf'[\[(](?:\s|;[^\n]*+)*+{_RECORD}[^"]*?:type\b', "edn-vector"),
    (rf"[rw]\((?:\s*-?\d+\s*,){{3}}\s*-?\d+\s*\){_END}", "sessions-txt"),
    (r"\[[^\]\s]+\]\s+call\s", "limo-txt"),
    (rf"(?:[^\n]*\n)*?[^\n]*\bjepsen\.util\s+-\s+(?:\d+|:[\w.-]+)\s+:{_TYPE}\s", "jepsen-log"),
    (rf"(?:\d+|:[\w.-]+)\s+:{_TYPE}\s", "jepsen-log"),
    (rf"[a-zA-Z]\w*(?:[ \t]+\S+){{1,2}}[ \t]+\d+[ \t]+\d+{_END}", "interval-txt"),
    (rf"\d+[ \t]+\d+[ \t]+\d+[ \t]+[a-zA-Z]\w*(?:[ \t]+\S+)*{_END}", "interval-txt"),
    (rf"\d+[ \t]+[a-zA-Z]\w*(?:[ \t]+\S+)+[ \t]+\d+[ \t]+\d+{_END}", "interval-txt"),
)
_COMMENT = re.compile(r"\s*(?:;|#\s|#$|//)|\s*$")


def recognize(head: str, source: str, known: tuple[str, ...]) -> str:
    """The name of the one format that `head` begins like; `known` are the names that a message offers.

    Raises BadHistory if it is like none, and for our own format, which is checked in another way.
    """
    lines = head.splitlines()
    while lines and _COMMENT.match(lines[0]):
        lines.pop(0)
    body = "\n".join(lines).lstrip()
    for pattern, name in _FORMATS:
        if re.match(pattern, body):
            if name == OWN:
                raise BadHistory(f"{source} is a history in our own JSON lines: check it without --format")
            return name
    raise BadHistory(f"{source}: cannot tell its format; give --format, one of {', '.join(known)}")
