// A question: what is to be played, the link that carries it, and the command line that does the same.

/** A shipped workload with settings. */
export const preset = (workload, sets = {}) => ({workload, on: null, files: {}, sets, plan: null});

/** The step as the library takes it. */
export function step({workload, on, files, sets}) {
  const settings = settingsOf(sets);
  return {workload, on, files, sets: settings, command: ['stepsim', ...runWords({workload, on, sets})]};
}

/** `path=value` texts. */
export const settingsOf = (sets) => Object.entries(sets).map(([path, value]) => `${path}=${value}`);

/** Settings of `path=value` texts. */
export const setsOf = (texts) => Object.fromEntries(texts.map((set) => set.split(/=(.*)/s).slice(0, 2)));

const runWords = ({workload, on, sets}) =>
  ['run', workload, ...(on ? ['-t', on] : []), ...settingsOf(sets).flatMap((set) => ['--set', set])];

/** The words of `stepsim plan` for what was asked. */
const planWords = ({words, on, batch, sequence, stack, search}) => [
  'plan', ...words, ...(on ? ['--on', on] : []), ...(batch ? ['--batch', String(batch)] : []),
  ...(sequence ? ['--sequence', String(sequence)] : []), ...(stack ? ['--stack', stack] : []), ...(search ? ['--search'] : []),
];

/** The lines to type; what was planned has been written by the first. */
export function commandLines(question) {
  const lines = [question.plan && [...planWords(question.plan), '-o', question.workload], runWords(question)];
  return lines.filter(Boolean).map((words) => ['stepsim', ...words].map(quoted).join(' '));
}

/** A word as a shell takes it. */
export const quoted = (word) => /^[\w\-./=:,+@%]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;

/** The question as a text for the fragment of a link: nothing is sent anywhere. */
export async function packed(question) {
  const stream = new Blob([JSON.stringify(question)]).stream().pipeThrough(new CompressionStream('deflate-raw'));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** The longest question that a link may carry, in bytes: a link can hold a text that grows a thousand times. */
const LONGEST = 4 << 20;

/** The question of a text, or an error in words. */
export async function unpacked(text) {
  const broken = () => new Error('the link is broken: it was cut, or is of another program');
  let bytes, question;
  try {
    bytes = Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw')).getReader();
    const parts = [];
    for (let all = 0, part; !(part = await reader.read()).done; parts.push(part.value)) {
      if ((all += part.value.length) > LONGEST) throw broken();
    }
    question = JSON.parse(await new Blob(parts).text());
  } catch { throw broken(); }
  if (!isQuestion(question)) throw broken();
  return question;
}

const isText = (value) => typeof value === 'string';
const isTexts = (value) => value !== null && typeof value === 'object' && !Array.isArray(value) && Object.values(value).every(isText);
const orNone = (is) => (value) => value === null || value === undefined || is(value);
const isProposal = (it) => isText(it.gives_up) && Number.isFinite(it.step_s) && Array.isArray(it.sets) && it.sets.every(isText);
const isUnderstood = (it) => Array.isArray(it.not_understood) && it.not_understood.every(isText) && orNone(isProposal)(it.proposal) &&
  Array.isArray(it.fields) && it.fields.every((field) => isText(field?.from) && isText(field?.why));
const isPlan = (plan) => Array.isArray(plan.words) && plan.words.every(isText) && [plan.on, plan.stack].every(orNone(isText)) &&
  [plan.batch, plan.sequence].every(orNone(Number.isFinite)) && orNone(isUnderstood)(plan.understood);
const isQuestion = (q) => q !== null && typeof q === 'object' && isText(q.workload) && orNone(isText)(q.on) && isTexts(q.files) &&
  isTexts(q.sets) && orNone(isPlan)(q.plan) && orNone(Number.isFinite)(q.tokens);

/** The name of the workload that a plan writes, from its first word. */
export function planName(word) {
  const file = word.split('.py:')[0].split('/').pop();
  return `${(file.replace(/\.[^.]*$/, '') || 'workload').toLowerCase().replaceAll(/\s/g, '-')}.plan.json`;
}
