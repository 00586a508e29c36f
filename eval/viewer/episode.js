// One episode in a pane of its own: the verdict, the band with its threads, and the window that is turned to.

class EpisodeView {
  constructor(app, index) {
    Object.assign(this, { app, index, row: app.rows[index], window: 0, ready: false });
    this.node = element('section', { class: 'pane', 'aria-label': `Episode ${this.row.task}, attempt ${this.row.attempt + 1}` },
      element('p', { class: 'note' }, 'decoding …'));
  }

  async load(window = null) {
    this.outline = await record(this.row.at);
    this.losses = lossesOf(this.outline);
    this.axis = axisOf(this.outline.windows);
    const advantages = this.outline.windows.flatMap((one) => one.turns.map((turn) => turn[5]));
    this.most = advantages.reduce((most, value) => (typeof value === 'number' ? Math.max(most, Math.abs(value)) : most), 0);
    this.credit = [...new Set(advantages.filter((value) => value !== null))];
    this.build();
    this.ready = true;
    const told = window === null ? this.losses[0] ?? 0 : window;
    await this.go(clamp(told, 0, this.outline.windows.length - 1));
  }

  build() {
    const { outline, row } = this;
    const open = (window) => this.app.turn(this, window);
    this.bands = [new Band(outline, this.axis, open)];
    if (outline.windows.length > 60) this.bands.push(new Band(outline, this.axis, open));
    const siblings = this.app.siblings(this.index);
    const compare = siblings.length ? element('select', { class: 'compare', 'aria-label': 'Compare with another attempt', change: (event) => this.app.compare(Number(event.target.value)) },
      element('option', { value: -1 }, this.app.views.length > 1 ? 'compare with none' : 'compare with …'),
      siblings.map((other) => element('option', { value: other, selected: this.app.views[1]?.index === other }, this.app.nameOf(other)))) : null;
    this.place = element('span', { class: 'place', 'aria-live': 'polite' });
    this.shade = element('select', { 'aria-label': 'Shade sampled tokens by', change: (event) => this.app.shadeBy(event.target.value) },
      SHADES.map((name) => element('option', { value: name, selected: name === this.app.shade, disabled: !this.hasShade(name) },
        name === 'none' ? 'no shading' : `shade: ${name}`)));
    const button = (label, told, act, disabled) => element('button', { type: 'button', 'aria-label': told, title: told, click: act, disabled }, label);
    this.body = element('div', { class: 'window' });
    this.node.replaceChildren(...nodes([
      element('header', { class: 'head' },
        element('button', { class: 'back', type: 'button', click: () => this.app.back() }, '‹ episodes'),
        element('h2', {}, row.task, element('span', { class: 'note' }, ` attempt ${row.attempt + 1}${row.source ? ` · ${row.source}` : ''}`)),
        this === this.app.views[0] ? compare : button('close', 'Close the comparison', () => this.app.compare(-1))),
      element('p', { class: 'verdict' }, verdict(outline)),
      element('dl', { class: 'scores' }, this.scores().map(([name, value, kind]) => element('div', { class: kind }, element('dt', {}, name), element('dd', {}, value)))),
      outline.error ? element('p', { class: 'flaw' }, outline.error) : null,
      legend(),
      ...this.bands.map((band) => band.node),
      factThreads(outline, this.axis, open),
      outline.exact ? null : element('p', { class: 'note' }, 'Token ids were not kept, as in every evaluation: lengths are from counts, and texts are the summaries and the last acts.'),
      element('div', { class: 'turner' },
        button('‹', 'Previous window', () => this.app.turn(this, this.window - 1)), this.place,
        button('›', 'Next window', () => this.app.turn(this, this.window + 1)),
        button('next loss', 'Next compaction that lost a needed fact', () => this.app.nextLoss(this), !this.losses.length),
        outline.exact ? this.shade : null),
      this.body,
      element('details', { class: 'opening' }, element('summary', {}, 'Task row and metrics'),
        element('div', { class: 'text' }, outline.given),
        element('dl', { class: 'metrics' }, Object.entries(outline.metrics).map(([name, value]) => element('div', {}, element('dt', {}, name), element('dd', {}, typeof value === 'number' ? value.toLocaleString('en-US') : value))))),
    ]));
  }

  hasShade(name) {
    if (name === 'advantage') return this.credit.length > 0;
    return name === 'none' || this.outline.exact;
  }

  scores() {
    const { row } = this;
    const group = this.app.group(this.index).map((index) => this.app.rows[index].reward).filter((reward) => typeof reward === 'number');
    const mean = group.length > 1 ? sum(group) / group.length : null;
    const credit = this.credit.length > 1 ? `${signed(Math.min(...this.credit))} to ${signed(Math.max(...this.credit))}` : signed(this.credit[0] ?? null);
    return [
      ['reward', figure(row.reward), 'reward'],
      mean !== null && [`mean of ${group.length} attempts here`, figure(mean)],
      this.credit.length && ['advantage', credit],
      ['status', row.status.replaceAll('_', ' '), row.status === 'finished' ? '' : 'flaw'],
      row.retention !== null && ['facts kept per compaction', `${Math.round(100 * row.retention)} %`],
      ['tokens in windows', short(row.length)],
      row.sampled > 0 && ['sampled', short(row.sampled)],
    ].filter(Boolean);
  }

  async go(window) {
    this.window = clamp(window, 0, this.outline.windows.length - 1);
    this.place.textContent = `window ${count(this.window + 1)} of ${count(this.outline.windows.length)}`;
    const [whole, near] = this.bands;
    if (near) near.zoom(Math.max(0, this.window - NEAR), Math.min(this.outline.windows.length, this.window + NEAR + 1));
    for (const band of [whole, near].filter(Boolean)) band.go(this.window);
    await this.fillWindow();
  }

  async fillWindow() {
    const window = this.window;
    const texts = await record(this.outline.windows[window].at);
    if (window !== this.window) return;
    const shade = this.hasShade(this.app.shade) ? this.app.shade : 'none';
    const blocks = blocksOf(this.outline, window, texts, shade, this.most);
    const shown = blocks.length ? column(blocks) : element('p', { class: 'note' }, 'Nothing that stood in this window was kept as text.');
    if (texts.opening?.length) shown.prepend(openingOf(texts, factsAt(this.outline, window)));
    this.body.replaceChildren(compactionCard(this.outline, window, texts), shown);
  }
}
