// The page in a real browser: what a visitor does, step by step, from a folder and without a network.
//
//   node web/tests/page.mjs [FOLDER]        pictures go to FOLDER, if one is named
//
// $CHROMIUM, or chromium on the path; $STEPSIM_PAGE, or the page that web/build made. Times are printed; the first answer must come within FIRST_S.
import {mkdirSync} from 'node:fs';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {Browser} from './site.mjs';

const FIRST_S = 6;
const root = fileURLToPath(new URL('../..', import.meta.url)), site = pathToFileURL(process.env.STEPSIM_PAGE ?? join(root, 'web/dist/index.html')).href;
const pictures = process.argv[2];
if (pictures) mkdirSync(pictures, {recursive: true});

const step = '#facts b', drawn = '#frames iframe:not(.next)';
const stepTime = (tab) => tab.value(`document.querySelector('${step}')?.textContent`);
const answered = (tab, before = null) => tab.until(`(() => { const now = document.querySelector('${step}')?.textContent; return now && now !== ${JSON.stringify(before)} && !document.querySelector('.stale') && now; })()`, 90);
const check = (holds, what) => { if (!holds) throw new Error(what); };
const drop = (tab, files) => tab.value(`(() => { const data = new DataTransfer(); for (const [name, text] of ${JSON.stringify(files)}) data.items.add(new File([text], name));
  dispatchEvent(new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true})); })()`);
const choose = (preset) => async (tab) => {
  await tab.until('document.getElementById("preset").onchange');
  await tab.value(`(() => { const at = document.getElementById('preset'); at.value = '${preset}'; at.onchange(); })()`);
};
const planned = (tab) => tab.value('document.getElementById("plan").click()');

const SCRIPT = `#!/bin/bash
torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 11008 --num-attention-heads 32 \\
  --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 256 --tensor-model-parallel-size 2 \\
  --pipeline-model-parallel-size 2 --bf16 --use-distributed-optimizer --swiglu --vocab-size 32000 --warp-drive 9
`;

