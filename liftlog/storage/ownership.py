"""Which cluster a data folder serves, by name.

Two clusters that were begun with the same node numbers look alike to a disk: each has a birth (I2), terms
from 1 on and commands from 1 on. A disk of one that is started in the other would vote there with what it
remembers of its own. Their secrets do not tell them apart either, since they come from the configuration. So
the folder says whose it is, and a start under another name is refused.
"""

from __future__ import annotations

from liftlog.ports import Disk
from liftlog.storage.layout import CLUSTER
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import LiftlogError


def claim(disk: Disk, cluster: str) -> None:
    """Note, durably, that the locked folder is this cluster's; a folder of a release before the note was kept
    gets it now. Raises LiftlogError if it is another's or cannot be told, DiskError, SyncFailed.
    """
    remedy = (
        "check 'cluster' and the data folder in the configuration; to rename a whole cluster, stop its nodes "
        f"and remove the file '{CLUSTER}' from each data folder"
    )
    try:
        found = read_state(disk, CLUSTER)
    except CorruptState as error:
        raise LiftlogError(f"cannot tell which cluster the data folder is of: {error}; {remedy}") from None
    if found is None:
        write_state(disk, CLUSTER, cluster.encode())
    elif found != cluster.encode():
        name = found.decode("utf-8", "replace")
        raise LiftlogError(f"the data folder belongs to cluster '{name}', not to '{cluster}'; {remedy}")
