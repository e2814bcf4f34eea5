// The space-time diagram: only what is visible is drawn.
const $ = id => document.getElementById(id);
const svg = $('chart'), gutter = $('gutter'), overview = $('overview');
const SVG = 'http://www.w3.org/2000/svg';
const TOP = 32, SIDE = 24, LINE = 26, ROLE = 38, BAND = 57, AXIS = 24, PAD = 14;
let NODE = 98, BAND_HIGH = 30, HEIGHT = 0;
const pen = document.createElement('canvas').getContext('2d');
pen.font = getComputedStyle(document.body).fontFamily ? '11px ' + getComputedStyle(document.body).fontFamily : '11px sans-serif';
const widthOf = text => pen.measureText(text).width;

const uses = lane => steps.some(s => (s.arrival && s.arrival[1] === lane) || s.departures.some(d => d[0] === lane));
const sides = [CLIENTS, NATS].filter(uses);
const lanes = new Map();
// Lanes share the room that there is; with many nodes one scrolls.
function layOut(room) {
  const own = room - TOP - AXIS - sides.length * SIDE;
  NODE = Math.max(92, Math.min(210, Math.floor(own / Math.max(1, data.nodes.length))));
  BAND_HIGH = NODE - BAND - 12;
  let y = TOP;
  for (const lane of sides) { lanes.set(lane, y + 12); y += SIDE; }
  for (const node of data.nodes) { lanes.set(node, y + LINE); y += NODE; }
  lanes.bottom = y;
  HEIGHT = y + AXIS;
}

const view = {list: mattering.length ? mattering : everything, time: false, log: 'raft', series: new Map(), left: 0, scale: 18,
  chosen: -1, chain: new Set(), hits: new Set(), width: 600};
const origin = steps.length ? steps[0].at : 0;
const at = place => view.time ? (steps[Math.min(place, steps.length - 1)].at - origin) / 1000 : lowerBound(view.list, place);
const span = () => view.time ? (steps.length ? (steps[steps.length - 1].at - origin) / 1000 : 0) : Math.max(0, view.list.length - 1);
const xOf = unit => PAD + (unit - view.left) * view.scale;
const xAt = place => xOf(at(place));

function element(name, attributes, parent, words) {
  const made = document.createElementNS(SVG, name);
  for (const key in attributes) made.setAttribute(key, attributes[key]);
  if (words !== undefined) made.textContent = words;
  parent.append(made);
  return made;
}
function limits() {
  const room = (view.width - 2 * PAD) / view.scale;
  view.left = Math.max(0, Math.min(view.left, Math.max(0, span() - room)));
}
function setLog(log) { view.log = log; view.series = seriesOf(log); }

// The states of a node that are visible, as pieces [from, to, state] in places of steps.
function pieces(node, first, last) {
  const series = view.series.get(node) || [], found = [];
  let i = Math.max(0, lowerBound(series.map(s => s.from), first) - 1);
  for (; i < series.length && series[i].from <= last; i++) found.push([series[i].from, i + 1 < series.length ? series[i + 1].from : steps.length, series[i]]);
  return found;
}
function visible() {
  const room = view.width / view.scale;
  if (!view.time) {
    const low = Math.max(0, Math.floor(view.left) - 1), high = Math.min(view.list.length - 1, Math.ceil(view.left + room) + 1);
    return view.list.slice(low, high + 1);
  }
  return view.list.filter(p => { const u = at(p); return u >= view.left - 20 / view.scale && u <= view.left + room; });
}

function draw() {
  if (!steps.length) return;
  view.width = Math.max(200, svg.parentElement.clientWidth - gutter.offsetWidth);
  layOut(matchMedia('(max-width: 1100px)').matches ? 440 : svg.parentElement.clientHeight - 2);
  limits();
  svg.replaceChildren();
  svg.setAttribute('viewBox', `0 0 ${view.width} ${HEIGHT}`);
  svg.style.height = gutter.style.height = HEIGHT + 'px';
  svg.classList.toggle('lit', view.chain.size > 1);
  const definitions = element('defs', {}, svg);
  definitions.innerHTML = '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="6" height="6" fill="var(--surface)"/><rect width="2" height="6" fill="var(--down)"/></pattern>'
    + '<pattern id="unsynced" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="5" height="5" fill="var(--bg)"/><rect width="3" height="5" fill="var(--unsynced)"/></pattern>'
    + ['replication', 'raft', 'session', 'client', 'bus'].map(f => `<marker id="head-${f}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 1L8 4L0 7z" fill="var(--${f})"/></marker>`).join('');
  const places = visible();
  drawGround(places);
  drawCursor();
  drawMarks();
  drawAxis(places);
  drawMessages(places);
  drawPieces();
  drawSteps(places);
  drawGutter();
  drawOverview();
}

