// What keys, buttons and the pointer do.
let found = [], wanted = '';

// Choose a step: everything on the page speaks of it. `centre`: also move the view to it.
function choose(place, centre = false) {
  if (!steps.length) return;
  place = Math.max(0, Math.min(steps.length - 1, place));
  if (view.list !== everything && view.list[lowerBound(view.list, place)] !== place) showAll(true);
  view.chosen = place;
  view.chain = chainOf(place);
  if (data.violation && place === data.violation.step) for (const p of behind) view.chain.add(p);
  const room = (view.width - 2 * PAD) / view.scale, u = at(place);
  if (centre || u < view.left || u > view.left + room) view.left = u - room / 2;
  else if (u < view.left + room * .12) view.left = u - room * .12;
  else if (u > view.left + room * .88) view.left = u - room * .88;
  draw();
  fillPanel();
  for (const link of document.querySelectorAll('#findings .steplink')) {
    const now = +link.dataset.place === place;
    link.classList.toggle('now', now);
    if (now && ready()) link.scrollIntoView({block: 'nearest'});
  }
  const i = lowerBound(view.list, place);
  $('back').disabled = $('first').disabled = i <= 0;
  $('forth').disabled = $('last').disabled = i >= view.list.length - 1;
  document.documentElement.dataset.step = place;
}
const ready = () => document.documentElement.dataset.ready === 'yes';
function go(by) { choose(view.list[Math.max(0, Math.min(view.list.length - 1, lowerBound(view.list, view.chosen) + by))]); }
function goOnNode(by) {
  const node = steps[view.chosen].node;
  for (let i = lowerBound(view.list, view.chosen) + by; i >= 0 && i < view.list.length; i += by) if (steps[view.list[i]].node === node) return choose(view.list[i]);
}
function goInChain(by) {
  const chain = [...rememberedChain()].sort((a, b) => a - b), i = chain.indexOf(view.chosen) + by;
  if (i >= 0 && i < chain.length) { const kept = view.chain0; choose(chain[i]); view.chain = kept; view.chain0 = kept; draw(); }
}
// The chain in which one walks stays the same while one walks in it.
function rememberedChain() {
  if (!view.chain0 || !view.chain0.has(view.chosen)) view.chain0 = view.chain;
  return view.chain0;
}
function goToMark(by) {
  const list = marks.map(m => view.list[Math.min(view.list.length - 1, lowerBound(view.list, m.before))]);
  const next = by > 0 ? list.find(p => p > view.chosen) : list.filter(p => p < view.chosen).pop();
  if (next !== undefined) choose(next, true);
}
function showAll(all) {
  view.list = all || !mattering.length ? everything : mattering;
  $('all').setAttribute('aria-pressed', String(view.list === everything));
}
function toggleAll() {
  const all = view.list !== everything;
  showAll(all);
  choose(all ? view.chosen : view.list[Math.min(view.list.length - 1, lowerBound(view.list, view.chosen))], true);
}
function toggleAxis() {
  if (!data.clocks) return;
  const room = (view.width - 2 * PAD) / view.scale;
  const low = view.list[Math.min(view.list.length - 1, Math.max(0, Math.floor(view.left)))];
  view.time = !view.time;
  $('axis').setAttribute('aria-pressed', String(view.time));
  if (view.time) {
    const high = view.list[Math.min(view.list.length - 1, Math.ceil(lowerBound(view.list, low) + room))];
    view.scale = (view.width - 2 * PAD) / Math.max(1, at(high) - at(low));
  } else view.scale = 18;
  choose(view.chosen, true);
}
function zoom(factor, x = view.width / 2) {
  const unit = view.left + (x - PAD) / view.scale;
  const least = (view.width - 2 * PAD) / Math.max(1, span());
  view.scale = Math.max(Math.min(least, 18), Math.min(view.time ? 2000 : 60, view.scale * factor));
  if (!view.time) view.scale = Math.max(view.scale, (view.width - 2 * PAD) / 2500);
  view.left = unit - (x - PAD) / view.scale;
  draw();
}
function fit() { view.left = 0; zoom(1e-9); view.left = view.scale * span() <= view.width ? 0 : view.left; draw(); }
function nextLog() {
  const list = [...logs.keys()];
  pickLog(list[(list.indexOf(view.log) + 1) % list.length]);
}
function pickLog(log) { $('log').value = log; setLog(log); draw(); fillPanel(); }

