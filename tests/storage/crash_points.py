"""Every Disk call of an operation, one after the other: the process dies at it, or the call fails.

A *scene* is a disk with its models (a snapshot of a `Twin`) and an act that a process carries out on it. The
act is repeated from the same snapshot, each time with another of its Disk calls as the last one, until it
comes through. What the crash leaves is then taken up by a new process in several ways: after a kill (the page
cache lives), after a power loss (un-synced sectors and names kept, lost or torn at random), and after a kill
whose successor loses power in its turn. Each must hold against the models, twice, and must be able to go on.

Most calls change nothing, so that many crash points leave the same disk under the same promises: each of them
is tried and counted, but what follows is carried out once (`Twin.fingerprint`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

from liftlog.messages import CheckpointHw, LogOpened, RebuildLog
from liftlog.types import LiftlogError
from liftlog_sim.devices.disk import SimulatedCrash
from tests.storage.crash_report import TRIED
from tests.storage.storage_harness import LOG
from tests.storage.twin import JobFailed, Mismatch, Twin

Act = Callable[[Twin], None]
Seen = set[bytes]

POWER_OUTCOMES = 1
"""Random outcomes of each power loss, in every run."""
CALLS_MAX = 20_000
"""An act that makes more calls than this does not end."""


class Scene:
    """A named operation: what the disk looks like before, and what is done."""

    def __init__(self, name: str, prepare: Act, act: Act, *, starts: bool = True) -> None:
        self.name = name
        self.prepare = prepare
        self.act = act
        self.starts = starts
        """The act begins on a running process; else it is (or contains) the start itself."""

    def __repr__(self) -> str:
        return self.name

    def snapshot(self) -> bytes:
        twin = Twin()
        twin.begin()
        self.prepare(twin)
        return twin.snapshot()


def started(scene: Scene, base: bytes, seed: int) -> Twin:
    """A copy of the scene's disk, with a process running unless the act is to start it."""
    twin = Twin.restored(base, seed)
    twin.kill()
    if scene.starts:
        twin.recover()
    return twin


def crash_everywhere(scene: Scene, *, deep: int = 0, outcomes: int = POWER_OUTCOMES) -> int:
    """Die at every Disk call of a scene; return how many there were. Raises Mismatch.

    `deep`: also die at every `deep`-th Disk call of the recovery that follows.
    """
    base = scene.snapshot()
    seen: Seen = set()
    for number in count(1):
        assert number < CALLS_MAX, f"{scene}: the act does not end"
        for variant in range(3):
            # How much of an append was written when the process died is drawn anew.
            twin = started(scene, base, number * 3 + variant)
            twin.disk.crash_after(number)
            try:
                scene.act(twin)
            except SimulatedCrash as crash:
                where = f"{scene}, call {number}: {crash}"
                check_crash(twin, where, number, seen, deep, outcomes)
                if not str(crash).startswith("append"):
                    break
            else:
                check_crash(twin, f"{scene}, at its end", number, seen, deep, outcomes)
                return number - 1
        TRIED["operation, crash"] += 1
    raise AssertionError


def check_crash(twin: Twin, where: str, number: int, seen: Seen, deep: int, outcomes: int) -> None:
    """All that may follow a crash, unless the same was checked before. Raises Mismatch."""
    twin.disk.detach()
    fingerprint = twin.fingerprint()
    if fingerprint in seen:
        return
    seen.add(fingerprint)
    dead = twin.snapshot()
    for kind in KINDS:
        for outcome in range(1 if kind == "kill" else outcomes):
            random = Random(number * 1009 + outcome)
            after = Twin.restored(dead, number)
            try:
                crash(after, kind, random)
                go_on(after, random)
            except Mismatch as mismatch:
                raise Mismatch(f"{where}; then {kind}, outcome {outcome}: {mismatch}") from mismatch
    if deep:
        for kind in ("kill", "power"):
            after = Twin.restored(dead, number)
            apply(after, kind, Random(number))
            crash_recovery(after, f"{where}; then {kind}", number, seen, deep)


KINDS = ("kill", "power", "kill-power")


def apply(twin: Twin, kind: str, random: Random) -> None:
    if kind == "kill":
        twin.kill()
    else:
        twin.power_loss(random)


def crash(twin: Twin, kind: str, random: Random) -> None:
    if kind == "kill-power":
        # The process between the two reports what it finds; nobody may be the wiser afterwards.
        twin.kill()
        twin.recover(reopen=False)
        twin.clean = False
        twin.power_loss(random)
    else:
        apply(twin, kind, random)