function drawGround(places) {
  const ground = element('g', {class: 'ground-layer'}, svg);
  const right = Math.min(view.width, xOf(span()) + PAD);
  for (const [lane, y] of lanes) {
    element('line', {class: 'lane', x1: 0, x2: view.width, y1: y, y2: y}, ground);
    if (lane > 0) element('line', {class: 'rule', x1: 0, x2: view.width, y1: y - LINE + NODE - .5, y2: y - LINE + NODE - .5}, ground);
  }
  view.pieces = [];
  if (!places.length) return;
  const first = places[0], last = places[places.length - 1];
  const pieced = new Map(data.nodes.map(node => [node, pieces(node, first, last)]));
  // A node that is away has no say in the scale.
  const gone = (node, from, to) => (absences.get(node) || []).some(([a, b]) => a <= Math.max(from, first) && b >= Math.min(to, last));
  const all = [...pieced].flatMap(([node, list]) => list.filter(([from, to]) => !gone(node, from, to)).map(piece => piece[2]));
  const top = Math.max(1, ...all.map(s => s.leo));
  const floor = top > 12 ? Math.max(0, Math.min(top, ...all.filter(s => s.leo).map(s => Math.min(s.hw, s.durable))) - 2) : 0;
  view.scaleOf = [floor, top];
  const high = offset => Math.max(0, Math.min(1, (offset - floor) / (top - floor))) * BAND_HIGH;
  for (const node of data.nodes) {
    const y = lanes.get(node) - LINE, base = y + BAND + BAND_HIGH;
    if (!(view.series.get(node) || []).some(s => s.role !== undefined || s.leo)) continue;
    element('rect', {class: 'ground', x: 0, y: y + BAND, width: Math.max(0, right), height: BAND_HIGH}, ground);
    let former = null;
    const roles = [];
    for (const [from, to, state] of pieced.get(node)) {
      const x1 = Math.max(-2, xAt(from)), x2 = Math.min(right, to >= steps.length ? right : xAt(to));
      if (x2 <= x1) continue;
      for (const [kind, low, up] of [['committed', floor, state.hw], ['synced', state.hw, state.durable], ['unsynced', Math.max(state.durable, state.hw), state.leo]]) {
        if (up > low && high(up) > high(low)) element('rect', {class: kind, x: x1, y: base - high(up), width: x2 - x1, height: high(up) - high(low)}, ground);
      }
      const same = former && former.role === state.role && former.epoch === state.epoch && shown(former.isr) === shown(state.isr);
      if (same) roles[roles.length - 1].x2 = x2; else roles.push({x1, x2, state});
      former = state;
    }
    const away = (absences.get(node) || []).map(([from, to]) => [xAt(from), to >= steps.length ? right : xAt(to)]);
    for (const role of roles) for (const [a, b] of away) if (a < role.x2 && b >= role.x2) role.x2 = Math.max(role.x1, a + Math.min(8, view.scale / 2));
    for (const {x1, x2, state} of roles) {
      if (!state.role || x2 <= Math.max(0, x1)) continue;
      const role = String(state.role).toLowerCase();
      element('rect', {class: 'role-' + (/^(leader|follower|candidate)$/.test(role) ? role : 'other'), x: x1 + .5, y: y + ROLE, width: Math.max(0, x2 - x1 - 1), height: 15, rx: 2}, ground);
      const epoch = state.epoch === undefined ? '' : (view.log === 'raft' ? ' · term ' : ' · epoch ') + state.epoch;
      const isr = state.isr === undefined ? '' : ' · ISR ' + shown(state.isr);
      const words = [role + epoch + isr, role + epoch, role].find(one => widthOf(one) + 8 < x2 - Math.max(0, x1));
      if (words) view.pieces.push({x: Math.max(0, x1) + 4, y: y + ROLE + 11.5, words, kind: /^(leader|candidate)$/.test(role) ? role : 'follower'});
    }
    for (const [from, to] of absences.get(node) || []) {
      const x1 = Math.max(-2, xAt(from) + Math.min(8, view.scale / 2)), x2 = Math.min(right, to >= steps.length ? right : xAt(to) - Math.min(8, view.scale / 2));
      if (x2 - x1 < 1) continue;
      element('rect', {class: 'away', x: x1, y: y + ROLE, width: x2 - x1, height: BAND + BAND_HIGH - ROLE}, ground);
      if (x2 - Math.max(0, x1) > widthOf('down') + 12) element('text', {class: 'halo', x: (Math.max(0, x1) + x2) / 2, y: y + BAND + 12, 'text-anchor': 'middle'}, ground, 'down');
    }
  }
}

