"""The folder of histories by others: the command gives the verdict that is stated for each of them."""

from __future__ import annotations

import json
import os
import re
import time
from collections import defaultdict
from pathlib import Path

import pytest

from liftlog.cli import main

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = Path(os.environ.get("LIFTLOG_HISTORIES", ROOT.parent / "shared" / "histories"))
INDEX = HISTORIES / "INDEX.md"
VERDICTS = {
    "linearizable": True,
    "valid": True,
    "NOT linearizable": False,
    "INVALID": False,
    "not stated in test.sh": None,
}


def stated() -> dict[tuple[str, str, str | None], dict[str, bool | None]]:
    """(format, model, consistency model) -> file -> verdict, from the tables of the index."""
    groups: dict[tuple[str, str, str | None], dict[str, bool | None]] = defaultdict(dict)
    for line in INDEX.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\w)\|(?=\s)|(?<=\s)\|", line)[1:-1]]
        if len(cells) < 7 or not re.search(r"@[0-9a-f]{8}", cells[1]):
            continue
        file, _, format, words, _, _, verdict = cells[:7]
        name = "kv" if words.startswith("KV") else re.split(r"[ ,]", words)[0]
        asked = re.search(r"--consistency-models (\S+)", words)
        groups[format, name, asked[1] if asked else None][file] = VERDICTS[verdict]
    return dict(groups)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_every_history_gets_the_verdict_that_is_stated_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    if not INDEX.is_file():
        pytest.skip(f"no histories at {HISTORIES}")
    groups = stated()
    assert sum(map(len, groups.values())) > 190
    expected: dict[str, bool | None] = {}
    lines = []
    for (format, model, consistency), files in groups.items():
        for file, verdict in files.items():
            expected[str(HISTORIES / file)] = verdict
            said = {"file": str(HISTORIES / file), "format": format, "model": model}
            lines.append(said | ({"consistency_model": consistency} if consistency else {}))
    (tmp_path / "all.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    started = time.monotonic()
    assert main(["jepsen", "check", "--batch", str(tmp_path / "all.jsonl"), "--json"]) == 1
    seconds = time.monotonic() - started
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [answer["file"] for answer in answers] == list(expected)
    differing = [
        answer
        for answer, verdict in zip(answers, expected.values(), strict=True)
        if (answer["verdict"] not in (True, False) if verdict is None else answer["verdict"] is not verdict)
        or bool(answer["anomalies"]) == answer["verdict"]
    ]
    with capsys.disabled():
        slowest = sorted(((answer["seconds"], answer["file"]) for answer in answers), reverse=True)[:3]
        print(f"\n{len(answers)} histories in {seconds:.1f} s, the longest checks: {slowest}")
    assert not differing
