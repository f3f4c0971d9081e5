// A question of one's own: a name, files that are dropped, chosen or pasted, and a machine.
import {byId, el} from './dom.js';
import {Fault, Stopped} from './engine.js';
import {candidates, placeIn} from './complete.js';
import {planName, setsOf} from './question.js';

/** Files of more bytes are refused: no script and no configuration is as long. */
const LONGEST = 4 << 20;
/** A name by which the library takes a text for a file. */
const isFileName = (name) => /^[./]|\.(json|sh|toml|ya?ml|py)$/.test(name);

const isMachine = (text) => /"(fabric|scale_up|nodes)"\s*:/.test(text) && !/"model"\s*:/.test(text);
/** Whether a text is an order of passes: the passes of each rank as one text. */
const isOrder = (text) => /^\s*\{[^[\]]*"ranks"\s*:\s*\[\s*"/.test(text);

export class Own {
  #engine; #ask; #set; #working; #schemas = {}; #files = {};

  /** `ask` takes a question, `set` more settings for the present one. */
  constructor(engine, schemas, {ask, set, working}) {
    schemas.then((schemas) => { this.#schemas = schemas; });
    this.#engine = engine; this.#ask = ask; this.#set = set; this.#working = working;
    this.#listen();
  }

  complete({models, workloads, machines, devices}) {
    const options = (entries) => entries.map(({name, about}) => el('option', {value: name}, about.slice(0, 60)));
    byId('models').replaceChildren(...options([...models, ...workloads]));
    byId('machines').replaceChildren(...options([...devices, ...machines]));
  }

  /** Fills the form with what was asked. */
  show(asked, files) {
    const mine = asked ? Object.fromEntries(Object.entries(files).filter(([name]) => asked.words.includes(name) || asked.on === name)) : {};
    this.#files = mine;
    byId('words').value = asked?.words.find((word) => !(word in mine)) ?? '';
    const counted = /^(\d+) ?(?:x|×| of )(.+)$/.exec(asked?.on ?? '');
    if (asked?.on) { byId('count').value = counted?.[1] ?? ''; byId('machine').value = counted?.[2] ?? asked.on; }
    for (const id of ['batch', 'sequence']) byId(id).value = asked?.[id] ?? '';
    byId('search').checked = Boolean(asked?.search);
    this.#list();
  }

  /** Files that were added: settings may name them too. */
  get files() { return this.#files; }

  /** What the form asks. */
  asked() {
    const typed = byId('words').value.trim(), number = (id) => byId(id).value ? Number(byId(id).value) : null;
    const machine = byId('machine').value.trim(), devices = number('count');
    const files = Object.keys(this.#files).filter((name) => name !== machine && !typed.split(' ').includes(name) && !isOrder(this.#files[name]));
    return {words: [...files, ...(typed ? [typed] : [])], on: machine && devices ? `${devices}x${machine}` : machine || null,
      batch: number('batch'), sequence: number('sequence'), search: byId('search').checked};
  }

  async plan() {
    const asked = this.asked();
    this.#wrong('');
    if (!asked.words.length) return this.#wrong('name a model, or add a file');
    const done = this.#working('looking for a layout');
    try {
      const understood = await this.#engine.json({ask: 'plan', ...asked, files: this.#files}, done.progress);
      const workload = planName(asked.words[0]), {machine_sets, fields, not_understood, proposal} = understood;
      this.#ask({
        workload, on: null, files: {...this.#files, [workload]: `${JSON.stringify(understood.workload, null, 2)}\n`},
        sets: setsOf(machine_sets),
        plan: {...asked, understood: {not_understood, proposal, fields: fields.map(({from, why}) => ({from, why}))}},
      });
    } catch (error) {
      if (!(error instanceof Stopped)) this.#wrong(error instanceof Fault ? error.message : String(error));
    } finally { done(); }
  }

  async add(list) {
    for (const file of list) {
      if (file.size > LONGEST) { this.#wrong(`${file.name}: is larger than ${LONGEST >> 20} MiB, which no script is`); continue; }
      this.#added(file.name, await file.text());
    }
  }
  #added(name, text) {
    const called = isFileName(name) ? name : `./${name}`;
    this.#files = {...this.#files, [called]: text};
    // A machine of one's own stands where machines are named.
    if (isMachine(text)) { byId('machine').value = called; byId('count').value = ''; }
    this.#list();
  }
  #list() {
    const drop = (name) => () => { const {[name]: _, ...rest} = this.#files; this.#files = rest; this.#list(); };
    const play = (name) => () => this.#set({'parallelism.pipeline.schedule': 'file', 'parallelism.pipeline.order_file': name});
    byId('dropped').replaceChildren(...Object.entries(this.#files).map(([name, text]) => el('li', {}, name, ' ',
      isOrder(text) && el('button', {type: 'button', className: 'small', onclick: play(name)}, 'play in this order'), ' ',
      el('button', {type: 'button', className: 'small', 'aria-label': `leave out ${name}`, onclick: drop(name)}, '×'))));
  }
  /** Under the text what may stand at the cursor; a press writes it there. */
  #suggest() {
    const at = byId('paste-text'), schema = this.#schemas[byId('paste-name').value.replace(/^.*\/|\.json$/g, '')];
    const place = placeIn(at.value.slice(0, at.selectionStart));
    const found = schema && at.value.trim() ? candidates(schema, place).slice(0, 24) : [];
    const write = (value) => () => {
      const start = at.value.slice(0, at.selectionStart).replace(/"?\w*$/, ''), text = place.isKey ? `"${value}": ` : JSON.stringify(value);
      at.setRangeText(text, start.length, at.selectionStart, 'end');
      at.focus(); this.#suggest();
    };
    byId('suggested').replaceChildren(...found.map(([value, about]) => el('button', {type: 'button', className: 'small', title: about, onclick: write(value)}, String(value))));
  }
  #wrong(message) { byId('wrong').textContent = message; }

  #listen() {
    byId('files').onchange = ({target}) => { this.add(target.files); target.value = ''; };
    byId('paste').onclick = () => { byId('pasted').hidden = !byId('pasted').hidden; byId('paste-text').focus(); };
    byId('paste-add').onclick = () => {
      if (byId('paste-text').value.trim()) this.#added(byId('paste-name').value.trim() || 'config.json', byId('paste-text').value);
      byId('pasted').hidden = true; byId('paste-text').value = '';
    };
    byId('paste-kind').onchange = ({target}) => { byId('paste-name').value = target.value; this.#suggest(); };
    for (const event of ['input', 'keyup', 'click']) byId('paste-text').addEventListener(event, () => this.#suggest());
    let over = 0;
    const hover = (by) => (event) => { event.preventDefault(); over += by; document.body.classList.toggle('over', over > 0); };
    addEventListener('dragenter', hover(1)); addEventListener('dragleave', hover(-1));
    addEventListener('dragover', (event) => event.preventDefault());
    addEventListener('drop', (event) => { event.preventDefault(); over = 0; document.body.classList.remove('over'); this.add(event.dataTransfer.files); });
  }
}
