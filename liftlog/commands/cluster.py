"""`liftlog cluster`: who is alive, who leads what; hand over the controller; restore preferred leaders."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from pathlib import Path
from typing import Protocol

from liftlog import config as configuration
from liftlog.api.plain import to_plain
from liftlog.client import RequestFailed, Unreachable
from liftlog.client.direct import NodesClient
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import (
    add_client_options,
    connect,
    host_and_port,
    positive_count,
    print_json,
    print_table,
    run,
)
from liftlog.messages import ClusterStatusReply, StreamInfo
from liftlog.security import CLIENT_SECRET_VARIABLE, NONE

NODE_TIMEOUT_MS = 1500


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("cluster", help="who is alive, who leads what")
    actions = group.add_subparsers(dest="action", required=True)
    status = actions.add_parser("status", help="nodes, controller, and every replica as its own node sees it")
    status.add_argument(
        "--node",
        metavar="HOST:PORT",
        action="append",
        default=[],
        type=host_and_port,
        help="ask the node that listens here for clients, and those that it knows, without NATS; may be "
        "given several times",
    )
    status.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="ask the node of this configuration file, and those that it knows, without NATS; cluster and "
        "clients' secret are those of the file unless an option says otherwise",
    )
    add_client_options(status)
    status.set_defaults(run=lambda args: run(_status(args)))
    transfer = actions.add_parser("transfer", help="make another node the controller")
    transfer.add_argument("node", metavar="NODE", type=positive_count)
    add_client_options(transfer)
    transfer.set_defaults(run=lambda args: run(_transfer(args)))
    rebalance = actions.add_parser("rebalance", help="give every partition back to its preferred leader")
    add_client_options(rebalance)
    rebalance.set_defaults(run=lambda args: run(_rebalance(args)))


class Asks(Protocol):
    """Who can be asked about a cluster: by NATS (`Client`), or at its nodes' own doors (`NodesClient`)."""

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply: ...

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]: ...

    async def known_streams(self, node: int = 0, timeout_ms: int = 0) -> list[StreamInfo]: ...


async def _status(args: argparse.Namespace) -> int:
    if args.node or args.config:
        async with _nodes_client(args) as nodes:
            view = await look_at(nodes)
    else:
        view = await _look_by_nats(args)
    if args.json:
        print_json(_plain(view))
    else:
        _print_status(view)
    return 0 if view.takes_messages else 1


async def _look_by_nats(args: argparse.Namespace) -> ClusterView:
    try:
        client = await connect(args)
    except Unreachable as error:
        raise Unreachable(f"{error}; or ask a node itself with --node HOST:PORT") from None
    async with client:
        return await look_at(client)


def _nodes_client(args: argparse.Namespace) -> NodesClient:
    """By the options --node and --config. Raises LiftlogError for a file that cannot be used."""
    seeds, cluster, secret = list(args.node), args.cluster, args.secret_file
    if args.config:
        config = configuration.load(args.config, os.environ, {})
        seeds.append(config.address)
        if cluster == configuration.DEFAULT_CLUSTER:
            cluster = config.cluster
        if secret is None and not os.environ.get(CLIENT_SECRET_VARIABLE):
            secret = config.client_secret_file or NONE
    return NodesClient(seeds, cluster=cluster, secret_file=secret, timeout_ms=int(args.timeout * 1000))


async def look_at(client: Asks, timeout_ms: int = 0) -> ClusterView:
    """Ask every node what it knows. Raises Unreachable if not one answers within `timeout_ms`."""
    first = await client.status(timeout_ms=timeout_ms)
    numbers = {info.node for info in first.nodes} | {*first.contact.voters} - {first.answered_by}
    asked = await asyncio.gather(*(_ask_node(client, number) for number in sorted(numbers)))
    answers = {answer.answered_by: answer for answer in (first, *asked) if answer is not None}
    newest = max(answers.values(), key=lambda answer: (answer.term, answer.applied))
    streams: list[StreamInfo] = []
    if any(answer.contact.has_controller for answer in answers.values()):
        with contextlib.suppress(RequestFailed, Unreachable):
            return ClusterView(answers, await client.streams(timeout_ms=NODE_TIMEOUT_MS))
    # Without a controller nobody can say it for certain; what was last known is still worth seeing.
    with contextlib.suppress(RequestFailed, Unreachable):
        streams = await client.known_streams(newest.answered_by, timeout_ms=NODE_TIMEOUT_MS)
    return ClusterView(answers, streams)


async def _ask_node(client: Asks, node: int) -> ClusterStatusReply | None:
    """A node's own view; None if it does not answer in time."""
    try:
        return await client.status(node, timeout_ms=NODE_TIMEOUT_MS)
    except (Unreachable, RequestFailed):
        return None


def _plain(view: ClusterView) -> dict[str, object]:
    newest, answers = view.newest, sorted(view.answers.items())
    return {
        "takes_messages": view.takes_messages,
        "problems": view.problems,
        "remarks": view.remarks,
        "controller": view.controller,
        "term": newest.term,
        "applied": newest.applied,
        "nodes": [{**to_plain(info), "answers": info.node in view.answers} for info in view.nodes()],
        "streams": [to_plain(stream) for stream in view.streams],
        "replicas": {str(node): to_plain(answer.replicas) for node, answer in answers},
        "contact": {str(node): to_plain(answer.contact) for node, answer in answers},
        "counters": {str(node): answer.counters for node, answer in answers},
    }


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
        ]
        for info in view.nodes()
    ]
    print_table(rows, ["NODE", "ADDRESS", "SESSION", "ANSWERS", "CONTACT", "INCARNATION", "VOTE"])
    replicas: list[list[object]] = [
        [
            view.name(replica.partition.stream),
            replica.partition[1],
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
        replicas.sort(key=lambda row: (str(row[0]), int(str(row[1])), int(str(row[2]))))
        print_table(replicas, ["STREAM", "PARTITION", "NODE", "ROLE", "EPOCH", "LEO", "HW", "STATE"])
    print()
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
