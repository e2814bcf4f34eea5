"""Every byte of a small data folder, flipped: detected or harmless, nothing else (D1, D2, D3, M4, R14).

Detected means that the start is refused with an error that names the file (M4), that a log is reported as
damaged or its tail as suspect, or that a read answers with the damaged range. Harmless means that every
record reads as it was written and that no number of the summary promises more than it did. See
`tests.storage.small_folder`; what came of how many flips is printed at the end of the run.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from liftlog.messages import LogRead, ReadLog
from liftlog.types import LiftlogError, OffsetRange, TailState
from tests.storage.crash_report import FLIPS
from tests.storage.model import Found, LogModel
from tests.storage.small_folder import MARRED, NEVER_WRITTEN, Folder, names
from tests.storage.storage_harness import LOG, OTHER, segments
from tests.storage.twin import JobFailed, Mismatch

pytestmark = pytest.mark.slow

STOPS = [pytest.param(True, id="clean stop"), pytest.param(False, id="unclean stop")]
EVERY_BIT = range(8)


def one_bit(byte: int, clean: bool) -> list[int]:
    """Another bit for each byte and each kind of stop."""
    return [(byte * 5 + 3 * clean) % 8]


@pytest.fixture(scope="module", name="folders")
def two_folders() -> dict[bool, Folder]:
    return {clean: Folder(clean=clean) for clean in (True, False)}


def flip_everything(folder: Folder, every_bit: bool) -> set[str]:
    outcomes = set()
    for path, length in folder.files():
        for byte in range(length):
            for bit in EVERY_BIT if every_bit else one_bit(byte, folder.clean):
                try:
                    outcome = folder.outcome(path, lambda twin: twin.disk.flip(path, byte, bit))  # noqa: B023
                except Mismatch as mismatch:
                    raise Mismatch(f"{path} byte {byte} bit {bit}: {mismatch}") from mismatch
                FLIPS[outcome] += 1
                outcomes.add(outcome)
    return outcomes


@pytest.mark.parametrize("clean", STOPS)
def test_D2_D3_M4_R14_a_flipped_bit_is_detected_or_harmless(folders: dict[bool, Folder], clean: bool) -> None:
    outcomes = flip_everything(folders[clean], every_bit=False)
    assert outcomes >= {"refused at the start", "given up", "harmless", "damaged range"}
    assert NEVER_WRITTEN not in outcomes
    assert ("suspect tail" in outcomes) is not clean, "a torn tail is possible after an unclean stop only"


@pytest.mark.nightly
@pytest.mark.parametrize("clean", STOPS)
def test_D2_D3_M4_R14_every_flipped_bit_is_detected_or_harmless(
    folders: dict[bool, Folder], clean: bool
) -> None:
    flip_everything(folders[clean], every_bit=True)


def test_R14_a_flip_in_the_last_group_after_an_unclean_stop_is_cut_quarantined_and_suspect(
    folders: dict[bool, Folder],
) -> None:
    folder = folders[False]
    path = max(
        path for path, _ in folder.files() if path.startswith("streams/7/0/") and path.endswith(".log")
    )
    content = folder.copy().disk.content(path)
    group = content.rindex(b"\xf5\x4c") - 20
    for byte in range(group, len(content)):
        twin, recovered = folder.start(lambda twin: twin.disk.flip(path, byte, byte % 8))  # noqa: B023
        (summary,) = [one for one in recovered.logs if one.log == LOG]
        assert (summary.tail.value, summary.leo) == ("suspect", folder.last_groups[LOG])
        (quarantined,) = [name for name in twin.disk.files() if name.startswith("quarantine/")]
        flipped = bytearray(content[group:])
        flipped[byte - group] ^= 1 << byte % 8
        assert twin.disk.content(quarantined) == flipped


# ----- under a running node -----


def flip_running(folder: Folder, path: str, byte: int, bit: int) -> str:
    """Flip a bit under an open log, then read, scrub, compact, read again, and start once more."""
    twin, recovered = folder.start()
    for summary in recovered.logs:
        twin.models[summary.log].adopt(twin.look(summary, 1 << 20))
        # Any range may be reported now: which one it is depends on the byte.
        twin.models[summary.log].decayed = tuple(range(summary.log_start, summary.leo))
    twin.disk.flip(path, byte, bit)
    twin.check_running(1 << 20)
    with suppress(JobFailed):
        twin.scrub()
    with suppress(JobFailed):
        # A segment with damage is left alone, and said to be.
        twin.compact(twin.model.end - 1)
    twin.check_running(1 << 20)
    damage = {log: model.damage for log, model in twin.models.items()}
    twin.kill()
    try:
        again = twin.begin()
    except LiftlogError as error:
        if not names(error, path):
            raise Mismatch(f"the next start is refused, but not for {path}: {error}") from error
        return "refused at the next start"
    told = []
    for summary in again.logs:
        told.append(compare_restarted(twin.models[summary.log], twin.look(summary, 1 << 20)))
    if damage[LOG] or damage[OTHER]:
        return "damaged range under a running node"
    return next((one for one in told if one), "harmless under a running node")


def compare_restarted(model: LogModel, found: Found) -> str:
    """Hold what the start after it finds against the model. What was detected. Raises Mismatch."""
    summary = found.summary
    bad_tail = summary.tail in (TailState.SUSPECT, TailState.DAMAGED)
    problem = model.content_problem(found)
    if summary.leo != model.end and not bad_tail:
        problem = f"the log ends at {summary.leo} and nobody says why"
    if summary.log_start != model.log_start and summary.tail is not TailState.DAMAGED:
        problem = f"the log starts at {summary.log_start} and nobody says why"
    problem = problem or model.damage_problem(found)
    if problem:
        raise Mismatch(f"log {summary.log} at the next start: {problem}: {summary}")
    return f"{summary.tail.value} tail at the next start" if bad_tail and summary.log != MARRED else ""


def bytes_by_day(files: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Each byte of each file, but of segments and their indexes, of which there are many, every second one:
    odd ones of one, even ones of the next, so that each place of the format is met. At night all are.
    """
    chosen: list[tuple[str, int]] = []
    segments_seen = 0
    for path, length in files:
        several = path.startswith("streams/") and path.endswith((".log", ".index"))
        segments_seen += several and path.endswith(".log")
        first, stride = (segments_seen % 2, 2) if several else (0, 1)
        chosen += [(path, byte) for byte in range(first, length, stride)]
    return chosen


