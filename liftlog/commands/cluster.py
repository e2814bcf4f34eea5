"""`liftlog cluster`: who is alive, who leads what; hand over the controller; restore preferred leaders."""

from __future__ import annotations

import argparse

from liftlog.api.plain import to_plain
from liftlog.commands.asking import add_node_options, look_at, who_answers
from liftlog.commands.breakdown import add_breakdown
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import (
    add_client_options,
    connect,
    positive_count,
    print_json,
    print_table,
    run,
)
from liftlog.messages import ClusterStatusReply
from liftlog.real.breakdown import PREFIX


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("cluster", help="who is alive, who leads what")
    actions = group.add_subparsers(dest="action", required=True)
    status = actions.add_parser("status", help="nodes, controller, and every replica as its own node sees it")
    add_node_options(status)
    status.set_defaults(run=lambda args: run(_status(args)))
    add_breakdown(actions)
    transfer = actions.add_parser("transfer", help="make another node the controller")
    transfer.add_argument("node", metavar="NODE", type=positive_count)
    add_client_options(transfer)
    transfer.set_defaults(run=lambda args: run(_transfer(args)))
    rebalance = actions.add_parser("rebalance", help="give every partition back to its preferred leader")
    add_client_options(rebalance)
    rebalance.set_defaults(run=lambda args: run(_rebalance(args)))


async def _status(args: argparse.Namespace) -> int:
    async with await who_answers(args) as client:
        view = await look_at(client)
    if args.json:
        print_json(_plain(view))
    else:
        _print_status(view)
    return 0 if view.takes_messages else 1


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
