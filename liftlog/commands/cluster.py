"""`liftlog cluster`: who is alive, who leads what; hand over the controller; restore preferred leaders."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
from collections.abc import Iterator

from rich.console import Console
from rich.live import Live
from rich.text import Text

from liftlog.api.plain import to_plain
from liftlog.client import RequestFailed, Unreachable
from liftlog.commands.asking import add_node_options, look_at, who_answers
from liftlog.commands.balance import add_balance
from liftlog.commands.breakdown import add_breakdown
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import (
    add_client_options,
    connect,
    node_number,
    positive_seconds,
    print_json,
    print_table,
    run,
)
from liftlog.commands.liveview import BAD, live_lines
from liftlog.commands.recover import add_recover
from liftlog.commands.rightsview import digests, rights_line
from liftlog.commands.tlsview import tls_line
from liftlog.messages import ClusterStatusReply
from liftlog.real.breakdown import PREFIX
from liftlog.terminal import printable
from liftlog.types import LiftlogError

LOOK_AGAIN_S = 0.1


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("cluster", help="who is alive, who leads what")
    actions = group.add_subparsers(dest="action", required=True)
    status = actions.add_parser("status", help="nodes, controller, and every replica as its own node sees it")
    status.add_argument(
        "--live", action="store_true", help="draw it on the terminal, again and again, until Ctrl-C"
    )
    status.add_argument(
        "--every", metavar="S", type=positive_seconds, default=1.0, help="between two looks (default 1)"
    )
    add_node_options(status)
    status.set_defaults(run=lambda args: run(_status(args)))
    add_breakdown(actions)
    transfer = actions.add_parser("transfer", help="make another node the controller")
    transfer.add_argument("node", metavar="NODE", type=node_number)
    add_client_options(transfer)
    transfer.set_defaults(run=lambda args: run(_transfer(args)))
    for name, votes, text in (
        ("promote", True, "let a node vote on the cluster's metadata"),
        ("demote", False, "take a node's vote away; it goes on serving its partitions"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("node", metavar="NODE", type=node_number)
        add_client_options(action)
        action.set_defaults(run=lambda args, votes=votes: run(_set_voter(args, votes)))
    level = actions.add_parser("level", help="the cluster's feature level, and what each node can")
    level.add_argument(
        "--raise",
        dest="raises",
        action="store_true",
        help="raise it as far as all nodes can: after that no node goes back to an older release",
    )
    add_client_options(level)
    level.set_defaults(run=lambda args: run(_level(args)))
    add_recover(actions)
    _add_node_parsers(actions)
    add_balance(actions)
    rebalance = actions.add_parser("rebalance", help="give every partition back to its preferred leader")
    add_client_options(rebalance)
    rebalance.set_defaults(run=lambda args: run(_rebalance(args)))


def _add_node_parsers(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add = actions.add_parser(
        "add", help="admit a node, or tell where it is called from now on"
    )
    add.add_argument("node", metavar="NODE", type=node_number, help="a number that no node has had")
    add.add_argument("address", metavar="HOST:PORT", help="where the other nodes call it: its peer_listen")
    add_client_options(add)
    add.set_defaults(run=lambda args: run(_add_node(args)))
    drain = actions.add_parser("drain", help="move what a node keeps and leads to other nodes")
    drain.add_argument("node", metavar="NODE", type=node_number)
    drain.add_argument("--cancel", action="store_true", help="let it keep copies; what has left stays away")
    add_client_options(drain)
    drain.set_defaults(run=lambda args: run(_drain_node(args)))
    remove = actions.add_parser("remove", help="remove a node that keeps nothing and has no vote, for good")
    remove.add_argument("node", metavar="NODE", type=node_number)
    how = remove.add_mutually_exclusive_group()
    how.add_argument(
        "--drain", action="store_true", help="have it give away its copies and its vote, and be removed then"
    )
    how.add_argument("--cancel", action="store_true", help="take --drain, or 'replace', back")
    add_client_options(remove)
    remove.set_defaults(run=lambda args: run(_remove_node(args)))
    replace = actions.add_parser(
        "replace", help="give a node's copies and its vote to another one, and remove it"
    )
    replace.add_argument("node", metavar="OLD", type=node_number, help="it may be lost for good")
    replace.add_argument("heir", metavar="NEW", type=node_number, help="a node that was added")
    add_client_options(replace)
    replace.set_defaults(run=lambda args: run(_replace_node(args)))


async def _status(args: argparse.Namespace) -> int:
    if args.live:
        return await _live(args)
    async with await who_answers(args) as client:
        view = await look_at(client)
    if args.json:
        print_json(_plain(view))
    else:
        _print_status(view)
    return 0 if view.takes_messages else 1


async def _live(args: argparse.Namespace) -> int:
    """Until Ctrl-C. While nobody answers the last view stays, with the reason below it."""
    console = Console(highlight=False)
    if args.json or not console.is_terminal:
        raise LiftlogError("--live draws on a terminal: leave it out for text or --json, and ask again")
    loop = asyncio.get_running_loop()
    view: ClusterView | None = None
    before: ClusterView | None = None
    looked_s = before_s = 0.0
    async with await who_answers(args) as client:
        with Live(console=console, screen=True, auto_refresh=False) as live, ended_by_interrupt():
            while True:
                trouble = ""
                try:
                    seen = await look_at(client)
                    before, before_s, view, looked_s = view, looked_s, seen, loop.time()
                except (Unreachable, RequestFailed) as error:
                    trouble = f"nobody answers: {error}"
                text = Text(no_wrap=True, overflow="ellipsis")
                if view is not None:
                    for line in live_lines(view, before, looked_s - before_s, console.height):
                        text.append(printable(line.text.encode()) + "\n", style=line.colour)
                if trouble:
                    old = f"; this is {loop.time() - looked_s:.0f} s old" if view is not None else ""
                    text.append(f"{trouble}{old}\n", style=BAD)
                live.update(text, refresh=True)
                await asyncio.sleep(args.every)
    return 0 if view is not None and view.takes_messages else 1


@contextlib.contextmanager
def ended_by_interrupt() -> Iterator[None]:
    """Ctrl-C is how a live view ends."""
    try:
        yield
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()


def _plain(view: ClusterView) -> dict[str, object]:
    newest, answers = view.newest, sorted(view.answers.items())
    return {
        "takes_messages": view.takes_messages,
        "problems": view.problems,
        "remarks": view.remarks,
        "controller": view.controller,
        "term": newest.term,
        "applied": newest.applied,
        "level": view.level,
        "nodes": [
            {
                **to_plain(info),
                "answers": info.node in view.answers,
                "release": view.release(info),
                "can_level": view.can(info),
            }
            for info in view.nodes()
        ],
        "streams": [to_plain(stream) for stream in view.streams],
        "replicas": {str(node): to_plain(answer.replicas) for node, answer in answers},
        "snapshots": {
            str(node): {
                "entries": answer.snapshot,
                "log_start": answer.log_start,
                "installing": answer.installing,
            }
            for node, answer in answers
        },
        "contact": {str(node): to_plain(answer.contact) for node, answer in answers},
        "rights": {str(node): digest for node, digest in digests(view.answers).items()},
        "counters": {str(node): _own_counters(answer) for node, answer in answers},
    }


def _own_counters(answer: ClusterStatusReply) -> dict[str, int]:
    """Without those that have a command of their own, `liftlog cluster breakdown`."""
    return {name: n for name, n in answer.counters.items() if not name.startswith(f"{PREFIX}.")}


def _print_status(view: ClusterView) -> None:
    print(view.headline())
    rows: list[list[object]] = [
        [
            info.node,
            info.address or "-",
            view.session(info),
            "yes" if info.node in view.answers else "no",
            view.contact(info.node),
            info.incarnation,
            view.vote(info),
            view.snapshot(info),
            view.release(info),
            f"{view.level} of {view.can(info)}" if view.can(info) else "-",
        ]
        for info in view.nodes()
    ]
    heads = ["NODE", "ADDRESS", "SESSION", "ANSWERS", "CONTACT", "INCARNATION", "VOTE", "SNAPSHOT", "RELEASE"]
    print_table(rows, [*heads, "LEVEL"])
    replicas: list[list[object]] = [
        [
            view.name(replica.partition.stream),
            replica.partition.label,
            node,
            replica.role,
            replica.epoch,
            replica.leo,
            replica.hw,
            replica.state,
        ]
        for node, answer in sorted(view.answers.items())
        for replica in answer.replicas
    ]
    if replicas:
        print()
        replicas.sort(key=lambda row: (str(row[0]), str(row[1]).zfill(4), int(str(row[2]))))
        print_table(replicas, ["STREAM", "PARTITION", "NODE", "ROLE", "EPOCH", "LEO", "HW", "STATE"])
    print()
    for line in filter(None, (rights_line(view.answers), tls_line(view.answers))):
        print(line)
    for remark in view.remarks:
        print(f"note: {remark}")
    if view.takes_messages:
        what = "every partition takes messages" if view.streams else "ready; there are no streams yet"
        print(f"verdict: {what}")
        return
    print("verdict: not everything takes messages")
    for problem in view.problems:
        print(f"  {problem}")


async def _transfer(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.transfer_controller(args.node)
    _say(args, detail or f"node {args.node} becomes controller")
    return 0


async def _set_voter(args: argparse.Namespace, votes: bool) -> int:
    async with await connect(args) as client:
        detail = await client.set_voter(args.node, votes)
    done = f"node {args.node} is {'' if votes else 'not '}to vote; the controller sees to it"
    _say(args, detail or f"{done}: see 'liftlog cluster status'")
    return 0


async def _level(args: argparse.Namespace) -> int:
    """U2. Raising is over when the controller's own state machine has done it."""
    async with await connect(args) as client:
        if args.raises:
            detail = await client.raise_level()
            view = await look_at(client)
            deadline = time.monotonic() + args.timeout
            while view.level < min(view.can(info) for info in view.nodes() if view.can(info)):
                if time.monotonic() > deadline:
                    raise LiftlogError(f"{detail}, but not within {args.timeout:g} s: ask again")
                await asyncio.sleep(LOOK_AGAIN_S)
                view = await look_at(client)
        else:
            view = await look_at(client)
            detail = f"the cluster is at feature level {view.level}"
    if args.json:
        nodes = {
            str(info.node): {"release": view.release(info), "can": view.can(info)} for info in view.nodes()
        }
        print_json({"done": detail, "level": view.level, "nodes": nodes})
        return 0
    print(detail)
    for info in view.nodes():
        what = f"liftlog {view.release(info)}, can level {view.can(info)}" if view.can(info) else "no answer"
        print(f"  node {info.node}: {what}")
    return 0


