// The worker: plays while the page stays quick.
import {library} from './ask.js';
import {unpackedLzma} from './lzma.js';

let ask, told = 0;
const progress = (count) => {
  const now = performance.now();
  if (now - told > 100) { told = now; postMessage({count}); }
};
onmessage = async ({data}) => {
  if (data.packed) {
    const parts = unpackedLzma(data.packed, data.size), schemas = new TextDecoder().decode(parts.subarray(data.library));
    return postMessage({module: await WebAssembly.compile(parts.subarray(0, data.library)), schemas});
  }
  if (data.module) { ask = await library(data.module, progress); return postMessage({ready: true}); }
  told = performance.now();
  const answer = ask(data.question);
  postMessage(answer, [answer.bytes.buffer]);
};
