"""Which anomalies shall be planted, as the command line says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from liftlog.types import LiftlogError
from liftlog_jepsen.generate.anomalies import CYCLES, PLANTABLE

TRAFFIC = "traffic"
PLANTABLE_AMID = (
    "inconsistent-offsets",
    "duplicate",
    "lost-write",
    "G1a",
    "phantom",
    "realtime-order",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "poll-skip",
    "int-poll-skip",
    "reused-value",
)
"""What can be planted amid the traffic (`liftlog_jepsen.generate.positions`); all else gets logs of its
own."""
ALL = "all"
_WANTED = re.compile(rf"(?P<name>[\w-]+?)(?P<amid>@{TRAFFIC})?(?::(?P<number>\d+))?")


class Wanted(NamedTuple):
    """So many anomalies of one kind; amid the traffic, or on logs of their own."""

    anomaly: str
    number: int = 1
    amid: bool = False


def parse_wanted(texts: Sequence[str]) -> list[Wanted]:
    """`NAME`, `NAME:COUNT`, `NAME@traffic:COUNT`; the name may be `all`, of which each kind is planted.

    Raises LiftlogError with what there is.
    """
    wanted = []
    for text in texts:
        found = _WANTED.fullmatch(text)
        if found is None:
            raise LiftlogError(f"--plant {text}: write NAME, NAME:COUNT or NAME@{TRAFFIC}:COUNT")
        amid, number = found["amid"] is not None, int(found["number"] or 1)
        known = PLANTABLE_AMID if amid else PLANTABLE + CYCLES
        names = (PLANTABLE_AMID if amid else PLANTABLE) if found["name"] == ALL else (found["name"],)
        if names[0] not in known:
            where = " amid the traffic" if amid else ""
            raise LiftlogError(
                f"--plant {text}: there is no such anomaly{where}; there are {', '.join(known)}"
            )
        wanted += [Wanted(name, number, amid) for name in names]
    return wanted
