"""The `liftlog` command: finds the module of the named group, runs it, turns the outcome into an exit code.

A group is imported only when it is asked for: `liftlog pub` must not pay for Spark, and `liftlog --help`
must work where half of the libraries are missing. Each group's module has ``add_parser(subparsers)``, which
sets ``run``, a function from the parsed arguments to an exit code.

Exit codes: 0 good; 1 a violation or a failed check was found; 2 wrong use, or the work could not be done,
with one line on stderr that names the thing and the remedy; 130 interrupted; 141 the reader of our output
went away.
"""

from __future__ import annotations

import argparse
import errno
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from liftlog.types import LiftlogError
from liftlog.version import VERSION

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class CommandGroup(NamedTuple):
    """One word after `liftlog`."""

    module: str
    summary: str


GROUPS: dict[str, CommandGroup] = {
    "demo": CommandGroup("liftlog.commands.demo", "the whole story in one go: simulate, run, kill, check"),
    "serve": CommandGroup("liftlog.commands.serve", "run one node"),
    "dev": CommandGroup("liftlog.commands.serve", "run a local cluster with an embedded nats-server"),
    "stream": CommandGroup("liftlog.commands.stream", "create, list, inspect and remove streams"),
    "consumer": CommandGroup("liftlog.commands.consumer", "durable consumers: what was acked, what comes"),
    "cursor": CommandGroup("liftlog.commands.cursor", "positions in streams that the cluster keeps"),
    "group": CommandGroup("liftlog.commands.group", "consumer groups: who reads what, how far they are"),
    "activity": CommandGroup("liftlog.commands.activity", "a stream that tells what happens in the cluster"),
    "jetstream": CommandGroup("liftlog.commands.jetstream", "a door for programs written for JetStream"),
    "import": CommandGroup("liftlog.commands.importing", "move streams from a running JetStream here"),
    "pub": CommandGroup("liftlog.commands.pubsub", "publish messages and wait for their acks"),
    "sub": CommandGroup("liftlog.commands.pubsub", "read a stream from an offset or a time on"),
    "cluster": CommandGroup("liftlog.commands.cluster", "who is alive, who leads what"),
    "config": CommandGroup("liftlog.commands.config", "check a node's configuration"),
    "log": CommandGroup("liftlog.commands.log", "look at the files of a stopped node or a closed queue"),
    "bench": CommandGroup("liftlog.bench.command", "measure, against JetStream on the same machine"),
    "sim": CommandGroup("liftlog_sim.command", "simulate a cluster with faults, from a seed"),
    "spec": CommandGroup("liftlog_spec.command", "check models of the protocol, every state"),
    "jepsen": CommandGroup("liftlog_jepsen.command", "check histories on Spark"),
}

PACKAGES = ("liftlog_sim", "liftlog_spec", "liftlog_jepsen")
"""What is installed with `liftlog`, and not imported before it is needed."""
EXTRAS = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "z3": "spec",
    "tla": "spec",
}
"""Libraries that only some commands need -> the extra that brings them."""

EXAMPLES = """\
try:
  liftlog demo                                    everything below, in four minutes
  liftlog sim run --seed 7                        one simulated cluster under faults
  liftlog dev --nodes 3                           a real cluster on this machine
  liftlog stream create orders --subject 'orders.>' --replicas 3
  liftlog pub orders.new 'hello' ; liftlog sub orders --from earliest
"""


