"""A node whose disk can be made slow: `liftlog serve` on a disk that waits after each sync.

For measurements and tests. While the file that is named first holds a number, each sync takes so many
milliseconds longer. The node itself is that of `liftlog serve`, and knows nothing of it.

Run as ``python -m liftlog.bench.sicknode FILE --config liftlog.toml --json --with-parent``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from liftlog.commands.serve import add_parser, serve
from liftlog.real.disk import RealDisk, RealFile
from liftlog.real.local_cluster import LocalCluster, LocalNode
from liftlog.types import LiftlogError


def slow_disk(control: Path) -> type[RealDisk]:
    """The operating system's disk, with syncs that take longer while the file says so."""

    def wait() -> None:
        if control.exists() and (text := control.read_text()):
            time.sleep(float(text) / 1000)

    class SlowFile(RealFile):
        def sync(self) -> None:
            super().sync()
            wait()

    class SlowDisk(RealDisk):
        file_type = SlowFile

        def sync_directory(self, path: str) -> None:
            super().sync_directory(path)
            wait()

    return SlowDisk


class SickNode:
    """What can be done to the disk of one node of a local cluster."""

    def __init__(self, node: LocalNode) -> None:
        self.node = node
        self._control = node.folder / "sync-takes-longer-ms"
        node.program = ("liftlog.bench.sicknode", str(self._control))

    def slow(self, longer_ms: float) -> None:
        """From now on each sync takes so much longer; 0 = no more."""
        if longer_ms:
            # Renamed into its place, so that nobody reads half of it.
            new = self._control.with_suffix(".new")
            new.write_text(f"{longer_ms:g}")
            new.replace(self._control)
        else:
            self._control.unlink(missing_ok=True)


def with_slow_disks(cluster: LocalCluster) -> dict[int, SickNode]:
    """For a cluster that is not started yet: every node gets a disk that can be made slow."""
    return {number: SickNode(node) for number, node in cluster.nodes.items()}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="liftlog.bench.sicknode")
    add_parser(parser.add_subparsers(required=True))
    try:
        return serve(parser.parse_args(["serve", *argv[1:]]), slow_disk(Path(argv[0])))
    except LiftlogError as error:
        print(f"liftlog: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
