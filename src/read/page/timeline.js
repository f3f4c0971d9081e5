// Zoom and hover over the drawing. The page reads without it.
const svg = document.getElementById('timeline'), lanes = document.getElementById('lanes');
const ticks = document.getElementById('ticks'), tip = document.getElementById('tip');
const {classes: CLASSES} = data.drawing;
let W, L, R, LANES;
const KEYS = ['passes', 'stalls', 'communication'], NAMES = data.names;
const step = data.shown.step_ns;
let a = 0, b = step;

// Each lane as parallel lists of starts and ends, kinds and tags.
const rows = data.shown.rows.map((row) => KEYS.map((key) => {
  const list = row[key], lane = {start: [], end: [], kind: [], tag: []};
  for (let i = 0, at = 0; i < list.length; i += 4) {
    const start = at + list[i]; at = start + list[i + 1];
    lane.start.push(start); lane.end.push(at); lane.kind.push(list[i + 2]); lane.tag.push(list[i + 3]);
  }
  return lane;
}));

const time = (ns) => ns >= 1e9 ? (ns / 1e9).toFixed(3) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e3).toFixed(1) + ' us';
const first = (list, value) => { let lo = 0, hi = list.length; while (lo < hi) { const m = (lo + hi) >> 1; if (list[m] <= value) lo = m + 1; else hi = m; } return lo; };

// In a narrow window the drawing is as wide as that, and names stand above their rows.
const names = [...document.getElementById('names').children].map((name) => [name, name.cloneNode(true)]);
function fit(printed = false) {
  const wide = data.drawing, narrow = svg.parentElement.clientWidth < 950 && !printed, down = narrow ? 14 : 0;
  [W, L, R] = narrow ? [svg.parentElement.clientWidth, 0, wide.row + down] : [wide.width, wide.left, wide.row];
  LANES = wide.lanes.map((lane) => lane.map((y) => y + down));
  names.forEach(([name, as_written], r) => {
    const at = narrow ? {x: 0, y: r * R + 12, class: ''} : Object.fromEntries([...as_written.attributes].map((a) => [a.name, a.value]));
    ['textLength', 'lengthAdjust'].forEach((a) => name.removeAttribute(a));
    Object.entries(at).forEach(([a, value]) => name.setAttribute(a, value));
  });
  svg.setAttribute('viewBox', `0 0 ${W} ${names.length * R + 20}`);
  draw();
}

// Round numbers below the rows, as the page draws them for the whole.
function scale_below() {
  const below = names.length * R + 14, rough = (b - a) / Math.min(6, W / 90), decade = 10 ** Math.floor(Math.log10(rough)), each = decade * [1, 2, 5, 10].find((m) => m * decade >= rough);
  const [unit, name] = [[1e9, 's'], [1e6, 'ms'], [1e3, 'us'], [1, 'ns']].find((u) => b >= u[0]) ?? [1, 'ns'];
  const decimals = Math.max(0, -Math.floor(Math.log10(each / unit))); let out = '';
  for (let at = Math.ceil(a / each) * each; at <= a + 0.97 * (b - a); at += each)
    out += `<text class="tick" x="${(L + (at - a) / (b - a) * (W - L)).toFixed(1)}" y="${below}">${(at / unit).toFixed(decimals)} ${name}</text>`;
  ticks.innerHTML = out;
}

function draw() {
  const scale = (W - L) / (b - a); let out = '';
  rows.forEach((row, r) => row.forEach((lane, l) => {
    const shapes = [], y = r * R + LANES[l][0], h = LANES[l][1] - LANES[l][0];
    for (let i = first(lane.end, a); i < lane.start.length && lane.start[i] < b; i++) {
      const x = L + (Math.max(lane.start[i], a) - a) * scale, w = (Math.min(lane.end[i], b) - Math.max(lane.start[i], a)) * scale;
      if (w < 0.15) continue;
      (shapes[lane.kind[i]] ??= []).push(`M${x.toFixed(1)} ${y}h${w.toFixed(1)}v${h}h-${w.toFixed(1)}z`);
      const text = l === 0 && [label(lane, i), batch(lane, i)].find((t) => t && w > 6 * t.length + 6);
      if (text) out += `<text class="in" x="${(x + w / 2).toFixed(1)}" y="${y + 12}" text-anchor="middle">${text}</text>`;
    }
    out = shapes.map((d, kind) => d ? `<path class="${CLASSES[l]}${kind}" d="${d.join('')}"/>` : '').join('') + out;
  }));
  lanes.innerHTML = out;
  scale_below();
}
// Of two passes in turn both micro-batches.
const batches = (tag) => [tag & 65535, tag >>> 16].filter((m) => m).map((m) => m - 1);
const batch = (lane, i) => batches(lane.tag[i]).map((m) => 'm' + m).join(' + ');
const label = (lane, i) => `${NAMES[0][lane.kind[i]]} ${batch(lane, i)}`.trim();