class Parser(argparse.ArgumentParser):
    """argparse, with errors as one line that says where to look instead of the whole usage text."""

    _mixes = False

    def error(self, message: str) -> NoReturn:
        raise LiftlogError(f"{message}; see '{self.prog} --help'")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        """What is left over is an error here, where it is known whose help there is.

        Options may stand between positional arguments, too: `pub SUBJECT --key KEY MESSAGE`. Of such a
        command line argparse alone takes no MESSAGE, since any number of them has been found before KEY.
        """
        if self._mixes or self._subparsers is not None:
            return super().parse_known_args(args, namespace)
        self._mixes = True
        try:
            found, left = self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixes = False
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def overview() -> str:
    """What `liftlog` alone prints."""
    lines = ["liftlog: a durable, replicated message log for NATS", ""]
    lines += ["usage: liftlog GROUP [--help] ...", ""]
    lines += [f"  {name:<9} {group.summary}" for name, group in GROUPS.items()]
    return "\n".join([*lines, "", EXAMPLES])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (without the program's name); returns the process's exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _prepare_output()
    try:
        code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except BaseException as error:
        failed = _exit_code_of(error)
        if failed is None:
            raise
        return failed


def _prepare_output() -> None:
    """Nothing that is printed fails for a character that the terminal's encoding lacks.

    A standard file that is closed is opened on nothing, lest a log or a socket gets its number, and what is
    printed with it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        if descriptor == 1:
            sys.stdout = os.fdopen(1, "w", closefd=False)
        elif descriptor == 2:
            sys.stderr = os.fdopen(2, "w", closefd=False)
    os.close(descriptor)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(overview(), end="")
        return 0
    if arguments[0] in ("-V", "--version", "version"):
        print(f"liftlog {VERSION}")
        return 0
    name = arguments[0]
    group = GROUPS.get(name)
    if group is None:
        raise LiftlogError(f"there is no command '{name}'; commands: {', '.join(GROUPS)}")
    return _run_group(name, group, arguments)


def _run_group(name: str, group: CommandGroup, arguments: list[str]) -> int:
    module = importlib.import_module(group.module)
    parser = Parser(prog="liftlog")
    subparsers: Any = parser.add_subparsers(dest="group", required=True, parser_class=Parser)
    module.add_parser(subparsers)
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] | None = getattr(parsed, "run", None)
    if run is None:
        raise LiftlogError(f"'{name}' needs a subcommand; see 'liftlog {name} --help'")
    return run(parsed)


def _exit_code_of(error: BaseException) -> int | None:
    """The exit code for what ended a command, printing its one line; None for a bug, which has none."""
    leaves = [_remedy(leaf) or leaf for leaf in _leaves(error)]
    if any(isinstance(leaf, KeyboardInterrupt) for leaf in leaves):
        return EXIT_INTERRUPTED
    if all(isinstance(leaf, BrokenPipeError) for leaf in leaves):
        _forget_output()
        return EXIT_BROKEN_PIPE
    full = [leaf for leaf in leaves if isinstance(leaf, OSError) and leaf.errno in NO_SPACE]
    if len(full) == len(leaves):
        _forget_output()
        what = f"cannot write {full[0].filename or 'the output, or a file'}: {full[0].strerror}"
        if type(full[0]) is not OSError:
            what = str(full[0].strerror)  # A disk's own, which says what was written.
        print(f"liftlog: {what}; make space there", file=sys.stderr)
        return EXIT_USAGE
    if all(isinstance(leaf, LiftlogError) for leaf in leaves):
        print(f"liftlog: {' '.join(str(leaves[0]).split())}", file=sys.stderr)
        return EXIT_USAGE
    return None


def _forget_output() -> None:
    """The interpreter flushes stdout once more at exit: give it somewhere to write."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _remedy(error: BaseException) -> LiftlogError | None:
    """What to do about a library, or a part of ours, that is not installed; None for any other error."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if name in EXTRAS:
        remedy = f"run `make venv`, or `pip install 'liftlog[{EXTRAS[name]}]'`"
        return LiftlogError(f"this needs the Python package {name}: {remedy}")
    if name in PACKAGES and importlib.util.find_spec(name) is None:
        return LiftlogError(
            f"{name} is not installed beside liftlog: install liftlog anew, in a checkout by `make venv`"
        )
    return None


def _leaves(error: BaseException) -> list[BaseException]:
    """The exceptions in a group, or the one exception; a nursery wraps even a single error in a group."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in _leaves(member)]
    return [error]
