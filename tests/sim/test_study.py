"""Studies that cannot be used: each is refused in one line that says where, what and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.__main__ import main
from liftlog.types import LiftlogError
from liftlog_sim.study.loading import load_study

HEAD = "from liftlog_sim.study.own import OwnClient, OwnFault, OwnInvariant\n"
FAULT = HEAD + '''class Mine(OwnFault):
    """Strikes."""
    every_s = 1.0
'''
STRIKES = """
    def strike(self, machine, draws):
        return "it struck"
"""

LOOKS = HEAD + 'class Mine(OwnInvariant):\n    "Looks."\n'
REFUSED = {
    "no Python": ("def", r"is not Python: .* \(line 1\); mend that line"),
    "an import that fails": (
        "import nothing_of_this_name",
        "one.py, line 1, <module>: ModuleNotFoundError: .*; mend the study",
    ),
    "nothing in it": (
        "x = 1",
        "defines nothing; write a class that is one of OwnFault, OwnClient, OwnInvariant",
    ),
    "no docstring": (LOOKS.replace('"Looks."', "..."), "class Mine: say in its docstring what it is"),
    "never looks": (LOOKS, "class Mine: it never looks; define stepped, or ended"),
    "does nothing": (LOOKS.replace("Invariant", "Client"), "class Mine: it does nothing; define act"),
    "never strikes": (FAULT, "class Mine: it never strikes; define strike"),
    "an unknown target": (
        FAULT + "    target = 'all'\n" + STRIKES,
        "target is 'all'; choose from .*leader.*, or a node's number",
    ),
    "out of range": (
        FAULT + "    lasting_s = -1\n" + STRIKES,
        "class Mine: lasting_s is -1; choose 0 to 100000",
    ),
    "no number": (FAULT + "    lasting_s = 'long'\n" + STRIKES, "class Mine: lasting_s is 'long'; choose"),
    "a fault's name": (
        FAULT.replace("Mine", "Kill") + STRIKES,
        "class Kill: there is a 'kill' already; call it otherwise",
    ),
    "an invariant's name": (
        LOOKS.replace("Mine", "NoAckedRecordLost") + "    def ended(self): ...",
        "there is a 'NoAckedRecordLost' already",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_a_study_that_cannot_be_used_is_refused(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text, said = REFUSED[why]
    Path("one.py").write_text(text)
    with pytest.raises(LiftlogError, match=said):
        load_study(["one.py"])
    assert main(["sim", "run", "--seed", "1", "--with", "one.py"]) == 2
    err = capsys.readouterr().err
    assert "one.py" in err and "Traceback" not in err


def test_a_study_that_is_not_there_or_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=r"cannot read the study .*none\.py: No such file"):
        load_study([str(tmp_path / "none.py")])
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    with pytest.raises(LiftlogError, match="it is not UTF-8 text; choose a Python file"):
        load_study([str(tmp_path / "bytes.py")])


STRIKING = {
    "return 1": "TypeError: Mine.strike returned 1 instead of what happened, in words",
    "return machine.nothing": "AttributeError: .*nothing",
}


@pytest.mark.parametrize("body", STRIKING)
def test_an_error_of_a_study_is_told_with_its_line_the_time_and_the_seed(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.py").write_text(FAULT + STRIKES.replace('return "it struck"', body))
    assert main(["sim", "run", "--seed", "1", "--faults", "mine", "--quiet", "--with", "one.py"]) == 2
    err = capsys.readouterr().err
    assert "of seed 1; mend the study" in err and "Traceback" not in err
    if "nothing" in body:
        assert "one.py, line 7, strike" in err
    assert STRIKING[body].partition(".*")[0] in err
