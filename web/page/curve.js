// The step over one field: a point for each value that was played. A press on a point takes its value.
import {el, shape, table} from './dom.js';
import {seconds} from './words.js';

const [WIDTH, HEIGHT, LEFT, BELOW] = [640, 260, 70, 36];

/** From this part of the shortest step on, more of the field buys nothing. */
const KNEE = 1.02;

/** The drawing of points `{value, step_s}`, those without a step left out, on a scale of ratios; and the same as a table. */
export function curve({label, unit, value: now}, points, take) {
  const good = points.filter((point) => point.step_s);
  const most = 1.08 * Math.max(...good.map((point) => point.step_s));
  const [first, last] = [points[0].value, points.at(-1).value].map(Math.log);
  const x = (value) => LEFT + (Math.log(value) - first) / (last - first || 1) * (WIDTH - LEFT - 24);
  const y = (step_s) => 8 + (1 - step_s / most) * (HEIGHT - 8 - BELOW);
  const svg = shape('svg', {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: 'curve', role: 'img', 'aria-label': `step over ${label}`});
  for (const part of [0, 0.25, 0.5, 0.75, 1]) {
    const at = y(most * part);
    svg.append(shape('line', {x1: LEFT, x2: WIDTH - 10, y1: at, y2: at, class: 'grid'}), shape('text', {x: LEFT - 8, y: at + 4, class: 'end'}, seconds(most * part)));
  }
  svg.append(shape('path', {d: good.map((p, i) => `${i ? 'L' : 'M'}${x(p.value).toFixed(1)} ${y(p.step_s).toFixed(1)}`).join(''), class: 'line'}));
  for (const point of points) svg.append(shape('text', {x: x(point.value), y: HEIGHT - 18, class: 'middle'}, String(point.value)));
  svg.append(shape('text', {x: (LEFT + WIDTH) / 2, y: HEIGHT - 3, class: 'middle'}, `${label}${unit ? `, ${unit}` : ''}`));
  for (const point of good) {
    const dot = shape('circle', {cx: x(point.value), cy: y(point.step_s), r: point.value === now ? 7 : 5, class: point.value === now ? 'now' : 'dot'},
      shape('title', {}, `${point.value} ${unit}: ${seconds(point.step_s)}`));
    dot.addEventListener('click', () => take(point.value));
    svg.append(dot);
  }
  const press = (point) => el('button', {type: 'button', className: 'take', onclick: () => take(point.value)}, `${point.value} ${unit}`.trim());
  const rows = points.map((point) => [press(point), point.step_s ? seconds(point.step_s) : point.why]);
  const knee = good.findIndex((_, i) => good.slice(i).every((point) => point.step_s <= KNEE * Math.min(...good.map((one) => one.step_s))));
  const words = knee > 0 ? `From ${good[knee].value} ${unit} on the step is within ${Math.round(100 * (KNEE - 1))} % of its shortest.` : '';
  return [svg, el('p', {}, words), el('details', {}, el('summary', {}, 'the same as a table'), table([label, 'step'], rows))];
}
