"""Somebody who has to do with a stream of another cluster, puts records there, takes some away, removes it,
and makes it again; and with its mirror here, which he makes, gives other leaders, and removes (R28).
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.messages import (
    AlterStreamRequest,
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    ElectLeaderRequest,
    StreamChanges,
)
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.elsewhere import ORIGIN, FarStream
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.workload.beginning import FILTERED_SHARE, starts
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operating import StreamOperator

MIRROR, SUBJECT = "afar", "afar.in"
MADE_AGAIN_SHARE, AWAY_SHARE, TAKEN_SHARE = 0.04, 0.03, 0.3
"""What becomes of the stream there, beside that it grows."""
REMOVED_SHARE, ELECTED_SHARE, STRAY_SHARE, GROWN_SHARE = 0.03, 0.2, 0.1, 0.2
"""What becomes of the mirror that is there; the last, if it has too few partitions."""
JOURNAL_SHARE, UNFIT_SHARE = 0.5, 0.25


class FarOperator(StreamOperator):
    """Of both."""

    __slots__ = ("_made",)

    def __init__(self, shared: Clientele) -> None:
        every_us = shared.cluster.knobs.afar_interval_us
        super().__init__(shared, shared.cluster.chances.turns("afar/0", every_us), every_us)
        self._made = 0

    def _wanted(self, draws: Draws) -> ClientMessage | None:
        self._there(draws.part("there"))
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        mirror, far = newest.streams.get(MIRROR), self._cluster.far.stream
        if mirror is None:
            return self._creation(draws, far)
        choice, number = draws.random(), draws.randrange(len(mirror.partitions))
        if choice < REMOVED_SHARE:
            return DeleteStreamRequest(MIRROR)
        choice -= REMOVED_SHARE
        if choice < ELECTED_SHARE:
            return ElectLeaderRequest(MIRROR, number, self._shared.any_node(draws))
        choice -= ELECTED_SHARE
        if choice < STRAY_SHARE:
            self._stray(SUBJECT, "stray-afar")
        elif choice < STRAY_SHARE + GROWN_SHARE and far is not None:
            wanted = far.config.partitions
            if mirror.config.origins is UNSET and wanted > mirror.config.partitions:
                return AlterStreamRequest(MIRROR, StreamChanges(partitions=wanted))
        return None

    def _creation(self, draws: Draws, far: FarStream | None) -> ClientMessage:
        self._shared.account.count("mirrors of another cluster asked for")
        partitions = far.config.partitions if far is not None else 1
        if draws.part("unfit").random() < UNFIT_SHARE:
            partitions = 1
        wanted = StreamConfig(
            MIRROR,
            SUBJECT,
            partitions,
            min(3, self._cluster.knobs.nodes),
            mirror=ORIGIN,
            segment_records=draws.choice((5, 10)),
            mirror_filter="far.1" if draws.part("filter").random() < FILTERED_SHARE else UNSET,
            starts=starts(draws.part("starts"), [ORIGIN], self._cluster.kernel.now_us // MILLISECOND),
            removal=True if draws.part("removal").random() < JOURNAL_SHARE else UNSET,
        )
        return CreateStreamRequest(wanted)

    # -- there ---------------------------------------------------------------------------------------------

    def _there(self, draws: Draws) -> None:
        far, choice = self._cluster.far, draws.random()
        if far.stream is None or choice < MADE_AGAIN_SHARE:
            self._make(draws)
        elif choice < MADE_AGAIN_SHARE + AWAY_SHARE:
            far.remove()
        stream = far.stream
        if stream is None:
            return
        now_ms = self._cluster.kernel.now_us // MILLISECOND
        for number in range(len(stream.logs)):
            stream.put(number, draws.choice((0, 1, 1, 2, 7)), now_ms)
        if draws.random() < TAKEN_SHARE:
            self._take_away(draws, stream)

    def _make(self, draws: Draws) -> None:
        """Mostly in the same cluster; else that was recovered, or is another one."""
        self._made += 1
        cluster = draws.choice(("1-far", "1-far", "1-far", "2-far", "1-other"))
        id = 10 + self._made if draws.random() < 0.7 else 10
        if f"{cluster}/{id}" in self._cluster.far.made:
            id = 10 + self._made
        self._cluster.far.make(cluster, id, draws.choice((1, 1, 2)))
        self._shared.account.count("origins made in another cluster")

    def _take_away(self, draws: Draws, stream: FarStream) -> None:
        log = stream.logs[draws.randrange(len(stream.logs))]
        end = len(log.records)
        if not end:
            return
        if draws.random() < 0.3:
            log.start = max(log.start, draws.randrange(end))
        else:
            log.gone.add(draws.randrange(end))
