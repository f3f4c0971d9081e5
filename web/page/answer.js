// The answer: figures, memory, faults, what was understood.
import {byId, el, shape, table} from './dom.js';
import {change, count, days, dollars, gib, percent, seconds} from './words.js';

const fact = (value, what) => el('div', {}, el('b', {}, value), what);

export function showFigures({report, range, layout}, question) {
  byId('answer').classList.remove('stale');
  const title = `${report.workload.replace(/\.plan$/, '')} on ${report.topology}`;
  byId('title').textContent = title;
  document.title = `${title}: ${seconds(report.step_time_s)} a step`;
  byId('layout').textContent = layout;
  byId('facts').className = 'facts';
  byId('facts').replaceChildren(fact(seconds(report.step_time_s), 'a step'), fact(percent(report.mfu), 'MFU'),
    fact(count(report.tokens_per_s), 'tokens per second'), fact(count(report.devices), 'devices'));
  byId('hangs').textContent = report.hangs_on ?? '';
  byId('range').textContent = `Range: ${range}`;
  byId('memory').replaceChildren(...memory(report));
  if (question.sets['topology.device.price_USD_per_h']) byId('price').value = question.sets['topology.device.price_USD_per_h'];
  showTraining({report});
}

/** Days and dollars of a training of so many tokens. */
export function showTraining(figures) {
  const tokens = 1e9 * Number(byId('tokens').value), report = figures?.report;
  if (!report || !(tokens > 0)) return byId('training').replaceChildren();
  const usd = report.cost?.cost_USD_per_million_tokens, joules = report.cost?.energy_J_per_token;
  const parts = [`${days(tokens / report.tokens_per_s / 86400)} of steps without interruptions`];
  if (usd) parts.push(dollars(usd * tokens / 1e6));
  if (joules) parts.push(`${count(joules * tokens / 3.6e9)} MWh in the devices`);
  byId('training').textContent = parts.join(', ');
}

/** Levels of each memory that is used at its peak, by class. */
function memory(report) {
  const used = Object.entries(report.memory ?? {}).filter(([, tier]) => tier.peak_bytes > 0);
  return used.map(([name, tier]) => {
    const whole = Math.max(tier.capacity_bytes, tier.peak_bytes), parts = Object.entries(tier.by_class).filter(([, bytes]) => bytes > 0);
    let at = 0;
    const bars = parts.map(([kind, bytes]) => {
      const bar = shape('rect', {x: 100 * at / whole, width: 100 * bytes / whole, y: 0, height: 10, class: `memory-${kind}`}, shape('title', {}, `${kind}: ${gib(bytes)}`));
      at += bytes;
      return bar;
    });
    const key = parts.map(([kind, bytes]) => el('span', {}, shape('svg', {viewBox: '0 0 12 12', 'aria-hidden': 'true'},
      shape('rect', {width: 12, height: 12, class: `memory-${kind}`})), `${kind} ${gib(bytes)}`));
    const title = `memory “${name}”: ${gib(tier.peak_bytes)} of ${gib(tier.capacity_bytes)} at the peak of the fullest`;
    return el('div', {className: 'tier'}, el('p', {}, title),
      shape('svg', {viewBox: '0 0 100 10', preserveAspectRatio: 'none', class: 'levels', 'aria-hidden': 'true'}, ...bars), el('div', {className: 'key'}, ...key));
  });
}

/** A fault in the program's words, at the field that it is about, and what would mend it. */
export function showFault(fault, fields, mend = '') {
  byId('fault').replaceChildren(...(fault ? [el('pre', {}, fault.message), mend] : []));
  fields.fault(fault);
}

/** What was understood of files and names, by where it comes from; what has no effect. */
export function showUnderstood({plan}, {report}) {
  const inert = (report.run.without_effect ?? []).map(({field, why}) => ['no effect here', `${field}${why ? ` (${why})` : ''}`]);
  const {not_understood = [], fields = []} = plan?.understood ?? {};
  const of = (from, name) => fields.filter((field) => field.from === from).map(({why}) => [name, why]);
  const rows = [...not_understood.map((words) => ['not understood', words]), ...Object.entries(CLASSES).flatMap(([from, name]) => of(from, name))];
  byId('unknown').textContent = not_understood.length ? `not understood: ${not_understood.join('; ')}` : '';
  const all = [...rows, ...inert].map(([kind, words]) => [el('span', {className: kind.replaceAll(' ', '-')}, kind), el('span', {className: kind.replaceAll(' ', '-')}, words)]);
  byId('understood').hidden = all.length === 0;
  byId('classes').replaceChildren(table(['', 'what'], all, 2));
}
/** Where values come from, as `plan` calls it, in its order. */
const CLASSES = {stated: 'stated', model: 'from the model', software: 'software default', assumed: 'assumed'};

/** The kept step beside this one. */
export function showBeside(kept, now) {
  byId('beside').hidden = !(kept && now);
  if (!kept || !now) return;
  const [a, b] = [kept.report, now.report], peak = (report) => report.memory?.hbm?.peak_bytes ?? 0;
  const rows = [['step', a.step_time_s, b.step_time_s, seconds], ['MFU', a.mfu, b.mfu, percent], ['tokens per second', a.tokens_per_s, b.tokens_per_s, count],
    ['devices', a.devices, b.devices, count], ['memory of the fullest', peak(a), peak(b), gib]];
  const name = ({report, layout}, what) => el('span', {}, el('b', {}, what), el('br'), `${report.workload} on ${report.topology}`, el('br'), el('span', {className: 'faint'}, layout));
  byId('sides').replaceChildren(table(['', name(kept, 'kept'), name(now, 'this'), 'change'],
    rows.map(([what, x, y, show]) => [what, show(x), show(y), x ? change(x, y) : ''])));
}
