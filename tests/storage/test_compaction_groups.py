"""Which segments a compaction puts together into one file."""

from __future__ import annotations

from random import Random

import pytest

from liftlog.storage.compaction import Compactor
from liftlog.types import LogOptions
from liftlog_sim.devices.disk import SimDisk
from tests.storage.upkeep_harness import EAGER, LATER_MS, NO_LIMIT, contents, new_log, put


@pytest.mark.parametrize("seed", range(12))
def test_a_file_that_is_complete_takes_no_further_segment_in(seed: int) -> None:
    """What is gathered is counted as it is, and written compressed: a file that was full is so no longer.

    Found by the simulator: the next slice joined one more segment to a file that had been synced already.
    """
    random = Random(seed)
    options = LogOptions(segment_bytes=1500)
    disk = SimDisk(Random(1))
    log = new_log(disk, options)
    for number in range(150):
        pairs = [(b"k%d" % random.randrange(12), b"%d" % number + b"." * random.randrange(300))]
        put(log, pairs * random.randint(1, 4), codec="lz4")
    log.roll()
    wanted = {record.key: record for _, record in contents(log).values()}
    compactor = Compactor(log, disk)
    while not compactor.step(EAGER, NO_LIMIT, 0, LATER_MS, 1):
        pass
    assert compactor.clean_point == log.leo
    assert {record.key: record for _, record in contents(log).values()} == wanted
