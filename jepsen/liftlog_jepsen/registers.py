"""Each subject of a log as a register with compare-and-set, to be judged as an object is (objects/).

Who publishes on a subject writes its register; who expects the last message of it to have an offset compares
with the message that lies there; who is refused has read which one is there. The log itself, as it was read
when everything was over, says which message has which offset, and what the register holds in the end. A
message that nobody was told of, and that is not in the log, is left out: it did not happen.

    files = write_registers(folder, registers_of(sends, there))
    liftlog jepsen check --model cas-register --initial nil folder/*.edn
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from liftlog_jepsen.events import INFO, OK, Operation


class SubjectSend(NamedTuple):
    """One message. `expected`, `told`: offsets, -1 for none; None: not said. `end`: None = nobody answered.

    `outcome`: ok or info; what failed did not happen, and is not to be told. `compared`: the subject that
    `expected` and `told` are about.
    """

    value: str
    subject: str
    start: int
    end: int | None
    outcome: str
    expected: int | None = None
    told: int | None = None
    compared: str = ""


class LogRecord(NamedTuple):
    """What lies at one offset."""

    subject: str
    value: str


def registers_of(
    sends: Iterable[SubjectSend], there: Mapping[int, LogRecord]
) -> dict[str, list[Operation]]:
    """By subject, what was done to its register. Values are unique in the log."""
    found: dict[str, list[Operation]] = {}
    stored = {record.value: record.subject for record in there.values()}
    over = 0
    for send in sends:
        over = max(over, send.start, send.end or 0)
        compared = send.compared or send.subject
        subject = stored.get(send.value, send.subject if send.outcome == OK else "")
        if send.told is not None and send.end is not None:
            value = _value_at(there, send.told, compared)
            _add(found, compared, "read", None, value, OK, send.start, send.end)
        if not subject:
            continue
        end = send.end if send.outcome == OK else None
        if send.expected is not None and compared == subject:
            pair = [_value_at(there, send.expected, subject), send.value]
            _add(found, subject, "cas", pair, pair, send.outcome, send.start, end)
        else:
            _add(found, subject, "write", send.value, send.value, send.outcome, send.start, end)
    last = {record.subject: record.value for _, record in sorted(there.items())}
    for subject in found:
        _add(found, subject, "read", None, last.get(subject), OK, over + 1, over + 2)
    return found


def _value_at(there: Mapping[int, LogRecord], offset: int, subject: str) -> str | None:
    """The message of a subject that lies there; of one that does not, a name that nothing has."""
    if offset < 0:
        return None
    record = there.get(offset)
    return record.value if record is not None and record.subject == subject else f"nothing at {offset}"


def _add(
    found: dict[str, list[Operation]],
    subject: str,
    f: str,
    argument: Any,
    result: Any,
    outcome: str,
    start: int,
    end: int | None,
) -> None:
    """Each is a process of its own: who gave up on an answer may have something new under way."""
    its = found.setdefault(subject, [])
    its.append(Operation(len(its), len(its), f, argument, result, outcome, start, end))


def edn_lines(operations: Iterable[Operation]) -> str:
    """The history of one register, a line for each event. What began and ended at one time overlaps."""
    rows: list[tuple[int, int, str]] = []
    for one in operations:
        asked = f"{{:process {one.process}, :type :invoke, :f :{one.f}, :value {_edn(one.argument)}}}"
        rows.append((one.start, 0, asked))
        if one.end is not None and one.outcome != INFO:
            told = f"{{:process {one.process}, :type :ok, :f :{one.f}, :value {_edn(one.result)}}}"
            rows.append((one.end, 1, told))
    return "".join(f"{line}\n" for _, _, line in sorted(rows))


def _edn(value: Any) -> str:
    if value is None:
        return "nil"
    if isinstance(value, list):
        return f"[{' '.join(map(_edn, value))}]"
    return json.dumps(value)


def write_registers(folder: Path, registers: Mapping[str, Iterable[Operation]]) -> list[Path]:
    """A file for each, named after its number in the order of subjects."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number, (_, operations) in enumerate(sorted(registers.items())):
        path = folder / f"register-{number}.edn"
        path.write_text(edn_lines(operations))
        files.append(path)
    return files
