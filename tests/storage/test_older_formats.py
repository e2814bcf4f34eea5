"""What the releases have written is read by the present code, from the folder as it was left (U3)."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from liftlog.core.metadata.image import ImageReader
from liftlog.core.node import Node
from liftlog.nodeconfig import NodeConfig
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from tests.releases import ROOT, releases, unpack

RELEASES = [release.version for release in releases()]


def folder_of(version: str, where: Path) -> Path:
    """A copy of the data folder that a node of a release has left."""
    with tarfile.open(ROOT / "tests" / "golden" / f"release-{version}" / "data.tar.xz") as archive:
        unpack(archive, where)
    return where / "data"


@pytest.mark.parametrize("version", RELEASES)
def test_u3_a_node_of_the_present_code_starts_from_what_a_release_has_left(
    version: str, tmp_path: Path
) -> None:
    folder = folder_of(version, tmp_path)
    engine = StorageEngine(RealDisk(str(folder)))
    recovered = engine.recover(1, new_disk_id="another", nonce=1)
    assert recovered.clean and not recovered.renewed and recovered.identity.disk_id != "another"
    assert recovered.snapshot is not None and recovered.raft_base.index > 0 and recovered.raft_entries
    reader = ImageReader()
    for chunk in recovered.snapshot.chunks:
        reader.take(chunk)
    assert reader.head is not None and (reader.head.version, reader.head.level) == (2, 1)
    assert [(summary.tail.value, summary.damage) for summary in recovered.logs] == [("clean", ())] * 2
    node = Node(NodeConfig(1, (1,)), recovered)
    assert sorted(node.metadata.streams) == ["keyed", "plain"] and node.metadata.deleted_at > 0
    assert node.metadata.level == 1 and node.metadata.applied >= recovered.snapshot.index
    engine.close(True)
    shutil.rmtree(folder)