function drawCursor() {
  const ground = element('g', {}, svg);
  if (view.chosen >= 0) {
    const x = xAt(view.chosen), wide = Math.max(6, Math.min(18, view.time ? 8 : view.scale));
    element('rect', {class: 'cursor', x: x - wide / 2, y: 22, width: wide, height: lanes.bottom - 22}, ground);
    element('line', {class: 'cursor-line', x1: x, x2: x, y1: 20, y2: lanes.bottom}, ground);
  }
}

function drawMarks() {
  const group = element('g', {}, svg);
  const named = [];
  for (const [kind, verdict] of [['violation', data.violation], ['model differs', data.disagreement]]) {
    if (!verdict || verdict.step < 0) continue;
    const x = xAt(verdict.step);
    if (x < -40 || x > view.width + 40) continue;
    element('line', {class: 'wrong', x1: x, x2: x, y1: 20, y2: lanes.bottom}, group);
    named.push({x, kind, wrong: true});
  }
  for (const mark of marks) {
    const x = xOf(at(Math.min(mark.before, steps.length)) - (view.time ? 0 : .5));
    if (x < -2 || x > view.width) continue;
    element('line', {class: 'fault', x1: x, x2: x, y1: 20, y2: lanes.bottom}, group);
    named.push({x, kind: mark.what.replaceAll('_', ' ') + (mark.node ? ' ' + mark.node : ''), mark});
  }
  const taken = [];
  named.sort((a, b) => (b.wrong ? 1 : 0) - (a.wrong ? 1 : 0) || a.x - b.x);
  for (const one of named) {
    const wide = widthOf(one.kind) * (one.wrong ? 1.1 : 1) + 6;
    const left = Math.max(4, Math.min(view.width - wide - 2, one.x - 3));
    if (taken.some(([a, b]) => left < b + 6 && left + wide + 6 > a)) continue;
    taken.push([left, left + wide]);
    const text = element('text', {class: 'named ' + (one.wrong ? 'wrongname' : 'faultname'), x: left, y: 14}, group, one.kind);
    if (one.mark) text.dataset.tip = one.mark.detail;
  }
}

function drawAxis(places) {
  const group = element('g', {}, svg), y = lanes.bottom + 15;
  let free = 0;
  const mark = (x, words) => {
    const wide = widthOf(words);
    if (x - wide / 2 < free || x + wide / 2 > view.width - 2) return;
    element('line', {class: 'rule', x1: x, x2: x, y1: lanes.bottom - 3, y2: lanes.bottom + 3}, group);
    element('text', {class: 'axis', x, y, 'text-anchor': 'middle'}, group, words);
    free = x + wide / 2 + 26;
  };
  if (view.time) {
    const raw = 90 / view.scale, power = 10 ** Math.floor(Math.log10(raw));
    const unit = [1, 2, 5, 10].map(n => n * power).find(n => n >= raw);
    for (let u = Math.ceil((view.left + origin / 1000) / unit) * unit - origin / 1000; xOf(u) < view.width; u += unit) mark(xOf(u), ((u * 1000 + origin) / 1e6).toFixed(Math.max(0, Math.min(6, Math.ceil(-Math.log10(unit / 1000))))) + ' s');
  } else {
    for (const p of places) mark(xAt(p), data.clocks ? (steps[p].at / 1e6).toFixed(4) + ' s' : 'step ' + numeral(steps[p].number));
  }
}

