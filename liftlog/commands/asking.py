"""Asking every node of a cluster what it knows: by NATS, or at the doors of nodes whose address is known."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Set
from pathlib import Path
from typing import Protocol

from liftlog import config as configuration
from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.client.direct import NodesClient
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import add_client_options, connect, host_and_port
from liftlog.messages import ClusterStatusReply, StreamInfo
from liftlog.security import CLIENT_SECRET_VARIABLE, NONE
from liftlog.tls.files import client_tls

NODE_TIMEOUT_MS = 1500


def add_node_options(parser: argparse.ArgumentParser) -> None:
    """--node and --config, and those of every client; read by `who_answers`."""
    parser.add_argument(
        "--node",
        metavar="HOST:PORT",
        action="append",
        default=[],
        type=host_and_port,
        help="ask the node that listens here for clients, and those that it knows, without NATS; may be "
        "given several times",
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        type=Path,
        help="ask the node of this configuration file, and those that it knows, without NATS; cluster, "
        "clients' secret and TLS are those of the file unless an option says otherwise",
    )
    add_client_options(parser)


class Asks(Protocol):
    """Who can be asked about a cluster: by NATS (`Client`), or at its nodes' own doors (`NodesClient`)."""

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply: ...

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]: ...

    async def known_streams(self, node: int = 0, timeout_ms: int = 0) -> list[StreamInfo]: ...


async def who_answers(args: argparse.Namespace) -> Client | NodesClient:
    """By the options; a context. Raises Unreachable, LiftlogError."""
    if args.node or args.config:
        return _nodes_client(args)
    try:
        return await connect(args)
    except Unreachable as error:
        raise Unreachable(f"{error}; or ask a node itself with --node HOST:PORT") from None


def _nodes_client(args: argparse.Namespace) -> NodesClient:
    """By the options --node and --config. Raises LiftlogError for a file that cannot be used."""
    seeds, cluster, secret = list(args.node), args.cluster, args.secret_file
    tls = client_tls(args.tls_ca, args.tls_cert, args.tls_key, os.environ)
    if args.config:
        config = configuration.load(args.config, os.environ, {})
        seeds.append(config.address)
        if cluster == configuration.DEFAULT_CLUSTER:
            cluster = config.cluster
        if secret is None and not os.environ.get(CLIENT_SECRET_VARIABLE):
            # Where clients have names the file does not say which one asks.
            secret = config.client_secret_file or (None if config.clients_file else NONE)
        if tls is None and args.tls_ca is None and config.tls is not None:
            tls = config.tls.as_client
    timeout_ms = int(args.timeout * 1000)
    return NodesClient(seeds, cluster=cluster, secret_file=secret, timeout_ms=timeout_ms, tls=tls)


async def ask_all(
    client: Asks, timeout_ms: int = 0, known: Set[int] = frozenset()
) -> tuple[dict[int, ClusterStatusReply], set[int]]:
    """What every node says, and the numbers of those that did not answer in time; `known`: nodes beside
    those that the answers name. Raises Unreachable if not one answers within `timeout_ms`.
    """
    first = await client.status(timeout_ms=timeout_ms)
    numbers = {info.node for info in first.nodes} | {*first.contact.voters} | known
    asked = await asyncio.gather(*(_ask_node(client, n) for n in sorted(numbers - {first.answered_by})))
    answers = {answer.answered_by: answer for answer in (first, *asked) if answer is not None}
    return answers, numbers - answers.keys()


async def look_at(client: Asks, timeout_ms: int = 0) -> ClusterView:
    """What all nodes say, put together. Raises Unreachable if not one answers within `timeout_ms`."""
    answers, _ = await ask_all(client, timeout_ms)
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
