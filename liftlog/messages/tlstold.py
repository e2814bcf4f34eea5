"""Counters in a node's status that tell of TLS; none of them where it has no certificate."""

from __future__ import annotations

LEFT_S = "tls.left_s"
"""So many seconds its certificate is still valid; 0 afterwards."""
MISTAKEN = "tls.mistaken"
"""1: the files have a mistake, and the node shows the certificate that it had."""
READ_AGAIN = "tls.read"
"""How often the files were read again."""
PLAIN_PEERS = "tls.plain_peers"
"""Nodes that have called this one without TLS."""
PLAIN_CLIENTS = "tls.plain_clients"
"""Clients that have called this node without TLS."""
