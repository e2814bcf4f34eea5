"""Dashboard and alerts speak of metrics that there are, by labels that these have; the page lists all."""

from __future__ import annotations

import re

import pytest

from liftlog.eyes import names
from tests.tools.metric_files import DASHBOARD, ROOT, alerts, dashboard_expressions, panels
from tests.tools.promql import BadExpression, Expression, parse

PAGE = (ROOT / "docs" / "operating" / "metrics.md").read_text()
OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that the scrape adds, and the one of buckets."""
SERIES = {series: family for family in names.FAMILIES for series in names.series_of(family)}


def problems(text: str) -> list[str]:
    """What is wrong with an expression."""
    try:
        expression = parse(text)
    except BadExpression as error:
        return [str(error)]
    return [*_unknown_names(expression), *_unknown_labels(expression)]


def _unknown_names(expression: Expression) -> list[str]:
    asked = [selector.name for selector in expression.selectors]
    return [f"{name} is not told" for name in asked if name not in SERIES and name not in names.PROCESS]


def _unknown_labels(expression: Expression) -> list[str]:
    known = set(OF_PROMETHEUS)
    for selector in expression.selectors:
        own = {*SERIES[selector.name].labels} if selector.name in SERIES else set()
        foreign = set(selector.labels) - own - OF_PROMETHEUS
        if foreign:
            return [f"{selector.name} has no label {foreign}"]
        known |= own
    return [f"nothing here has the label {label}" for label in expression.labels if label not in known]


def test_every_expression_of_the_alerts_is_one_and_names_metrics_that_are_told() -> None:
    rules = alerts()
    assert len(rules) > 20
    for rule in rules:
        assert problems(rule["expr"]) == [], rule["alert"]
        assert rule.keys() == {"alert", "expr", "for", "severity", "summary", "description"}
        assert re.fullmatch(r"Liftlog\w+", rule["alert"]) and re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["severity"] in ("critical", "warning")
        assert rule["summary"] and rule["description"].endswith(".")
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_alerts_speak_of_labels_that_their_expressions_leave() -> None:
    for rule in alerts():
        expression = parse(rule["expr"])
        kept = {"job", "instance", *expression.labels}
        for selector in expression.selectors:
            kept |= {*SERIES[selector.name].labels}
        for label in re.findall(r"\$labels\.(\w+)", rule["summary"] + rule["description"]):
            assert label in kept, (rule["alert"], label)


def test_every_expression_of_the_dashboard_is_one_and_names_metrics_that_are_told() -> None:
    expressions = list(dashboard_expressions())
    assert len(expressions) > 40
    for text in expressions:
        assert problems(text) == [], text


def test_the_dashboard_can_be_imported_anywhere() -> None:
    """Nothing of whoever made it: each source is the variable, no panel lies on another."""
    assert '"uid": "${source}"' in DASHBOARD.read_text()
    ids = [panel["id"] for panel in panels()]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        assert panel["datasource"]["uid"] == "${source}" and panel["title"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not taken & cells, panel["title"]
        taken |= cells


def test_the_page_has_the_tables_that_follow_from_the_list() -> None:
    begin, end = "<!-- metrics -->\n", "<!-- end of metrics -->"
    assert PAGE.count(begin) == PAGE.count(end) == 1
    told = PAGE.partition(begin)[2].partition(end)[0]
    assert told == names.tables(), "run .venv/bin/python scripts/metrics_page.py"


def test_the_page_speaks_of_no_metric_that_is_not_told() -> None:
    known = {*SERIES, *(family.name for family in names.FAMILIES)}
    for name in set(re.findall(r"\bliftlog_[a-z_]+\*?", PAGE)):
        assert any(one.startswith(name[:-1]) if name.endswith("*") else one == name for one in known), name
    for name in names.PROCESS:
        assert f"`{name}`" in PAGE


def test_names_keep_the_conventions() -> None:
    assert len({family.name for family in names.FAMILIES}) == len(names.FAMILIES) > 60
    for family in names.FAMILIES:
        assert re.fullmatch(r"liftlog_[a-z]+(_[a-z]+)*", family.name), family.name
        assert family.text.endswith(".") and "|" not in family.text, family.name
        assert family.name.endswith("_total") == (family.kind == names.COUNTER), family.name
        assert not re.search(r"_(ms|kb|mb|percent|us)(_|$)", family.name), family.name
        assert bool(family.buckets) == (family.kind == names.HISTOGRAM)
        if family.kind == names.HISTOGRAM:
            assert family.name.endswith("_seconds") and list(family.buckets) == sorted(family.buckets)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sum(liftlog_ready", "is due"),
        ("rate(liftlog_ready)", "range or not"),
        ("liftlog_ready[5m]", "no result"),
        ("max(liftlog_ready) > ", "in the place of a value"),
        ("quantile(liftlog_ready)", "no function"),
        ("liftlog_ready liftlog_ready", "too much"),
        ("liftlog_redy == 0", "is not told"),
        ('liftlog_ready{node="1"}', "has no label"),
        ("sum by (stream) (liftlog_ready)", "nothing here has the label"),
        ("liftlog_commit_duration_seconds", "is not told"),
        ("liftlog_ready and on (job) group_left () liftlog_leaving", "group_left with and"),
        ("liftlog_ready $ 2", "cannot read"),
    ],
)
def test_what_is_wrong_with_an_expression_is_found(text: str, words: str) -> None:
    assert any(words in problem for problem in problems(text)), problems(text)
