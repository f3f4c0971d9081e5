// Controls of the fields of a step. One that is being moved stays where it is while its neighbours come and go.
import {el} from './dom.js';
import {fields} from './fields.js';

let made = 0;

/** A label with what is entered, its reset, and a place for what is wrong with it. */
class Control {
  constructor(field, input, onReset, extra) {
    const id = `field-${++made}`;
    this.path = field.path; this.kind = field.kind; this.input = input; input.id = id;
    input.setAttribute('aria-describedby', `${id}-wrong`);
    this.value = el('output', {for: id});
    this.reset = el('button', {type: 'button', className: 'small', title: 'as it was', 'aria-label': `${field.label}: as it was`, onclick: onReset, hidden: true}, '↺');
    this.wrong = el('p', {id: `${id}-wrong`, className: 'wrong'});
    this.root = el('div', {className: 'field', 'data-path': field.path}, el('div', {className: 'head'}, el('label', {for: id}, field.label), this.value, this.reset, extra), input, this.wrong);
  }
  fault(fault) {
    this.input.setAttribute('aria-invalid', String(Boolean(fault)));
    this.wrong.textContent = fault ? [fault.value && `${fault.value} is not allowed`, fault.allowed && `allowed: ${fault.allowed}`, fault.hint].filter(Boolean).join('; ') || fault.message : '';
  }
}

const KINDS = {
  scale(field, change, curve) {
    const input = el('input', {type: 'range', min: '0', step: '1'});
    const drawn = el('button', {type: 'button', className: 'small', title: 'draw the step over it', 'aria-label': `draw the step over ${field.label}`}, '∿');
    const control = new Control(field, input, () => change(null), drawn);
    const said = () => `${control.field.values[input.value]} ${control.field.unit}`.trim();
    const tell = () => { control.value.textContent = said(); input.setAttribute('aria-valuetext', said()); };
    input.oninput = () => { tell(); change(control.field.values[input.value]); };
    drawn.onclick = () => curve(control.field);
    control.show = (now) => {
      control.field = now;
      input.max = String(now.values.length - 1);
      input.value = String(now.values.indexOf(now.value));
      tell();
    };
    return control;
  },
  choice(field, change) {
    const input = el('select');
    const control = new Control(field, input, () => change(null));
    input.onchange = () => change(input.value);
    control.show = ({value, values}) => {
      const all = values.some(([name]) => name === value) ? values : [[value, ''], ...values];
      if (input.options.length !== all.length) input.replaceChildren(...all.map(([name, about]) => el('option', {value: name, title: about}, about ? `${name}: ${about}` : name || 'not stated')));
      input.value = value;
    };
    return control;
  },
  number(field, change) {
    const input = el('input', {type: 'number', min: '1', inputMode: 'numeric'});
    const control = new Control(field, input, () => change(null));
    input.oninput = () => { if (input.value) change(Number(input.value)); };
    control.show = ({value}) => { if (Number(input.value) !== value) input.value = String(value); };
    return control;
  },
};

export class Fields {
  #place; #set; #forget; #curve; #controls = new Map(); #groups = new Map(); #stated = new Map();
  groups = [];

  constructor(place, set, forget, curve) { this.#place = place; this.#set = set; this.#forget = forget; this.#curve = curve; }

  /** Another step: what was stated of links is forgotten. */
  restart() { this.#stated.clear(); }

  show(figures, known, sets) {
    this.groups = fields(figures, known, this.#stated);
    const groups = this.groups.map(([title, list]) => {
      const group = this.#group(title);
      placed(group, list.map((field) => {
        const control = this.#control(field);
        if (document.activeElement !== control.input || control.kind !== 'scale' || !control.field) control.show(field); else control.field = {...field, values: control.field.values};
        control.reset.hidden = !(field.path in sets);
        return control.root;
      }), 1);
      return group;
    });
    placed(this.#place, groups, 0);
  }
  fault(fault) {
    for (const control of this.#controls.values()) control.fault(fault?.path && control.path === fault.path ? fault : null);
  }

  #group(title) {
    if (!this.#groups.has(title)) this.#groups.set(title, el('fieldset', {}, el('legend', {}, title)));
    return this.#groups.get(title);
  }
  #control(field) {
    if (!this.#controls.has(field.path)) {
      const change = (value) => value === null ? this.#forget(field.path) : this.#set(field.path, value);
      this.#controls.set(field.path, KINDS[field.kind](field, change, this.#curve));
    }
    return this.#controls.get(field.path);
  }
}

/** Puts children in place behind the first `kept`, without touching those that are there: a slider that is held stays held. */
function placed(parent, children, kept) {
  for (const child of [...parent.children].slice(kept)) if (!children.includes(child)) child.remove();
  children.forEach((child, i) => { if (parent.children[kept + i] !== child) parent.insertBefore(child, parent.children[kept + i] ?? null); });
}
