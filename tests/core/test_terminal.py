"""What others have published is shown on terminals, and commands nobody's terminal."""

from __future__ import annotations

import argparse
import io

import pytest
from rich.console import Console
from rich.table import Table

from liftlog.commands.pubsub import _print_record
from liftlog.terminal import large_number, print_figures, printable
from liftlog.types import Record


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain text", "plain text"),
        ("Grüße, 世界".encode(), "Grüße, 世界"),
        (b"a\tb", "a\tb"),
        (b"\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        (b"\x1b[2Jgone", "\\x1b[2Jgone"),
        (b"two\nlines\r", "two\\nlines\\r"),
        ("\x9b31m".encode(), "\\x9b31m"),
        (b"\x9b31m", "\\x9b31m"),
        ("a\u202egnp.exe".encode(), "a\\u202egnp.exe"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_what_does_not_print_is_escaped(data: bytes, shown: str) -> None:
    assert printable(data) == shown


def test_sub_escapes_unless_asked_for_raw_bytes(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    record = Record(7, 0, b"a\x1b[2J", b"", b"", None, b"\x1b]0;owned\x07\n")
    _print_record(argparse.Namespace(raw=False, json=False), 0, record)
    assert capfdbinary.readouterr().out == b"0/7  a\\x1b[2J  \\x1b]0;owned\\x07\\n\n"
    _print_record(argparse.Namespace(raw=False, json=True), 0, record)
    assert b"\x1b" not in capfdbinary.readouterr().out
    _print_record(argparse.Namespace(raw=True, json=False), 0, record)
    assert capfdbinary.readouterr().out == b"\x1b]0;owned\x07\n\n"


def test_no_figure_of_a_table_is_cut_where_lines_are_short() -> None:
    table = Table()
    for column in range(12):
        table.add_column(f"column {column}", justify="right", no_wrap=True)
    table.add_row(*(f"{column:,}" for column in range(5_000_000, 5_000_012)))
    file = io.StringIO()
    console = Console(file=file, width=80)
    print_figures(console, table)
    console.print("what follows", "is as wide as before " * 5)
    shown = file.getvalue()
    assert all(f"{column:,}" in shown for column in range(5_000_000, 5_000_012))
    assert "column 11" in shown
    assert max(map(len, shown.splitlines()[-2:])) <= 80


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("1000", 1000), ("250k", 250_000), ("1.5M", 1_500_000), ("2G", 2 * 10**9), ("0.001k", 1)],
)
def test_large_numbers_are_typed_as_they_are_shown(text: str, number: int) -> None:
    assert large_number(text) == number


@pytest.mark.parametrize("text", ["", "k", "-5", "5x", "5K", "5m", "1.5", "0.0001k", "1.2k3", "1 k"])
def test_what_is_no_whole_number_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number such as 1000, 250k or 100M"):
        large_number(text)
