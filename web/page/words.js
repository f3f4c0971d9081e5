// Numbers as people read them.

const digits = (value, decimals) => value.toLocaleString('en', {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
export const count = (value) => digits(Math.round(value), 0);
export const percent = (part) => `${digits(100 * part, 1)} %`;
export const change = (from, to) => {
  const part = to / from - 1;
  return Math.abs(part) < 5e-5 ? '±0 %' : `${part < 0 ? '−' : '+'}${digits(Math.abs(100 * part), Math.abs(part) < 0.1 ? 2 : 1)} %`;
};
export const gib = (bytes) => `${digits(bytes / 2 ** 30, 1)} GiB`;
export function seconds(value) {
  if (value === 0) return '0';
  const [by, unit] = value >= 1 ? [1, 's'] : value >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return `${digits(value * by, value * by < 100 ? 3 : 1)} ${unit}`;
}
export const dollars = (value) => `$${value < 100 ? digits(value, 2) : count(value)}`;
/** Days, or hours of less than two. */
export const days = (value) => value < 2 ? `${digits(24 * value, 1)} hours` : `${value < 100 ? digits(value, 1) : count(value)} days`;
