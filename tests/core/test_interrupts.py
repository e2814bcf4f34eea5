"""An interrupt never tears apart starting a process and keeping its handle."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from liftlog.real import interrupts

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Both signals raise KeyboardInterrupt; what pytest had set is put back."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_waits_for_the_end_of_the_block(number: signal.Signals) -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt):
        with interrupts.held():
            signal.raise_signal(number)
            steps.append("started")
            signal.raise_signal(number)
            steps.append("kept")
        steps.append("after the block")
    assert steps == ["started", "kept"]
    assert {signal.getsignal(each) for each in BOTH} == {signal.default_int_handler}


def test_an_error_inside_is_not_lost() -> None:
    with pytest.raises(ValueError, match="inside"), interrupts.held():
        raise ValueError("inside")
    with pytest.raises(KeyboardInterrupt) as caught, interrupts.held():
        signal.raise_signal(signal.SIGINT)
        raise ValueError("inside")
    assert isinstance(caught.value.__context__, ValueError)


def test_a_process_started_inside_hears_its_signals() -> None:
    with interrupts.held():
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with process:
        process.terminate()
        assert process.wait(timeout=30) == -signal.SIGTERM


def test_other_threads_may_start_processes_too() -> None:
    done = []

    def work() -> None:
        with interrupts.held():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_a_running_process_does_not_outlive_the_block() -> None:
    command = [sys.executable, "-c", "input()"]
    with (
        pytest.raises(ValueError, match="inside"),
        interrupts.running(command, stdin=subprocess.PIPE) as process,
    ):
        raise ValueError("inside")
    with process:
        assert process.returncode == -signal.SIGKILL
