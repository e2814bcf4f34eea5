"""How the caller says that histories of other tools are meant, and reading one file in that sense."""

from __future__ import annotations

from typing import Any, NamedTuple

from liftlog_jepsen.events import BadHistory, Event, Operation, pair
from liftlog_jepsen.formats import AUTO, detect, edn, find_format, read_history
from liftlog_jepsen.formats.options import Format, Options, override


class Conventions(NamedTuple):
    """What the caller says about how histories are meant; None = the usual answer of the file's format.

    As on the command line: `initial` is EDN, the others are words. Plain data, so that it travels.
    """

    initial: str | None = None
    nil_read: str | None = None
    fail_cas: str | None = None
    intervals: str | None = None
    consistency_model: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of the check itself, such as a bank's total: (name, value in EDN)."""

    def checked_settings(self) -> dict[str, Any]:
        """The settings as values. Raises BadHistory for what is no EDN."""
        return {name: edn.read(text, f"setting {name}") for name, text in self.settings}

    def options(self, format: Format | None) -> Options:
        """The options for a file of this format. Raises BadHistory for a choice that does not exist."""
        return override(Options() if format is None else format.options, *self[:5])


BINARY = b"JEPSEN"
"""How test.jepsen begins."""


def refuse_binary(file: str) -> None:
    """Raise BadHistory for Jepsen's own binary files, with the way around it.

    They hold Clojure's values in Fressian, for which there is no maintained reader in Python.
    """
    try:
        with open(file, "rb") as source:
            head = source.read(6)
    except OSError:
        return  # whoever reads the file says what is wrong
    if head == BINARY or file.endswith((".fressian", ".jepsen")):
        raise BadHistory(
            f"{file} is in Jepsen's binary form, which only Jepsen reads: give the history.edn or history.txt"
            " beside it, or have Jepsen write one, see docs/history-formats.md"
        )


def read_events(file: str, format: str, conventions: Conventions) -> tuple[str, list[Event]]:
    """The format's name, found out if it is `auto`, and the events of one file. Raises BadHistory."""
    refuse_binary(file)
    name = detect(file) if format == AUTO else format
    return name, read_history(file, name, conventions.options(find_format(name)))


def read_operations(file: str, format: str, conventions: Conventions) -> tuple[str, list[Operation]]:
    """The format's name and the operations of one file. Raises BadHistory."""
    name, events = read_events(file, format, conventions)
    operations = pair(events, file)
    if find_format(name).timeless:
        # Open for ever, they end before nothing; a process's own order is that of its invocations.
        operations = [one._replace(end=None) for one in operations]
    return name, operations
