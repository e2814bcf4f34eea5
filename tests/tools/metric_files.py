"""The dashboard and the alerts that are handed out, as tests read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "liftlog.json"

Rule = dict[str, str]


def alerts() -> list[Rule]:
    """Every alert: its keys, and those of its labels and annotations. Fails for what is not so written."""
    lines = [line for line in ALERTS.read_text().splitlines() if line and not line.startswith("#")]
    assert lines[:3] == ["groups:", "  - name: liftlog", "    rules:"]
    found: list[Rule] = []
    for line in lines[3:]:
        match = re.fullmatch(r"(      - | {8}| {10})(\w+):(?: ('(?:[^']|'')*'|[\w.]+))?", line)
        assert match is not None, line
        indent, key, value = match.groups()
        if indent.endswith("- "):
            assert key == "alert", line
            found.append({})
        if value is None:
            assert indent == " " * 8 and key in ("labels", "annotations"), line
            continue
        assert key not in found[-1], line
        found[-1][key] = value[1:-1].replace("''", "'") if value.startswith("'") else value
    return found


def panels() -> list[dict[str, Any]]:
    document = json.loads(DASHBOARD.read_text())
    return [panel for panel in document["panels"] if panel["type"] != "row"]


def dashboard_expressions() -> Iterator[str]:
    """With the variables of Grafana filled in."""
    for panel in panels():
        for target in panel["targets"]:
            yield str(target["expr"]).replace("$__rate_interval", "1m").replace("$job", "liftlog")
