"""What a reader needs of the page, measured in the browser: nothing cut, nothing overlapping, enough contrast."""

from __future__ import annotations

from tests.jepsen.browser import Tab

LEAST_CONTRAST = 4.5
"""WCAG 2.2, level AA, for text of any size."""

_TEXTS = """
const visible = e => { const b = e.getBoundingClientRect(); return b.width > 1 && b.height > 1 && !e.closest('.hidden, .skip, dialog:not([open])'); };
const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
const texts = [...document.querySelectorAll('body *:not(script):not(style):not(noscript)')].filter(e => visible(e) && own(e) && !['OPTION', 'DEFS'].includes(e.tagName));
const say = e => `${e.tagName} "${e.textContent.trim().slice(0, 60)}"`;
"""

_CUT = """(() => { %s
  const room = document.getElementById('chart')?.getBoundingClientRect();
  const out = [];
  for (const e of texts) {
    if (e.ownerSVGElement) {
      const b = e.getBoundingClientRect();
      if (b.left < room.left - 1 || b.right > room.right + 1 || b.top < room.top - 1 || b.bottom > room.bottom + 1) out.push('outside of the diagram: ' + say(e));
    } else if (getComputedStyle(e).display !== 'inline') {
      if (e.scrollWidth > e.clientWidth + 1) out.push('too wide: ' + say(e));
      if (!e.matches('#findings, #panel, #scroller') && getComputedStyle(e).overflowY === 'hidden' && e.scrollHeight > e.clientHeight + 1) out.push('too high: ' + say(e));
    }
    const b = e.getBoundingClientRect();
    if (b.left < -1 || b.right > document.documentElement.clientWidth + 1) out.push('outside of the page: ' + say(e));
  }
  for (const id of ['page', 'stage', 'findings', 'panel']) {
    const e = document.getElementById(id);
    if (e.scrollWidth > e.clientWidth + 1) out.push('scrolls sideways: ' + id);
  }
  return out; })()""" % _TEXTS

_OVERLAPS = """(() => { %s
  const out = [], hits = (a, b) => a.left < b.right - 1.5 && b.left < a.right - 1.5 && a.top < b.bottom - .5 && b.top < a.bottom - .5;
  const boxes = list => list.map(e => [e, e.getBoundingClientRect()]);
  for (const group of ['#chart text', '#gutter div', '.tools.bar > *, .tools.bar button, .tools.bar select', '.top > *, .top button, .top input', '#legend span', '#page > *', '#stage > *', '#panel > *', '#findings .part']) {
    const all = boxes([...document.querySelectorAll(group)].filter(visible));
    all.forEach(([e, a], i) => all.slice(i + 1).forEach(([f, b]) => { if (!e.contains(f) && !f.contains(e) && hits(a, b)) out.push(`${group}: ${say(e)} and ${say(f)}`); }));
  }
  return out; })()""" % _TEXTS

_CONTRAST = """(() => { %s
  const channel = v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; };
  const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
  const parse = text => { const n = text.match(/[\\d.]+/g).map(Number); return text.startsWith('rgb') ? [n[0], n[1], n[2], n[3] === undefined ? 1 : n[3]] : null; };
  const ground = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c && c[3] === 1) return c; } return [255, 255, 255, 1]; };
  const out = [];
  for (const e of texts) {
    const style = getComputedStyle(e);
    // Words in the diagram have a rim in the colour of what they lie on.
    const text = parse(e.ownerSVGElement ? style.fill : style.color);
    const below = e.ownerSVGElement && style.stroke !== 'none' ? parse(style.stroke) : ground(e.ownerSVGElement || e);
    if (e.matches(':disabled')) continue;
    const [a, b] = [light(text), light(below)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
    if (ratio < %s) out.push(`${ratio.toFixed(2)}: ${say(e)}`);
  }
  return out; })()""" % (_TEXTS, LEAST_CONTRAST)


def require_legible(tab: Tab) -> None:
    """Nothing is cut, nothing overlaps, everything can be told from what it lies on."""
    assert tab.run(_CUT) == []
    assert tab.run(_OVERLAPS) == []
    assert tab.run(_CONTRAST) == []


def require_quiet(tab: Tab) -> None:
    """The script ran, nothing was wrong, and nothing but the page itself was asked for."""
    assert tab.run("document.documentElement.dataset.ready") == "yes"
    assert tab.problems() == []
    assert len(tab.requests()) == 1 and tab.requests()[0].startswith("file:")


def text_of(tab: Tab, selector: str) -> str:
    """What is read out of an element."""
    found: str = tab.run(f"document.querySelector({selector!r}).innerText")
    return found
