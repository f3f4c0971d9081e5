// Completion of JSON while it is typed: which fields may stand at the cursor, by the schema of the file.

const TOKEN = /"(?:[^"\\]|\\.)*"?|[{}[\]:,]|[^\s{}[\]:,"]+/g;

/** Where in a JSON text its end lies: the keys that lead there, what has been typed of the next word, and whether that is a key. */
export function placeIn(text) {
  const open = [];
  let last = '', word = '';
  for (const [token] of text.matchAll(TOKEN)) {
    const top = open.at(-1);
    word = '';
    if (token === '{' || token === '[') open.push({array: token === '[', key: null});
    else if (token === '}' || token === ']') open.pop();
    else if (token === ':' && top) top.key = last;
    else if (token === ',' && top && !top.array) top.key = null;
    else { last = token.replace(/^"|"$/g, ''); word = /^"[^"]*"$/.test(token) ? '' : last; }
  }
  const top = open.at(-1), isKey = Boolean(top) && !top.array && top.key === null;
  return {path: open.map(({array, key}) => array ? 0 : key).filter((key) => key !== null), word, isKey};
}

/** All that a schema may mean: itself and its variants, references followed. */
function meanings(schema, whole, deep = 0) {
  if (!schema || deep > 8) return [];
  const more = [schema.$ref && whole.$defs[schema.$ref.split('/').pop()], ...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.allOf ?? [])];
  return [schema, ...more.filter(Boolean).flatMap((other) => meanings(other, whole, deep + 1))];
}
const inside = (key) => (schema) => key === 0 ? schema.items : schema.properties?.[key] ?? (typeof schema.additionalProperties === 'object' ? schema.additionalProperties : null);

/** What may stand at a place: names with what they mean. */
export function candidates(whole, {path, word, isKey}) {
  let now = meanings(whole, whole);
  for (const key of path) now = now.map(inside(key)).filter(Boolean).flatMap((schema) => meanings(schema, whole));
  const about = (schema) => (meanings(schema, whole).find(({description}) => description)?.description ?? '').split('\n')[0];
  const found = isKey ? now.flatMap(({properties}) => Object.entries(properties ?? {}).map(([name, schema]) => [name, about(schema)]))
    : now.flatMap((schema) => [...(schema.enum ?? []), ...('const' in schema ? [schema.const] : []), ...(schema.type === 'boolean' ? [true, false] : [])].map((value) => [value, schema.description ?? '']));
  const unique = new Map(found.filter(([name]) => String(name).startsWith(word)));
  return [...unique].sort(([a], [b]) => String(a).localeCompare(String(b)));
}

/** All paths of a schema down to a depth, for fields that have no control of their own. */
export function paths(whole, prefix = '', depth = 4) {
  const walk = (schema, at, left) => left === 0 ? [] : meanings(schema, whole).flatMap(({properties}) =>
    Object.entries(properties ?? {}).flatMap(([name, of]) => [`${at}${name}`, ...walk(of, `${at}${name}.`, left - 1)]));
  return [...new Set(walk(whole, prefix, depth))];
}
