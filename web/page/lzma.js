// LZMA, by its specification (7-zip.org, lzma-specification.7z): the library is a quarter smaller than as gzip, which browsers unpack themselves.

// Where the probabilities of each kind of decision begin.
const MATCH = 0, REP = 192, REP_G0 = 204, REP_G1 = 216, REP_G2 = 228, REP0_LONG = 240, SLOT = 432, DISTANCE = 688, ALIGN = 803, LENGTH = 819, REP_LENGTH = 1333, LITERAL = 1847;
// Within those of lengths.
const MIDDLE = 2 + 128, HIGH = 2 + 256;

/** The `size` bytes that `packed` holds, a file with the header of `.lzma`. */
export function unpackedLzma(packed, size) {
  const lc = packed[0] % 9, lp = (packed[0] / 9 | 0) % 5, positions = (1 << (packed[0] / 45 | 0)) - 1;
  const odds = new Uint16Array(LITERAL + (0x300 << (lc + lp))).fill(1024), out = new Uint8Array(size);
  let at = 18, range = 0xffffffff, code = (packed[14] << 24 | packed[15] << 16 | packed[16] << 8 | packed[17]) >>> 0;

  const filled = () => { if (range < 0x1000000) { range = range << 8 >>> 0; code = (code << 8 | packed[at++]) >>> 0; } };
  const bit = (i) => {
    const bound = (range >>> 11) * odds[i];
    const one = code >= bound;
    if (one) { range -= bound; code -= bound; odds[i] -= odds[i] >>> 5; } else { range = bound; odds[i] += (2048 - odds[i]) >>> 5; }
    filled();
    return one ? 1 : 0;
  };
  const direct = (bits) => {
    let value = 0;
    for (; bits > 0; bits--) {
      range >>>= 1;
      const one = code >= range;
      if (one) code -= range;
      value = value << 1 | (one ? 1 : 0);
      filled();
    }
    return value;
  };
  const tree = (from, bits) => {
    let node = 1;
    for (let i = 0; i < bits; i++) node = node << 1 | bit(from + node);
    return node - (1 << bits);
  };
  const reversed = (from, bits) => {
    let node = 1, value = 0;
    for (let i = 0; i < bits; i++) { const b = bit(from + node); node = node << 1 | b; value |= b << i; }
    return value;
  };
  const length = (from, position) => {
    if (!bit(from)) return tree(from + 2 + (position << 3), 3);
    return bit(from + 1) ? 16 + tree(from + HIGH, 8) : 8 + tree(from + MIDDLE + (position << 3), 3);
  };
  const distance = (len) => {
    const slot = tree(SLOT + (Math.min(len, 3) << 6), 6);
    if (slot < 4) return slot;
    const bits = (slot >> 1) - 1, base = (2 | slot & 1) << bits;
    return slot < 14 ? base + reversed(DISTANCE + base - slot, bits) : base + (direct(bits - 4) << 4) + reversed(ALIGN, 4);
  };

  let state = 0, rep0 = 0, rep1 = 0, rep2 = 0, rep3 = 0, here = 0;
  while (here < size) {
    const position = here & positions;
    if (!bit(MATCH + (state << 4) + position)) {
      const before = here ? out[here - 1] : 0, from = LITERAL + 0x300 * (((here & ((1 << lp) - 1)) << lc) + (before >> (8 - lc)));
      let symbol = 1;
      if (state >= 7) {
        for (let like = out[here - rep0 - 1]; symbol < 0x100; like <<= 1) {
          const expected = like >> 7 & 1, b = bit(from + ((1 + expected) << 8) + symbol);
          symbol = symbol << 1 | b;
          if (b !== expected) break;
        }
      }
      while (symbol < 0x100) symbol = symbol << 1 | bit(from + symbol);
      out[here++] = symbol;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    let len = 1;
    if (!bit(REP + state)) {
      [rep3, rep2, rep1] = [rep2, rep1, rep0];
      len = 2 + length(LENGTH, position);
      state = state < 7 ? 7 : 10;
      rep0 = distance(len - 2);
    } else {
      const older = bit(REP_G0 + state);
      if (older || bit(REP0_LONG + (state << 4) + position)) {
        if (older && !bit(REP_G1 + state)) [rep1, rep0] = [rep0, rep1];
        else if (older && !bit(REP_G2 + state)) [rep2, rep1, rep0] = [rep1, rep0, rep2];
        else if (older) [rep3, rep2, rep1, rep0] = [rep2, rep1, rep0, rep3];
        len = 2 + length(REP_LENGTH, position);
        state = state < 7 ? 8 : 11;
      } else {
        state = state < 7 ? 9 : 11;
      }
    }
    for (; len > 0 && here < size; len--, here++) out[here] = out[here - rep0 - 1];
  }
  return out;
}