function drawMessages(places) {
  if (view.scale < 2.5 && !view.time) return;
  const group = element('g', {}, svg);
  for (const p of places) {
    const s = steps[p], x = xAt(p), y = lanes.get(s.node);
    if (s.arrival && lanes.has(s.arrival[1])) {
      const [name, lane, sent] = s.arrival;
      if (sent >= 0 && view.list[lowerBound(view.list, sent)] !== sent) element('circle', {class: 'ghost', cx: xAt(sent), cy: lanes.get(lane), r: 2}, group);
      const from = sent >= 0 ? xAt(sent) : x - Math.min(14, view.scale * .7);
      arrow(group, from, lanes.get(lane), x, y, family(name, lane), p, sent, `${name} from ${laneName(lane)}`);
    }
    for (const [lane, name] of s.departures) {
      if (lanes.has(lane)) arrow(group, x, y, x + Math.min(14, view.scale * .7), lanes.get(lane), family(name, lane), p, p, `${name} to ${laneName(lane)}`);
    }
    if (view.scale >= 6) for (const [to, name] of s.unheard) {
      if (!lanes.has(to)) continue;
      const y2 = y + Math.sign(lanes.get(to) - y) * 26, x2 = x + 8;
      const path = element('path', {class: `arrow lost f-${family(name, to)}`, d: `M${x} ${y}L${x2} ${y2}`}, group);
      path.dataset.tip = `${name} to node ${to} was never received`;
      element('path', {class: 'cross', d: `M${x2 - 3} ${y2 - 3}l6 6m0 -6l-6 6`}, group);
    }
  }
}
function arrow(group, x1, y1, x2, y2, kind, place, sent, words) {
  if (Math.max(x1, x2) < -50 || Math.min(x1, x2) > view.width + 50) return;
  // Ends stay clear of the dots.
  const long = Math.hypot(x2 - x1, y2 - y1) || 1, off = 5 / long;
  const d = `M${(x1 + (x2 - x1) * off).toFixed(1)} ${(y1 + (y2 - y1) * off).toFixed(1)}L${(x2 - (x2 - x1) * off).toFixed(1)} ${(y2 - (y2 - y1) * off).toFixed(1)}`;
  const lit = view.chain.has(place) && (sent < 0 || view.chain.has(sent)) ? ' lit' : '';
  element('path', {class: `arrow f-${kind}${lit}`, d, 'marker-end': `url(#head-${kind})`}, group);
  const pick = element('path', {class: 'arrow pick', d}, group);
  pick.dataset.place = place;
  pick.dataset.tip = words;
}
const laneName = lane => lane === CLIENTS ? 'clients' : lane === NATS ? 'NATS' : 'node ' + lane;

// What the bands say lies above the arrows, with a rim in the colour of its band.
function drawPieces() {
  const group = element('g', {}, svg);
  for (const {x, y, words, kind} of view.pieces) element('text', {class: 'piece', x, y, style: `stroke:var(--${kind})`}, group, words);
}

function drawSteps(places) {
  const group = element('g', {}, svg), texts = element('g', {}, svg);
  const free = new Map();
  const radius = Math.max(1.6, Math.min(4.5, view.time ? 3.5 : view.scale / 3.2));
  const labelled = [];
  for (const p of places) {
    const s = steps[p], x = xAt(p), y = lanes.get(s.node);
    const chosen = p === view.chosen;
    const dot = element('circle', {class: `dot d-${s.kind}${view.chain.has(p) ? ' lit' : ''}${chosen ? ' chosen' : ''}`, cx: x.toFixed(1), cy: y, r: chosen ? Math.max(5.5, radius) : radius}, group);
    dot.dataset.place = p;
    if (view.hits.has(p)) element('circle', {class: 'hit', cx: x, cy: y, r: radius + 3}, group);
    if (s.label || chosen) labelled.push(p);
  }
  // The chosen step is named first, then those that weigh most.
  const weight = p => (p === view.chosen ? 4 : 0) + (/^(leads|cuts|starts|controller|begins|sync|write|stops)/.test(steps[p].label) ? 2 : steps[p].label.startsWith('acks') ? 1 : 0);
  for (const p of labelled.sort((a, b) => weight(b) - weight(a) || a - b)) {
    const s = steps[p], words = s.label;
    if (!words) continue;
    const wide = widthOf(words), x = Math.max(2, Math.min(view.width - wide - 2, xAt(p) - wide / 2));
    const taken = free.get(s.node) || free.set(s.node, []).get(s.node);
    if (taken.some(([a, b]) => x < b + 8 && x + wide + 8 > a)) continue;
    taken.push([x, x + wide]);
    element('text', {class: 'halo steplabel', x: x.toFixed(1), y: lanes.get(s.node) - 9}, texts, words);
  }
}

