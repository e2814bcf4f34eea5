"""Which clients' rights are in force on the nodes, and whether it is the same everywhere (V9): lines of
`cluster status`. Each node reads a file of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from liftlog.messages import ClusterStatusReply
from liftlog.messages.rightstold import CLIENTS, DIGEST, MISTAKEN
from liftlog.rights.book import shown_digest


def digests(answers: Mapping[int, ClusterStatusReply]) -> dict[int, str]:
    """By nodes, in order; empty: its clients have no names. Nothing at all if none has."""
    found = {node: answer.counters.get(DIGEST, 0) for node, answer in sorted(answers.items())}
    if not any(found.values()):
        return {}
    return {node: shown_digest(digest) if digest else "" for node, digest in found.items()}


def rights_line(answers: Mapping[int, ClusterStatusReply]) -> str:
    """What is in force, in words; empty where clients have no names."""
    by_digest: dict[str, list[int]] = {}
    for node, digest in digests(answers).items():
        by_digest.setdefault(digest, []).append(node)
    told = []
    for digest, nodes in by_digest.items():
        where = f"on node{'s' * (len(nodes) != 1)} {', '.join(map(str, nodes))}"
        count = answers[nodes[0]].counters.get(CLIENTS, 0)
        told.append(f"{count} named clients, digest {digest}, {where}" if digest else f"none {where}")
    return f"rights: {'; '.join(told)}" if told else ""


def rights_remarks(answers: Mapping[int, ClusterStatusReply]) -> list[str]:
    """What an operator should put right."""
    remarks = []
    if len(set(digests(answers).values())) > 1:
        remarks.append(
            "clients' rights, or their secrets, are not the same on all nodes: a client may do here what it "
            "may not do there; give all nodes the same files, and send each SIGHUP"
        )
    for node, answer in sorted(answers.items()):
        if answer.counters.get(MISTAKEN, 0):
            remarks.append(
                f"node {node} keeps the rights of clients that it had: its files have a mistake, which its "
                "log names, and 'liftlog config check FILE' on it"
            )
    return remarks
