"""A data folder serves one cluster, by its name."""

from __future__ import annotations

import pytest

from liftlog.storage.layout import CLUSTER
from liftlog.storage.ownership import claim
from liftlog.storage.statefile import read_state, write_state
from liftlog.types import LiftlogError
from tests.storage.storage_harness import new_disk, restart


def test_a_folder_is_claimed_by_the_first_cluster_and_refused_to_another() -> None:
    disk = new_disk()
    restart(disk)
    claim(disk, "one")
    restart(disk)
    claim(disk, "one")
    with pytest.raises(LiftlogError, match="belongs to cluster 'one', not to 'two'; check 'cluster'"):
        claim(disk, "two")
    assert read_state(disk, CLUSTER) == b"one"


def test_a_note_that_cannot_be_read_is_no_other_cluster_s() -> None:
    disk = new_disk()
    write_state(disk, "other", b"one")
    disk.rename("other", CLUSTER)
    with pytest.raises(LiftlogError, match=r"cannot tell which cluster .*checksum does not match"):
        claim(disk, "one")
