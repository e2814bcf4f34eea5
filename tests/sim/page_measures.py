"""What a reader needs of the page, measured in the browser: nothing cut, nothing overlapping, contrast."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.jepsen.browser import Tab

_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


def measured(tab: Tab) -> dict[str, Any]:
    """What is wrong, by what it is; `texts`: how many pieces of text were looked at."""
    found: dict[str, Any] = tab.run(_SCRIPT)
    return found


def require_legible(tab: Tab) -> None:
    """Nothing is cut, nothing overlaps, everything can be told from what it lies on."""
    found = measured(tab)
    assert found["texts"] > 10
    wrong = [*found["cut"], *found["overlaps"], *found["faint"]]
    assert not wrong, wrong


def require_quiet(tab: Tab) -> None:
    """The script ran, nothing was wrong, and nothing but the page itself was asked for."""
    assert tab.run("document.documentElement.dataset.ready") == "yes"
    assert tab.problems() == []
    assert len(tab.requests()) == 1 and tab.requests()[0].startswith("file:")


def text_of(tab: Tab, selector: str) -> str:
    """What an element says to a reader."""
    found: str = tab.run(f"document.querySelector({json.dumps(selector)}).innerText")
    return found
