// Elements from texts: never from markup, for names come from files and links of anybody.

/** An element with properties (`aria-…` and `data-…` as attributes) and children. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes('-') || name === 'for' || name === 'role') element.setAttribute(name, value); else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
export const byId = (id) => document.getElementById(id);

const SVG = 'http://www.w3.org/2000/svg';
/** The same of a drawing. */
export function shape(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A table with a heading for each column; cells are texts or elements, those from the `words`-th on numbers. */
export function table(heads, rows, words = 1) {
  const cell = (tag) => (content, i) => el(tag, i >= words ? {className: 'n'} : {}, content);
  return el('table', {}, el('thead', {}, el('tr', {}, ...heads.map(cell('th')))), el('tbody', {}, ...rows.map((row) => el('tr', {}, ...row.map(cell('td'))))));
}
