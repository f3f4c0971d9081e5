// The worker: plays while the page stays quick.
import {library} from './ask.js';
import {unpackedLzma} from './lzma.js';

let ask, told = 0;
const progress = (count) => {
  const now = performance.now();
  if (now - told > 100) { told = now; postMessage({count}); }
};
onmessage = async ({data}) => {
  if (data.packed) return postMessage({module: await WebAssembly.compile(unpackedLzma(data.packed, data.size))});
  if (data.module) { ask = await library(data.module, progress); return postMessage({ready: true}); }
  told = performance.now();
  const answer = ask(data.question);
  postMessage(answer, [answer.bytes.buffer]);
};
