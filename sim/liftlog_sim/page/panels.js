// The texts: what went wrong, the chosen step, the states, the disk, the keys.
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') made.className = value; else if (key === 'click') made.addEventListener('click', value); else made.setAttribute(key, value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined && child !== ''));
  return made;
}
const subject = step => `node ${step.node} ${step.words}`;
function stepLink(place, extra = '', told = '') {
  const s = steps[place];
  const said = told || subject(s) + (s.label && !s.words.includes(s.label) ? ': ' + s.label : '');
  const link = make('button', {class: 'steplink' + extra, type: 'button', click: () => choose(place, true), title: when(s)},
    make('span', {class: 'at'}, 'step ' + numeral(s.number)), make('span', {class: 'said'}, said));
  link.dataset.place = place;
  return make('li', {}, link);
}

function fillFindings() {
  const box = $('findings'), wrong = data.violation, differs = data.disagreement;
  const left = make('div', {class: 'column', tabindex: '0'}), right = make('div', {class: 'column', tabindex: '0'});
  if (wrong) {
    const part = make('div', {class: 'part'}, make('h2', {class: 'badline'}, `${wrong.name} is violated`),
      make('p', {class: 'finding'}, wrong.finding));
    if (wrong.step >= 0) part.append(place(wrong));
    if (wrong.rule || wrong.sentence) part.append(make('blockquote', {}, make('b', {}, wrong.rule ? 'Rule ' + wrong.rule + '. ' : ''), wrong.sentence));
    left.append(part);
  }
  if (differs) {
    left.append(make('div', {class: 'part'}, make('h2', {class: 'badline'}, 'The first step that the model does not allow'),
      make('p', {class: 'finding'}, `${differs.name ? 'Model ' + differs.name + '. ' : ''}${differs.finding}`), differs.step >= 0 ? place(differs) : ''));
  }
  if (data.story.length) {
    right.append(make('div', {class: 'part'}, make('h2', {}, 'What caused it, causes first'),
      make('ol', {class: 'steps'}, ...data.story.map(([step, words]) => step >= 0 ? stepLink(step, wrong && step === wrong.step ? ' final' : '', words) : untold(words)))));
  }
  const notes = data.notes.map(note => make('p', {class: 'note'}, note));
  if (!wrong && !differs && !notes.length) return;
  left.append(...notes);
  box.append(make('div', {class: right.childNodes.length ? 'columns' : ''}, left, right));
}
function place(verdict) {
  const s = steps[verdict.step];
  return make('p', {}, make('span', {class: 'soft'}, `At step ${numeral(s.number)} of ${numeral(total - 1)}, on node ${verdict.node || s.node}${data.clocks ? ', at ' + seconds(s.at) : ''}. `));
}
// A line of the story that is no step of a node: a fault, say.
const untold = words => make('li', {class: 'steplink befell'}, make('span', {class: 'at'}, 'fault'), make('span', {class: 'said'}, words));

