// The library in the page says what the program says, byte by byte: report and timeline of every shipped workload.
//
//   node web/tests/bytes.mjs STEPSIM [WORKLOAD...]
//
// A timeline that takes more memory than a page may have must say so; its report is compared.
// Plays are timed on both sides, one after the other: WebAssembly must not take more than SLOWER times as long.
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath} from 'node:url';
import {library} from '../page/ask.js';
import {libraryOf} from './site.mjs';

const SLOWER = 8;
const root = fileURLToPath(new URL('../..', import.meta.url));
const [program, ...named] = process.argv.slice(2);
const shipped = readdirSync(join(root, 'workloads')).filter((name) => /^[^.]*\.json$/.test(name)).map((name) => name.slice(0, -5));
const module = await libraryOf(join(root, 'web/dist/index.html'));
const folder = mkdtempSync(join(tmpdir(), 'stepsim-bytes-'));
const seconds = (act) => { const began = performance.now(); act(); return (performance.now() - began) / 1e3; };

/** The answer, nothing where it takes too much memory, or another fault as an error. */
function answered(ask, question) {
  const {good, bytes} = ask(question), words = Buffer.from(bytes);
  if (good) return words;
  if (words.includes('4 GiB of memory')) return null;
  throw new Error(words.toString());
}

let differ = 0;
const took = [0, 0];
for (const workload of named.length ? named : shipped) {
  const words = ['run', workload, '-q', '-o', 'step.pftrace', '--report', 'report.json'];
  const native = seconds(() => execFileSync(resolve(program), words, {cwd: folder, stdio: ['ignore', 'ignore', 'inherit']}));
  const step = {workload, command: ['stepsim', ...words]}, ask = await library(module, () => {});
  let report, timeline;
  const here = seconds(() => {
    report = answered(ask, {ask: 'report', ...step});
    timeline = answered(ask, {ask: 'timeline', ...step, file: 'step.pftrace'});
  });
  took[0] += native; took[1] += here;
  const both = [['report', report, 'report.json'], ['timeline', timeline ?? 'too much', 'step.pftrace']];
  const wrong = both.filter(([, bytes, file]) => bytes !== 'too much' && !bytes?.equals(readFileSync(join(folder, file)))).map(([what]) => what);
  differ += wrong.length;
  console.log(`${wrong.length ? 'FAIL' : 'ok  '} ${workload}: ${wrong.length ? `${wrong.join(' and ')} differ` : timeline ? `${timeline.length} bytes of timeline` : 'its timeline takes more than 4 GiB'}; ${here.toFixed(2)} s here, ${native.toFixed(2)} s the program`);
}
rmSync(folder, {recursive: true});
const ratio = took[1] / took[0];
console.log(`all: ${took[1].toFixed(1)} s here, ${took[0].toFixed(1)} s the program, ${ratio.toFixed(1)} times as long (${SLOWER} are allowed)`);
if (differ || ratio > SLOWER) process.exit(1);
