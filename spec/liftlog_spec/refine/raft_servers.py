"""Which server of the model a disk is. A node that comes back with another disk is another server: it has
promised nothing, and nothing of what the former one promised binds it.
"""

from __future__ import annotations

from collections.abc import Sequence


class Servers:
    """Servers by the order in which they were heard of; the first ones are the nodes that are there at first,
    whose disks are known when they start.
    """

    __slots__ = ("_by_node", "disks", "nodes", "present", "replaced")

    def __init__(self, nodes: Sequence[int]) -> None:
        self.nodes = list(nodes)
        """The node of each server."""
        self.disks = [""] * len(self.nodes)
        """Its disk; empty as long as nobody has named it."""
        self.present = {node: server for server, node in enumerate(self.nodes)}
        """The server that each node lives on now."""
        self._by_node: dict[int, tuple[int, ...]] = {
            node: (server,) for server, node in enumerate(self.nodes)
        }
        self.replaced = False
        """Whether some node has had several disks."""

    def of(self, node: int, disk: str) -> int:
        """The server with this disk, -1 if there is none. A disk that nobody has named yet is this one."""
        for server in self.all_of(node):
            self.disks[server] = self.disks[server] or disk
            if self.disks[server] == disk:
                return server
        return -1

    def all_of(self, node: int) -> tuple[int, ...]:
        """All that the node has ever lived on, the newest first."""
        return self._by_node.get(node, ())

    def add(self, node: int, disk: str) -> int:
        """One more. The node lives on it from its next start on, or, if it is new, at once."""
        server = len(self.nodes)
        self.nodes.append(node)
        self.disks.append(disk)
        self.replaced = self.replaced or node in self._by_node
        self._by_node[node] = (server, *self.all_of(node))
        self.present.setdefault(node, server)
        return server

    def name(self, server: int) -> str:
        """For people: the node, and its disk if it has had several."""
        node = self.nodes[server]
        return f"node {node}" if len(self._by_node[node]) == 1 else f"node {node} (disk {self.disks[server]})"