function place(event) {
  const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) / box.width * W, y = (event.clientY - box.top) / box.width * W;
  return {ns: a + (x - L) / (W - L) * (b - a), r: Math.floor(y / R), y: y % R, inside: x >= L};
}
function zoom(from, to) {
  const least = Math.min(step, 1000);
  if (to - from < least) { const mid = (from + to) / 2; from = mid - least / 2; to = mid + least / 2; }
  a = Math.max(0, from); b = Math.min(step, Math.max(to, a + least)); draw();
}
const around = (ns, factor) => zoom(ns - (ns - a) * factor, ns + (b - ns) * factor);
let from = null;
svg.addEventListener('pointerdown', (e) => { const p = place(e); if (p.inside) from = p.ns; });
svg.addEventListener('pointerup', (e) => {
  const to = place(e).ns;
  if (from !== null && Math.abs(to - from) > (b - a) / 200) zoom(Math.min(from, to), Math.max(from, to));
  from = null;
});
svg.addEventListener('dblclick', () => zoom(0, step));
svg.addEventListener('wheel', (e) => { if (e.ctrlKey || e.metaKey) { e.preventDefault(); around(place(e).ns, e.deltaY > 0 ? 1.25 : 0.8); } }, {passive: false});
svg.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
svg.addEventListener('pointermove', (e) => {
  const p = place(e), row = rows[p.r], l = LANES.findIndex(([top, bottom]) => p.y >= top && p.y < bottom);
  let text = '';
  if (row && l >= 0 && p.inside) {
    const lane = row[l], i = first(lane.start, p.ns) - 1;
    if (i >= 0 && lane.end[i] > p.ns) text = `${data.shown.rows[p.r].name}: ${l ? NAMES[l][lane.kind[i]] : label(lane, i)}, ${time(lane.end[i] - lane.start[i])} from ${time(lane.start[i])}`;
  }
  tip.style.display = text ? 'block' : 'none';
  tip.textContent = text; tip.style.left = Math.min(e.clientX + 12, innerWidth - 320) + 'px'; tip.style.top = e.clientY + 14 + 'px';
});

// Arrow keys move, + and - zoom, Home shows the whole.
svg.setAttribute('tabindex', '0');
svg.addEventListener('keydown', (e) => {
  const button = {ArrowLeft: 'left', ArrowRight: 'right', '+': 'in', '=': 'in', '-': 'out', Home: 'all'}[e.key];
  if (button && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); document.getElementById(button).click(); }
});
// A line of a table that has a place in the drawing: a press shows it, framed.
for (const go of document.querySelectorAll('button.go')) go.addEventListener('click', () => {
  const [row, start, end] = go.dataset.at.split(',').map(Number), around = 2 * Math.max(end - start, 250);
  zoom(start - around, end + around);
  const x = (ns) => L + (ns - a) / (b - a) * (W - L), [top, bottom] = LANES[1];
  lanes.innerHTML += `<rect class="mark" x="${x(start) - 2}" y="${row * R + top - 2}" width="${x(end) - x(start) + 4}" height="${bottom - top + 4}"/>`;
  svg.scrollIntoView({block: 'center'}); svg.focus({preventScroll: true});
});

function csv() {
  const lines = ['rank,lane,what,micro_batch,start_ns,end_ns'];
  rows.forEach((row, r) => row.forEach((lane, l) => lane.start.forEach((start, i) => lines.push(
    [`"${data.shown.rows[r].name}"`, KEYS[l], `"${NAMES[l][lane.kind[i]]}"`, batches(lane.tag[i]).join('+'), start, lane.end[i]].join(',')))));
  return lines.join('\n') + '\n';
}
on('in', () => around((a + b) / 2, 0.5)); on('out', () => around((a + b) / 2, 2)); on('all', () => zoom(0, step));
on('left', () => { const d = Math.min(a, (b - a) / 2); zoom(a - d, b - d); });
on('right', () => { const d = Math.min(step - b, (b - a) / 2); zoom(a + d, b + d); });
on('csv', () => save('timeline.csv', 'text/csv', csv()));
fit();
addEventListener('resize', () => fit()); addEventListener('beforeprint', () => fit(true)); addEventListener('afterprint', () => fit());
