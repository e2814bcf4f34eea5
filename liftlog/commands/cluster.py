"""`liftlog cluster`: who is alive, who leads what; hand over the controller; restore preferred leaders."""

from __future__ import annotations

import argparse

from liftlog.api.plain import to_plain
from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.commands.common import add_client_options, connect, positive_count, print_json, print_table, run
from liftlog.messages import ClusterStatusReply, StreamInfo

NODE_TIMEOUT_MS = 1500


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("cluster", help="who is alive, who leads what")
    actions = group.add_subparsers(dest="action", required=True)
    status = actions.add_parser("status", help="nodes, controller, and every replica as its own node sees it")
    add_client_options(status)
    status.set_defaults(run=lambda args: run(_status(args)))
    transfer = actions.add_parser("transfer", help="make another node the controller")
    transfer.add_argument("node", metavar="NODE", type=positive_count)
    add_client_options(transfer)
    transfer.set_defaults(run=lambda args: run(_transfer(args)))
    rebalance = actions.add_parser("rebalance", help="give every partition back to its preferred leader")
    add_client_options(rebalance)
    rebalance.set_defaults(run=lambda args: run(_rebalance(args)))


async def _status(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        first = await client.status()
        views = await _views(client, first)
        try:
            streams = await client.streams(timeout_ms=NODE_TIMEOUT_MS)
        except (RequestFailed, Unreachable):
            # Without a controller nobody can say it for certain; the nodes' own views are still worth seeing.
            streams = []
    newest = max(views.values(), key=lambda view: (view.term, view.applied), default=first)
    if args.json:
        plain = {
            "controller": newest.controller,
            "term": newest.term,
            "applied": newest.applied,
            "nodes": [
                {**to_plain(info), "answers": info.node in views}
                for info in sorted(newest.nodes, key=lambda info: info.node)
            ],
            "streams": [to_plain(stream) for stream in streams],
            "replicas": {str(node): to_plain(view.replicas) for node, view in sorted(views.items())},
            "counters": {str(node): view.counters for node, view in sorted(views.items())},
        }
        print_json(plain)
    else:
        _print_status(newest, views, streams)
    return 0


async def _views(client: Client, first: ClusterStatusReply) -> dict[int, ClusterStatusReply]:
    """Every node's own view; nodes that do not answer are left out."""
    views = {}
    for node in sorted({info.node for info in first.nodes} | {first.answered_by}):
        try:
            views[node] = await client.status(node, timeout_ms=NODE_TIMEOUT_MS)
        except (Unreachable, RequestFailed):
            continue
    return views


def _print_status(
    newest: ClusterStatusReply, views: dict[int, ClusterStatusReply], streams: list[StreamInfo]
) -> None:
    controller = f"node {newest.controller}" if newest.controller else "none"
    print(f"controller: {controller}, term {newest.term}, {newest.applied} entries applied")
    rows: list[list[object]] = [
        [
            info.node,
            info.address,
            "live" if info.live else "lost",
            "yes" if info.node in views else "no",
            info.incarnation,
            "voter" if info.voter else "-",
        ]
        for info in sorted(newest.nodes, key=lambda info: info.node)
    ]
    print_table(rows, ["NODE", "ADDRESS", "SESSION", "ANSWERS", "INCARNATION", "ROLE"])
    names = {stream.id: stream.config.name for stream in streams}
    replicas: list[list[object]] = [
        [
            names.get(replica.partition.stream, f"id {replica.partition.stream}"),
            replica.partition[1],
            node,
            replica.role,
            replica.epoch,
            replica.leo,
            replica.hw,
            replica.state,
        ]
        for node, view in sorted(views.items())
        for replica in view.replicas
    ]
    if replicas:
        print()
        replicas.sort(key=lambda row: (str(row[0]), int(str(row[1])), int(str(row[2]))))
        print_table(replicas, ["STREAM", "PARTITION", "NODE", "ROLE", "EPOCH", "LEO", "HW", "STATE"])


async def _transfer(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.transfer_controller(args.node)
    _say(args, detail or f"node {args.node} becomes controller")
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
