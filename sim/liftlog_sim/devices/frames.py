"""A message on its way through the simulated network: bytes, and what a link says once."""

from __future__ import annotations

from liftlog.types import FIRST_CLUSTER, ClusterEpoch


class OfEpoch(bytes):
    """A frame, and of which cluster its sender was when it left (M5), if not of the first one. On real
    links it is said once: what a broken peer alters, it says as the cluster's that it is of.
    """

    epoch: ClusterEpoch = FIRST_CLUSTER
