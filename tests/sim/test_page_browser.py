"""The page of a run in a real browser: legible in any size and colour, walked through by keys, understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog_sim.page.chart import Chart
from liftlog_sim.page.from_trace import chart_of_trace
from liftlog_sim.page.writing import PAGE_BYTES_MAX, write_page
from tests.jepsen.browser import Browser, Tab, chromium
from tests.sim import page_samples as samples
from tests.sim.page_measures import measured, require_legible, require_quiet, text_of

pytestmark = pytest.mark.real

SIZES = [(1440, 900), (900, 700)]
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"
"""The browser has told the page what changed, and has drawn."""
KEYS = {
    **{"ArrowLeft": "←", "ArrowRight": "→", "-": "\N{MINUS SIGN}"},
    **{key: key for key in ("[", "]", "v", "d", "f", "F", "l", "a", "t", "+", "0", "m", "End", "Home")},
}
"""What each key does shows; the help tells of it so."""
KINDS = ["failure", "plain", "huge", "tiny", "empty"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind, and of each planted bug."""
    folder = tmp_path_factory.mktemp("pages")
    trace = samples.trace(folder / "plain.jsonl")
    lines = trace.read_bytes().splitlines(keepends=True)
    (folder / "tiny.jsonl").write_bytes(lines[0])
    (folder / "empty.jsonl").write_bytes(b"")
    charts: dict[str, Chart] = {mutant: samples.chart(mutant) for mutant in samples.MUTANTS}
    charts |= {kind: chart_of_trace(folder / f"{kind}.jsonl") for kind in ("plain", "tiny", "empty")}
    charts["huge"] = samples.huge()
    found = {kind: folder / f"{kind}.html" for kind in charts}
    for kind, chart in charts.items():
        assert write_page(chart, found[kind]) < PAGE_BYTES_MAX
    return found | {"failure": found["truncate_to_hw"]}


def step(tab: Tab) -> int:
    """The chosen step."""
    return int(tab.run("document.documentElement.dataset.step"))


def keys(tab: Tab, *names: str) -> None:
    for name in names:
        tab.key(name)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", SIZES, ids=["wide", "narrow"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_page_is_legible(
    kind: str, size: tuple[int, int], dark: bool, browser: Browser, pages: dict[str, Path]
) -> None:
    tab = browser.open(pages[kind], *size, dark=dark)
    require_quiet(tab)
    require_legible(tab)
    if kind not in ("tiny", "empty"):
        # Elsewhere in the run, closer, from further away and by time it is as good.
        keys(tab, "Home", "ArrowRight", "+", "+")
        require_legible(tab)
        keys(tab, "End", "0", "a")
        require_legible(tab)
        keys(tab, "t", "l")
        require_legible(tab)
    require_quiet(tab)
    tab.close()


def test_the_measures_find_what_is_wrong(browser: Browser, pages: dict[str, Path]) -> None:
    """They would be worth nothing otherwise."""
    tab = browser.open(pages["failure"], *SIZES[0])
    tab.run("document.querySelector('#panel .words').style.cssText = 'color: #ddd'")
    tab.run("document.querySelector('#log').parentElement.style.cssText = 'margin-left: -60px'")
    tab.run("document.querySelector('.steplink .at').style.cssText = 'width: 20px; white-space: nowrap'")
    tab.run("document.querySelector('#chart .axis').setAttribute('x', '-30')")
    found = measured(tab)
    assert any("P " in one for one in found["faint"])
    assert any("SELECT" in one for one in found["overlaps"])
    assert any("too wide" in one for one in found["cut"])
    assert any("outside of the diagram" in one for one in found["cut"])
    tab.close()


@pytest.mark.parametrize("mutant", samples.MUTANTS)
def test_a_stranger_finds_the_cause_in_the_text(
    mutant: str, browser: Browser, pages: dict[str, Path]
) -> None:
    """Who has only what the page says learns rule, node, step and what led there, and goes to each of these
    steps, where the page says what changed.
    """
    violation = samples.failed(mutant).violation
    tab = browser.open(pages[mutant], *SIZES[1])
    said = text_of(tab, "#findings")
    assert f"{violation.invariant} is violated" in said
    assert violation.finding in said
    assert f"Rule {violation.rule}." in said and violation.sentence in said
    at = re.search(r"At step ([\d,]+) of [\d,]+, on node (\d+)", said)
    assert at is not None
    assert int(at[1].replace(",", "")) == violation.at_step and int(at[2]) == violation.node
    told = re.findall(r"^step ([\d,]+)\n(.+)", said, re.MULTILINE)
    causes = [(int(number.replace(",", "")), words) for number, words in told]
    assert [place for place, _ in causes] == sorted(place for place, _ in causes)
    assert 3 <= len(causes) <= 24
    assert any(event in " ".join(words for _, words in causes) for event in samples.TELLING[mutant])
    links = tab.run("document.querySelectorAll('#findings button.steplink').length")
    assert links == len(causes)
    for place, (number, _) in enumerate(causes):
        tab.click("#findings button.steplink", place)
        assert step(tab) == number
        shown = text_of(tab, "#panel")
        assert shown.startswith(f"Step {number:,} of ")
        assert "What a power loss would take now" in shown
    tab.close()


