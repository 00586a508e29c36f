// The list of episodes: filtered, sorted, and only the rows in sight are in the page.

const ROW_HEIGHT = 58;

const COLUMNS = {
  reward: (row) => row.reward,
  compactions: (row) => row.compactions,
  length: (row) => row.length,
  sampled: (row) => row.sampled,
  kept: (row) => row.retention,
  attempt: (row) => row.attempt,
};

const COMPARISONS = {
  '<': (a, b) => a < b, '<=': (a, b) => a <= b, '>': (a, b) => a > b, '>=': (a, b) => a >= b,
  '=': (a, b) => a === b, '!=': (a, b) => a !== b,
};

// "oslo reward<1" -> one test a word; a word that compares nothing must stand in the episode's names.
function parseQuery(query) {
  return query.trim().split(/\s+/).filter(Boolean).map((word) => {
    const [, name, sign, value] = /^(\w+)(<=|>=|!=|<|>|=)(-?[\d.]+)$/.exec(word) ?? [];
    if (Object.hasOwn(COLUMNS, name ?? '') && !Number.isNaN(Number(value))) {
      return (row) => typeof COLUMNS[name](row) === 'number' && COMPARISONS[sign](COLUMNS[name](row), Number(value));
    }
    const sought = word.toLowerCase();
    return (row) => `${row.task}#${row.attempt} ${row.source} ${row.status}`.toLowerCase().includes(sought);
  });
}

// Indices of the rows that are wanted, in the order wanted; rows without the figure come last either way.
function arrange(rows, query, status, sort, descending) {
  const tests = parseQuery(query);
  const found = [];
  rows.forEach((row, index) => {
    if ((!status || row.status === status) && tests.every((test) => test(row))) found.push(index);
  });
  if (sort === 'file') return descending ? found.reverse() : found;
  const of = sort === 'status' ? (row) => row.status : COLUMNS[sort];
  const known = (index) => typeof of(rows[index]) === (sort === 'status' ? 'string' : 'number');
  return found.sort((a, b) => {
    if (!known(a) || !known(b)) return known(b) - known(a) || a - b;
    const [x, y] = [of(rows[a]), of(rows[b])];
    return (x < y ? -1 : x > y ? 1 : 0) * (descending ? -1 : 1) || a - b;
  });
}

class EpisodeList {
  constructor(container, rows, open) {
    Object.assign(this, { container, rows, open, shown: [], active: -1, chosen: -1 });
    this.spacer = element('div', { class: 'spacer', role: 'presentation' });
    container.append(this.spacer);
    container.addEventListener('scroll', () => this.draw(), { passive: true });
    container.addEventListener('keydown', (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(container);
  }

  show(indices) {
    this.shown = indices;
    this.active = clamp(indices.indexOf(this.chosen), -1, indices.length - 1);
    this.spacer.style.height = `${indices.length * ROW_HEIGHT}px`;
    if (this.active >= 0) this.reveal();
    else this.container.scrollTop = 0;
    this.draw();
  }

  choose(index) {
    this.chosen = index;
    this.active = this.shown.indexOf(index);
    this.reveal();
    this.draw();
  }

  move(delta) {
    if (!this.shown.length) return;
    this.active = clamp(this.active + delta, 0, this.shown.length - 1);
    this.open(this.shown[this.active]);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.container.clientHeight / ROW_HEIGHT) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.move(steps[event.key]);
    else if (event.key === 'Enter' && this.active >= 0) this.open(this.shown[this.active], true);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  reveal() {
    const [top, height] = [this.active * ROW_HEIGHT, this.container.clientHeight];
    if (top < this.container.scrollTop) this.container.scrollTop = top;
    else if (top + ROW_HEIGHT > this.container.scrollTop + height) this.container.scrollTop = top + ROW_HEIGHT - height;
  }

  draw() {
    const first = clamp(Math.floor(this.container.scrollTop / ROW_HEIGHT) - 4, 0, this.shown.length);
    const last = Math.min(this.shown.length, first + Math.ceil(this.container.clientHeight / ROW_HEIGHT) + 9);
    const made = [];
    for (let at = first; at < last; at += 1) made.push(this.option(at));
    this.spacer.replaceChildren(...made);
    this.container.setAttribute('aria-activedescendant', this.active >= 0 ? `option-${this.active}` : '');
  }

  option(at) {
    const index = this.shown[at];
    const row = this.rows[index];
    const chosen = index === this.chosen;
    const lossy = row.held && row.held[0] < row.held[1];
    const held = row.held && element('span', { class: lossy ? 'lost' : 'kept' },
      `${lossy ? '×' : '✓'} held ${row.held[0]} of ${row.held[1]}`);
    const told = [row.status !== 'finished' && row.status.replaceAll('_', ' '), held, plural(row.compactions, 'compaction'),
      `${short(row.length)} tokens`, row.source].filter(Boolean);
    const made = element('div', {
      id: `option-${at}`, class: 'option', role: 'option', 'aria-selected': String(chosen),
      'aria-setsize': this.shown.length, 'aria-posinset': at + 1, click: () => this.open(index, true),
    },
    element('span', { class: 'reward', title: 'reward' }, figure(row.reward)),
    element('span', { class: 'name' }, `${row.task} · ${row.attempt + 1}`),
    element('span', { class: 'about' }, told.map((part, place) => (place ? [' · ', part] : part))));
    made.style.top = `${at * ROW_HEIGHT}px`;
    return made;
  }
}
