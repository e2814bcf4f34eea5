"""`liftlog cluster balance`: copies move until all nodes keep as many, to one (R20, ADR 0049).

The plan (`balanceplan.py`) is made anew from what the group says before each few moves, so that nothing has
to be kept: whoever runs the command again goes on from where the copies are, and moves of somebody else count
as those that were begun here do.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable, Sequence

from liftlog.client import Client, RequestFailed
from liftlog.commands.asking import ask_all
from liftlog.commands.balanceplan import PlannedMove, balanced
from liftlog.commands.balanceview import (
    Placement,
    alone_lines,
    being_moved,
    move_lines,
    node_lines,
    placement,
    plain_move,
    plain_plan,
    summary,
    verdict,
)
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import add_client_options, connect, note, positive_count, print_json, run
from liftlog.commands.moves import copies_under_way, how_far
from liftlog.types import LiftlogError

AT_A_TIME = 4
LOOK_AGAIN_S = 1.0
PROGRESS_S = 5.0
REFUSED_MAX = 3
"""Moves that fail one after the other, each planned from a new look, before it is given up."""


def add_balance(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    balance = actions.add_parser(
        "balance",
        help="move copies until all nodes keep as many, to one",
        description="As few copies move as can, a few partitions at a time; in the end every partition is "
        "led by its preferred leader again. Messages are taken all the time. After Ctrl-C the moves that "
        "were begun go on by themselves; the same command goes on from there.",
    )
    balance.add_argument("--dry-run", action="store_true", help="say what would move, and move nothing")
    balance.add_argument(
        "--at-a-time",
        metavar="N",
        type=positive_count,
        default=AT_A_TIME,
        help=f"begin a move only while fewer partitions are being moved, by whomever (default {AT_A_TIME})",
    )
    add_client_options(balance)
    balance.set_defaults(run=lambda args: run(_balance(args)))


async def _balance(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        if not args.dry_run:
            return await _Balancing(client, args).run()
        found = placement(await look(client))
    wanted = balanced(found.partitions, found.able)
    if args.json:
        print_json(plain_plan(found, wanted))
        return 0
    lines = [*node_lines(found, wanted), ""]
    if wanted:
        lines += [*move_lines(wanted), ""]
    print("\n".join([*lines, summary(found, wanted) or verdict(found), *alone_lines(found)]))
    return 0


async def look(client: Client) -> ClusterView:
    """What all nodes say, and the streams as a quorum knows them, if there is one. Raises RequestFailed,
    Unreachable.
    """
    answers, _ = await ask_all(client)
    if not any(answer.contact.has_controller for answer in answers.values()):
        return ClusterView(answers, [])
    return ClusterView(answers, await client.streams())


class _Balancing:
    """One run of the command."""

    def __init__(self, client: Client, args: argparse.Namespace) -> None:
        self._client = client
        self._args = args
        self._say: Callable[[str], None] = note if args.json else lambda text: print(text, flush=True)
        self._begun: dict[tuple[str, int], PlannedMove] = {}
        """What was begun here and has not been seen at its end."""
        self._under_way: set[tuple[str, int]] = set()
        """What is being moved, by whomever, as far as is known."""
        self._made: list[PlannedMove] = []
        self._failed: list[dict[str, object]] = []
        self._failures = 0
        """How many moves have failed since one was begun."""
        self._have: dict[tuple[str, int, int], int] = {}
        """Of each new copy, how many records it had at the last look, at `_looked_s`."""
        self._looked_s = 0.0
        self._told_s = asyncio.get_running_loop().time()

    async def run(self) -> int:
        view = await look(self._client)
        found = placement(view)
        wanted = balanced(found.partitions, found.able)
        for line in node_lines(found, wanted) if wanted else ():
            self._say(line)
        said = summary(found, wanted)
        if said:
            self._say(said)
        try:
            found = await self._move_all(view)
        except (LiftlogError, asyncio.CancelledError):
            self._tell_what_goes_on()
            raise
        leaders = await self._client.rebalance() if found.elsewhere else ""
        if leaders:
            self._say(f"preferred leaders lead again: {leaders}")
            found = placement(await self._look_patiently())
        for line in (verdict(found), *alone_lines(found)):
            self._say(line)
        if self._args.json:
            made = [plain_move(move) for move in self._made]
            print_json({**plain_plan(found, []), "moves": made, "failed": self._failed, "leaders": leaders})
        return 0 if found.even else 1

    async def _move_all(self, view: ClusterView) -> Placement:
        """Until no copy is to move, and nothing is under way."""
        while True:
            found = placement(view)
            self._tell_ends(found)
            wanted = balanced(found.partitions, found.able)
            if not wanted and found.settled:
                return found
            room = max(0, self._args.at_a_time - len(found.moving))
            await self._begin(wanted[:room])
            self._tell_progress(view, found, len(wanted[room:]))
            await asyncio.sleep(LOOK_AGAIN_S)
            view = await self._look_patiently()

    async def _begin(self, wanted: Sequence[PlannedMove]) -> None:
        """Up to the first that fails: what was planned with it is planned anew."""
        for move in wanted:
            copies = move.copies
            self._begun[copies.key] = move
            try:
                await self._client.move_replicas(
                    copies.stream, copies.partition, move.to, assignment=copies.assignment
                )
            except RequestFailed as error:
                del self._begun[copies.key]
                self._say(f"{move}: {'no answer' if error.retryable else 'refused'}: {error}")
                self._failed.append({**plain_move(move), "reason": str(error)})
                self._failures += 1
                if self._failures == REFUSED_MAX:
                    raise LiftlogError(f"{self._failures} moves in a row have failed: {error}") from None
                return
            self._failures = 0
            self._under_way.add(copies.key)
            self._say(str(move))

    def _tell_ends(self, found: Placement) -> None:
        """Which moves that were begun here are over."""
        self._under_way = {copies.key for copies in found.moving}
        now = {copies.key: copies for copies in found.partitions}
        for key, move in list(self._begun.items()):
            if key in self._under_way:
                continue
            del self._begun[key]
            if key not in now:
                self._say(f"{move.copies}: its stream was deleted meanwhile")
            elif now[key].nodes != move.to:
                nodes = ", ".join(map(str, now[key].nodes))
                self._say(f"{move.copies}: somebody else had it moved meanwhile, to nodes {nodes}")
            else:
                self._made.append(move)
                self._say(f"{move.copies}: done")

    def _tell_progress(self, view: ClusterView, found: Placement, left: int) -> None:
        """From time to time, as `liftlog stream moves` tells it."""
        now_s = asyncio.get_running_loop().time()
        copying = list(copies_under_way(view))
        if now_s - self._told_s >= PROGRESS_S:
            self._told_s = now_s
            self._say(f"{being_moved(len(self._under_way))}, {left} to begin")
            for copies in found.dropping:
                self._say(f"  {copies}: waits until a node has dropped its former copy")
            for one in copying:
                if one.key in self._have:
                    per_s = round((one.have - self._have[one.key]) / (now_s - self._looked_s))
                    self._say(f"  '{one.stream}' partition {one.partition.index}: {how_far(one, per_s)}")
        self._have = {one.key: one.have for one in copying}
        self._looked_s = now_s

    async def _look_patiently(self) -> ClusterView:
        """Nodes restart, and controllers change: only what lasts longer than --timeout ends the command."""
        loop = asyncio.get_running_loop()
        until_s, told = loop.time() + self._args.timeout, ""
        while True:
            try:
                view = await look(self._client)
                placement(view)
                break
            except LiftlogError as error:
                if loop.time() > until_s:
                    raise
                if str(error) != told:
                    told = str(error)
                    self._say(f"waits for at most {self._args.timeout:g} s: {told}")
            await asyncio.sleep(LOOK_AGAIN_S)
        if told:
            self._say("goes on")
        return view

    def _tell_what_goes_on(self) -> None:
        """Whoever ends the command early leaves moves behind."""
        left = len(self._under_way | self._begun.keys())
        if not left:
            self._say("nothing is being moved; 'liftlog cluster balance' goes on from here")
            return
        self._say(
            f"{being_moved(left)}, and that goes on by itself: 'liftlog stream moves' tells how far, and "
            "'liftlog cluster balance' goes on from there"
        )
        for stream, partition in self._begun:
            self._say(f"  to take it back: liftlog stream move {stream} {partition} --cancel")
