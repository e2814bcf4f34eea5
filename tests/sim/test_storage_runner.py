"""The simulated storage thread: phases at different instants, and crashes between and inside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from liftlog.messages import AppendLog, Durable, Event, LogRead, ReadLog, StorageJob
from liftlog.types import PartitionId, Ticket
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.disk import SimulatedCrash
from liftlog_sim.devices.lanes import LanesRunner
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
    runner_type: type[SimStorageRunner] = SimStorageRunner
    engine_type: type[FakeEngine] = FakeEngine

    def __init__(self, times: StorageTimes = TIMES) -> None:
        self.kernel = Kernel()
        self.engine = self.engine_type(self.kernel)
        self.events: list[tuple[int, Event]] = []
        self.crashes = 0
        self.errors: list[Exception] = []
        self.runner = self.runner_type(
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


# -- journals apart ----------------------------------------------------------------------------------------


class LanedEngine(FakeEngine):
    """Appends are quick, and a sync of some logs answers for these."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.written: list[AppendLog] = []

    def is_quick(self, job: StorageJob) -> bool:
        return isinstance(job, AppendLog)

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]:
        self.phases.append(("write", self._kernel.now_us, len(jobs)))
        self.written += [job for job in jobs if isinstance(job, AppendLog)]
        return [LogRead(LOG, 1, []) for job in jobs if isinstance(job, ReadLog)]

    def sync_logs(self, logs: Collection[PartitionId]) -> list[Event]:
        mine = [job for job in self.written if job.log in logs]
        self.written = [job for job in self.written if job.log not in logs]
        self.phases.append(("sync", self._kernel.now_us, len(mine)))
        return [Durable(job.ticket) for job in mine]

    def sync(self) -> list[Event]:
        return self.sync_logs([LOG, LOG.journal])


class LanedSetup(Setup):
    runner_type = LanesRunner
    engine_type = LanedEngine

    def settle(self, ticket: int) -> None:
        self.runner.submit(AppendLog(LOG.journal, [], Ticket(ticket)))


def test_R5_journals_and_data_are_under_way_at_once_and_wait_for_their_own_kind() -> None:
    setup = LanedSetup()
    setup.settle(1)
    setup.kernel.run_until(50)
    setup.append(2)
    setup.settle(3)
    setup.kernel.run_until(SECOND)
    assert setup.engine.phases == [
        *(("write", 10, 1), ("write", 60, 1), ("sync", 110, 1)),
        *(("write", 120, 1), ("sync", 160, 1), ("sync", 220, 1)),
    ]
    assert setup.events == [(110, Durable(Ticket(1))), (160, Durable(Ticket(2))), (220, Durable(Ticket(3)))]


def test_what_is_no_plain_append_waits_for_both_and_others_wait_behind_it() -> None:
    setup = LanedSetup()
    setup.append(1)
    setup.settle(2)
    setup.kernel.run_until(50)
    setup.runner.submit(ReadLog(LOG, 1, 0, 10, 100))
    setup.append(3)
    setup.kernel.run_until(SECOND)
    assert setup.engine.phases[-2:] == [("write", 120, 2), ("sync", 220, 1)]
    assert [event for _, event in setup.events][2:] == [LogRead(LOG, 1, []), Durable(Ticket(3))]


def test_a_crash_between_the_syncs_of_both_reports_one() -> None:
    setup = LanedSetup()
    setup.settle(1)
    setup.kernel.run_until(50)
    setup.append(2)
    setup.kernel.run_until(130)
    setup.runner.detach()
    setup.kernel.run_until(SECOND)
    assert [event for _, event in setup.events] == [Durable(Ticket(1))]
