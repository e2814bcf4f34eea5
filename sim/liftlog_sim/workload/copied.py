"""What clients of consumers find in mirrors: partitions that come and go (R28)."""

from __future__ import annotations

import msgspec

from liftlog.types import PartitionId
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.mirroring import MIRROR
from liftlog_sim.workload.targets import Target


class MirrorTargets:
    """Of one client: a partition is the same target as long as it is there."""

    __slots__ = ("_found", "_shared")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._found: dict[PartitionId, Target] = {}

    def there(self) -> list[Target]:
        """Those of the mirror that is there now, if it has a journal. Its subjects are its origin's."""
        cluster = self._shared.cluster
        newest = cluster.newest_metadata() if cluster.knobs.mirror_interval_us else None
        stream = newest.streams.get(MIRROR) if newest is not None else None
        origin = newest.streams.get(stream.config.mirrors) if newest and stream is not None else None
        if stream is None or origin is None or not stream.config.has_journal:
            return []
        config = msgspec.structs.replace(stream.config, subject=origin.config.subject)
        targets = []
        for partition in stream.partitions:
            if partition not in self._found:
                self._found[partition] = Target(config, partition)
            targets.append(self._found[partition])
        return targets
