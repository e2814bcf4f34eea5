"""The reports in a real browser: they load without a complaint or a request; zoom, hover and keys work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog_jepsen.events import INVOKE, OK
from liftlog_jepsen.report.foreign import ForeignResult
from liftlog_jepsen.report.foreign_page import write_foreign_html
from liftlog_jepsen.report.page import write_html
from tests.jepsen import report_samples as samples
from tests.jepsen.browser import Browser, Tab, chromium
from tests.jepsen.test_html_report import EVIL, planted_result

pytestmark = pytest.mark.real

ALL = (
    samples.register_result,
    samples.append_result,
    samples.bank_result,
    samples.unknown_result,
    samples.valid_result,
    samples.broken_result,
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("foreign") / "report.html"
    write_foreign_html([make() for make in ALL], path)
    return path


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    write_html([planted_result(folder / "history")], folder / "report.html")
    return folder / "report.html"


def require_quiet(tab: Tab) -> None:
    """Scripts ran, nothing was wrong, and nothing but the page itself was asked for."""
    assert tab.run("document.documentElement.dataset.ready") == "yes"
    assert tab.problems() == []
    assert len(tab.requests()) == 1 and tab.requests()[0].startswith("file:")


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("kind", ["foreign", "logs"])
def test_a_report_loads_and_fits(
    kind: str, width: int, browser: Browser, request: pytest.FixtureRequest
) -> None:
    tab = browser.open(request.getfixturevalue(kind), width)
    require_quiet(tab)
    assert tab.run("document.documentElement.scrollWidth") <= width
    # Nothing is wider than the page, except inside of what scrolls by itself.
    wide = tab.run(
        "[...document.querySelectorAll('main *')].filter("
        "e => !e.closest('.scroll, .plotbox, .drawing, svg svg') && "
        "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.tagName + '.' + e.className)"
    )
    assert wide == []
    assert tab.run("document.querySelectorAll('.timeline svg.lanes .bar').length") > 4
    assert tab.run("document.querySelectorAll('.tools[hidden]').length") == 0
    assert tab.run("document.querySelectorAll('main svg title').length") == 0, "our own words replace them"
    tab.close()


def test_the_linearization_is_drawn_and_walked_through(browser: Browser, foreign: Path) -> None:
    tab = browser.open(foreign)
    assert tab.run("document.querySelectorAll('.point').length") == 5
    assert tab.run("document.querySelectorAll('.block').length") == 2
    assert tab.run("document.querySelectorAll('.bar.stuck').length") == 1
    points = tab.run("[...document.querySelectorAll('.point')].map(e => e.getBoundingClientRect().left)")
    assert points == sorted(points)
    # Each point lies under its bar.
    outside = tab.run(
        "[...document.querySelectorAll('.point')].filter(p => { const b = document.querySelector("
        "`.bar[data-id='${p.dataset.id}'] rect`).getBoundingClientRect(), c = p.querySelector('circle')"
        ".getBoundingClientRect(), x = c.left + c.width / 2; return x < b.left || x > b.right; }).length"
    )
    assert outside == 0
    tab.hover(".point circle", 3)
    assert tab.run("document.getElementById('tip').textContent") == "step 4: #4 read → 2\nthen 2"
    tab.hover(".block circle", 0)
    assert "it read 1, but the register holds 2" in tab.run("document.getElementById('tip').textContent")
    tab.run("document.querySelector('.timeline').focus()")
    tab.key("]")
    assert tab.run("document.querySelector('output').textContent").startswith("step 5: #7 read → 2")
    tab.key("[")
    assert tab.run("document.querySelector('output').textContent").startswith("step 4")
    assert tab.run("document.querySelectorAll('.point.hot').length") == 1
    require_quiet(tab)
    tab.close()


def test_hovering_tells_an_operation_and_leaving_hides_it(browser: Browser, foreign: Path) -> None:
    tab = browser.open(foreign)
    tab.hover(".bar.stuck rect")
    tip = tab.run("document.getElementById('tip').textContent")
    assert tip.startswith("#5 read → 1, process 0, events 10 to 13")
    box = tab.run("(b => [b.left, b.right, b.width])(document.getElementById('tip').getBoundingClientRect())")
    assert box[0] >= 0 and box[1] <= 1280 and box[2] > 50
    tab.hover("h1")
    assert tab.run("document.getElementById('tip').hidden") is True
    tab.close()


def view(tab: Tab, number: int = 0) -> tuple[float, float]:
    """What a timeline shows, in the units of its axis."""
    low, high = tab.run(f"document.querySelectorAll('.timeline')[{number}].dataset.view").split()
    return float(low), float(high)


def test_zoom_and_movement_by_button_wheel_and_key(browser: Browser, foreign: Path) -> None:
    tab = browser.open(foreign)
    first = view(tab)
    tab.click("[data-do=in]")
    closer = view(tab)
    assert closer[1] - closer[0] == pytest.approx((first[1] - first[0]) * 0.6, rel=0.01)
    tab.click("[data-do=right]")
    assert view(tab)[0] > closer[0] and view(tab)[1] - view(tab)[0] == pytest.approx(closer[1] - closer[0])
    tab.run("document.querySelector('.timeline').focus()")
    tab.key("0")
    assert view(tab) == first
    x, y = tab.middle(".timeline svg.lanes")
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120, modifiers=2)
    wheel = view(tab)
    assert first[0] < wheel[0] < wheel[1] < first[1]
    tab.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    tab.mouse("mouseMoved", x + 60, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
    dragged = view(tab)
    assert dragged[0] < wheel[0] and dragged[1] - dragged[0] == pytest.approx(wheel[1] - wheel[0], rel=0.01)
    tab.key("a")
    low, high = view(tab)
    assert low <= first[0] and high >= first[1]
    tab.key("-")
    assert view(tab) == (low, high), "there is nothing outside of everything"
    tab.key("n")
    assert tab.run("document.querySelectorAll('.bar.hot').length") == 1
    assert tab.run("document.getElementById('tip').textContent").startswith("#0 write 1")
    require_quiet(tab)
    tab.close()


def test_rows_are_found_again_when_the_view_moves(browser: Browser, logs: Path) -> None:
    covering = """[...document.querySelectorAll('.timeline .bar')].filter(g => g.style.display !== 'none')
      .map(g => [g.dataset.lane, g.dataset.a, g.dataset.b, g.querySelector('rect').getAttribute('y')])
      .filter((one, i, all) => all.some((two, j) => j < i && one[0] === two[0] && one[3] === two[3]
        && +one[1] < +two[2] && +two[1] < +one[2])).length"""
    height = "document.querySelector('svg.lanes').getBoundingClientRect().height"
    tab = browser.open(logs)
    assert tab.run(covering) == 0
    before = tab.run(height)
    tab.run("document.querySelector('.timeline').focus()")
    tab.key("a")
    assert tab.run(covering) == 0
    assert tab.run(height) > before, "more operations at a time need more rows"
    tab.key("0")
    assert tab.run(height) == before
    require_quiet(tab)
    tab.close()


def test_the_axis_counts_events_or_time(browser: Browser, foreign: Path) -> None:
    tab = browser.open(foreign)
    ticks = "[...document.querySelectorAll('.timeline .tick')].map(e => e.textContent)"
    assert all(tick.isdigit() for tick in tab.run(ticks)[:4])
    tab.click("[data-do=axis]")
    assert tab.run(ticks)[0].endswith(" ms")
    low, high = view(tab)
    assert high - low > 1e6, "nanoseconds"
    tab.click("[data-do=axis]")
    assert tab.run(ticks)[0].isdigit()
    require_quiet(tab)
    tab.close()


def test_a_cycle_lights_up_where_the_pointer_is(browser: Browser, foreign: Path) -> None:
    tab = browser.open(foreign)
    assert tab.run(
        "[...document.querySelectorAll('.cycle')].map(c => c.querySelectorAll('.edge').length)"
    ) == [2, 3]
    assert tab.run(
        "[...document.querySelectorAll('.cycle')].map(c => c.querySelectorAll('.node').length)"
    ) == [2, 3]
    tab.hover(".cycle li", 1)
    assert tab.run("document.querySelectorAll('.cycle .edge.hot').length") == 1
    assert tab.run("document.querySelector('.edge.hot text').textContent") == "wr y"
    assert tab.run("document.querySelectorAll('.cycle .node.hot').length") == 2
    tab.hover(".cycle .edge .chip", 0)
    assert tab.run("document.querySelector('.cycle li.hot').textContent").startswith("T0 wr x T1")
    assert "is read by" in tab.run("document.getElementById('tip').textContent")
    # Names of arrows hide no box: each lies outside of all of them.
    covered = tab.run(
        "[...document.querySelectorAll('.cycle')].flatMap(c => [...c.querySelectorAll('.chip')].filter(e => {"
        " const a = e.getBoundingClientRect(); return [...c.querySelectorAll('.node rect')].some(n => {"
        " const b = n.getBoundingClientRect(); return a.left < b.right && b.left < a.right"
        " && a.top < b.bottom && b.top < a.bottom; }); })).length"
    )
    assert covered == 0
    require_quiet(tab)
    tab.close()


def test_dark_light_and_paper(browser: Browser, foreign: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    tab = browser.open(foreign)
    light = tab.run(ground)
    tab.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = tab.run(ground)
    assert light != dark
    tab.command(
        "Emulation.setEmulatedMedia",
        media="print",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    assert tab.run(ground) == light, "paper is white"
    assert tab.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    tab.close()


def test_nothing_in_a_history_runs(browser: Browser, tmp_path: Path) -> None:
    evil = f"{EVIL}<img src=x onerror='window.ran=1'><svg onload='window.ran=1'>"
    lines = [(0, INVOKE, evil, evil), (0, OK, evil, evil), (evil, OK, evil, evil)]
    result = samples.register_result(evil)
    problem = result.judgement.problems[0]._replace(anomaly=evil, key=evil, words=evil, operations=(0,))
    operations = samples.operations_of(lines)
    made = ForeignResult(
        evil, evil, evil, result.judgement._replace(problems=(problem,)), operations, 1, 0.1, result.bands
    )
    write_foreign_html([made], tmp_path / "evil.html")
    tab = browser.open(tmp_path / "evil.html")
    assert tab.run("window.ran") is None
    assert tab.run("document.querySelectorAll('main img, main script').length") == 0
    require_quiet(tab)
    tab.close()