function fillPanel() {
  const box = $('panel');
  if (!steps.length) { box.replaceChildren(make('p', {class: 'empty'}, 'No step.')); return; }
  const s = steps[view.chosen], before = statesAfter(s.place - 1), after = statesAfter(s.place);
  const parts = [
    make('p', {class: 'when'}, `Step ${numeral(s.number)} of ${numeral(total - 1)}${data.clocks ? ' · ' + seconds(s.at) : ''}`),
    make('p', {class: 'words'}, `Node ${s.node} ${s.words}`),
  ];
  for (const v of [data.violation, data.disagreement]) {
    if (v && v.step === s.place) parts.push(make('p', {class: 'badline'}, v === data.violation ? `Here ${v.name} is violated${v.rule ? ', rule ' + v.rule : ''}: ${v.finding}` : `Here the model says no: ${v.name ? v.name + '. ' : ''}${v.finding}`));
  }
  if (s.effects.length) parts.push(make('ul', {class: 'does', 'aria-label': 'What it asks for'}, ...s.effects.map(one => make('li', {}, one))));
  for (const [to, name] of s.unheard) parts.push(make('p', {class: 'note'}, `Its ${name} to node ${to} was never received.`));
  parts.push(changedTable(s, before));
  const causes = s.causes.slice(0, 8), leads = s.leads.slice(0, 8);
  if (causes.length) parts.push(make('h3', {}, 'Because of'), make('ul', {class: 'steps'}, ...causes.map(p => stepLink(p))));
  if (leads.length) parts.push(make('h3', {}, 'What came of it'), make('ul', {class: 'steps'}, ...leads.map(p => stepLink(p))));
  parts.push(...stateTable(s, before, after), ...diskList(after), ...about());
  const scrolled = box.scrollTop;
  box.replaceChildren(...parts);
  box.scrollTop = scrolled;
  $('said').textContent = `Step ${s.number}: ${subject(s)}. ` + Object.entries(s.changes).map(([key, value]) => `${nameOf(key)} ${shown(value)}`).join(', ');
}
function changedTable(s, before) {
  const rows = Object.entries(s.changes).filter(([key]) => !key.startsWith('disk '));
  if (!rows.length) return make('p', {class: 'note'}, Object.keys(s.changes).length ? 'Only what waits for the disk changes.' : 'It changes nothing that is shown here.');
  const body = rows.map(([key, value]) => {
    const was = before[s.node]?.[key];
    const changed = make('td', {}, ...(was === undefined ? [] : [make('span', {class: 'was'}, shown(was) + ' → ')]), make('span', {}, value === null ? 'gone' : shown(value)));
    return make('tr', {}, make('th', {scope: 'row'}, nameOf(key)), changed);
  });
  return make('div', {}, make('h3', {}, 'What it changed'), make('table', {class: 'changes'}, make('tbody', {}, ...body)));
}
function stateTable(s, before, after) {
  const raft = view.log === 'raft';
  const columns = [['role', 'Role'], ['epoch', raft ? 'Term' : 'Epoch'], ['leo', raft ? 'End' : 'LEO'], ['durable', 'Synced'], ['hw', raft ? 'Commit' : 'HW'], ['isr', 'ISR']]
    .filter(([what]) => what !== 'isr' || !raft);
  const head = make('tr', {}, make('th', {scope: 'col'}, 'Node'), ...columns.map(([, title]) => make('th', {scope: 'col'}, title)));
  const body = data.nodes.map(node => {
    const away = (absences.get(node) || []).some(([from, to]) => s.place > from && s.place < to);
    return make('tr', {class: node === s.node ? 'now' : ''}, make('th', {scope: 'row'}, String(node)), ...columns.map(([what], i) => {
      const value = valueOf(after[node] || {}, view.log, what), was = valueOf(before[node] || {}, view.log, what);
      const changed = node === s.node && shown(value) !== shown(was);
      return make('td', {class: changed ? 'changed' : ''}, i === 0 && away ? 'down' : shown(value));
    }));
  });
  return [make('h3', {}, `All nodes after this step: ${shortLog(view.log)}`), make('table', {class: 'states'}, make('thead', {}, head), make('tbody', {}, ...body))];
}
function diskList(after) {
  const lines = [];
  for (const node of data.nodes) {
    const waiting = Object.entries(after[node] || {}).filter(([key]) => key.startsWith('disk '));
    const apart = [...logs.keys()].filter(log => log !== 'raft').map(log => [log, valueOf(after[node] || {}, log, 'durable'), valueOf(after[node] || {}, log, 'leo')]).filter(([, d, l]) => l > d);
    const takes = waiting.length ? waiting.map(([key, what]) => what + (/^disk \d+$/.test(key) ? ` (ticket ${key.slice(5)})` : '')) : apart.map(([log, d, l]) => `${shortLog(log)} from ${d} to ${l - 1}`);
    lines.push(make('tr', {}, make('th', {scope: 'row'}, String(node)), make('td', {}, takes.length ? 'may lose ' + takes.join('; ') : 'everything is synced')));
  }
  return [make('h3', {}, 'What a power loss would take now'), make('table', {class: 'disks'}, make('tbody', {}, ...lines))];
}
function about() {
  const parts = [make('h3', {}, 'This run'), make('p', {}, `From ${data.source}.`)];
  if (data.facts.length) parts.push(make('table', {class: 'facts'}, make('tbody', {}, ...data.facts.map(([name, value]) => make('tr', {}, make('th', {scope: 'row'}, name), make('td', {}, value))))));
  if (data.replay) parts.push(make('h3', {}, 'Run it again'), make('code', {class: 'replay'}, data.replay));
  return parts;
}

function fillLegend() {
  const entries = [['var(--replication)', 'replication', 1], ['var(--raft)', 'metadata group', 1], ['var(--session)', 'sessions', 1], ['var(--client)', 'clients', 1], ['var(--bus)', 'NATS', 1],
    ['var(--fg)', 'message', 2], ['var(--warn)', 'disk', 2], ['var(--session)', 'timer', 2],
    ['var(--leader)', 'leader'], ['var(--follower)', 'follower'], ['var(--committed)', 'committed'], ['var(--synced)', 'synced'],
    ['repeating-linear-gradient(45deg,var(--unsynced) 0 3px,var(--bg) 3px 5px)', 'not synced: a power loss may take it'],
    ['repeating-linear-gradient(45deg,var(--down) 0 2px,var(--surface) 2px 5px)', 'down']];
  $('legend').append(...entries.map(([paint, words, line]) => {
    const key = make('i', {class: 'key' + ['', ' line', ' dot'][line || 0]});
    key.style.background = paint;
    return make('span', {}, key, words);
  }));
}

const KEYS = [
  ['← →', 'step back, step forward'], ['Shift ← →', 'the step before or after on the same node'], ['Home End', 'first and last step'],
  ['[ ]', 'along the chain of cause and effect of the chosen step'], ['v', 'to the violation'], ['d', 'to the first step that the model does not allow'],
  ['f F', 'to the next fault, to the one before'], ['l', 'the next log'], ['a', 'all steps, or those that change something'],
  ['t', 'axis: order of steps, or time'], ['+ − 0', 'zoom in, out, show everything'], ['/', 'search; Enter and Shift Enter go through what was found'],
  ['m', 'theme: auto, light, dark'], ['?', 'these keys'], ['Esc', 'close, leave the search'],
];
function fillKeys() {
  const rows = KEYS.map(([keys, words]) => make('tr', {}, make('td', {}, ...keys.split(' ').flatMap((key, i) => [i ? ' ' : '', make('kbd', {}, key)])), make('td', {}, words)));
  const close = make('button', {type: 'button', click: () => $('keys').close()}, 'Close');
  $('keys').append(make('h2', {}, 'Keys'), make('table', {}, make('tbody', {}, ...rows)),
    make('p', {class: 'note'}, 'Click a step or an arrow: all it came from and all that came of it lights up. Drag the diagram to move, turn the wheel to zoom. In the bar at the bottom, click to go anywhere.'), close);
}