function search(words) {
  wanted = words.trim().toLowerCase();
  found = !wanted ? [] : steps.filter(s => [`step ${s.number}`, subject(s), s.label, ...s.effects].join('\n').toLowerCase().includes(wanted)).map(s => s.place);
  view.hits = new Set(found);
  tellHits();
  draw();
}
function tellHits() {
  const i = found.indexOf(view.chosen);
  $('hits').textContent = !wanted ? '' : !found.length ? 'nothing found' : i >= 0 ? `${numeral(i + 1)} of ${numeral(found.length)}` : `${numeral(found.length)} found`;
}
function nextHit(by) {
  if (!found.length) return;
  const next = by > 0 ? found.find(p => p > view.chosen) ?? found[0] : found.findLast(p => p < view.chosen) ?? found[found.length - 1];
  choose(next, true);
  tellHits();
}

const THEMES = ['auto', 'light', 'dark'];
let theme = 'auto';
const prefersDark = matchMedia('(prefers-color-scheme: dark)');
function paint() {
  const dark = theme === 'dark' || (theme === 'auto' && prefersDark.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  $('theme').textContent = 'Theme: ' + theme;
}
function nextTheme() { theme = THEMES[(THEMES.indexOf(theme) + 1) % 3]; paint(); drawOverview(); }
prefersDark.addEventListener('change', () => { paint(); drawOverview(); });

const ACTIONS = {
  ArrowLeft: e => e.shiftKey ? goOnNode(-1) : go(-1), ArrowRight: e => e.shiftKey ? goOnNode(1) : go(1),
  Home: () => choose(view.list[0]), End: () => choose(view.list[view.list.length - 1]),
  '[': () => goInChain(-1), ']': () => goInChain(1),
  v: () => data.violation && data.violation.step >= 0 && choose(data.violation.step, true),
  d: () => data.disagreement && data.disagreement.step >= 0 && choose(data.disagreement.step, true),
  f: () => goToMark(1), F: () => goToMark(-1), l: nextLog, a: toggleAll, t: toggleAxis,
  '+': () => zoom(1.4), '=': () => zoom(1.4), '-': () => zoom(1 / 1.4), 0: fit, m: nextTheme,
  '/': () => $('query').focus(), '?': () => $('keys').showModal(),
};
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || $('keys').open) return;
  const field = event.target.closest('input, select');
  if (field) {
    if (event.key === 'Escape') { field.value = field.id === 'query' ? '' : field.value; if (field.id === 'query') search(''); $('scroller').focus(); }
    if (field.id === 'query' && event.key === 'Enter') { event.preventDefault(); nextHit(event.shiftKey ? -1 : 1); }
    return;
  }
  const action = ACTIONS[event.key];
  if (!action || !steps.length && !['?', 'm'].includes(event.key)) return;
  event.preventDefault();
  action(event);
});
$('search').addEventListener('submit', event => event.preventDefault());
$('query').addEventListener('input', () => search($('query').value));
for (const [id, action] of [['first', () => choose(view.list[0])], ['back', () => go(-1)], ['forth', () => go(1)], ['last', () => choose(view.list[view.list.length - 1])],
  ['all', toggleAll], ['axis', toggleAxis], ['out', () => zoom(1 / 1.4)], ['in', () => zoom(1.4)], ['fit', fit], ['theme', nextTheme], ['help', () => $('keys').showModal()]]) $(id).addEventListener('click', action);
$('log').addEventListener('change', () => pickLog($('log').value));

