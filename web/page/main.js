// Begins: unpacks and compiles the library, starts the workers, shows the page.
import {Engine} from './engine.js';
import {Page} from './page.js';

/** The source of the worker; the build puts it in. */
const WORKER = '{{worker}}';

/** The library, and the schemas behind it: both stand in this file as packed bytes, so that the page works from a folder and offline. A worker unpacks them. */
function unpacked(start) {
  const {textContent, dataset} = document.getElementById('library'), worker = start();
  const packed = Uint8Array.from(atob(textContent.trim()), (c) => c.charCodeAt(0));
  worker.postMessage({packed, sizes: dataset.sizes.split(' ').map(Number)}, [packed.buffer]);
  return new Promise((resolve) => { worker.onmessage = ({data}) => { worker.terminate(); resolve(data); }; });
}

addEventListener('DOMContentLoaded', () => {
  const source = URL.createObjectURL(new Blob([WORKER], {type: 'text/javascript'}));
  const start = () => new Worker(source), parts = unpacked(start), module = parts.then(({module}) => module);
  const engine = () => new Engine(module, start);
  new Page(engine(), engine(), parts.then(({schemas}) => JSON.parse(schemas))).begin();
});
