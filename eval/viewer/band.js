// The band: all windows of an episode end to end over the token axis, each made of what stood in it.

const INKS = ['opening', 'carried', 'given', 'act', 'summary'];
const NEAR = 12;

// Where each window begins and ends on the axis, in tokens.
function axisOf(windows) {
  let total = 0;
  const starts = [];
  const ends = [];
  for (const window of windows) {
    starts.push(total);
    total += Math.max(1, window.length);
    ends.push(total);
  }
  return { starts, ends, total: Math.max(1, total) };
}

// The parts of a window as [ink, tokens].
function partsOf(window) {
  const parts = [['opening', window.opening], ['carried', window.prompt - window.opening]];
  for (const [appended, sampled, kind] of window.turns) parts.push(['given', appended], [kind, sampled]);
  const rest = window.length - sum(parts.map(([, tokens]) => tokens));
  parts.splice(2, 0, ['given', Math.max(0, rest - window.trailing)]);
  parts.push(['given', window.trailing]);
  return parts.filter(([, tokens]) => tokens > 0);
}

class Band {
  constructor(outline, axis, open) {
    Object.assign(this, { outline, axis, open, current: 0, first: 0, last: outline.windows.length });
    this.losses = new Set(lossesOf(outline));
    this.canvas = element('canvas', {});
    this.node = element('div', {
      class: 'band', role: 'slider', tabindex: 0, 'aria-label': 'Window', 'aria-valuemin': 1,
      'aria-valuemax': outline.windows.length,
      pointerdown: (event) => this.point(event), pointermove: (event) => event.buttons === 1 && this.point(event),
    }, this.canvas);
    this.tip = element('span', { class: 'tip', 'aria-hidden': 'true' });
    this.node.append(this.tip);
    this.node.addEventListener('pointermove', (event) => this.hover(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
  }

  // Show windows first..last alone.
  zoom(first, last) {
    this.first = first;
    this.last = last;
  }

  go(window) {
    this.current = window;
    this.node.setAttribute('aria-valuenow', window + 1);
    this.node.setAttribute('aria-valuetext', `window ${window + 1} of ${this.outline.windows.length}`);
    this.draw();
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const from = this.axis.starts[this.first];
    const token = from + (event.clientX - box.left) / box.width * (this.axis.ends[this.last - 1] - from);
    let [low, high] = [this.first, this.last - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.axis.ends[middle] > token) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  point(event) {
    const window = this.at(event);
    if (window !== this.current) this.open(window);
  }

  hover(event) {
    const window = this.at(event);
    const { length, before, after } = this.outline.windows[window];
    const box = this.node.getBoundingClientRect();
    this.tip.textContent = `window ${count(window + 1)}: ${count(length)} tokens${before === undefined ? '' : `; compacted ${count(before)} → ${count(after)}`}`;
    const x = event.clientX - box.left;
    Object.assign(this.tip.style, x < box.width / 2 ? { left: `${x}px`, right: '' } : { left: '', right: `${box.width - x}px` });
  }

  draw() {
    const [width, height] = [this.node.clientWidth, this.node.clientHeight];
    if (!width || !height) return;
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const paint = this.canvas.getContext('2d');
    paint.scale(scale, scale);
    const style = getComputedStyle(this.node);
    const ink = Object.fromEntries([...INKS, 'lost', 'focus'].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const from = this.axis.starts[this.first];
    const perToken = width / (this.axis.ends[this.last - 1] - from);
    const [top, tall] = [8, height - 16];
    const marks = [];
    for (let index = this.first; index < this.last; index += 1) {
      const begin = (this.axis.starts[index] - from) * perToken;
      const end = (this.axis.ends[index] - from) * perToken;
      const gap = end - begin > 6 ? 1 : 0;
      let at = begin;
      for (const [name, tokens] of partsOf(this.outline.windows[index])) {
        paint.fillStyle = ink[name];
        // What was sampled stays visible beside much that was read; where windows are hair-thin, shares are what counts.
        const least = end - begin > 30 && (name === 'act' || name === 'summary') ? 1.5 : 0;
        paint.fillRect(at, top, Math.min(Math.max(tokens * perToken, least), Math.max(0, end - gap - at)), tall);
        at += tokens * perToken;
      }
      if (this.losses.has(index)) marks.push([end, end - begin > 8]);
    }
    paint.fillStyle = ink.lost;
    for (const [end, roomy] of marks) {
      const x = Math.min(end, width - 2);
      if (roomy) paint.fillRect(x - 1.5, top, 2, tall);
      paint.beginPath();
      paint.moveTo(x - 5, 0);
      paint.lineTo(x + 4, 0);
      paint.lineTo(x - 0.5, 7);
      paint.fill();
    }
    if (this.current >= this.first && this.current < this.last) {
      const begin = (this.axis.starts[this.current] - from) * perToken;
      const wide = Math.max(3, (this.axis.ends[this.current] - this.axis.starts[this.current]) * perToken - 1);
      paint.strokeStyle = ink.focus;
      paint.lineWidth = 2;
      paint.strokeRect(Math.min(begin, width - wide) + 0.5, top - 3, wide, tall + 6);
    }
  }
}

function legend() {
  const names = { opening: 'system and task', carried: 'carried over', given: 'read', act: 'act', summary: 'summary' };
  return element('p', { class: 'legend note' },
    INKS.map((name) => element('span', { class: name }, names[name])), element('span', { class: 'loss' }, 'a needed fact was lost'));
}
