// The worker: plays while the page stays quick.
import {library} from './ask.js';
import {contents} from './code.js';

let ask, told = 0;
const progress = (count) => {
  const now = performance.now();
  if (now - told > 100) { told = now; postMessage({count}); }
};
onmessage = async ({data}) => {
  if (data.packed) return postMessage(await contents(data.packed, data.sizes));
  if (data.module) { ask = await library(data.module, progress); return postMessage({ready: true}); }
  told = performance.now();
  const answer = ask(data.question);
  postMessage(answer, [answer.bytes.buffer]);
};
