// The page: one list, one or two episodes beside it, one place in the address that says what is shown.

class App {
  constructor({ title, note, rows }) {
    Object.assign(this, { rows, views: [], shade: 'none' });
    byId('title').textContent = visible(title);
    byId('note').textContent = visible(note);
    byId('note').hidden = !note;
    this.groups = new Map();
    rows.forEach((row, index) => this.groups.set(row.task, [...(this.groups.get(row.task) ?? []), index]));
    this.list = new EpisodeList(byId('list'), rows, (index, chosen) => this.openEpisode(index, null, chosen));
    this.controls();
    this.filter();
    document.addEventListener('keydown', (event) => this.key(event));
    addEventListener('hashchange', () => this.restore());
    if (!this.restore() && rows.length) this.openEpisode(this.list.shown[0] ?? 0);
  }

  group(index) { return this.groups.get(this.rows[index].task); }
  siblings(index) { return this.group(index).filter((other) => other !== index); }

  nameOf(index) {
    const row = this.rows[index];
    return `attempt ${row.attempt + 1}${row.source ? ` · ${row.source}` : ''} · reward ${figure(row.reward)}`;
  }

  controls() {
    const statuses = [...new Set(this.rows.map((row) => row.status))].sort();
    byId('status').append(element('option', { value: '' }, 'every status'),
      ...statuses.map((status) => element('option', { value: status }, status.replaceAll('_', ' '))));
    byId('sort').append(...['file', 'reward', 'kept', 'compactions', 'length', 'status'].map((name) =>
      element('option', { value: name }, name === 'file' ? 'as in the file' : name)));
    this.descending = false;
    const help = byId('query-help');
    help.textContent = `Words are sought in names and statuses. Compare with ${Object.keys(COLUMNS).join(', ')}: reward<1, compactions>=3, kept=1.`;
    byId('query').addEventListener('focus', () => { help.hidden = false; });
    byId('query').addEventListener('blur', () => { help.hidden = true; });
    byId('query').addEventListener('input', () => this.filter());
    byId('query').addEventListener('keydown', (event) => {
      if (event.key === 'Enter' || event.key === 'ArrowDown') { event.preventDefault(); byId('list').focus(); }
      if (event.key === 'Escape') { byId('query').value = ''; this.filter(); }
    });
    byId('status').addEventListener('change', () => this.filter());
    byId('sort').addEventListener('change', () => this.filter());
    byId('direction').addEventListener('click', () => { this.descending = !this.descending; this.filter(); });
  }

  filter() {
    const shown = arrange(this.rows, byId('query').value, byId('status').value, byId('sort').value, this.descending);
    byId('direction').textContent = this.descending ? '↓' : '↑';
    byId('direction').setAttribute('aria-label', this.descending ? 'descending: sort ascending' : 'ascending: sort descending');
    byId('count').textContent = shown.length === this.rows.length ? plural(shown.length, 'episode') : `${count(shown.length)} of ${plural(this.rows.length, 'episode')}`;
    this.list.show(shown);
  }

  async openEpisode(index, window = null, chosen = false, other = -1, otherWindow = null) {
    this.list.choose(index);
    this.views = [new EpisodeView(this, index)];
    if (other >= 0) this.views.push(new EpisodeView(this, other));
    const mine = this.views;
    document.body.classList.toggle('comparing', mine.length > 1);
    if (chosen) document.body.classList.add('reading');
    byId('main').replaceChildren(...mine.map((view) => view.node));
    if (chosen) scrollTo(0, 0);
    await Promise.all(mine.map((view, at) => view.load(at ? otherWindow : window)));
    if (mine === this.views) this.remember();
  }

  compare(other) {
    const [first] = this.views;
    return this.openEpisode(first.index, first.window, document.body.classList.contains('reading'), other, first.window);
  }

  // Both panes turn together, so that what two attempts made of the same pages stands side by side.
  async turn(view, window) {
    const target = clamp(window, 0, view.outline.windows.length - 1);
    await Promise.all(this.views.filter((one) => one.ready).map((one) => one.go(target)));
    this.remember();
  }

  nextLoss(view) {
    const next = view.losses.find((loss) => loss > view.window) ?? view.losses[0];
    return next === undefined ? undefined : this.turn(view, next);
  }

  shadeBy(name) {
    this.shade = name;
    for (const view of this.views) {
      if (view.ready) { view.shade.value = view.hasShade(name) ? name : 'none'; view.fillWindow(); }
    }
  }

  back() {
    document.body.classList.remove('reading');
    byId('list').focus();
  }

  remember() {
    const [first, second] = this.views;
    const place = new URLSearchParams({ e: first.index + 1, w: first.window + 1 });
    if (second) { place.set('c', second.index + 1); place.set('v', second.window + 1); }
    this.place = `#${place}`;
    history.replaceState(null, '', this.place);
  }

  restore() {
    if (location.hash === this.place) return true;
    const place = new URLSearchParams(location.hash.slice(1));
    const at = (name, most) => { const value = Number(place.get(name)) - 1; return Number.isInteger(value) && value >= 0 && value < most ? value : -1; };
    const [first, second] = [at('e', this.rows.length), at('c', this.rows.length)];
    if (first < 0) return false;
    const window = (name) => (at(name, Infinity) < 0 ? null : at(name, Infinity));
    this.openEpisode(first, window('w'), false, second === first ? -1 : second, window('v'));
    return true;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.('input, select, textarea')) return;
    const [view] = this.views;
    const acts = {
      '/': () => { document.body.classList.remove('reading'); byId('query').focus(); },
      ArrowLeft: () => this.turn(view, view.window - 1), ArrowRight: () => this.turn(view, view.window + 1),
      Home: () => event.target.closest?.('.band') && this.turn(view, 0),
      End: () => event.target.closest?.('.band') && this.turn(view, Infinity),
      ArrowDown: null, j: () => this.list.move(1), k: () => this.list.move(-1),
      n: () => this.nextLoss(view),
      s: () => this.shadeBy(this.nextShade(view)),
      c: () => this.compare(this.views.length > 1 ? -1 : this.siblings(view.index)[0] ?? -1),
      Escape: () => (this.views.length > 1 ? this.compare(-1) : this.back()),
    };
    if (!acts[event.key] || !view?.ready) return;
    if (acts[event.key]() !== false && !['Home', 'End'].includes(event.key)) event.preventDefault();
  }

  nextShade(view) {
    const usable = SHADES.filter((name) => view.hasShade(name));
    return usable[(usable.indexOf(this.shade) + 1) % usable.length];
  }
}

unpack('index').then((index) => {
  globalThis.viewer = new App(index);
  document.documentElement.dataset.ready = 'true';
}).catch((error) => {
  byId('main').replaceChildren(element('p', { class: 'flaw' }, `This page cannot be read (${error.message}). A browser of 2023 or later is needed; if yours is, the file is damaged: write it again.`));
});
