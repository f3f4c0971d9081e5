// The page: a question on the left, its answer on the right, played again at every change.
import {byId, el} from './dom.js';
import {Fault, Stopped} from './engine.js';
import {showBeside, showFault, showFigures, showTraining, showUnderstood} from './answer.js';
import {Frames} from './frames.js';
import {Fields} from './controls.js';
import {commandLines, packed, preset, setsOf, step, unpacked} from './question.js';
import {withSetting} from './fields.js';
import {PRESETS} from './presets.js';
import {Own} from './own.js';
import {Better} from './better.js';
import {paths} from './complete.js';
import {openIn} from './viewer.js';
import {count, seconds} from './words.js';

/** So long a play may last in silence; then it says what it does, and can be stopped. */
const PATIENCE_MS = 400;
/** So long nothing must change before the page about the step is made. */
const CALM_MS = 150;

/** Plays questions with `front` at once, and with `back` what takes longer. */
export class Page {
  #front; #back; #known; #question; #kept = null; #keptFigures = null; #figures = null; #presets = []; #again = false; #playing = false; #calm;

  /** `schemas` promises what may stand in a workload, a machine and a config. */
  constructor(front, back, schemas) {
    this.#front = front; this.#back = back;
    this.frames = new Frames(byId('frames'));
    this.fields = new Fields(byId('fields'), (path, value) => this.set(path, value), (path) => this.forget(path), (field) => this.better.curve(field));
    schemas.then(({workload, machine}) => byId('paths').replaceChildren(
      ...[...paths(workload), ...paths(machine, 'topology.')].map((path) => el('option', {value: `${path}=`}))));
    this.own = new Own(front, schemas, {ask: (question) => this.ask(question), set: (sets) => this.take({...this.#question.sets, ...sets}), working: (what) => this.#working(what)});
    this.better = new Better(back, this);
    this.#listen();
  }

  get question() { return this.#question; }
  get figures() { return this.#figures; }
  get groups() { return this.fields.groups; }

  async begin() {
    try {
      await this.#follow(location.hash.slice(1) || null);
      this.#known = await this.#front.json({ask: 'known'});
    } catch (error) { return this.#fail(error); }
    this.own.complete(this.#known);
    byId('version').textContent = this.#known.version;
    this.#showPresets();
    if (this.#figures) this.#show();
    this.#back.json({ask: 'further_models'}).then((models) => this.own.complete({...this.#known, models: [...this.#known.models, ...models]}), () => {});
  }

  /** Another question; nothing of the one before is left. */
  ask(question, {curve, beside} = {}) {
    this.#question = {tokens: this.#question?.tokens, ...question};
    this.fields.restart();
    this.better.clear();
    this.#setKept(beside ?? null);
    this.#showPreset();
    this.#play().then(() => curve && this.better.curveOf(curve));
  }
  /** The same question with a field changed. */
  set(path, value) { this.take(withSetting(this.#question.sets, path, value)); }
  forget(path) {
    const {[path]: _, ...sets} = this.#question.sets;
    this.take(sets);
  }
  take(sets) {
    this.#question = {...this.#question, sets, files: {...this.#question.files, ...this.own.files}};
    this.#play();
  }
  #setAny() {
    const [path, value] = byId('any').value.trim().split(/=(.*)/s);
    if (!path || value === undefined) return this.#fail(new Error(`“${byId('any').value}” is no path=value`));
    byId('any').value = '';
    this.set(path, value);
  }

  /** Plays the question that is newest when its turn comes. */
  async #play() {
    this.#again = true;
    this.#back.stop();
    clearTimeout(this.#calm);
    this.#remember();
    if (this.#playing) return;
    this.#playing = true;
    while (this.#again) {
      this.#again = false;
      await this.#once();
    }
    this.#playing = false;
  }
  async #once() {
    const question = this.#question, done = this.#working('playing', question);
    try {
      this.#figures = await this.#front.json({ask: 'figures', ...step(question)}, done.progress);
      if (question !== this.#question) return;
      this.#show();
      this.#calm = setTimeout(() => this.#drawn(question), CALM_MS);
    } catch (error) {
      if (question === this.#question) this.#fail(error);
    } finally { done(); }
  }
  #show() {
    showFault(null, this.fields);
    showFigures(this.#figures, this.#question);
    showUnderstood(this.#question, this.#figures);
    if (this.#known) this.fields.show(this.#figures, this.#known, this.#question.sets);
    showBeside(this.#keptFigures, this.#figures);
  }
  #fail(error) {
    if (error instanceof Stopped) return showFault({message: 'stopped: change the question, or play it again'}, this.fields);
    showFault(error instanceof Fault ? error : {message: error.message}, this.fields, error.out_of_memory ? this.#proposal() : '');
    byId('answer').classList.add('stale');
  }
  /** What would make a planned step fit: a press takes it. */
  #proposal() {
    const {sets, plan} = this.#question, proposal = plan?.understood?.proposal;
    if (!proposal) return '';
    const take = () => this.take({...sets, ...setsOf(proposal.sets)});
    return el('p', {}, `As a proposal, ${proposal.gives_up}: ${seconds(proposal.step_s)} `, el('button', {type: 'button', className: 'take', onclick: take}, 'take'));
  }

  /** The page about the step: first what is quick, then with what could be otherwise. */
  async #drawn(question) {
    const current = () => question === this.#question;
    try {
      for (const why of [false, true]) {
        const html = await this.#back.text({ask: 'page', ...step(question), why});
        if (!current()) return;
        this.frames.show('this step', html);
        if (!why) await this.#hangs(question);
      }
      await this.#besideDrawn(question);
    } catch (error) { if (!(error instanceof Stopped) && current()) this.frames.fail(error.message); }
  }
  async #hangs(question) {
    const words = await this.#back.json({ask: 'hangs_on', ...step(question)});
    if (question === this.#question) byId('hangs').textContent = words;
  }
  async #besideDrawn(question) {
    const kept = this.#kept;
    if (!kept) return;
    this.#keptFigures ??= await this.#back.json({ask: 'figures', ...step(kept)});
    showBeside(this.#keptFigures, this.#figures);
    this.frames.show('kept step', await this.#back.text({ask: 'page', ...step(kept)}));
    const html = await this.#back.text({ask: 'difference', a: step(kept), b: step(question)});
    if (kept === this.#kept && question === this.#question) this.frames.show('differences', html);
  }

  /** Says what is done, when that takes long; returns what ends it. */
  #working(what, question) {
    const began = performance.now(), status = byId('status');
    let size = null, shown = false, said = 0;
    const tell = () => {
      const spent = (performance.now() - began) / 1e3, unit = what === 'playing' ? 'ops' : 'layouts';
      const parts = [what, said && `${count(said)} ${unit} done`, size && `about ${count(size)} ops in all`, `for ${spent.toFixed(1)} s`,
        size && said && `${(spent * size / said).toFixed(0)} s in all at this pace`];
      status.firstChild.textContent = `${parts.filter(Boolean).join(', ')} `;
    };
    const timer = setInterval(() => {
      if (!shown && performance.now() - began < PATIENCE_MS) return;
      if (!shown) {
        shown = true;
        status.replaceChildren(el('span'), el('button', {type: 'button', id: 'stop', onclick: () => this.#front.stop()}, 'stop'));
        if (question) this.#back.json({ask: 'size', ...step(question)}).then((n) => { size = n; }, () => {});
      }
      tell();
    }, 100);
    const end = () => { clearInterval(timer); status.replaceChildren(); };
    end.progress = (n) => { said = n; };
    return end;
  }

  /** The link and the command line of the question. */
  async #remember() {
    const question = this.#question;
    const without = (path) => el('button', {type: 'button', className: 'small', 'aria-label': `take back ${path}`, onclick: () => this.forget(path)}, '×');
    byId('sets').replaceChildren(...Object.entries(question.sets).map(([path, value]) => el('li', {}, `${path}=${value} `, without(path))));
    byId('commands').textContent = commandLines(question).join('\n');
    const parts = await Promise.all([question, this.#kept].filter(Boolean).map(packed));
    if (question === this.#question) history.replaceState(null, '', `#${parts.join('~')}`);
  }
  /** The question of a link, and the one beside it. */
  async #follow(text) {
    if (!text) return this.ask(PRESETS[0].question);
    const [question, kept] = await Promise.all(text.split('~').slice(0, 2).map(unpacked));
    this.own.show(question.plan, question.files);
    if (question.tokens) byId('tokens').value = question.tokens;
    this.ask(question, {beside: kept});
  }

  /** Keeps a step to stand beside the present one, or none. */
  #keep(question) {
    this.#setKept(question);
    this.#remember();
    this.#drawn(this.#question);
  }
  #setKept(question) {
    this.#kept = question; this.#keptFigures = null;
    this.frames.keepOnly(['this step']);
    showBeside(null, null);
  }

  #showPresets() {
    const shipped = this.#known.workloads.map(({name, about}) => ({title: name, about, question: preset(name)}));
    const option = (entry, i) => el('option', {value: String(i)}, entry.title);
    const all = [...PRESETS, ...shipped], select = byId('preset');
    select.replaceChildren(el('option', {value: '-1', hidden: true}, 'your own'), el('optgroup', {label: 'questions'}, ...PRESETS.map(option)),
      el('optgroup', {label: 'shipped workloads'}, ...shipped.map((entry, i) => option(entry, i + PRESETS.length))));
    this.#presets = all.map((entry) => ({about: shipped.find(({title}) => title === entry.question.workload)?.about, ...entry}));
    select.onchange = () => { this.own.show(null, {}); const {question, ...more} = all[select.value]; this.ask(question, more); };
    this.#showPreset();
  }
  /** Which preset the question is, if it is one. */
  #showPreset() {
    const key = ({workload, sets}) => JSON.stringify([workload, sets]);
    const at = this.#presets.findIndex(({question}) => key(question) === key(this.#question));
    byId('preset').value = String(at);
    byId('about').textContent = this.#presets[at]?.about?.split(/(?<=\w{3}\.) /)[0] ?? '';
  }

  #listen() {
    const on = (id, event, act) => byId(id).addEventListener(event, act);
    on('question', 'submit', (event) => { event.preventDefault(); this.own.plan(); });
    on('controls', 'submit', (event) => event.preventDefault());
    on('tokens', 'input', () => { this.#question = {...this.#question, tokens: Number(byId('tokens').value) || undefined}; showTraining(this.#figures); this.#remember(); });
    on('price', 'change', () => byId('price').value ? this.set('topology.device.price_USD_per_h', byId('price').value) : this.forget('topology.device.price_USD_per_h'));
    on('set-any', 'click', () => this.#setAny());
    on('any', 'keydown', (event) => { if (event.key === 'Enter') { event.preventDefault(); this.#setAny(); } });
    on('keep', 'click', () => this.#keep(this.#question));
    on('drop', 'click', () => this.#keep(null));
    on('set-beside', 'click', () => unpacked(byId('other').value.split('#').pop().split('~')[0]).then((question) => this.#keep(question), (error) => this.#fail(error)));
    on('copy-link', 'click', async ({target}) => {
      await navigator.clipboard?.writeText(location.href);
      target.textContent = 'copied'; setTimeout(() => { target.textContent = 'copy the link'; }, 1500);
    });
    on('viewer', 'click', (event) => { event.preventDefault(); openIn(event.currentTarget.href, this.#question.workload, this.#timeline()).catch((error) => this.#fail(error)); });
    for (const button of document.querySelectorAll('[data-save]')) button.addEventListener('click', () => this.#save(button.dataset.save).catch((error) => this.#fail(error)));
    document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); byId('answer').focus(); });
    // In a narrow window the answer stands between the question and its fields, for the eye and for the Tab key.
    const narrow = matchMedia('(max-width: 900px)'), place = () => narrow.matches ? byId('answer').after(byId('controls')) : byId('left').append(byId('controls'));
    narrow.onchange = place; place();
    addEventListener('hashchange', () => this.#follow(location.hash.slice(1)).catch((error) => this.#fail(error)));
  }
  #timeline() { return this.#back.bytes({ask: 'timeline', ...step(this.#question), file: 'step.pftrace'}); }
  async #save(what) {
    const question = this.#question, name = question.workload.replace(/(\.plan)?\.json$/, '');
    const [file, type, content] = {
      timeline: [`${name}.pftrace`, 'application/octet-stream', () => this.#timeline()],
      page: [`${name}.html`, 'text/html', () => this.#back.bytes({ask: 'page', ...step(question), why: true})],
      report: [`${name}.report.json`, 'application/json', () => this.#back.bytes({ask: 'report', ...step(question)})],
      workload: [`${name}.json`, 'application/json', () => `${JSON.stringify(this.#figures.workload, null, 2)}\n`],
    }[what];
    const link = el('a', {href: URL.createObjectURL(new Blob([await content()], {type})), download: file});
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
