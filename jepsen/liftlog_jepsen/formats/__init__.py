"""Formats of histories that other tools write: readers that give events, and the way back to EDN.

`FORMATS` are all of them by name. Each comes with the conventions that are usual where it comes from; see
`Options`. docs/history-formats.md describes them.
"""

from __future__ import annotations

from pathlib import Path

from liftlog_jepsen.events import BadHistory, Event
from liftlog_jepsen.formats import intervals, jepsen_log, limo, maps, porcupine, s2, sessions
from liftlog_jepsen.formats.detection import HEAD_BYTES, recognize
from liftlog_jepsen.formats.maps import write_edn
from liftlog_jepsen.formats.options import (
    INTERVAL,
    JEPSEN,
    JEPSEN_LOG,
    KEY_VALUE,
    LIMO,
    PORCUPINE,
    SESSIONS,
    Format,
    Options,
    override,
)

__all__ = [
    "AUTO",
    "FORMATS",
    "Format",
    "Options",
    "detect",
    "find_format",
    "override",
    "read_bytes",
    "read_history",
    "write_edn",
]

AUTO = "auto"

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        Format("edn-lines", "Jepsen's EDN, one map after the other", JEPSEN, maps.read_edn),
        Format("edn-vector", "Jepsen's EDN, one vector or list of maps", JEPSEN, maps.read_edn),
        Format("jepsen-log", "history.txt, or the operations in jepsen.log", JEPSEN_LOG, jepsen_log.read),
        Format("json", "elle-cli's JSON, an array of objects or one a line", JEPSEN, maps.read_json),
        Format("kv-edn", "Porcupine's key-value histories, maps with a :key", KEY_VALUE, maps.read_kv),
        Format("limo-txt", "LiMo's calls and returns of threads", LIMO, limo.read),
        Format("interval-txt", "begin and end of each operation, as fastlin's", INTERVAL, intervals.read),
        Format("porcupine-json", "Porcupine's Operation or Event as JSON", PORCUPINE, porcupine.read),
        Format(
            "sessions-txt",
            "sessions of transactions, as IsoVista and PolySI have them",
            SESSIONS,
            sessions.read,
            timeless=True,
        ),
        Format("s2-jsonl", "starts and finishes of the S2 stream store's checks", PORCUPINE, s2.read),
    )
}


def find_format(name: str) -> Format:
    """The format of this name. Raises BadHistory if there is none."""
    if name not in FORMATS:
        known = ", ".join(FORMATS)
        raise BadHistory(f"--format {name}: there is no such format; there are {known} and {AUTO}")
    return FORMATS[name]


def read_history(path: Path | str, format: str = AUTO, options: Options | None = None) -> list[Event]:
    """The events of a file. `options` None = those of the format.

    Raises BadHistory with the file, the line and what was expected there; OSError becomes one, too.
    """
    name = detect(path) if format == AUTO else format
    chosen = find_format(name)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise BadHistory(f"cannot read {path}: {error.strerror}") from None
    return read_bytes(data, str(path), chosen, options)


def read_bytes(data: bytes, source: str, format: Format, options: Options | None = None) -> list[Event]:
    """The events of a file's contents; `source` names it in errors."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"the byte {data[error.start]:#04x}"
        raise BadHistory(f"{source} line {line}: expected text in UTF-8, found {found}") from None
    events = format.read(text.replace("\r\n", "\n"), source, format.options if options is None else options)
    if not events:
        raise BadHistory(f"{source}: expected a history of the format {format.name}, found no operations")
    return events


def detect(path: Path | str) -> str:
    """The name of the format that the beginning of a file shows. Raises BadHistory if it shows none."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(HEAD_BYTES).decode("utf-8-sig", "replace")
    except OSError as error:
        raise BadHistory(f"cannot read {path}: {error.strerror}") from None
    return recognize(head, str(path), tuple(FORMATS))
