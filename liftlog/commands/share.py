"""`liftlog sub --group`: read a stream as a member of a consumer group (G1-G5)."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Callable

from liftlog.client import EARLIEST, Client, GroupMessage, GroupReading
from liftlog.client.grouping import SESSION_MS, SESSION_MS_MIN
from liftlog.commands.common import duration_ms, note
from liftlog.types import LiftlogError

LOOK_S = 0.5
"""How often is looked whose the partitions are, while no message comes."""


def add_options(read: argparse.ArgumentParser) -> None:
    """Those of `liftlog sub` for a group."""
    read.add_argument(
        "--group",
        metavar="NAME",
        help="share the partitions with all who read as this group, and go on where it had come to; until "
        "interrupted, or for --count records",
    )
    read.add_argument(
        "--member",
        metavar="NAME",
        help="with --group: a name of this member; who starts again under it replaces the one before at once",
    )
    read.add_argument(
        "--session",
        type=duration_ms,
        metavar="TIME",
        help=f"with --group: who is silent for so long is replaced; default: {SESSION_MS // 1000}s",
    )


def check_options(args: argparse.Namespace) -> None:
    """Raises LiftlogError for what does not go together."""
    if args.group is None:
        for option, given in (("--member", args.member), ("--session", args.session)):
            if given is not None:
                raise LiftlogError(f"{option} is of a member of a group: name it with --group NAME")
        return
    if args.session is not None and args.session < SESSION_MS_MIN:
        least = SESSION_MS_MIN // 1000
        raise LiftlogError(f"--session {args.session}ms is too short; give at least {least}s")
    clashes = (
        ("--from", args.start != EARLIEST, "a group goes on where it is: see liftlog group reset"),
        ("--partition", args.partition is not None, "its members share all partitions"),
        ("--filter", args.filter is not None, "its members are given all that is in a partition"),
        ("--key", bool(args.key), "its members are given all that is in a partition"),
        ("--replica", bool(args.replica), "its members read from leaders"),
    )
    for option, given, why in clashes:
        if given:
            raise LiftlogError(f"{option} is not for --group: {why}; leave one of them out")


async def read_as_member(
    client: Client, args: argparse.Namespace, show: Callable[[GroupMessage], None]
) -> None:
    """Show each message that this member is given, until interrupted, or --count were."""
    # Who is asked to end says so to the others, who need not wait for its session.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, os.kill, os.getpid(), signal.SIGINT)
    session_ms = SESSION_MS if args.session is None else args.session
    left: int | None = args.count
    async with client.group(
        args.group, [args.stream], member=args.member or "", session_ms=session_ms
    ) as member:
        told = ""
        while left != 0:
            told = _tell(args, member, told)
            try:
                async with asyncio.timeout(LOOK_S):
                    message = await anext(member)
            except TimeoutError:
                continue
            show(message)
            left = None if left is None else left - 1
        # What was shown is done, the last message too.
        await member.commit()


def _tell(args: argparse.Namespace, member: GroupReading, told: str) -> str:
    """Say which partitions are this member's, if that has changed."""
    mine = " ".join(str(partition) for _, partition in member.assigned)
    what = f"partitions {mine}" if mine else "no partition yet"
    text = f"{member.id} of group '{args.group}' reads {what}"
    if text != told and not (args.raw or args.json):
        note(text)
    return text