function drawGutter() {
  const rows = [];
  const states = statesAfter(view.chosen >= 0 ? view.chosen : steps.length - 1);
  const [floor, top] = view.scaleOf || [0, 1];
  for (const [lane, y] of lanes) {
    const box = document.createElement('div');
    box.append(Object.assign(document.createElement('b'), {textContent: laneName(lane)}));
    if (lane > 0) {
      const state = states[lane] || {};
      const role = valueOf(state, view.log, 'role'), epoch = valueOf(state, view.log, 'epoch');
      const away = (absences.get(lane) || []).some(([from, to]) => view.chosen > from && view.chosen < to);
      const since = epoch === undefined ? '' : (view.log === 'raft' ? 'term ' : 'epoch ') + epoch;
      const office = role && since ? `${role}, ${since}` : role || 'no role';
      const lines = away ? ['down', ''] : widthOf(office) < 100 ? [office, ''] : [role, since];
      const range = `${floor} to ${top}`;
      if ((view.series.get(lane) || []).some(s => s.leo)) lines.push(...(widthOf('offsets ' + range) < 100 ? ['offsets ' + range] : ['offsets', range]));
      box.append(...lines.map(line => Object.assign(document.createElement('span'), {textContent: line || '\u00a0'})));
      box.style.top = y - 9 + 'px';
    } else box.style.top = y - 9 + 'px';
    rows.push(box);
  }
  gutter.replaceChildren(...rows);
}

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
function drawOverview() {
  const ratio = window.devicePixelRatio || 1, wide = overview.clientWidth, high = 34;
  overview.width = wide * ratio; overview.height = high * ratio;
  const g = overview.getContext('2d');
  g.scale(ratio, ratio);
  const all = Math.max(1, span()), place = u => 8 + u / all * (wide - 16);
  const bins = new Float32Array(Math.max(1, Math.ceil(wide / 2)));
  for (const p of view.list) bins[Math.min(bins.length - 1, Math.floor(place(at(p)) / 2))] += view.time ? 1 : steps[p].label ? 1 : .08;
  const most = Math.max(1, ...bins);
  g.fillStyle = colour('--strong');
  bins.forEach((n, i) => { if (n) { const h = 3 + n / most * 13; g.fillRect(i * 2, high - 5 - h, 1.4, h); } });
  g.fillStyle = colour('--fault');
  for (const m of marks) g.fillRect(place(at(Math.min(m.before, steps.length))) - .5, 4, 1, 6);
  for (const v of [data.violation, data.disagreement]) if (v && v.step >= 0) { g.fillStyle = colour('--bad'); g.fillRect(place(at(v.step)) - 1, 2, 2, high - 4); }
  const room = (view.width - 2 * PAD) / view.scale;
  g.fillStyle = colour('--accent') + '22';
  g.strokeStyle = colour('--accent');
  const x1 = place(view.left), x2 = place(Math.min(all, view.left + room));
  g.fillRect(x1, 1, Math.max(3, x2 - x1), high - 2);
  g.strokeRect(x1 + .5, 1.5, Math.max(3, x2 - x1) - 1, high - 3);
  if (view.chosen >= 0) { g.fillStyle = colour('--accent'); g.fillRect(place(at(view.chosen)) - 1, 2, 2, high - 4); }
}
