// Long texts: cut into sheets that are filled as they come into sight, so that a window of a million tokens opens at once.

const SHEET = 8000;
const SHADES = ['none', 'log-probability', 'advantage'];

// Where a text is cut: at line ends or spaces near every SHEET characters.
function cuts(text) {
  const found = [];
  for (let at = 0; at < text.length;) {
    let end = Math.min(text.length, at + SHEET);
    if (end < text.length) {
      const line = text.lastIndexOf('\n', end);
      const space = text.lastIndexOf(' ', end);
      end = (line > at + SHEET / 2 ? line : space > at + SHEET / 2 ? space : end - 1) + 1;
      // Never between the two halves of a character.
      if (/[\ud800-\udbff]/.test(text[end - 1])) end -= 1;
    }
    found.push([at, end]);
    at = end;
  }
  return found;
}

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) fill(entry.target);
}, { rootMargin: '1200px 0px' });
const waiting = new WeakMap();

function fill(node) {
  watcher.unobserve(node);
  const make = waiting.get(node);
  if (!make) return;
  waiting.delete(node);
  node.style.minHeight = '';
  node.append(...make());
}

// A node that is filled when it is nearly in sight.
function later(tag, attributes, characters, make) {
  const node = element(tag, attributes);
  node.style.minHeight = `${Math.max(24, Math.round(characters / 90) * 22)}px`;
  waiting.set(node, make);
  watcher.observe(node);
  return node;
}

// A text as nodes, facts in it marked.
function marked(text, ranges, begin = 0, end = text.length) {
  const nodes = [];
  let at = begin;
  for (const [first, last, state] of ranges) {
    if (last <= begin || first >= end) continue;
    const [from, to] = [Math.max(first, begin), Math.min(last, end)];
    if (from > at) nodes.push(document.createTextNode(visible(text.slice(at, from))));
    nodes.push(element('mark', { class: state, title: { kept: 'a needed fact, kept', lost: 'a needed fact, lost by this compaction', gone: 'a needed fact, lost earlier' }[state] }, text.slice(from, to)));
    at = to;
  }
  if (at < end) nodes.push(document.createTextNode(visible(text.slice(at, end))));
  return nodes;
}

// A text in a block of its own; long ones are filled bit by bit.
function textBlock(text, states, kind) {
  if (text.length <= 2 * SHEET) return element('div', { class: `text ${kind}` }, marked(text, findFacts(text, states)));
  return element('div', { class: `text ${kind}` }, cuts(text).map(([begin, end]) => later('div', {}, end - begin, () => {
    const part = text.slice(begin, end);
    return marked(part, findFacts(part, states));
  })));
}

// How surprising a token was, or what credit it got, as a colour behind it.
function shadeOf(shade, logprob, advantage, most) {
  if (shade === 'log-probability' && typeof logprob === 'number') {
    return ['surprise', Math.min(1, -logprob / 4), `log-probability ${signed(logprob, 3)}, probability ${Math.exp(logprob).toFixed(3)}`];
  }
  if (shade === 'advantage' && typeof advantage === 'number') {
    return [advantage < 0 ? 'blame' : 'praise', most ? Math.abs(advantage) / most : 0, `advantage ${signed(advantage, 3)}`];
  }
  return ['none', 0, ''];
}

// Sampled tokens one by one, shaded.
function tokenBlock(pieces, logprobs, advantage, states, kind, shade, most) {
  const text = pieces.join('');
  const ranges = text.length <= 50 * SHEET ? findFacts(text, states) : [];
  const offsets = [0];
  for (const piece of pieces) offsets.push(offsets[offsets.length - 1] + piece.length);
  const sheets = [];
  for (let first = 0; first < pieces.length; first += 1000) {
    const last = Math.min(pieces.length, first + 1000);
    const make = () => pieces.slice(first, last).map((piece, at) => {
      const [name, strength, told] = shadeOf(shade, logprobs[first + at], advantage, most);
      const token = element('span', { class: 'token', title: told || null }, marked(text, ranges, offsets[first + at], offsets[first + at + 1]));
      if (strength) token.style.backgroundColor = `color-mix(in srgb, var(--${name}) ${Math.round(12 + 58 * strength)}%, transparent)`;
      return token;
    });
    sheets.push(pieces.length <= 2000 ? element('span', {}, make()) : later('div', {}, offsets[last] - offsets[first], make));
  }
  return element('div', { class: `text ${kind}` }, sheets);
}
