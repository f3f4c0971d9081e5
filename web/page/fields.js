// The fields that the page has controls for: each with its path, its value now and what else it could be.

/** A field with few values, chosen from a list. */
const choice = (path, label, value, values) => ({kind: 'choice', path, label, value, values});
/** A field with a scale of values, moved by a slider. */
const scale = (path, label, value, values, unit = '') =>
  ({kind: 'scale', path, label, value, values: [...new Set([...values, value])].sort((a, b) => a - b), unit});
/** A field with any whole number. */
const number = (path, label, value) => ({kind: 'number', path, label, value});

const divisors = (n, most) => Array.from({length: Math.min(n, most)}, (_, i) => i + 1).filter((d) => n % d === 0);
const doubled = (from, to) => Array.from({length: Math.log2(to / from) + 1}, (_, i) => from * 2 ** i);
const names = (entries) => entries.map((entry) => [entry.name, entry.about]);
const plain = (...values) => values.map((value) => [value, '']);

/** Where a machine says how fast a class of links is. */
function linkPaths(machine) {
  const node = machine.node ?? {}, kind = Object.keys(node.scale_up ?? {}).find((key) => node.scale_up[key]?.link);
  const links = [[`node.scale_up.${kind}`, 'links within a node', node.scale_up?.[kind]], ['node.nics', 'network of a device', node.nics],
    ['node.host', 'link to the host', node.host], ['sites', 'link between sites', machine.sites]];
  for (const [i, tier] of (node.memory ?? []).entries()) links.push([`node.memory[${i}]`, `memory tier “${tier.name}”`, tier]);
  return links.filter(([, , at]) => at?.link?.bandwidth_GBps_per_direction);
}
const bandwidths = (machine, stated) => linkPaths(machine).map(([at, label, {link}]) => {
  const path = `topology.${at}.link.bandwidth_GBps_per_direction`, now = link.bandwidth_GBps_per_direction;
  const first = stated.get(path) ?? (stated.set(path, now), now);
  return scale(path, label, now, doubled(1 / 16, 16).map((factor) => Number((first * factor).toPrecision(4))), 'GB/s');
});

/** Groups of fields of a step. `stated` keeps the first bandwidth of each link, about which its slider lies. */
export function fields({workload: w, machine, report}, known, stated) {
  const p = w.parallelism, devices = report.devices, experts = w.model.moe?.experts;
  const name = (value) => typeof value === 'string' ? value : Object.keys(value ?? {})[0] ?? '';
  // A stack is known by what it says of itself: its name is that of its file.
  const schedule = name(p.pipeline.schedule), stack = known.stacks.find(({about}) => about && about === w.stack?.description)?.name ?? '';
  const offloads = ['weights', 'gradients', 'optimizer', 'activations'].some((what) => w.offload?.[what]?.length);
  const groups = [
    ['Layout', [
      scale('parallelism.tensor', 'tensor parallel', p.tensor, divisors(devices, 64)),
      scale('parallelism.pipeline.size', 'pipeline stages', p.pipeline.size, divisors(devices, 64)),
      scale('parallelism.context.size', 'context parallel', p.context.size, divisors(devices, 64)),
      experts && scale('parallelism.expert', 'expert parallel', p.expert, divisors(experts, 512).filter((d) => devices % d === 0)),
      choice('parallelism.sharding.kind', 'sharding', name(p.sharding.kind), names(known.shardings)),
    ]],
    ['Batch', [
      scale('batch.micro_batch', 'micro-batch', w.batch.micro_batch, doubled(1, 64)),
      number('batch.global', 'sequences of a step', w.batch.global),
      number('sequence', 'tokens of a sequence', w.sequence ?? w.model.sequence),
      choice('recompute.granularity', 'recomputation', w.recompute.granularity, plain('none', 'selective', 'full')),
    ]],
    ['Order', [
      p.pipeline.size > 1 && choice('parallelism.pipeline.schedule', 'schedule', schedule, names(known.schedules.filter((s) => s.name !== 'file'))),
      p.pipeline.size > 1 && scale('parallelism.pipeline.chunks', 'chunks a rank', p.pipeline.chunks ?? 1, doubled(1, 16)),
      p.context.size > 1 && choice('parallelism.context.kind', 'context exchange', name(p.context.kind), plain('ring', 'ulysses', 'all-gather')),
      offloads && scale('offload.prefetch.depth', 'prefetch depth', w.offload.prefetch?.depth ?? 1, [1, 2, 3, 4, 6, 8]),
      choice('stack', 'software', stack, names(known.stacks)),
    ]],
    ['Links', bandwidths(machine, stated)],
  ];
  return groups.map(([title, list]) => [title, list.filter(Boolean)]).filter(([, list]) => list.length);
}

/** Degrees whose product the devices are: the data-parallel rest follows them. */
const DEGREES = ['parallelism.tensor', 'parallelism.pipeline.size', 'parallelism.context.size'];

/** Settings with one more; what follows from a degree is left to follow. */
export function withSetting(sets, path, value) {
  const more = {...sets, [path]: String(value)};
  if (DEGREES.includes(path)) more['parallelism.data'] = 'null';
  return more;
}

/** The values that are tried for “what would help”: those beside the present one, and each choice. */
export function others({kind, value, values}) {
  if (kind === 'choice') return values.map(([name]) => name).filter((name) => name !== value);
  if (kind !== 'scale') return [];
  const at = values.indexOf(value);
  return [values[at - 1], values[at + 1]].filter((other) => other !== undefined);
}