def test_one_steps_back_and_forth_by_keys(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["failure"], *SIZES[0])
    end = samples.failed("truncate_to_hw").violation.at_step
    assert step(tab) == end, "the page begins where it went wrong"
    tab.key("ArrowLeft")
    before = step(tab)
    assert before < end
    panel = text_of(tab, "#panel")
    tab.key("ArrowLeft")
    assert step(tab) < before and text_of(tab, "#panel") != panel
    tab.key("ArrowRight")
    assert (step(tab), text_of(tab, "#panel")) == (before, panel), "the state is the same, whence one comes"
    tab.key("Home")
    assert step(tab) == 0
    tab.key("d")
    assert "Here the model says no" in text_of(tab, "#panel")
    tab.key("v")
    assert step(tab) == end and "is violated, rule" in text_of(tab, "#panel")
    tab.key("F")
    assert step(tab) < end
    assert tab.run("document.getElementById('said').textContent").startswith(f"Step {step(tab)}:")
    require_quiet(tab)
    tab.close()


def test_keys_are_told_and_every_one_of_them_does_something(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["failure"], *SIZES[0])
    tab.key("?")
    assert tab.run("document.getElementById('keys').open") is True
    require_legible(tab)
    told = set(tab.run("[...document.querySelectorAll('#keys kbd')].map(e => e.textContent)"))
    assert {*KEYS.values(), "Shift", "/"} <= told
    tab.run("document.getElementById('keys').close()")
    state = (
        "[document.documentElement.dataset.step, document.documentElement.dataset.theme, "
        "document.getElementById('chart').innerHTML, document.getElementById('log').value, "
        "document.getElementById('theme').textContent].join()"
    )
    tab.key("d")
    for key in KEYS:
        before = tab.run(state)
        tab.key(key)
        assert tab.run(state) != before, key
    tab.key("/")
    assert tab.run("document.activeElement.id") == "query"
    tab.close()


def test_search_goes_from_hit_to_hit(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["failure"], *SIZES[0])
    tab.key("/")
    tab.command("Input.insertText", text=" starts")
    found = re.fullmatch(r"(\d+) found", text_of(tab, "#hits"))
    assert found is not None and int(found[1]) > 1
    tab.key("Enter")
    assert text_of(tab, "#hits") == f"1 of {found[1]}"
    assert re.fullmatch(r"Node \d starts", text_of(tab, "#panel .words"))
    tab.key("Enter")
    assert text_of(tab, "#hits") == f"2 of {found[1]}"
    tab.command("Input.insertText", text=" no such words")
    assert text_of(tab, "#hits") == "nothing found"
    require_legible(tab)
    tab.key("Escape")
    assert tab.run("document.getElementById('query').value") == ""
    require_quiet(tab)
    tab.close()


def test_a_click_on_an_arrow_lights_the_chain(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["failure"], *SIZES[0])
    keys(tab, "d", "ArrowLeft")
    # On the arrow of some reply, where no other lies above it.
    kind, number, x, y = tab.run(
        "(() => { for (const e of document.querySelectorAll('#chart .pick')) {"
        "const said = e.dataset.tip.match(/^(\\w+Reply) /), m = e.getScreenCTM();"
        "for (let i = 1; said && i < 40; i++) {"
        "const p = e.getPointAtLength(e.getTotalLength() * i / 40),"
        "x = p.x * m.a + m.e, y = p.y * m.d + m.f;"
        "if (document.elementFromPoint(x, y) === e) return [said[1], Number(e.dataset.place), x, y]; } }"
        "return ['', 0, 0, 0]; })()"
    )
    assert kind
    for press in ("mousePressed", "mouseReleased"):
        tab.mouse(press, x, y, button="left", clickCount=1)
    assert step(tab) == number
    assert tab.run("document.getElementById('chart').classList.contains('lit')") is True
    assert tab.run("document.querySelectorAll('#chart .arrow.lit').length") >= 1
    assert f"receives {kind}" in text_of(tab, "#panel .words")
    assert "Because of" in text_of(tab, "#panel")
    tab.hover("#chart circle.chosen")
    assert tab.run("document.getElementById('tip').hidden") is False
    require_quiet(tab)
    tab.close()


def test_the_theme_follows_the_system_or_the_switch(browser: Browser, pages: dict[str, Path]) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    tab = browser.open(pages["plain"], *SIZES[0], dark=True)
    dark = tab.run(ground)
    tab.click("#theme")
    light = tab.run(ground)
    assert text_of(tab, "#theme") == "Theme: light" and light != dark
    tab.click("#theme")
    assert text_of(tab, "#theme") == "Theme: dark" and tab.run(ground) == dark
    tab.click("#theme")
    tab.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    tab.run(FRAME)
    assert tab.run(ground) == light
    tab.close()


def test_only_what_is_visible_is_drawn(browser: Browser, pages: dict[str, Path]) -> None:
    tab = browser.open(pages["huge"], *SIZES[0])
    assert "are left out to keep the page small" in text_of(tab, "#findings")
    assert tab.run("document.querySelectorAll('#chart *').length") < 3000
    keys(tab, "a", "0")
    assert tab.run("document.querySelectorAll('#chart *').length") < 12_000
    assert step(tab) >= 0
    tab.close()


def test_nothing_in_a_trace_runs(browser: Browser, tmp_path: Path) -> None:
    evil = "</script><script>window.ran=1</script><img src=x onerror='window.ran=1'>@DATA@@SCRIPT@"
    chart = samples.chart("truncate_to_hw")
    chart.title = evil
    for each in chart.steps[-40:]:
        each.words, each.label, each.effects = evil, evil, [evil]
    chart.logs["7/0"] = evil
    assert chart.violation is not None
    chart.violation.finding = chart.violation.sentence = evil
    write_page(chart, tmp_path / "evil.html")
    tab = browser.open(tmp_path / "evil.html")
    assert tab.run("window.ran") is None
    assert tab.run("document.querySelectorAll('img, main script').length") == 0
    assert "onerror" in text_of(tab, "#findings")
    require_quiet(tab)
    tab.close()
