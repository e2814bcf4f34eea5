"""The planted bugs read as a history: every one has a source and a lesson, every row of the literature is
planted or says what it waits for, and docs/mutants.md is made of the same.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from liftlog.cli import main
from liftlog.mutants import Mutants
from liftlog.types import LiftlogError
from liftlog_sim.catalogue import command
from liftlog_sim.catalogue.history import ORIGINS
from liftlog_sim.catalogue.page import BEGIN, COMMAND, listing, recorded, switch, table, with_table
from liftlog_sim.catalogue.smallest import MOST_ENTRIES
from liftlog_sim.catalogue.unplanted import WAITING
from liftlog_sim.profiles.mutants import MUTANTS, mutant_named, planted
from liftlog_sim.sweeps.catching import KnownCatch, known_seeds
from liftlog_sim.sweeps.record import sources_hash

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mutants.md"
ROWS = 47
"""So many bugs of the literature are counted."""


def test_every_planted_bug_has_a_source_and_a_lesson() -> None:
    assert list(ORIGINS) != [] and set(ORIGINS) == {mutant.name for mutant in MUTANTS}
    assert [name for name, origin in ORIGINS.items() if len(origin.lesson) < 20 or not origin.source] == []


def test_every_row_of_the_literature_is_planted_or_says_why_not() -> None:
    planted_rows = {origin.row for origin in ORIGINS.values() if origin.row}
    waiting = {one.row for one in WAITING}
    assert planted_rows | waiting == set(range(1, ROWS + 1)) and not planted_rows & waiting
    assert all(one.why.startswith(("waits for ", "cannot show: ")) for one in WAITING)


def test_the_numbers_in_the_switches_are_the_rows() -> None:
    text = (ROOT / "liftlog" / "mutants.py").read_text()
    numbered = {name: int(row) for name, row in re.findall(r"    (\w+): bool = False  # (\d+)\n", text)}
    assert len(numbered) > 30
    assert {name: ORIGINS[name].row for name in numbered} == numbered


def test_a_switch_is_told_as_it_is_written() -> None:
    for mutant in MUTANTS:
        assert eval(switch(mutant.name), {"Mutants": Mutants}) == planted(mutant.name)


def test_the_page_is_made_of_the_catalogue_and_the_record() -> None:
    page = PAGE.read_text()
    assert page == with_table(page, table(MUTANTS, recorded())), f"make it anew: {COMMAND}"
    with pytest.raises(LiftlogError, match="put them where the table goes"):
        with_table("no place", [])
    assert BEGIN in page


def test_what_no_record_holds_is_left_out() -> None:
    some = MUTANTS[:2]
    without = {some[0].name: KnownCatch(7, 3, "LogMatching")}
    assert "CPU s" not in table(some, without)[0] and "shrunk" not in table(some, without)[0]
    assert "LogMatching, seed 7, the 3rd of its profiles" in listing(some, without)[0]
    assert "no record of a search" in "\n".join(listing(some, without))
    whole = {some[0].name: KnownCatch(7, 3, "LogMatching", 120.0, 1.5, 6)}
    assert "CPU s" in table(some, whole)[0] and "| 120 | 1.5 | 6 |" in table(some, whole)[2]
    assert "120 s simulated in 1.5 s of CPU; shrunk to 6" in listing(some, whole)[0]


def test_the_list_is_for_people_and_for_machines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "mutants", "--list"]) == 0
    out = capsys.readouterr().out
    assert "KAFKA-1211" in out and "lesson" in out and "rows of the literature that are not planted" in out
    assert main(["sim", "mutants", "--list", "--only", "R9.version", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["mutants"]
    assert found["row"] == 25 and found["switch"] == 'Mutants(without="R9.version")'
    assert found["record"]["invariant"]
    assert main(["sim", "mutants", "--page", "/nowhere/mutants.md"]) == 2
    assert "cannot write /nowhere/mutants.md" in capsys.readouterr().err


def test_a_search_that_goes_by_the_record_wants_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a compiled copy there is none: all were searched for anew, and their sizes lost."""
    monkeypatch.setattr(command, "RECORD", tmp_path / "mutants.json")
    assert main(["sim", "mutants", "--keep", "--record", str(tmp_path / "new.json")]) == 2
    assert "which a compiled copy has not: leave it out there" in capsys.readouterr().err


@pytest.mark.slow
def test_a_record_made_with_keep_keeps_what_holds_and_finds_anew_what_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("raft_quorum_half", "raft_commit_unclamped")
    true = {name: recorded()[name] for name in names}
    held = msgspec.structs.replace(true[names[0]], cpu_s=123.0, shrunk=4)
    before = {names[0]: held, names[1]: KnownCatch(true[names[1]].seed, 77, "AnotherName", 1.0)}
    monkeypatch.setattr(command, "MUTANTS", tuple(map(mutant_named, names)))
    monkeypatch.setattr(command, "recorded", lambda: before)
    path = tmp_path / "mutants.json"
    assert main(["sim", "mutants", "--record", str(path), "--keep", "--jobs", "1"]) == 0
    found = known_seeds(path)
    assert found[names[0]] == msgspec.structs.replace(held, sources=sources_hash())
    assert found[names[1]].invariant == true[names[1]].invariant and found[names[1]].searched == 1
    capsys.readouterr()
    assert main(["sim", "mutants", "--keep"]) == 2
    assert "--keep says how --record looks" in capsys.readouterr().err


@pytest.mark.slow
def test_a_record_is_shrunk_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `--only` leaves out stays as it is recorded; a search that holds keeps its numbers."""
    names = ("raft_quorum_half", "raft_commit_unclamped")
    before = {
        name: msgspec.structs.replace(recorded()[name], shrunk=None, fates=None, shrink_cpu_s=None)
        for name in names
    }
    monkeypatch.setattr(command, "recorded", lambda: before)
    path = tmp_path / "mutants.json"
    part = ["sim", "mutants", "--record", str(path), "--keep", "--only", "raft_quorum_half"]
    assert main([*part, "--shrink", "--seconds", "20", "--failures", str(tmp_path)]) == 0
    found = known_seeds(path)
    assert list(found) == list(before)
    assert found["raft_commit_unclamped"] == before["raft_commit_unclamped"]
    shrunk = found["raft_quorum_half"]
    assert shrunk.shrunk is not None and shrunk.shrunk <= MOST_ENTRIES
    assert shrunk.shrink_cpu_s is not None and shrunk.fates is not None
    bare = msgspec.structs.replace(shrunk, shrunk=None, fates=None, shrink_cpu_s=None)
    bare = msgspec.structs.replace(bare, sources=before["raft_quorum_half"].sources)
    assert shrunk.sources == sources_hash()
    assert bare == before["raft_quorum_half"]
    capsys.readouterr()
    assert main([word for word in part if word != "--keep"]) == 2
    assert "say --keep with --only" in capsys.readouterr().err