let drag = null;
svg.addEventListener('pointerdown', event => { drag = {x: event.clientX, left: view.left, moved: false, id: event.pointerId}; });
svg.addEventListener('pointermove', event => {
  if (drag && (drag.moved || Math.abs(event.clientX - drag.x) > 4)) {
    if (!drag.moved) { drag.moved = true; svg.setPointerCapture(drag.id); svg.classList.add('drag'); }
    view.left = drag.left - (event.clientX - drag.x) / view.scale;
    draw();
    return;
  }
  const target = event.target, tip = $('tip');
  const words = target.dataset?.tip || (target.dataset?.place ? `step ${numeral(steps[+target.dataset.place].number)}: ${subject(steps[+target.dataset.place])}` : '');
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  tip.style.left = Math.min(innerWidth - tip.offsetWidth - 8, event.clientX + 14) + 'px';
  tip.style.top = Math.min(innerHeight - tip.offsetHeight - 8, event.clientY + 16) + 'px';
});
svg.addEventListener('pointerleave', () => { $('tip').hidden = true; });
addEventListener('pointerup', () => { if (drag) svg.classList.remove('drag'); setTimeout(() => { drag = null; }); });
svg.addEventListener('click', event => {
  if (drag?.moved) return;
  const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  if (event.target.dataset?.place) return choose(+event.target.dataset.place);
  // Anywhere else in a lane: the nearest step of it.
  let best = -1, near = 24;
  for (const p of visible()) {
    const far = Math.abs(xAt(p) - x);
    if (far < near && Math.abs(lanes.get(steps[p].node) - LINE + NODE / 2 - y) < NODE / 2) { near = far; best = p; }
  }
  if (best >= 0) choose(best);
});
svg.addEventListener('wheel', event => {
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { view.left += (event.deltaX || event.deltaY) / view.scale; draw(); }
  else zoom(event.deltaY < 0 ? 1.15 : 1 / 1.15, event.clientX - svg.getBoundingClientRect().left);
  event.preventDefault();
}, {passive: false});
function overviewAt(event) {
  const all = Math.max(1, span()), unit = (event.clientX - overview.getBoundingClientRect().left - 8) / (overview.clientWidth - 16) * all;
  view.left = unit - (view.width - 2 * PAD) / view.scale / 2;
  draw();
}
overview.addEventListener('pointerdown', event => { overview.setPointerCapture(event.pointerId); overviewAt(event); });
overview.addEventListener('pointermove', event => { if (event.buttons) overviewAt(event); });
new ResizeObserver(() => draw()).observe($('scroller'));

// -- the beginning ----------------------------------------------------------------------------------------
paint();
$('title').textContent = data.title;
const verdict = $('verdict');
verdict.textContent = data.violation ? data.violation.name : data.disagreement ? 'the model differs' : steps.length ? 'no violation in this file' : 'empty';
verdict.classList.toggle('bad', Boolean(data.violation || data.disagreement));
$('log').append(...[...logs.keys()].map(key => make('option', {value: key}, shortLog(key) + (/[(]log /.test(logs.get(key)) ? ` (${key})` : ''))));
for (const [id, words, verdict] of [['to-violation', 'Violation', data.violation], ['to-model', 'Model differs', data.disagreement]]) {
  if (verdict && verdict.step >= 0) $('jumps').append(make('button', {id, type: 'button', click: () => choose(verdict.step, true)}, words));
}
$('axis').hidden = !data.clocks;
document.documentElement.style.setProperty('--at', Math.max(60, Math.ceil(widthOf('step ' + numeral(total)) * 13 / 11 + 4)) + 'px');
fillLegend();
fillKeys();
fillFindings();
{
  const told = data.violation ? data.violation.finding + ' ' + Object.keys(data.violation.after || {}).join(' ') : data.disagreement ? data.disagreement.finding : '';
  const named = [...logs.keys()].filter(log => log !== 'raft');
  setLog(named.find(log => told.includes(log)) || (/Raft|Election|Leader|StateMachine/.test(data.violation?.name || '') || !named.length ? 'raft' : named[0]));
  $('log').value = view.log;
}
view.width = Math.max(200, $('scroller').clientWidth - gutter.offsetWidth);
view.scale = Math.max(18, Math.min(60, (view.width - 2 * PAD) / Math.max(1, span())));
if (steps.length) choose((data.violation && data.violation.step >= 0 ? data.violation : data.disagreement && data.disagreement.step >= 0 ? data.disagreement : {step: view.list[Math.min(view.list.length - 1, Math.floor(view.list.length / 2))]}).step, true);
else {
  svg.replaceWith(make('p', {class: 'empty'}, 'There is no step in this file: nothing has run, or the trace was cut at once.'));
  gutter.remove();
  $('scroller').style.display = 'block';
  for (const button of document.querySelectorAll('#stage button, #stage select')) button.disabled = true;
  fillPanel();
}
document.documentElement.dataset.ready = 'yes';