const scenes = {
  async 'the first view answers, and its page is drawn'(open) {
    const began = performance.now(), tab = await open(site);
    await answered(tab);
    const first = (performance.now() - began) / 1e3;
    console.log(`     first answer after ${first.toFixed(2)} s (${FIRST_S} are allowed)`);
    check(first < FIRST_S, 'the first answer came too late');
    await tab.until(`document.querySelector('${drawn}')?.offsetHeight > 1500`, 60);
    check((await tab.text('#title')) === 'gpt3-175b on h100-superpod-1024', await tab.text('#title'));
    check((await tab.text('#commands')) === 'stepsim run gpt3-175b', await tab.text('#commands'));
    check(/^#[\w-]+$/.test(await tab.value('location.hash')), 'no link');
    check(await tab.value('document.documentElement.scrollWidth <= innerWidth'), 'too wide');
  },

  async 'a slider plays again while it is moved, from the keyboard too'(open) {
    const tab = await open(site), before = await answered(tab);
    await tab.until('document.querySelector("[data-path=\'parallelism.tensor\'] input")');
    await tab.value('document.querySelector("[data-path=\'parallelism.tensor\'] input").focus()');
    const began = performance.now();
    await tab.key('ArrowLeft');
    const now = await answered(tab, before);
    console.log(`     played again within ${((performance.now() - began) / 1e3).toFixed(2)} s: ${before} to ${now}`);
    check((await tab.text('#commands')).includes('--set parallelism.tensor=4 --set parallelism.data=null'), await tab.text('#commands'));
    check(await tab.value('document.activeElement === document.querySelector("[data-path=\'parallelism.tensor\'] input")'), 'the slider lost the focus');
    await tab.value(`(() => { const link = document.querySelector("[data-path='topology.node.nics'] input") ?? document.querySelector("[data-path='topology.node.nics.link.bandwidth_GBps_per_direction'] input"); link.value = 0; link.dispatchEvent(new Event('input')); })()`);
    const slow = await answered(tab, now);
    check(parseFloat(slow) > parseFloat(now), `a slower network: ${slow} is not more than ${now}`);
  },

  async 'a link carries the whole question'(open) {
    const one = await open(site), before = await answered(one);
    await one.until('document.querySelector("[data-path=\'batch.micro_batch\'] input")');
    await one.value(`(() => { const at = document.querySelector("[data-path='batch.micro_batch'] input"); at.value = 1; at.dispatchEvent(new Event('input')); })()`);
    const changed = await answered(one, before), hash = await one.until('location.hash');
    await new Promise((go) => setTimeout(go, 300));
    const other = await open(site + await one.value('location.hash'));
    check((await answered(other)) === changed, `the link says ${await stepTime(other)}, not ${changed}`);
    const broken = await open(`${site}${hash.slice(0, 20)}`);
    await broken.until('document.getElementById("fault")?.textContent.includes("the link is broken")');
  },

  async 'a model by name is planned, and can be stopped'(open) {
    const tab = await open(site);
    await answered(tab);
    await tab.type('#words', 'llama3-8b');
    await tab.value('document.getElementById("count").value = "16"');
    await planned(tab);
    const stop = await tab.until('document.getElementById("stop") && document.getElementById("status").textContent');
    check(stop.includes('looking for a layout'), stop);
    await tab.press('#stop');
    await tab.until('!document.getElementById("stop")');
    await planned(tab);
    await tab.until('document.getElementById("title").textContent.includes("llama3-8b")', 120);
    check((await tab.text('#commands')).startsWith("stepsim plan llama3-8b --on 16xh100 -o llama3-8b.plan.json\nstepsim run llama3-8b.plan.json"), await tab.text('#commands'));
    check((await tab.text('#understood')).includes('layout: the shortest of'), await tab.text('#understood'));
  },

  async 'a long play says what there is to play, and can be stopped'(open) {
    const tab = await open(site);
    await answered(tab);
    await tab.type('#any', 'noise.compute_sigma=0.01');
    await tab.press('#set-any');
    const said = await tab.until('document.getElementById("stop") && /about [0-9,]+ ops/.test(document.getElementById("status").textContent) && document.getElementById("status").textContent', 60);
    console.log(`     ${said}`);
    await tab.press('#stop');
    await tab.until('document.getElementById("fault").textContent.startsWith("stopped")');
    await tab.value('document.querySelector("#sets button").click()');
    await tab.until('!document.querySelector(".stale")');
  },

  async 'a dropped script is understood, and what is not is red'(open) {
    const tab = await open(site), before = await answered(tab);
    await drop(tab, [['train.sh', SCRIPT], ['<img src=x onerror=alert(1)>.txt', 'nothing']]);
    check(await tab.until('document.getElementById("dropped").children.length === 2'), 'not taken');
    await tab.value('[...document.querySelectorAll("#dropped button")].at(-1).click()');
    await planned(tab);
    await answered(tab, before);
    await tab.until('document.getElementById("title").textContent.startsWith("train")');
    check((await tab.text('.not-understood + *, td .not-understood')) !== null, 'no word in red');
    const red = await tab.value('[...document.querySelectorAll("td .not-understood")].map((at) => at.textContent).join()');
    check(red.includes('warp_drive'), red);
    if (pictures) await tab.picture(join(pictures, 'script.png'));
  },

  async 'the knee of an offload tier is drawn and said'(open) {
    const tab = await open(site);
    await answered(tab);
    await choose(2)(tab);
    const knee = await tab.until('document.querySelector("#curve p") && document.querySelectorAll("#curve circle").length >= 9 && document.querySelector("#curve p").textContent', 120);
    check(/^From [0-9.]+ GB\/s on the step is within 2 %/.test(knee), knee);
  },

  async 'an order of passes that was dropped is played'(open) {
    const tab = await open(site), before = await answered(tab);
    await drop(tab, [['mine.json', JSON.stringify({ranks: ['F0 B0 F1 B1']})]]);
    await tab.until('document.querySelector("#dropped button")');
    await tab.press('#dropped button');
    await tab.until('document.getElementById("fault").textContent.includes("order_file")');
    await tab.value(`document.querySelector("[aria-label='take back parallelism.pipeline.schedule']").click()`);
    await tab.value(`document.querySelector("[aria-label='take back parallelism.pipeline.order_file']").click()`);
    await answered(tab);
    const ranks = Array.from({length: 8}, () => Array.from({length: 96}, (_, m) => `F${m}`).concat(Array.from({length: 96}, (_, m) => `B${m}`)).join(' '));
    await drop(tab, [['mine.json', JSON.stringify({ranks})]]);
    await tab.until('document.querySelector("#dropped button")');
    await tab.press('#dropped button');
    await tab.until('document.getElementById("fault").textContent.includes("memory")');
    check((await tab.text('#commands')).includes('--set parallelism.pipeline.schedule=file --set parallelism.pipeline.order_file=mine.json'), await tab.text('#commands'));
  },

  async 'in a narrow window the answer stands before the fields, for the Tab key too'(open) {
    const tab = await open(site, {width: 400});
    await answered(tab);
    await tab.until('document.querySelector("#fields input")');
    const follows = await tab.value(`['#plan', '#tokens', '#fields input', '#viewer'].map((at) => document.querySelector(at)).every((at, i, all) =>
      !i || (all[i - 1].compareDocumentPosition(at) & 4 && at.getBoundingClientRect().top > all[i - 1].getBoundingClientRect().top))`);
    check(follows, 'question, answer, fields and downloads are in another order');
  },

  async 'errors stand beside their field, in the words of the program'(open) {
    const tab = await open(site);
    await answered(tab);
    await tab.until('document.querySelector("[data-path=\'batch.global\'] input")');
    await tab.type('[data-path="batch.global"] input', '7');
    await tab.until('document.querySelector("[data-path=\'batch.global\'] .wrong").textContent');
    check(await tab.value('document.querySelector("[data-path=\'batch.global\'] input").getAttribute("aria-invalid") === "true"'), 'not marked');
    check((await tab.text('#fault')).includes('batch.global'), await tab.text('#fault'));
  },

  async 'a timeline is handed to the viewer'(open, browser) {
    const viewer = createServer((_, answer) => answer.setHeader('content-type', 'text/html').end(`<title>viewer</title><script>
      onmessage = ({data, source}) => { if (data === 'PING') source.postMessage('PONG', '*'); else if (data.perfetto) document.title = 'got ' + data.perfetto.buffer.byteLength + ' of ' + data.perfetto.title; };</script>`));
    await new Promise((go) => viewer.listen(0, '127.0.0.1', go));
    const tab = await open(site);
    await answered(tab);
    await tab.value(`document.getElementById('viewer').href = 'http://127.0.0.1:${viewer.address().port}/'`);
    await tab.press('#viewer');
    let got;
    for (const end = Date.now() + 60e3; !got && Date.now() < end; await new Promise((go) => setTimeout(go, 100))) got = (await browser.titles()).find((title) => title.startsWith('got'));
    viewer.close();
    check(/^got \d{5,} of gpt3-175b$/.test(got ?? ''), `the viewer got ${got}`);
    console.log(`     ${got}`);
  },

  async 'two steps stand side by side'(open) {
    const tab = await open(site), before = await answered(tab);
    await tab.press('#keep');
    await tab.until('document.querySelector("[data-path=\'parallelism.pipeline.schedule\'] select")');
    await tab.value(`(() => { const at = document.querySelector("[data-path='parallelism.pipeline.schedule'] select"); at.value = '1f1b'; at.dispatchEvent(new Event('change')); })()`);
    const now = await answered(tab, before);
    await tab.until(`document.getElementById('sides').textContent.includes(${JSON.stringify(before)})`);
    check((await tab.text('#sides')).includes(now), await tab.text('#sides'));
    await tab.until('document.querySelectorAll("#frames iframe:not(.next)").length === 3', 60);
    await new Promise((go) => setTimeout(go, 300));
    check(/^#[\w-]+~[\w-]+$/.test(await tab.value('location.hash')), 'the link has one step');
  },

  async 'what would help is played, and a press takes it'(open) {
    const tab = await open(site), before = await answered(tab);
    await tab.until('document.querySelector("[data-path]")');
    await tab.press('#try');
    await tab.until('/neighbours fit/.test(document.getElementById("tried").textContent)', 120);
    await tab.press('#tried .take');
    await answered(tab, before);
    check((await tab.text('#commands')).includes('--set'), 'nothing was taken');
  },
};

/** Texts whose colour is nearer to what lies behind them than AA allows: four and a half to one. */
const FAINT = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return canvas.getImageData(0, 0, 1, 1).data; };
  const light = (colour) => { const [r, g, b] = [...rgba(colour)].map((x) => x / 255).map((x) => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (at) => { for (; at; at = at.parentElement) { const back = getComputedStyle(at).backgroundColor; if (rgba(back)[3] > 250) return back; } return getComputedStyle(document.body).backgroundColor; };
  const seen = (at) => at.checkVisibility() && [...at.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()) && !(at instanceof SVGElement);
  return [...document.querySelectorAll('body *')].filter(seen).map((at) => [at, [light(getComputedStyle(at).color), light(behind(at))].sort((a, b) => b - a)])
    .filter(([, [most, least]]) => (most + 0.05) / (least + 0.05) < 4.5).map(([at]) => at.outerHTML.slice(0, 80));
})()`;
const CONTROLS = ['textbox', 'slider', 'combobox', 'button', 'checkbox', 'spinbutton', 'link', 'searchbox', 'Iframe'];
scenes['every control has a name, and every text stands out, light and dark'] = async (open) => {
  for (const dark of [false, true]) {
    const tab = await open(site, {dark});
    await answered(tab);
    await tab.until('document.querySelector("#fields fieldset")');
    await drop(tab, [['train.sh', SCRIPT]]);
    await tab.until('document.getElementById("dropped").children.length');
    await planned(tab);
    await tab.until('document.querySelector("td .not-understood")');
    await tab.until('!document.getElementById("stop")');
    const {nodes} = await tab.send('Accessibility.getFullAXTree');
    const nameless = nodes.filter(({ignored, role, name}) => !ignored && CONTROLS.includes(role?.value) && !name?.value?.trim()).map(({role}) => role.value);
    check(!nameless.length, `without a name: ${nameless.join(', ')}`);
    const faint = await tab.value(FAINT);
    check(!faint.length, `${dark ? 'dark' : 'light'}, too faint: ${faint.join('; ')}`);
  }
};

const path = process.env.CHROMIUM ?? 'chromium';
const browser = await Browser.open(path);
let failed = 0;
const wanted = process.argv.slice(3);
for (const [name, act] of Object.entries(scenes).filter(([name]) => !wanted.length || wanted.some((word) => name.includes(word)))) {
  const tabs = [], open = async (url, how) => { const tab = await browser.tab(url, how); tabs.push(tab); return tab; };
  const began = performance.now();
  try {
    await act(open, browser);
    const errors = tabs.flatMap((tab) => tab.errors);
    check(!errors.length, `on the console: ${errors.join('; ')}`);
    console.log(`ok   ${name} (${((performance.now() - began) / 1e3).toFixed(1)} s)`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL ${name}: ${error.message}`);
    for (const tab of tabs) if (tab.errors.length) console.log(`     console: ${tab.errors.join('; ')}`);
  }
  for (const tab of tabs) await tab.send('Page.close').catch(() => {});
}
/** What pictures are taken of: how the page comes there, and when it is. */
const views = {
  first: [() => {}, `document.querySelector('${drawn}')`],
  preset: [choose(1), 'document.getElementById("title").textContent.startsWith("deepseek-v3")'],
  knee: [choose(2), 'document.querySelectorAll("#curve circle").length >= 9'],
  script: [async (tab) => { await drop(tab, [['train.sh', SCRIPT]]); await tab.until('document.getElementById("dropped").children.length'); await planned(tab); }, 'document.querySelector("td .not-understood")'],
  two: [choose(3), `document.querySelectorAll('${drawn}').length === 3`],
};
if (pictures) for (const [name, [act, there]] of Object.entries(views)) for (const dark of [false, true]) for (const width of [400, 800, 1600]) {
  const tab = await browser.tab(site, {width, dark});
  await answered(tab);
  await tab.until('document.querySelector("#fields fieldset")');
  await act(tab);
  await tab.until(there, 120);
  await tab.until(`document.querySelector('${drawn}')`, 60);
  await new Promise((go) => setTimeout(go, 1000));
  await tab.picture(join(pictures, `${name}-${width}-${dark ? 'dark' : 'light'}.png`));
  await tab.send('Page.close').catch(() => {});
}
await browser.close();
process.exit(failed ? 1 : 0);
