// The library as it was before `bundle.py` took it apart: operators lie behind operators, and each kind of number in a
// stream of its own, for like packs best with like. `bundle.py` reads both tables here.

import {unpackedLzma} from './lzma.js';

/** Streams of the code, in the order of their parts: locals of functions, operators, and kinds of what stands behind those. */
export const STREAMS = 'LctblgfyijaoF';
// Streams of what stands behind an operator; one of two bytes has 100 in front. F is four bytes as they are.
const OPERANDS = '02-04 t 0c-0d b 10 f 11 yy 20-22 l 23-24 g 28-3e ao 3f-40 g 41 i 42 j 43 F 44 FF d0 g d2 f 10a gg 10b g';

function operands() {
  const all = Array(0x110).fill('');
  for (const [, first, last, names] of OPERANDS.matchAll(/(\w+)-?(\w*) (\w+)/g))
    all.fill(names, parseInt(first, 16), parseInt(last || first, 16) + 1);
  return all;
}

/** The section of code whose streams these are. */
function section(streams) {
  const index = (name) => STREAMS.indexOf(name), [L, c, b, F] = [...'LcbF'].map(index);
  const at = new Uint32Array(streams.length);
  const behind = operands().map((names) => [...names].map(index));
  const functions = streams[L].slice(0, 4).reduceRight((sum, digit) => sum << 8 | digit);
  const out = new Uint8Array(streams.reduce((sum, {length}) => sum + length, 16 + 5 * functions));
  let here = 1;
  const byte = (of) => out[here++] = streams[of][at[of]++];
  const copy = (of) => {
    const from = streams[of];
    let i = at[of];
    do out[here++] = from[i]; while (from[i++] & 128);
    at[of] = i;
  };
  const number = (of) => {
    let value = 0, i = here;
    copy(of);
    for (let shift = 0; i < here; shift += 7) value |= (out[i++] & 127) << shift;
    return value;
  };
  // Five bytes hold any size, so that what follows need not be moved.
  const put = (where, value) => { for (let i = 0; i < 5; i++) out[where + i] = value >>> 7 * i & 127 | (i < 4 ? 128 : 0); };
  const sized = (write) => { const where = here; here += 5; write(); put(where, here - where - 5); };
  const body = () => {
    for (let groups = number(L); groups > 0; groups--) { copy(L); copy(L); }
    for (let depth = 1; depth > 0;) {
      const op = byte(c);
      if (op >= 2 && op <= 4) depth++;
      else if (op === 0x0b) depth--;
      else if (op === 0x0e) for (let labels = number(b) + 1; labels > 0; labels--) copy(b);
      for (const of of behind[op === 0xfc ? 0x100 + byte(c) : op]) {
        if (of === F) for (let i = 0; i < 4; i++) byte(F);
        else copy(of);
      }
    }
  };
  out[0] = 10;
  at[L] = 4;
  sized(() => { put(here, functions); here += 5; for (let left = functions; left > 0; left--) sized(body); });
  return out.subarray(0, here);
}

/** What lies in the page, in parts of these sizes: the library, compiled, and the schemas as text. */
export async function contents(packed, sizes) {
  const bytes = unpackedLzma(packed, sizes.reduce((sum, size) => sum + size));
  let at = 0;
  const [ahead, ...parts] = sizes.map((size) => bytes.subarray(at, at += size));
  const schemas = parts.pop(), behind = parts.pop();
  const library = await new Blob([ahead, section(parts), behind]).arrayBuffer();
  return {module: await WebAssembly.compile(library), schemas: new TextDecoder().decode(schemas)};
}
