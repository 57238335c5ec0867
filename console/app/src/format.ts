// Numbers as people read them.

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

export function bytes(n: number | null | undefined): string {
  if (n == null || !isFinite(n)) return '–';
  let u = 0;
  let v = Math.abs(n);
  while (v >= 1024 && u < units.length - 1) {
    v /= 1024;
    u++;
  }
  return (n < 0 ? '−' : '') + (u === 0 ? v.toFixed(0) : digits(v)) + ' ' + units[u];
}

/** Three significant digits, no more. */
function digits(v: number): string {
  return v >= 100 ? v.toFixed(0) : v >= 10 ? v.toFixed(1) : v.toFixed(2);
}

export function count(n: number | null | undefined): string {
  if (n == null || !isFinite(n)) return '–';
  const v = Math.abs(n);
  if (v >= 1e9) return digits(n / 1e9) + ' G';
  if (v >= 1e6) return digits(n / 1e6) + ' M';
  if (v >= 1e4) return digits(n / 1e3) + ' k';
  if (v >= 1000 || Number.isInteger(n)) return Math.round(n).toLocaleString('en-US');
  return v >= 100 ? n.toFixed(0) : v >= 1 ? n.toFixed(1) : n.toFixed(2);
}

export const whole = (n: number): string => (isFinite(n) ? Math.round(n).toLocaleString('en-US') : '–');

/** A duration that is given in microseconds. */
export function micros(n: number | null | undefined): string {
  if (n == null || !isFinite(n)) return '–';
  if (n < 1000) return (n < 10 && n > 0 ? n.toFixed(1) : n.toFixed(0)) + ' µs';
  if (n < 1e6) return digits(n / 1e3) + ' ms';
  return digits(n / 1e6) + ' s';
}

/** A duration that is given in milliseconds, in two units at the most. */
export function span(ms: number): string {
  if (!isFinite(ms)) return '–';
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  const s = Math.floor(ms / 1000);
  const parts: [number, string][] = [[Math.floor(s / 86400), 'd'], [Math.floor(s / 3600) % 24, 'h'], [Math.floor(s / 60) % 60, 'm'], [s % 60, 's']];
  const from = parts.findIndex(([n]) => n > 0);
  return parts.slice(from, from + 2).filter(([n], i) => n > 0 || i === 0).map(([n, u]) => `${n} ${u}`).join(' ');
}

export const percent = (v: number): string => (isFinite(v) ? (100 * v).toFixed(v > 0.995 && v < 1 ? 2 : 1) + ' %' : '–');

export function clock(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString('en-GB');
}

/** A day and a time, without the day if it is today. */
export function when(ms: number, now = Date.now()): string {
  const d = new Date(ms);
  const time = d.toLocaleTimeString('en-GB');
  return new Date(now).toDateString() === d.toDateString() ? time : `${d.toISOString().slice(0, 10)} ${time}`;
}
