"""The simulated storage thread: phases at different instants, and crashes between and inside them."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.messages import AppendLog, Durable, Event, LogRead, ReadLog, StorageJob
from liftlog.types import PartitionId, Ticket
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.disk import SimulatedCrash
from liftlog_sim.devices.options import StorageTimes
from liftlog_sim.devices.storage import SLOWEST_US, SimStorageRunner
from liftlog_sim.kernel import SECOND, Kernel

LOG = PartitionId(5, 0)
TIMES = StorageTimes(write_us=10, sync_us=100, sync_jitter_us=0, completion_us=0)


class FakeEngine:
    """Notes when its phases run; dies in the phase it is told to die in."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.phases: list[tuple[str, int, int]] = []
        self.tickets: list[Ticket] = []
        self.dies_in = ""

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        self.phases.append(("write", self._kernel.now_us, len(jobs)))
        if self.dies_in == "write":
            raise SimulatedCrash("write")
        self.tickets = [job.ticket for job in jobs if isinstance(job, AppendLog)]
        return [LogRead(LOG, 1, []) for job in jobs if isinstance(job, ReadLog)]

    def sync(self) -> list[Event]:
        self.phases.append(("sync", self._kernel.now_us, len(self.tickets)))
        if self.dies_in == "sync":
            raise SimulatedCrash("sync")
        return [Durable(ticket) for ticket in self.tickets]


class Setup:
    def __init__(self, times: StorageTimes = TIMES) -> None:
        self.kernel = Kernel()
        self.engine = FakeEngine(self.kernel)
        self.events: list[tuple[int, Event]] = []
        self.crashes = 0
        self.errors: list[Exception] = []
        self.runner = SimStorageRunner(
            self.kernel,
            Chances(self.kernel, 1).lane("1>disk", "sync"),
            times,
            self.engine,
            self._take,
            self._crash,
            self.errors.append,
        )

    def _take(self, events: list[Event]) -> None:
        self.events += [(self.kernel.now_us, event) for event in events]

    def _crash(self) -> None:
        self.crashes += 1
        self.runner.detach()

    def append(self, ticket: int) -> None:
        self.runner.submit(AppendLog(LOG, [], Ticket(ticket)))


def test_a_group_is_written_then_synced_then_reported() -> None:
    setup = Setup()
    setup.append(1)
    setup.append(2)
    setup.kernel.run_until(SECOND)
    assert setup.engine.phases == [("write", 10, 2), ("sync", 110, 2)]
    assert setup.events == [(110, Durable(Ticket(1))), (110, Durable(Ticket(2)))]


def test_what_comes_during_a_group_forms_the_next_one() -> None:
    setup = Setup()
    setup.append(1)
    setup.kernel.run_until(50)
    setup.append(2)
    setup.append(3)
    setup.kernel.run_until(SECOND)
    assert [phase[0] for phase in setup.engine.phases] == ["write", "sync", "write", "sync"]
    assert setup.engine.phases[2] == ("write", 120, 2)


def test_reads_are_answered_without_a_sync() -> None:
    setup = Setup()
    setup.runner.submit(ReadLog(LOG, 1, 0, 10, 100))
    setup.kernel.run_until(SECOND)
    assert setup.engine.phases == [("write", 10, 1)]
    assert [at for at, _ in setup.events] == [10]


def test_a_crash_between_the_phases_reports_nothing() -> None:
    setup = Setup()
    setup.append(1)
    setup.kernel.run_until(50)
    setup.runner.detach()
    setup.kernel.run_until(SECOND)
    assert setup.engine.phases == [("write", 10, 1)]
    assert setup.events == []


def test_a_crash_between_sync_and_report_reports_nothing() -> None:
    setup = Setup(StorageTimes(write_us=10, sync_us=100, sync_jitter_us=0, completion_us=1_000_000))
    setup.append(1)
    setup.kernel.run_until(115)
    setup.runner.detach()
    setup.kernel.run_until(3 * SECOND)
    assert [phase[0] for phase in setup.engine.phases] == ["write", "sync"]
    assert setup.events == []


def test_a_crash_inside_a_phase_ends_the_process() -> None:
    for phase in ("write", "sync"):
        setup = Setup()
        setup.engine.dies_in = phase
        setup.append(1)
        setup.append(2)
        setup.kernel.run_until(SECOND)
        assert setup.crashes == 1
        assert setup.events == []


def test_a_slow_disk_is_slow_but_answers() -> None:
    setup = Setup(StorageTimes(write_us=10, sync_us=100_000, sync_jitter_us=0))
    setup.runner.slowness = 1000
    setup.append(1)
    setup.kernel.run_until(2 * SLOWEST_US)
    assert [at for at, _ in setup.events] == [10_000 + SLOWEST_US]
