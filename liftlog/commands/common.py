"""What the client commands share: the options that say which cluster, and how output is printed."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from liftlog.addresses import is_address
from liftlog.config import DEFAULT_CLUSTER, DEFAULT_NATS_URL
from liftlog.nats_login import NatsLogin
from liftlog.tls.files import OPTIONS, VARIABLES
from liftlog.types import NODE_MAX, NUMBER_MAX, LiftlogError

if TYPE_CHECKING:
    from liftlog.client import Client


TLS_TEXTS = (
    "speak TLS with the nodes, and believe those with a certificate of this CA; 'none': without TLS",
    "show this certificate to the nodes",
    "the certificate's key",
)


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")


def add_client_options(parser: argparse.ArgumentParser) -> None:
    """--nats and how to log in there, --cluster, --secret-file, --tls-*, --timeout, --json."""
    parser.add_argument(
        "--nats",
        metavar="URL",
        default=os.environ.get("LIFTLOG_NATS") or DEFAULT_NATS_URL,
        help=f"NATS server(s) of the cluster (environment LIFTLOG_NATS; default {DEFAULT_NATS_URL})",
    )
    add_nats_login_options(parser)
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        default=os.environ.get("LIFTLOG_CLUSTER") or DEFAULT_CLUSTER,
        help=f"name of the cluster (environment LIFTLOG_CLUSTER; default {DEFAULT_CLUSTER})",
    )
    parser.add_argument(
        "--secret-file",
        metavar="FILE",
        help="the clients' secret of the cluster, or 'none' (environment LIFTLOG_CLIENT_SECRET_FILE; "
        "default ~/.config/liftlog/NAME.client-secret, which 'liftlog dev' makes)",
    )
    for option, variable, text in zip(OPTIONS, VARIABLES, TLS_TEXTS, strict=True):
        parser.add_argument(option, metavar="FILE", help=f"{text} (environment {variable})")
    parser.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=positive_seconds,
        default=12.0,
        help="how long to keep trying (default 12)",
    )
    add_json_option(parser)


def add_nats_login_options(parser: argparse.ArgumentParser) -> None:
    """--nats-credentials, --nats-nkey, --nats-ca, --nats-cert, --nats-key; read by `nats_login`."""
    for option, text in {
        "--nats-credentials": "log in to NATS with this credentials file (JWT and seed, as nsc writes them)",
        "--nats-nkey": "log in to NATS with the nkey whose seed is in this file",
        "--nats-ca": "believe NATS servers with certificates of this CA only, and speak TLS",
        "--nats-cert": "show this client certificate to NATS",
        "--nats-key": "the certificate's key, if it is in a file of its own",
    }.items():
        parser.add_argument(option, metavar="FILE", type=Path, help=text)


def nats_login(args: argparse.Namespace) -> NatsLogin:
    """The files, by absolute paths: nodes of a local cluster may be started from elsewhere later."""
    files = (args.nats_credentials, args.nats_nkey, args.nats_ca, args.nats_cert, args.nats_key)
    return NatsLogin(*(path.resolve() if path is not None else None for path in files))


def positive_seconds(text: str) -> float:
    """A duration option."""
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds") from None
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400 seconds")
    return seconds


def positive_count(text: str) -> int:
    """A count option: 1 or more."""
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{text} is not 1 or more")
    return count


def node_number(text: str) -> int:
    """A node's number."""
    number = int(text)
    if not 1 <= number <= NODE_MAX:
        raise argparse.ArgumentTypeError(f"{text} is no node: they have numbers from 1 to {NODE_MAX}")
    return number


def name_and_value(text: str) -> tuple[str, str]:
    """A note. Raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is no note: say NAME=VALUE")
    return name, value


def natural(text: str) -> int:
    """An offset or an index: 0 or more, and no greater than any can be."""
    number = int(text)
    if not 0 <= number <= NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not 0 to {NUMBER_MAX}")
    return number


def host_and_port(text: str) -> str:
    """An address option."""
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no HOST:PORT")
    return text


UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def size_bytes(text: str) -> int:
    """A size option: bytes, or a number with KiB, MiB, GiB or TiB."""
    return _with_unit(text, UNITS)


def duration_ms(text: str) -> int:
    """A long duration: milliseconds, or a number with ms, s, m, h or d."""
    return _with_unit(text, UNITS_MS)


def _with_unit(text: str, units: dict[str, int]) -> int:
    match = re.fullmatch(r"(\d+)([A-Za-z]*)", text)
    if match is None or (match[2] and match[2] not in units):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, alone or with {', '.join(units)}")
    value = int(match[1]) * units.get(match[2], 1)
    if value > NUMBER_MAX:
        raise argparse.ArgumentTypeError(f"{text} is too much; {NUMBER_MAX} is the greatest number")
    return value


async def connect(args: argparse.Namespace) -> Client:
    """A client by the common options."""
    from liftlog.client import Client

    return await Client.connect(
        args.nats,
        cluster=args.cluster,
        secret_file=args.secret_file,
        timeout_ms=int(args.timeout * 1000),
        login=nats_login(args),
        tls_ca=args.tls_ca,
        tls_cert=args.tls_cert,
        tls_key=args.tls_key,
    )


def run(main: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its exit code."""
    return asyncio.run(main)


def print_json(value: object) -> None:
    """One line, at once: whoever reads the other end of a pipe may wait for it."""
    print(json.dumps(value, separators=(",", ":")), flush=True)


def print_table(rows: list[list[object]], heads: list[str]) -> None:
    """Columns as wide as they need to be, numbers to the right."""
    print("\n".join(table_lines(rows, heads)))


def table_lines(rows: Sequence[Sequence[object]], heads: Sequence[str]) -> list[str]:
    """The lines of `print_table`."""
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(line[column]) for line in [heads, *texts]) for column in range(len(heads))]
    lines = []
    for line, cells in [(heads, None), *zip(texts, rows, strict=True)]:
        parts = []
        for column, text in enumerate(line):
            number = (
                cells is not None and isinstance(cells[column], int) and not isinstance(cells[column], bool)
            )
            parts.append(text.rjust(widths[column]) if number else text.ljust(widths[column]))
        lines.append("  ".join(parts).rstrip())
    return lines


def read_file(path: str) -> bytes:
    """A file's content. Raises LiftlogError that names it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise LiftlogError(f"cannot read {path}: {error.strerror}; check the path") from None


def note(text: str) -> None:
    """One line for the person at the terminal, kept out of piped output."""
    print(text, file=sys.stderr)
