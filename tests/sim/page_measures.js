// Measures of a page that is open: each returns what is wrong, in words. tests/sim/page_measures.py asks for them.
(() => {
  const LEAST_CONTRAST = 4.5; // WCAG 2.2, level AA, for text of any size
  const hidden = '.hidden, .skip, dialog:not([open])';
  const visible = e => {
    const b = e.getBoundingClientRect();
    return b.width > 1 && b.height > 1 && !e.closest(hidden);
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
  const say = e => `${e.tagName} "${e.textContent.trim().slice(0, 60)}"`;
  const texts = () => [...document.querySelectorAll('body *:not(script, style, noscript, option)')].filter(e => own(e) && visible(e));

  function cut() {
    const room = document.getElementById('chart')?.getBoundingClientRect(), width = document.documentElement.clientWidth;
    const out = [];
    for (const e of texts()) {
      const b = e.getBoundingClientRect(), style = getComputedStyle(e);
      if (e.ownerSVGElement) {
        if (b.left < room.left - 1 || b.right > room.right + 1 || b.top < room.top - 1 || b.bottom > room.bottom + 1) {
          out.push('outside of the diagram: ' + say(e));
        }
      } else if (style.display !== 'inline') {
        if (e.scrollWidth > e.clientWidth + 1) out.push('too wide: ' + say(e));
        if (style.overflowY === 'hidden' && e.scrollHeight > e.clientHeight + 1) out.push('too high: ' + say(e));
      }
      if (b.left < -1 || b.right > width + 1) out.push('outside of the page: ' + say(e));
    }
    for (const id of ['page', 'stage', 'findings', 'panel']) {
      const e = document.getElementById(id);
      if (e.scrollWidth > e.clientWidth + 1) out.push('scrolls sideways: ' + id);
    }
    return out;
  }

  function overlaps() {
    const out = [];
    // Neighbours in a group share a border of 1 px.
    const hits = (a, b) => a.left < b.right - 1.5 && b.left < a.right - 1.5 && a.top < b.bottom - 1.5 && b.top < a.bottom - 1.5;
    const groups = ['#chart text', '#gutter div', '.tools.bar button, .tools.bar select', '.top > *, .top button, .top input',
      '#legend span', '#page > *', '#stage > *', '#panel > *', '#findings .part, #findings .note', '#findings .steplink'];
    for (const group of groups) {
      const all = [...document.querySelectorAll(group)].filter(visible).map(e => [e, e.getBoundingClientRect()]);
      all.forEach(([e, a], i) => all.slice(i + 1).forEach(([f, b]) => {
        if (!e.contains(f) && !f.contains(e) && hits(a, b)) out.push(`${group}: ${say(e)} and ${say(f)}`);
      }));
    }
    return out;
  }

  function faint() {
    const channel = v => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
    const light = c => .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
    const parse = text => {
      const n = text.match(/[\d.]+/g).map(Number);
      return [n[0], n[1], n[2], n[3] === undefined ? 1 : n[3]];
    };
    const ground = e => {
      for (; e; e = e.parentElement) {
        const c = parse(getComputedStyle(e).backgroundColor);
        if (c[3] === 1) return c;
      }
      return [255, 255, 255, 1];
    };
    const out = [];
    for (const e of texts()) {
      const style = getComputedStyle(e), drawn = e.ownerSVGElement;
      // Words in the diagram have a rim in the colour of what they lie on.
      const text = parse(drawn ? style.fill : style.color);
      const below = drawn && style.stroke !== 'none' ? parse(style.stroke) : ground(drawn || e);
      if (e.matches(':disabled')) continue;
      const [a, b] = [light(text), light(below)].sort((x, y) => y - x), ratio = (a + .05) / (b + .05);
      if (ratio < LEAST_CONTRAST) out.push(`${ratio.toFixed(2)}: ${say(e)}`);
    }
    return out;
  }

  return {cut: cut(), overlaps: overlaps(), faint: faint(), texts: texts().length};
})()
