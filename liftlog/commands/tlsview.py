"""Which nodes speak TLS, who still calls them without, and until when their certificates are valid: lines of
`cluster status`, and of `config check` about one node.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from liftlog.config import ServerConfig
from liftlog.messages import ClusterStatusReply
from liftlog.messages.tlstold import LEFT_S, MISTAKEN, PLAIN_CLIENTS, PLAIN_PEERS
from liftlog.real.server import called_hosts
from liftlog.tls.looking import DAY_S, WARN_DAYS
from liftlog.tls.settings import ACCEPT, OFF

Answers = Mapping[int, ClusterStatusReply]


def tls_line(answers: Answers) -> str:
    """In words; empty where no node has a certificate."""
    left = {node: answer.counters[LEFT_S] for node, answer in answers.items() if LEFT_S in answer.counters}
    if not left:
        return ""
    first = min(left, key=lambda node: (left[node], node))
    told = [f"the first certificate to end is that of node {first}, in {left[first] // DAY_S} days"]
    without = sorted(answers.keys() - left.keys())
    if without:
        told.append(f"node{'s' * (len(without) != 1)} {', '.join(map(str, without))} without")
    plain = sum(_plain(answer) for answer in answers.values())
    told.append(f"{plain or 'no'} connection{'s' * (plain > 1)} without TLS")
    return f"TLS: {'; '.join(told)}"


def _plain(answer: ClusterStatusReply) -> int:
    """Of a node with a certificate; the one on which this was asked counts as any other."""
    return sum(answer.counters.get(name, 0) for name in (PLAIN_PEERS, PLAIN_CLIENTS))


def tls_remarks(answers: Answers) -> list[str]:
    """What an operator should put right."""
    remarks = []
    for node, answer in sorted(answers.items()):
        left_s = answer.counters.get(LEFT_S, WARN_DAYS * DAY_S)
        if not left_s:
            remarks.append(f"the certificate of node {node} has expired: write a new one into its files")
        elif left_s < WARN_DAYS * DAY_S:
            days = left_s // DAY_S
            text = f"the certificate of node {node} is valid for {days} more days: write a new one"
            remarks.append(f"{text} into its files, which it reads by itself")
        if answer.counters.get(MISTAKEN, 0):
            remarks.append(
                f"node {node} shows the certificate that it had: its files have a mistake, which its log "
                "names, and 'liftlog config check FILE' on it"
            )
    return remarks


def tls_lines(config: ServerConfig) -> list[str]:
    """What the certificate of a configuration is good for. Raises LiftlogError if nobody would believe it."""
    tls = config.tls
    if tls is None:
        return ["no TLS: whoever can listen on the way reads what passes; see docs/security.md#tls"]
    validity = tls.look(*called_hosts(config))
    days = validity.days_left(time.time())
    text = f"TLS: {tls.cert_file} is for {', '.join(validity.hosts)}, and valid until {validity.until}"
    lines = [f"{text}, {days} days"]
    if days < WARN_DAYS:
        lines.append("TLS: WARNING: the certificate ends soon; write a new one, it is read by itself")
    ports = [("nodes", "peers", tls.peers)] if config.peer_listen else []
    for what, key, mode in (*ports, ("clients", "clients", tls.clients)):
        if mode == ACCEPT:
            lines.append(f'TLS: {what} may still speak without it; say {key} = "require" in the end')
        elif mode == OFF:
            lines.append(f"TLS: {what} speak without it, and whoever can listen on the way reads that")
    return lines
