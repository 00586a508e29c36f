// One window: what its compaction kept and lost, and all that stood in it.

const BATCH = 40;

function compactionCard(outline, at, record) {
  const window = outline.windows[at];
  if (window.before === undefined) {
    return element('section', { class: 'card' }, element('h3', {}, 'The last window'),
      element('p', {}, 'No compaction follows: what stands here is all that the policy could still use.'), factList(outline, at - 1, 'held'));
  }
  const states = factsAt(outline, at);
  const flaws = [window.malformed && 'the summary broke the form', window.cut_off && 'the summary was cut off'].filter(Boolean);
  return element('section', { class: 'card' },
    element('h3', {}, `Compaction ${count(at + 1)}`),
    element('p', { class: 'figures' }, `${count(window.before)} → ${count(window.after)} tokens`,
      window.summary ? `, ${plural(window.summary, 'token')} of summary` : ', no summary was asked for'),
    flaws.length ? element('p', { class: 'flaw' }, flaws.join('; ')) : null,
    record.summary ? element('blockquote', { tabindex: 0, 'aria-label': 'What was carried over' }, textBlock(record.summary, states, 'kept-text'))
      : element('p', { class: 'note' }, window.summary ? 'The summary is empty.' : ''),
    factList(outline, at, 'kept'));
}

function factList(outline, compaction, word) {
  const states = factsAt(outline, compaction);
  if (!states.length) return element('p', { class: 'note' }, outline.facts.length ? 'No needed fact had been read by then.' : 'No fact is known to have been needed.');
  const groups = [['lost', 'lost here'], ['kept', word], ['gone', 'lost before']];
  return element('div', {}, groups.map(([state, told]) => {
    const facts = states.filter((fact) => fact.state === state && !(word === 'held' && state === 'lost'));
    const shown = word === 'held' && state === 'gone' ? states.filter((fact) => fact.state !== 'kept') : facts;
    if (!shown.length) return null;
    const most = 60;
    return [element('h4', { class: state }, `${count(shown.length)} ${told}`),
      element('ul', { class: `facts ${state}` }, shown.slice(0, most).map((fact) => element('li', {}, fact.text)),
        shown.length > most && element('li', { class: 'note' }, `and ${count(shown.length - most)} more`))];
  }));
}

// All that stood in a window, as functions that each make the nodes of one turn, with their characters.
function blocksOf(outline, at, record, shade, most) {
  const window = outline.windows[at];
  const states = factsAt(outline, window.before === undefined ? at - 1 : at);
  const blocks = [];
  const say = (label, told, kind, text) => blocks.push([text.length, () => element('article', { class: kind },
    element('header', {}, element('span', { class: 'role' }, label), told ? element('span', { class: 'note' }, told) : null),
    textBlock(text, states, kind))]);
  const silent = (label, told, kind) => blocks.push([80, () => element('article', { class: kind },
    element('header', {}, element('span', { class: 'role' }, label), element('span', { class: 'note' }, told)))]);

  for (const [role, text] of record.carried ?? []) say(at ? `${role || 'prompt'}, carried over` : role || 'prompt', '', 'carried', text);
  if (!record.carried && window.prompt) silent(at ? 'carried over' : 'prompt', `${plural(window.prompt, 'token')}, not kept as text`, 'carried');
  (record.turns ?? []).forEach((turn, index) => {
    const [appended, sampled, kind, cutOff, trained, advantage] = window.turns[index];
    for (const [role, text] of turn.appended ?? []) say(role || 'read', '', 'given', text);
    if (!turn.appended && appended) silent('read', `${plural(appended, 'token')}, not kept as text`, 'given');
    const told = [plural(sampled, 'token'), meanOf(turn.logprobs), advantage !== null && `advantage ${signed(advantage)}`,
      cutOff && 'cut off', !trained && 'by another policy'].filter(Boolean).join(' · ');
    const head = () => element('header', {}, element('span', { class: 'role' }, kind), element('span', { class: 'note' }, told));
    if (!turn.sampled) {
      blocks.push([(turn.said ?? '').length, () => element('article', { class: kind }, head(),
        turn.said === null || turn.said === undefined ? null : textBlock(turn.said, states, kind))]);
      return;
    }
    blocks.push([sum(turn.sampled.map((piece) => piece.length)), () => element('article', { class: kind }, head(), shade === 'none'
      ? textBlock(turn.sampled.join(''), states, kind)
      : tokenBlock(turn.sampled, turn.logprobs, advantage, states, kind, shade, most))]);
  });
  for (const [role, text] of record.trailing ?? []) say(role || 'after the last sample', '', 'given', text);
  if (record.acts?.length) say('the last acts', '', 'act', record.acts.join('\n'));
  return blocks;
}

function meanOf(logprobs) {
  const known = (logprobs ?? []).filter((value) => typeof value === 'number');
  return known.length ? `mean log-probability ${signed(sum(known) / known.length)}` : '';
}

// The blocks in batches, each filled when it comes into sight.
function column(blocks) {
  const made = element('div', { class: 'column' });
  for (let first = 0, last; first < blocks.length; first = last) {
    let characters = 0;
    for (last = first; last < blocks.length && last - first < BATCH && characters < 4 * SHEET; last += 1) characters += blocks[last][0];
    const batch = blocks.slice(first, last);
    const make = () => batch.map(([, build]) => build());
    made.append(first ? later('div', {}, characters + 100 * batch.length, make) : element('div', {}, make()));
  }
  return made;
}

function openingOf(record, states) {
  if (!record.opening?.length) return null;
  return element('details', { class: 'opening' }, element('summary', {}, 'System and task, at the head of every window'),
    record.opening.map(([role, text]) => element('article', {}, element('header', {}, element('span', { class: 'role' }, role || 'prompt')), textBlock(text, states, ''))));
}
