// What would help: each neighbour of the step is played, and what a press takes is played anew.
import {byId, el, table} from './dom.js';
import {curve} from './curve.js';
import {Stopped} from './engine.js';
import {others, withSetting} from './fields.js';
import {setsOf, settingsOf, step} from './question.js';
import {change, percent, seconds} from './words.js';

export class Better {
  #engine; #page;

  constructor(engine, page) {
    this.#engine = engine; this.#page = page;
    const on = (id, act) => byId(id).addEventListener('click', () => this.#told(act));
    on('try', () => this.#neighbours());
    on('whatif', () => this.#whatif());
    on('find', () => this.#search());
  }

  clear() { byId('tried').replaceChildren(); byId('curve').replaceChildren(); }

  curve(field) { return this.#told(() => this.#curve(field)); }
  curveOf(path) {
    const field = this.#page.groups.flatMap(([, list]) => list).find((one) => one.path === path);
    if (field) this.curve(field);
  }

  /** Does what may be stopped by another question. */
  async #told(act) {
    try { await act(); } catch (error) { if (!(error instanceof Stopped)) byId('tried').replaceChildren(el('pre', {}, error.message)); }
  }
  #take(sets) { return () => this.#page.take(sets); }
  #with(texts) { return {...this.#page.question.sets, ...setsOf(texts)}; }

  async #neighbours() {
    const {sets} = this.#page.question, now = this.#page.figures.report.step_time_s, rows = [];
    const fields = this.#page.groups.flatMap(([, list]) => list).filter(({path}) => !path.startsWith('topology.') && path !== 'stack');
    const all = fields.flatMap((field) => others(field).map((value) => ({field, value})));
    for (const [i, {field, value}] of all.entries()) {
      const other = withSetting(sets, field.path, value);
      const played = await this.#played(other);
      if (played.step_s) rows.push({words: `${field.label} ${field.value} → ${value}`, step_s: played.step_s, take: this.#take(other)});
      this.#show(rows, now, i + 1 < all.length ? `${i + 1} of ${all.length} neighbours played` : `${rows.length} of ${all.length} neighbours fit and play; the rest do not fit the machine or its memory`);
    }
  }
  async #whatif() {
    byId('tried').replaceChildren(el('p', {role: 'status'}, 'playing what could be otherwise…'));
    const {step_time_s, candidates = []} = await this.#engine.json({ask: 'whatif', ...step(this.#page.question)});
    const rows = candidates.map(({what, otherwise, sets = [], step_s, own_s, induced_s}) => ({step_s, take: sets.length ? this.#take(this.#with(sets)) : null,
      words: `${what}; ${otherwise}`, parts: [own_s, induced_s].map((s) => percent(s / step_time_s))}));
    this.#show(rows, step_time_s, rows.length ? 'what could be otherwise, each played' : 'no change makes the step shorter', ['itself', 'others wait']);
  }
  async #search() {
    const note = el('p', {role: 'status'}, 'searching…');
    byId('tried').replaceChildren(note);
    const told = (n) => { note.textContent = `${n} layouts looked at`; };
    const {ranking, points, simulated} = await this.#engine.json({ask: 'search', ...step(this.#page.question)}, told);
    const now = this.#page.figures.report.step_time_s;
    const rows = ranking.map(({sets, step_time_s, settings}) => ({step_s: step_time_s, take: this.#take(this.#with(sets)),
      words: settingsOf(Object.fromEntries(Object.entries(settings).map(([path, value]) => [path, typeof value === 'string' ? value : JSON.stringify(value)]))).join(', ')}));
    this.#show(rows, now, `the best of ${points} layouts, ${simulated} of them simulated`);
  }
  #show(rows, now, note, heads = []) {
    const sorted = rows.toSorted((a, b) => a.step_s - b.step_s).slice(0, 16);
    const cells = ({words, step_s, take, parts = []}) => [words, seconds(step_s), change(now, step_s), ...parts, take ? el('button', {type: 'button', className: 'take', 'aria-label': `take ${words}`, onclick: take}, 'take') : ''];
    byId('tried').replaceChildren(el('p', {className: 'faint', role: 'status'}, note), table(['what', 'step', 'change', ...heads, ''], sorted.map(cells)));
  }

  async #curve(field) {
    const points = field.values.map((value) => ({value, why: '…'})), {sets} = this.#page.question;
    for (const point of points) {
      const {step_s, why} = await this.#played(withSetting(sets, field.path, point.value));
      Object.assign(point, {step_s, why});
      if (points.some((one) => one.step_s)) byId('curve').replaceChildren(...curve(field, points, (value) => this.#page.set(field.path, value)));
    }
  }

  /** The step under other settings, or in a word why there is none. */
  async #played(sets) {
    try {
      const {report} = await this.#engine.json({ask: 'figures', ...step({...this.#page.question, sets})});
      return {step_s: report.step_time_s};
    } catch (error) {
      if (error instanceof Stopped) throw error;
      return {why: error.message.split('\n')[0]};
    }
  }
}
