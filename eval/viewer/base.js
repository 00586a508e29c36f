// What every other file builds with. All text goes through `visible` and becomes a text node: nothing that an
// episode says is ever read as markup, as a style or as a direction to write in.

const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;

function visible(text) {
  return String(text).replace(HIDDEN, (character) => {
    const code = character.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    return code === 0x7f ? '\u2421' : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}

// An element: attributes by name, functions as listeners, everything else inside it.
function element(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...nodes(inside));
  return made;
}

// What is there of some parts, however nested: nodes as they are, all else as text.
function nodes(parts) {
  return parts.flat(Infinity).filter((part) => part !== null && part !== undefined && part !== false)
    .map((part) => (part instanceof Node ? part : document.createTextNode(visible(part))));
}

const byId = (id) => document.getElementById(id);
const clamp = (value, low, high) => Math.max(low, Math.min(high, value));
const count = (value) => Number(value).toLocaleString('en-US');
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? '' : 's'}`;
const sum = (values) => values.reduce((total, value) => total + value, 0);

// A figure; what JSON has no number for came as text.
function figure(value, digits = 2) {
  if (value === null || value === undefined) return '–';
  return typeof value === 'number' ? value.toFixed(digits) : visible(value);
}

function signed(value, digits = 2) {
  return typeof value === 'number' && value >= 0 ? `+${value.toFixed(digits)}` : figure(value, digits).replace('-', '−');
}

function short(tokens) {
  if (tokens < 10000) return count(tokens);
  return tokens < 1e6 ? `${(tokens / 1e3).toFixed(tokens < 1e5 ? 1 : 0)}k` : `${(tokens / 1e6).toFixed(2)}M`;
}
