"""A real process that is killed while it uses a queue on a real disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from liftlog.queue import BigQueue
from liftlog.types import TailState

ROOT = Path(__file__).resolve().parents[2]

USER = """
import sys
from liftlog.queue import BigQueue, QueueOptions
queue = BigQueue.open(sys.argv[1], options=QueueOptions(segment_bytes=10_000, repeat_max=5))
number = 0
while True:
    queue.enqueue(b"item %d" % number)
    item = queue.dequeue() if number % 3 == 0 else None
    print(number, "" if item is None else item.decode(), flush=True)
    number += 1
"""


@pytest.mark.real
def test_what_a_killed_process_had_enqueued_is_there_and_its_fronts_are_close(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    said = [process.stdout.readline().split() for _ in range(400)]
    process.kill()
    said += [line.split() for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    process.wait()
    process.stdout.close()
    handed_out = sum(len(line) > 1 for line in said)
    with BigQueue.open(tmp_path) as queue:
        assert queue.tail is TailState.INTACT
        assert len(said) <= queue.end_index <= len(said) + 1
        assert list(queue) == [b"item %d" % number for number in range(queue.end_index)]
        assert handed_out - 5 <= queue.front() <= handed_out + 1
