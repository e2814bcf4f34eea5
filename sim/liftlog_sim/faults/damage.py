"""Disks that decay, mix up places, refuse and lie: the disk faults of `faults/faults.py`, under the
atlas.

Each strikes one file of one disk, chosen at random, most often a segment. What can be struck, and what it
means for which offsets, `faults/atlas.py` knows; a strike that it does not allow is left out.

    flip        one bit changes
    index_decay one bit of an index or of a subject file changes
    sector      a run of whole sectors becomes garbage or zeros
    misdirect   bytes that were just appended lie at another place of this disk, and where they belong is what
                was there before: nothing
    latent      some sectors cannot be read, for ever or a few times
    lost_sync   the next sync of a segment reports success and writes nothing but the file's size; a power
                loss shows it
    lost_folder a log's folder vanishes while its node is down, or what is in it does

What a strike does may be hidden by the page cache until that is dropped, by the kernel or by a power loss.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.format import ATTRIBUTES_POSITION, SEALED, CorruptBatch, UnsupportedBatch, moved_to, verify_frame
from liftlog.storage.layout import DERIVED_SUFFIXES, log_directory
from liftlog.storage.logstate import start_path
from liftlog.types import PartitionId
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.copies import SEGMENT_SUFFIX, Place, places, segment_paths
from liftlog_sim.devices.disk import SECTOR_BYTES, SimDisk
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.atlas import METADATA, STREAMS, WHOLE, Atlas, Harm, is_metadata, log_of
from liftlog_sim.faults.strikes import Strikes
from liftlog_sim.kernel import MILLISECOND, SECOND, Kernel

SECTORS_MOST = 4
DERIVED = ("hw", "clean")
METADATA_SHARE = 0.03
DERIVED_SHARE = 0.07
OTHER_SHARE = 0.3
"""Share of strikes below streams/ that choose among all files, not among segments only."""


class DiskFaults:
    """Strikes; see the module."""

    def __init__(
        self,
        kernel: Kernel,
        atlas: Atlas,
        strikes: Strikes,
        power_follows: Callable[[Machine, int], None],
    ) -> None:
        self._kernel = kernel
        self._atlas = atlas
        self._strikes = strikes
        self._power_follows = power_follows

    # -- the strikes ---------------------------------------------------------------------------------------

    def flip(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """One bit of a file decays."""
        path = self._file(machine, draws)
        if path:
            byte = draws.randrange(len(machine.disk.content(path)))
            if self._permits(machine, [(path, byte, byte + 1)]):
                machine.disk.flip(path, byte, draws.randrange(8))
                self._strikes.done(fault, f"a bit flips at byte {byte} of {path} on node {machine.number}")

    def index_decay(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """The same of what is derived, which is no damage to a copy: it can be made anew (D3, S1)."""
        indexes = [path for path in machine.disk.files_below(STREAMS) if path.endswith(DERIVED_SUFFIXES)]
        path = draws.choice([path for path in indexes if machine.disk.content(path)] or [""])
        if path:
            byte = draws.randrange(len(machine.disk.content(path)))
            machine.disk.flip(path, byte, draws.randrange(8))
            self._strikes.done(fault, f"a bit flips at byte {byte} of {path} on node {machine.number}")

    def sector(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """A run of sectors becomes garbage or zeros."""
        path, start, end = self._sectors(machine, draws)
        if not path or not self._permits(machine, [(path, start, end)]):
            return
        data = bytes(end - start) if draws.random() < 0.5 else draws.randbytes(end - start)
        hidden = draws.random() < 0.3
        machine.disk.overwrite(path, start, data, platter_only=hidden)
        self._strikes.done(
            fault, f"bytes {start}..{end - 1} of {path} on node {machine.number} are destroyed"
        )
        self._uncover(machine, hidden, draws)

    def latent(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """Some sectors cannot be read any more, or fail a few times."""
        path, start, end = self._sectors(machine, draws)
        times = draws.choice((-1, -1, 1, 3))
        if not path or not self._permits(machine, [(path, start, end)]):
            return
        machine.disk.unreadable(path, start, end - start, times)
        text = "for ever" if times < 0 else f"{times} times"
        self._strikes.done(
            fault, f"bytes {start}..{end - 1} of {path} on node {machine.number} fail to be read, {text}"
        )

    def misdirect(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """The newest batches of a segment lie elsewhere, and zeros where they belong."""
        disk = machine.disk
        newest = self._newest(machine)
        if not newest:
            return
        twins = [(batch, twin) for batch in newest for twin in self._twins(disk, batch)]
        if twins and draws.random() < 0.7:
            written, twin = draws.choice(twins)
            path, at = twin.path, twin.position
        else:
            written = draws.choice(newest)
            path, at = self._elsewhere(disk, written, draws)
        if not path:
            return
        length = min(written.end - written.position, len(disk.content(path)) - at)
        wrong = (path, at, at + length)
        if not self._permits(machine, [(written.path, written.position, written.end), wrong]):
            return
        hidden = draws.random() < 0.3
        data = disk.content(written.path)[written.position : written.end]
        disk.overwrite(written.path, written.position, bytes(len(data)), platter_only=hidden)
        if machine.mutants.checksum_without_place:
            data = _without_place(log_of(written.path), log_of(path), data)
        disk.overwrite(path, at, data[:length], platter_only=hidden)
        self._strikes.done(
            fault,
            f"bytes {written.position}..{written.end - 1} of {written.path} on node {machine.number} "
            f"were written to byte {at} of {path}",
        )
        self._uncover(machine, hidden, draws)

    def lost_sync(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """The next sync of a segment lies, if the atlas allows that then; often the power goes after it."""
        if not machine.up:
            return
        power = draws.random() < 0.7
        delay_us = draws.randrange(10 * MILLISECOND, 3 * SECOND)

        def decide(path: str, start: int, end: int) -> bool:
            if not path.startswith(STREAMS) or not path.endswith(SEGMENT_SUFFIX):
                return False
            if not self._strikes.active or not self._permits(machine, [(path, start, end)]):
                return False
            self._strikes.done(fault, f"a sync of {path} on node {machine.number} lies")
            if power:
                self._kernel.after(delay_us, self._power_follows, machine, fault.duration_us)
            return True

        machine.disk.lie_when(decide)

    def lost_folder(self, fault: Fault, machine: Machine, draws: Draws) -> None:
        """The node is killed, unless it is down, and one of its logs is gone."""
        disk = machine.disk
        logs = self._logs(disk)
        if not logs:
            return
        log = draws.choice(logs)
        folder = log_directory(log)
        if not self._atlas.allows(machine, log, WHOLE):
            return
        machine.kill()
        empty = draws.random() < 0.3
        for path in disk.files_below(folder + "/") if empty else [folder]:
            disk.vanish(path)
        self._atlas.note(machine, Harm(machine.number, start_path(log), 0, 0, log, WHOLE))
        what = "everything in" if empty else "the folder"
        self._strikes.done(fault, f"{what} {folder} on node {machine.number} is gone")

    # -- choosing ------------------------------------------------------------------------------------------

    def _file(self, machine: Machine, draws: Draws) -> str:
        """A file with content to strike; empty if there is none."""
        disk = machine.disk
        choice = draws.random()
        if choice < METADATA_SHARE:
            return draws.choice([path for path in METADATA if path in disk.files()] or [""])
        if choice < METADATA_SHARE + DERIVED_SHARE:
            return draws.choice([path for path in DERIVED if path in disk.files()] or [""])
        files = disk.files_below(STREAMS)
        if draws.random() >= OTHER_SHARE:
            files = [path for path in files if path.endswith(SEGMENT_SUFFIX)]
        return draws.choice([path for path in files if disk.content(path)] or [""])

    def _sectors(self, machine: Machine, draws: Draws) -> tuple[str, int, int]:
        """A file and a run of whole sectors of it."""
        path = self._file(machine, draws)
        if not path:
            return "", 0, 0
        size = len(machine.disk.content(path))
        start = draws.randrange((size - 1) // SECTOR_BYTES + 1) * SECTOR_BYTES
        return path, start, min(size, start + SECTOR_BYTES * draws.randint(1, SECTORS_MOST))

    def _newest(self, machine: Machine) -> list[Place]:
        """The last batches of each log on this disk."""
        newest: list[Place] = []
        for log in self._logs(machine.disk):
            segments = segment_paths(machine.disk, log)
            newest += [
                place
                for path in segments[-1:]
                for place in list(places(path, machine.disk.content(path)))[-3:]
            ]
        return newest

    def _twins(self, disk: SimDisk, written: Place) -> list[Place]:
        """Batches of other logs with the same offsets, over which this one fits: only the log differs."""
        length = written.end - written.position
        return [
            place
            for path in disk.files_below(STREAMS)
            if path.endswith(SEGMENT_SUFFIX) and log_of(path) != log_of(written.path)
            for place in places(path, disk.content(path))
            if (place.base, place.span) == (written.base, written.span)
            and place.position + length <= len(disk.content(path))
        ]

    def _logs(self, disk: SimDisk) -> list[PartitionId]:
        """The partitions that have files on this disk."""
        logs: list[PartitionId] = []
        for path in disk.files_below(STREAMS):
            log = log_of(path)
            if log is not None and log not in logs:
                logs.append(log)
        return logs

    def _elsewhere(self, disk: SimDisk, written: Place, draws: Draws) -> tuple[str, int]:
        """A place where these bytes may land: over a batch of equal length, or at the start of any sector.

        Above all where its offset fits as well. An empty path if there is none.
        """
        segments = [path for path in disk.files_below(STREAMS) if path.endswith(SEGMENT_SUFFIX)]
        if draws.random() < 0.7:
            length = written.end - written.position
            alike = [
                place
                for path in segments
                for place in places(path, disk.content(path))
                if place.end - place.position == length
                and (place.path, place.position) != (written.path, written.position)
            ]
            best = [place for place in alike if place.base == written.base and place.span == written.span]
            if best or alike:
                place = draws.choice(best or alike)
                return place.path, place.position
        path = draws.choice([path for path in segments if disk.content(path)] or [""])
        if not path:
            return "", 0
        at = draws.randrange((len(disk.content(path)) - 1) // SECTOR_BYTES + 1) * SECTOR_BYTES
        apart = path != written.path or at + written.end - written.position <= written.position
        return (path, at) if apart else ("", 0)

    # -- the atlas -----------------------------------------------------------------------------------------

    def _permits(self, machine: Machine, strikes: list[tuple[str, int, int]]) -> bool:
        """Ask the atlas for all of (path, start, end) and, if it agrees, let it note them."""
        harms: list[Harm] = []
        for path, start, end in strikes:
            if is_metadata(path):
                if not self._atlas.allows_wipe(machine):
                    return False
                self._atlas.note_disk(machine)
                return True
            harm = self._atlas.harm_of(machine, path, start, end)
            if harm is not None:
                if not self._atlas.allows(machine, harm.log, harm.range):
                    return False
                harms.append(harm)
        for harm in harms:
            self._atlas.note(machine, harm)
        return True

    def _uncover(self, machine: Machine, hidden: bool, draws: Draws) -> None:
        """What the page cache hides shows when the kernel drops it, unless the power goes before."""
        if hidden and draws.random() < 0.5:
            self._kernel.after(draws.randrange(5 * SECOND), self._evict, machine)

    def _evict(self, machine: Machine, second: object) -> None:
        machine.disk.evict()


def _without_place(log: PartitionId | None, other: PartitionId | None, data: bytes) -> bytes:
    """The planted bug `checksum_without_place`: a good batch of one log is as good in another. Played here,
    where batches lose their place, since nothing else can tell a checksum without it from one for this log.
    """
    if log is None or other is None:
        return data
    try:
        verify_frame(log, data)
    except (CorruptBatch, UnsupportedBatch):
        return data
    sealed = data[ATTRIBUTES_POSITION] & SEALED  # its key is made of its log, checksum or not
    return data if sealed else moved_to(other, data)
