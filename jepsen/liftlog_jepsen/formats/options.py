"""Conventions that change verdicts, and what a format is.

Histories do not say how they are meant: whether a register starts as 0 or as nothing, whether a failed
compare-and-set shows that the value differed. Each format has its usual answers; the caller may give others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from liftlog_jepsen.events import CLOSED, HALF_OPEN, INTERVALS, BadHistory, Event
from liftlog_jepsen.formats import edn

OBSERVED, ANY, DROPPED = "observed", "any", "dropped"
NIL_READS = (OBSERVED, ANY)
FAIL_CASES = (OBSERVED, DROPPED)


class Options(NamedTuple):
    """How a history is meant. `Options()` suits Jepsen's own checkers.

    initial: the value of a register or key before anybody wrote; None = absent. Collections, counters and
    locks start empty or free, whatever a format's default for registers is.
    nil_read: a read of nil that is `ok` has `observed` that nothing is there, or `any` state allows it, as
    Knossos has it.
    fail_cas: a failed compare-and-set has `observed` another value, or did not happen and is `dropped`.
    intervals: at equal times, operations overlap (`closed`) or follow each other (`half-open`); only for
    formats that give times instead of an order.
    consistency_model: what transactions are held against; None = the check's own default.
    """

    initial: Any = None
    nil_read: str = ANY
    fail_cas: str = DROPPED
    intervals: str = CLOSED
    consistency_model: str | None = None


class Format(NamedTuple):
    """A way to write histories. `read(text, source, options)` gives events; `source` names it in errors.

    timeless: the order of events is that of each process alone; nothing says what ended before what began.
    """

    name: str
    words: str
    options: Options
    read: Callable[[str, str, Options], list[Event]]
    timeless: bool = False


def override(
    options: Options,
    initial: str | None = None,
    nil_read: str | None = None,
    fail_cas: str | None = None,
    intervals: str | None = None,
    consistency_model: str | None = None,
) -> Options:
    """`options` with what a command line says instead, None = not said. `initial` is EDN: 0, nil, "text".

    Raises BadHistory for a choice that does not exist.
    """
    for name, given, allowed in (
        ("nil-read", nil_read, NIL_READS),
        ("fail-cas", fail_cas, FAIL_CASES),
        ("intervals", intervals, INTERVALS),
    ):
        if given is not None and given not in allowed:
            raise BadHistory(f"--{name} {given}: give one of {', '.join(allowed)}")
    changes: dict[str, Any] = {
        "nil_read": nil_read,
        "fail_cas": fail_cas,
        "intervals": intervals,
        "consistency_model": consistency_model,
    }
    changed = options._replace(**{name: given for name, given in changes.items() if given is not None})
    return changed if initial is None else changed._replace(initial=edn.read(initial, f"--initial {initial}"))


JEPSEN = Options(initial=0)
JEPSEN_LOG = Options(nil_read=OBSERVED, fail_cas=OBSERVED)
KEY_VALUE = Options(initial="", nil_read=OBSERVED)
LIMO = Options(nil_read=OBSERVED)
INTERVAL = Options(nil_read=OBSERVED, intervals=HALF_OPEN)
PORCUPINE = Options(nil_read=OBSERVED)
SESSIONS = Options(consistency_model="strong-session-serializable")
