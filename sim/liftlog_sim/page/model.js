// The data of the page: steps, states at any step, and which steps belong together.
const data = JSON.parse(document.getElementById('data').textContent);
const CLIENTS = -1, NATS = -2, START = 0, MESSAGE = 1, TIMER = 2;
const FAMILIES = {
  Fetch: 'replication', FetchReply: 'replication', FetchProgress: 'replication', RangeFetch: 'replication', RangeReply: 'replication',
  AppendRequest: 'raft', AppendReply: 'raft', VoteRequest: 'raft', VoteReply: 'raft', TimeoutNow: 'raft', Forward: 'raft',
  Published: 'bus', AckPublishes: 'bus', RefusePublishes: 'bus', Subscribe: 'bus', ReplyClient: 'client',
};
const logs = new Map(data.logs);
const shortLog = key => (logs.get(key) || key).replace(/ \(log .*\)$/, '');
const steps = data.steps.map((row, place) => ({
  place, number: row[0], at: row[1], node: row[2], kind: row[3], words: data.texts[row[4]], changes: row[5] || {},
  causes: row[6] || [], effects: (row[7] || []).map(n => data.texts[n]), arrival: row[8] || null,
  departures: row[9] || [], unheard: row[10] || [], label: row[11] || '', leads: [],
}));
for (const step of steps) for (const cause of step.causes) steps[cause].leads.push(step.place);
const total = steps.length ? Math.max(steps[steps.length - 1].number + 1, steps.length) : 0;
const marks = data.marks.map(m => ({before: m[0], at: m[1], what: m[2], detail: m[3], node: m[4]}));
const family = (name, lane) => FAMILIES[name] || (lane === CLIENTS ? 'client' : lane === NATS ? 'bus' : 'session');
const seconds = us => (us / 1e6).toFixed(6) + ' s';
const when = step => data.clocks ? seconds(step.at) : '';
const numeral = n => n.toLocaleString('en');

// Which steps matter, so that quiet ones can be left aside.
const behind = data.story.map(line => line[0]).filter(step => step >= 0);
const mattering = (() => {
  const keep = new Set(behind);
  for (const v of [data.violation, data.disagreement]) if (v && v.step >= 0) keep.add(v.step);
  for (const s of steps) {
    if (Object.keys(s.changes).length || s.label || s.kind === START || s.departures.length) {
      keep.add(s.place);
      if (s.arrival && s.arrival[2] >= 0) keep.add(s.arrival[2]);
    }
  }
  return steps.filter(s => keep.has(s.place)).map(s => s.place);
})();
const everything = steps.map(s => s.place);

// States: every so many steps all of it, and changes between.
const EVERY = 256;
const snapshots = [];
{
  const now = Object.fromEntries(data.nodes.map(n => [n, {}]));
  for (const s of steps) {
    if (s.place % EVERY === 0) snapshots.push(Object.fromEntries(data.nodes.map(n => [n, {...now[n]}])));
    apply(now, s);
  }
}
function apply(states, step) {
  const mine = step.kind === START || !states[step.node] ? states[step.node] = {} : states[step.node];
  for (const [key, value] of Object.entries(step.changes)) {
    if (value === null) delete mine[key]; else mine[key] = value;
  }
}
// The states of all nodes after a step, by node; before the first step nobody has any.
function statesAfter(place) {
  if (place < 0 || !steps.length) return Object.fromEntries(data.nodes.map(n => [n, {}]));
  const slot = Math.floor(place / EVERY);
  const states = Object.fromEntries(data.nodes.map(n => [n, {...(snapshots[slot][n] || {})}]));
  for (let i = slot * EVERY; i <= place; i++) apply(states, steps[i]);
  return states;
}
const NAMES = {
  leo: ['LEO', 'last'], durable: ['durable LEO', 'durable'], hw: ['HW', 'commit'], epoch: ['epoch', 'term'], role: ['role'], isr: ['ISR'],
};
function valueOf(state, log, what) {
  for (const name of NAMES[what]) {
    const value = state[log + ' ' + name];
    if (value !== undefined) return value;
  }
  return undefined;
}
const shown = value => value === undefined || value === null ? '–' : Array.isArray(value) ? (value.length ? value.map(shown).join(' ') : 'nobody')
  : typeof value === 'object' ? Object.entries(value).map(([k, v]) => k + ' ' + shown(v)).join(', ') : value === true ? 'yes' : value === false ? 'no' : String(value);
function nameOf(key) {
  if (key.startsWith('disk ')) return 'disk, ' + (/^\d+$/.test(key.slice(5)) ? 'ticket ' + key.slice(5) : key.slice(5));
  const cut = key.indexOf(' ');
  return cut > 0 && logs.has(key.slice(0, cut)) ? shortLog(key.slice(0, cut)) + ' ' + key.slice(cut + 1) : key;
}

// When a node is away: from what ended its process, or its last step, until it starts again.
const absences = (() => {
  const found = new Map(data.nodes.map(n => [n, []])), last = new Map();
  const ending = /^(kill|power|stop|crash|terminate)/;
  const ends = (node, from, to) => {
    const mark = marks.find(m => m.before > from && m.before <= to && m.node === node && ending.test(m.what));
    return mark ? mark.before - 1 : from;
  };
  for (const s of steps) {
    if (s.kind === START && last.has(s.node)) found.get(s.node).push([ends(s.node, last.get(s.node), s.place), s.place]);
    last.set(s.node, s.place);
  }
  for (const [node, place] of last) {
    const mark = marks.find(m => m.before > place && m.node === node && ending.test(m.what));
    if (mark) found.get(node).push([place, steps.length]);
  }
  return found;
})();

// What a log's state was on each node, by step: only where it changed.
function seriesOf(log) {
  const series = new Map(data.nodes.map(n => [n, []]));
  const now = new Map(data.nodes.map(n => [n, {}]));
  for (const s of steps) {
    if (s.kind === START) now.set(s.node, {});
    const state = now.get(s.node);
    let touched = s.kind === START;
    for (const key in s.changes) {
      if (key.startsWith(log + ' ')) {
        touched = true;
        state[key] = s.changes[key] === null ? undefined : s.changes[key];
      }
    }
    if (!touched) continue;
    const leo = +(valueOf(state, log, 'leo') ?? 0) || 0;
    const durable = Math.min(leo, +(valueOf(state, log, 'durable') ?? 0) || 0);
    series.get(s.node).push({from: s.place, role: valueOf(state, log, 'role'), epoch: valueOf(state, log, 'epoch'),
      isr: valueOf(state, log, 'isr'), leo, durable, hw: Math.min(leo, +(valueOf(state, log, 'hw') ?? 0) || 0)});
  }
  return series;
}

// The chain of a step: what it came from, and what came of it, by messages, disks and requests.
const LONGEST = 80;
function chainOf(place) {
  const chain = new Set([place]);
  for (const next of [p => steps[p].kind === TIMER ? [] : steps[p].causes, p => steps[p].leads.filter(l => steps[l].kind !== TIMER)]) {
    const waiting = [place];
    let left = LONGEST;
    while (waiting.length && left > 0) {
      for (const one of next(waiting.shift())) {
        if (!chain.has(one)) { chain.add(one); waiting.push(one); left--; }
      }
    }
  }
  return chain;
}
function lowerBound(list, value) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}