def go_on(twin: Twin, random: Random) -> None:
    """Recover; recover once more and find the same; then work, lose power, and find all of it."""
    twin.recover(reopen=False)
    twin.clean = False
    twin.power_loss(random)
    twin.recover()
    work(twin)
    twin.check_running()
    twin.power_loss(random)
    twin.recover()


def work(twin: Twin) -> None:
    """Some of everything that a log has to be able to go on with."""
    for log, model in twin.models.items():
        if model.exists:
            twin.do(twin.append(b"after the crash", (b"k1", b"again"), log=log))
            twin.do(twin.append_batches([[b"." * 150], [b"one more"]], log=log))
    if twin.model.exists:
        twin.do(CheckpointHw(LOG, twin.model.end - 1))


def crash_recovery(twin: Twin, where: str, number: int, seen: Seen, every: int) -> None:
    """Die at every `every`-th Disk call of the recovery of a dead twin. Raises Mismatch."""
    dead = twin.snapshot()
    first = 1 + number % every
    for call in count(first, every):
        again = Twin.restored(dead, call)
        again.disk.crash_after(call)
        try:
            again.recover(adopt=False, reopen=False)
            return
        except SimulatedCrash as died:
            text = f"{where}; recovery, call {call}: {died}"
        TRIED["recovery, crash"] += 1
        # It may have died after it had removed the marker.
        again.clean = False
        again.disk.detach()
        fingerprint = again.fingerprint()
        if fingerprint in seen:
            continue
        seen.add(fingerprint)
        left = again.snapshot()
        for kind in ("kill", "power"):
            after = Twin.restored(left, call)
            random = Random(number * 31 + call)
            try:
                apply(after, kind, random)
                go_on(after, random)
            except Mismatch as mismatch:
                raise Mismatch(f"{text}; then {kind}: {mismatch}") from mismatch


# ----- failing calls -----


def fail_everywhere(scene: Scene, error: int) -> int:
    """Let every Disk call of a scene fail with an errno; return how many there were. Raises Mismatch."""
    base = scene.snapshot()
    seen: Seen = set()
    for number in count(1):
        assert number < CALLS_MAX, f"{scene}: the act does not end"
        twin = started(scene, base, number)
        twin.disk.fail_call(number, error)
        answer = answer_to_failure(scene, twin)
        if twin.disk.fails_later:
            return number - 1
        if twin.disk.failed:
            TRIED["operation, failing call"] += 1
            check_failure(scene, twin, f"{scene}, call {number} fails: {twin.disk.failed}{answer}", seen)
    raise AssertionError


def answer_to_failure(scene: Scene, twin: Twin) -> str:
    """Carry out the act, one call of which fails. How storage reported it; empty if it did not have to."""
    try:
        scene.act(twin)
    except JobFailed as failure:
        return f" ({failure})"
    except LiftlogError as failure:
        # The start gave up: the process ends, and somebody starts it once more.
        if "simulated" not in str(failure):
            raise Mismatch(f"{scene}, {twin.disk.failed} fails: the start says only {failure}") from failure
        return f" ({failure})"
    return ""


def check_failure(scene: Scene, twin: Twin, where: str, seen: Seen) -> None:
    """The process goes on as far as it can; then it dies. Raises Mismatch."""
    for model in twin.models.values():
        # What a failed call left behind may have been cut, or written in part.
        model.torn = True
    try:
        if scene.starts and not twin.stopped:
            carry_on(twin)
        twin.disk.failed = ""
    except Mismatch as mismatch:
        raise Mismatch(f"{where}; in the same process: {mismatch}") from mismatch
    except JobFailed as failure:
        raise Mismatch(f"{where}; in the same process: {failure}") from failure
    twin.disk.detach()
    fingerprint = twin.fingerprint()
    if fingerprint in seen:
        return
    seen.add(fingerprint)
    dead = twin.snapshot()
    for kind in KINDS:
        random = Random(len(seen))
        after = Twin.restored(dead, len(seen))
        try:
            crash(after, kind, random)
            go_on(after, random)
        except Mismatch as mismatch:
            raise Mismatch(f"{where}; then {kind}: {mismatch}") from mismatch


def carry_on(twin: Twin) -> None:
    """D5, R5: reads are right or refused; a log that failed is rebuilt; then it can be written again."""
    twin.retry_metadata()
    for log, model in twin.models.items():
        if not model.exists:
            continue
        if model.other is not None:
            return
        if twin.usable(log):
            twin.check_log(log)
        else:
            assert isinstance(twin.ask(RebuildLog(log, model.leo.low)), LogOpened)
    work(twin)