async def _add_node(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        known = {info.node for info in (await look_at(client)).nodes()}
        detail = await client.add_node(args.node, args.address)
    done = f"node {args.node} is of the cluster, at {args.address}"
    more = "if it is new, start it with [node] join = true"
    if args.node in known:
        more = "it was before, and the others call it there from now on: if that is wrong, add it where it is"
    _say(args, detail or f"{done}; {more}")
    return 0


async def _drain_node(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.drain_node(args.node, not args.cancel)
    done = f"node {args.node} is being drained: 'liftlog stream moves' tells how far that is"
    if args.cancel:
        done = f"node {args.node} may keep copies again"
    _say(args, detail or done)
    return 0


async def _remove_node(args: argparse.Namespace) -> int:
    if args.drain or args.cancel:
        async with await connect(args) as client:
            detail = await client.retire_node(args.node, args.drain)
        done = f"node {args.node} retires: 'liftlog cluster status' tells how far that is"
        if args.cancel:
            done = (
                f"node {args.node} stays; what has left it stays away, a vote too: 'liftlog cluster promote "
                f"{args.node}' gives it one"
            )
        _say(args, detail or done)
        return 0
    async with await connect(args) as client:
        detail = await client.remove_node(args.node)
    _say(args, detail or f"node {args.node} is removed; its number is not used again")
    return 0


async def _replace_node(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.retire_node(args.node, True, args.heir)
    done = f"node {args.node} retires in favour of node {args.heir}: 'liftlog cluster status' tells how far"
    _say(args, detail or f"{done} that is")
    return 0


async def _rebalance(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.rebalance()
    _say(args, detail or "every partition goes back to its preferred leader")
    return 0


def _say(args: argparse.Namespace, detail: str) -> None:
    if args.json:
        print_json({"done": detail})
    else:
        print(detail)
