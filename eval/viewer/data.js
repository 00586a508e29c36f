// The page's data: compressed blocks that are decoded when something in them is first asked for.

const MOST_BLOCKS = 48;
const decoded = new Map();

async function unpack(id) {
  const text = atob(byId(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return JSON.parse(await new Response(stream).text());
}

// A record by [block, place]; the blocks used last are kept decoded.
async function record([block, place]) {
  const pending = decoded.get(block) ?? unpack(`block-${block}`);
  decoded.delete(block);
  decoded.set(block, pending);
  if (decoded.size > MOST_BLOCKS) decoded.delete(decoded.keys().next().value);
  return (await pending)[place];
}
