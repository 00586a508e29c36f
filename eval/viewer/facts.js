// What became of the needed facts. A fact's runs are [first compaction, last compaction, kept].

// The state of each fact at a compaction: kept, lost (by this very compaction) or gone (lost by an earlier one).
function factsAt(outline, compaction) {
  const states = [];
  for (const [text, runs] of outline.facts) {
    const at = runs.findIndex(([first, last]) => first <= compaction && compaction <= last);
    if (at < 0) continue;
    const [first, , kept] = runs[at];
    const state = kept ? 'kept' : first === compaction ? 'lost' : 'gone';
    states.push({ text, state, since: first });
  }
  return states;
}

// Windows whose compaction lost a fact.
function lossesOf(outline) {
  const lost = new Set();
  for (const [, runs] of outline.facts) for (const [first, , kept] of runs) if (!kept) lost.add(first);
  return [...lost].sort((a, b) => a - b);
}

// One sentence on the whole episode: how many facts reached the last window, and where the others were lost.
function verdict(outline) {
  const compactions = outline.windows.filter((window) => window.before !== undefined).length;
  const parts = [compactions
    ? `${plural(outline.windows.length, 'window')}, ${plural(compactions, 'compaction')}. `
    : 'One window, no compaction. '];
  const last = factsAt(outline, compactions - 1);
  if (!last.length) {
    if (compactions) parts.push('No fact is known to have been needed.');
    return parts;
  }
  const missing = last.filter((fact) => fact.state !== 'kept');
  parts.push(element('b', { class: missing.length ? '' : 'kept' },
    `${count(last.length - missing.length)} of ${plural(last.length, 'needed fact')}`), ' reached the last window');
  if (!missing.length) return [...parts, '.'];
  parts.push('; lost on the way: ');
  missing.slice(0, 3).forEach((fact, at) => parts.push(at ? ', ' : '', element('b', { class: 'lost' }, fact.text),
    ` (compaction ${count(fact.since + 1)})`));
  parts.push(missing.length > 3 ? `, and ${count(missing.length - 3)} more.` : '.');
  return parts;
}

// Where facts stand in a text, [begin, end, state], in order and without overlaps: every word of a fact, whole, in order.
function findFacts(text, states) {
  const known = states.filter((fact) => fact.text.trim());
  if (!known.length || !text) return [];
  const words = (fact) => fact.text.trim().split(/\s+/);
  const spelled = (fact) => words(fact).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('\\s+');
  const longest = [...known].sort((a, b) => b.text.length - a.text.length);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(?:${longest.map(spelled).join('|')})(?![\\p{L}\\p{N}_])`, 'giu');
  const state = new Map(known.map((fact) => [words(fact).join(' ').toLowerCase(), fact.state]));
  return [...text.matchAll(pattern)].map((match) => [match.index, match.index + match[0].length,
    state.get(match[0].trim().split(/\s+/).join(' ').toLowerCase()) ?? 'kept']);
}

// The fact threads: one row a fact, on the axis of the band. A line as long as it was held, a cross where it was lost.
function factThreads(outline, axis, open) {
  if (!outline.facts.length) return null;
  const width = (window) => 100 * axis.ends[clamp(window, 0, axis.ends.length - 1)] / axis.total;
  const start = (window) => 100 * axis.starts[clamp(window, 0, axis.starts.length - 1)] / axis.total;
  const threads = outline.facts.map(([text, runs]) => {
    const parts = [];
    let lost = null;
    runs.forEach(([first, last, kept], at) => {
      // A fact that a compaction kept is held until the next window ends; it was read somewhere in the first window.
      if (!at) parts.push(piece('held', (start(first) + width(first)) / 2, kept ? width(last + 1) : width(first)));
      else if (kept) parts.push(piece('held', width(first), width(last + 1)));
      if (kept) return;
      lost ??= first;
      parts.push(piece('gone', width(first), width(last + 1)), cross(width(first), first));
    });
    const ended = runs[runs.length - 1][2] ? 'held to the end' : `lost at compaction ${count(runs[runs.length - 1][0] + 1)}`;
    const label = element('span', { class: 'label' }, text);
    const begins = start(runs[0][0]);
    if (begins < 55) label.style.left = `${begins}%`;
    else Object.assign(label.style, { right: `${Math.max(0, 100 - width(runs[0][0]))}%`, textAlign: 'right' });
    label.style.maxWidth = `${begins < 55 ? 100 - begins : width(runs[0][0])}%`;
    return { lost, row: element('li', { 'aria-label': `${text}: ${ended}`, title: `${text}\n${ended}` }, label, parts) };
  });

  function piece(kind, from, to) {
    const made = element('i', { class: kind });
    Object.assign(made.style, { left: `${from}%`, width: `${Math.max(0, to - from)}%` });
    return made;
  }
  function cross(at, compaction) {
    const made = element('button', { class: 'cross', type: 'button', 'aria-label': `lost at compaction ${compaction + 1}: go there`,
      title: `lost at compaction ${compaction + 1}`, click: () => open(compaction) }, '×');
    made.style.left = `${at}%`;
    return made;
  }
  const most = 200;
  const rows = [...threads].sort((a, b) => (a.lost === null) - (b.lost === null)).slice(0, most).map((thread) => thread.row);
  const more = threads.length > most && element('li', { class: 'note' }, `and ${count(threads.length - most)} more facts`);
  return element('ul', { class: 'threads', 'aria-label': 'Needed facts, those lost first', tabindex: 0 }, rows, more);
}
