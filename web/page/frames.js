// Pages of the program in frames: each alone in its frame, without the rights of this page.
import {el} from './dom.js';

/** In a frame the figures above it are not said twice. */
const QUIET = '<style>html { overflow: hidden } body { padding: 0 4px 8px !important } h1, .facts, .lead, body > p { display: none }</style></head>';

export class Frames {
  #place; #slots = new Map();

  constructor(place) {
    this.#place = place;
    addEventListener('message', ({source, data}) => {
      for (const {frame, next} of this.#slots.values()) {
        const of = [frame, next].find((one) => one?.contentWindow === source);
        if (of && Number.isFinite(data?.height)) of.style.height = `${Math.min(Math.max(data.height, 100), 20000)}px`;
      }
    });
  }

  /** Shows a page under a name; the one before stays until the new one is drawn. */
  show(name, html) {
    const slot = this.#slots.get(name) ?? this.#slot(name);
    slot.next?.remove();
    const next = el('iframe', {title: name, className: 'next'});
    next.setAttribute('sandbox', 'allow-scripts allow-downloads');
    next.srcdoc = html.replace('</head>', QUIET);
    next.onload = () => {
      next.className = '';
      if (slot.frame) { next.style.height ||= slot.frame.style.height; slot.frame.remove(); }
      slot.frame = next; slot.next = null;
    };
    slot.next = next;
    slot.place.append(next);
  }
  fail(message) { this.show('this step', `<!doctype html><html><head></head><body></body></html>`); this.#slots.get('this step').note.textContent = message; }
  keepOnly(names) {
    for (const [name, slot] of this.#slots) if (!names.includes(name)) { slot.place.remove(); this.#slots.delete(name); }
    this.#titles();
  }
  #slot(name) {
    const note = el('p', {className: 'faint'}), title = el('h3', {}, name);
    const slot = {note, title, place: el('div', {className: 'frame'}, title, note), frame: null, next: null};
    this.#slots.set(name, slot);
    this.#place.append(slot.place);
    this.#titles();
    return slot;
  }
  #titles() { for (const {title} of this.#slots.values()) title.hidden = this.#slots.size < 2; }
}