def flip_everything_running(folder: Folder, every_bit: bool) -> set[str]:
    outcomes = set()
    # A start removes the marker of the clean stop.
    files = [(path, length) for path, length in folder.files() if path != "clean"]
    every_byte = [(path, byte) for path, length in files for byte in range(length)]
    for path, byte in every_byte if every_bit else bytes_by_day(files):
        for bit in EVERY_BIT if every_bit else [(byte * 5 + 1) % 8]:
            try:
                outcome = flip_running(folder, path, byte, bit)
            except Mismatch as mismatch:
                raise Mismatch(f"{path} byte {byte} bit {bit}: {mismatch}") from mismatch
            FLIPS[outcome] += 1
            outcomes.add(outcome)
    return outcomes


def test_by_day_each_place_of_a_segment_is_met_in_one_file_or_the_next() -> None:
    files = [(f"streams/7/0/{place:020}.{kind}", 9) for place in (0, 4, 8) for kind in ("index", "log")]
    chosen = bytes_by_day([*files, ("vote", 3)])
    assert [byte for path, byte in chosen if path == "vote"] == [0, 1, 2]
    for kind in ("index", "log"):
        for first in (0, 4):
            pair = [f"streams/7/0/{place:020}.{kind}" for place in (first, first + 4)]
            assert sorted(byte for path, byte in chosen if path in pair) == list(range(9))


def test_D2_a_bit_flipped_under_a_running_node_is_detected_or_harmless() -> None:
    outcomes = flip_everything_running(Folder(clean=True, compacted=False), every_bit=False)
    assert outcomes >= {"harmless under a running node", "damaged range under a running node"}


@pytest.mark.nightly
@pytest.mark.parametrize("clean", STOPS)
@pytest.mark.parametrize("compacted", [False, True])
def test_D2_every_bit_flipped_under_a_running_node_is_detected_or_harmless(
    clean: bool, compacted: bool
) -> None:
    flip_everything_running(Folder(clean=clean, compacted=compacted), every_bit=True)


def test_the_folder_holds_every_kind_of_file(folders: dict[bool, Folder]) -> None:
    names = {path.rpartition("/")[2] for path, _ in folders[True].files()}
    assert names >= {"identity", "vote", "hw", "clean", "start", "tail", "damage"}
    assert {name.rpartition(".")[2] for name in names} >= {"log", "index"}


def test_D2_a_damaged_number_of_records_does_not_look_like_the_end_of_the_log() -> None:
    """A batch that claims to reach beyond the limit was left out of a read unseen: an empty answer."""
    folder = Folder(clean=True, compacted=False)
    twin, recovered = folder.start()
    (summary,) = [one for one in recovered.logs if one.log == OTHER]
    twin.disk.flip(segments(twin.disk, OTHER)[0], 41, 5)
    event = twin.engine.write([ReadLog(OTHER, 1, 0, summary.leo, 1000)])[0]
    assert isinstance(event, LogRead) and event.damage == OffsetRange(0, 2), event
