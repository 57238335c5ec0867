// Replies of the server as JSON, and the arguments of commands: see console/reply.go.

/** A text that may have any bytes. */
export type Text = string | { bytes: string };

export type Reply =
  | null | boolean | number | Text | Reply[]
  | { int: string } | { status: string } | { error: string } | { double: string } | { big: string } | { verbatim: string }
  | { map: Reply[] } | { set: Reply[] } | { push: Reply[] };

/** An error reply. */
export class CommandError extends Error {}

const has = <K extends string>(r: Reply, k: K): r is Extract<Reply, Record<K, unknown>> =>
  typeof r === 'object' && r !== null && !Array.isArray(r) && k in r;

export const isError = (r: Reply): r is { error: string } => has(r, 'error');

/** The elements of an array, a set, or a map (keys and values in turn). */
export function list(r: Reply): Reply[] {
  if (Array.isArray(r)) return r;
  if (has(r, 'map')) return r.map;
  if (has(r, 'set')) return r.set;
  if (has(r, 'push')) return r.push;
  return [];
}

/** A reply as pairs. */
export function pairs(r: Reply): [Reply, Reply][] {
  const all = list(r);
  if (Array.isArray(r) && all.length > 0 && all.every((p) => Array.isArray(p) && p.length === 2)) return all as [Reply, Reply][];
  const out: [Reply, Reply][] = [];
  for (let i = 0; i + 1 < all.length; i += 2) out.push([all[i]!, all[i + 1]!]);
  return out;
}

/** A map whose keys are texts. */
export function record(r: Reply): Record<string, Reply> {
  return Object.fromEntries(pairs(r).map(([k, v]) => [str(k), v]));
}

/** A reply as a printable text. */
export function str(r: Reply | undefined): string {
  if (r === null || r === undefined) return '';
  if (typeof r === 'string') return r;
  if (typeof r === 'number' || typeof r === 'boolean') return String(r);
  if (Array.isArray(r)) return r.map(str).join(' ');
  for (const k of ['int', 'status', 'error', 'double', 'big', 'verbatim'] as const) if (has(r, k)) return String((r as Record<string, unknown>)[k]);
  if (has(r, 'bytes')) return escapeBytes(fromBase64(r.bytes));
  return list(r).map(str).join(' ');
}

export function num(r: Reply | undefined): number {
  if (typeof r === 'number') return r;
  const s = str(r ?? null);
  return s === '' ? NaN : s === 'inf' ? Infinity : s === '-inf' ? -Infinity : Number(s);
}

/** A reply as an argument of another command. */
export function text(r: Reply): Text {
  return typeof r === 'string' ? r : has(r, 'bytes') ? { bytes: r.bytes } : str(r);
}

/** What identifies a text in maps and lists. */
export const id = (t: Text): string => (typeof t === 'string' ? 's' + t : 'b' + t.bytes);

export function fromBase64(b: string): Uint8Array {
  const raw = atob(b);
  const out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

export function toBase64(b: Uint8Array): string {
  let raw = '';
  for (let i = 0; i < b.length; i += 8192) raw += String.fromCharCode(...b.subarray(i, i + 8192));
  return btoa(raw);
}

export const bytesOf = (t: Text): Uint8Array => (typeof t === 'string' ? new TextEncoder().encode(t) : fromBase64(t.bytes));

/** Bytes as an argument: a string if they are UTF-8. */
export function textOf(b: Uint8Array): Text {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(b);
  } catch {
    return { bytes: toBase64(b) };
  }
}

/** Bytes as the terminal writes them: \xff for what is not printable. */
export function escapeBytes(b: Uint8Array): string {
  let out = '';
  for (const c of b) {
    if (c === 0x5c || c === 0x22) out += '\\' + String.fromCharCode(c);
    else if (c === 0x0a) out += '\\n';
    else if (c === 0x0d) out += '\\r';
    else if (c === 0x09) out += '\\t';
    else if (c >= 0x20 && c < 0x7f) out += String.fromCharCode(c);
    else out += '\\x' + c.toString(16).padStart(2, '0');
  }
  return out;
}

const simple: Record<string, number> = { n: 10, r: 13, t: 9, b: 8, a: 7 };

/**
 * Splits a line into arguments as redis-cli does: words, "..." with escapes, '...' without.
 * It returns null if a quote is not closed, or is followed by something else than a space.
 */
export function split(line: string): Text[] | null {
  const out: Text[] = [];
  const enc = new TextEncoder();
  for (let i = 0; ; ) {
    while (i < line.length && /\s/.test(line[i]!)) i++;
    if (i >= line.length) return out;
    const bytes: number[] = [];
    let quote = '';
    for (; i < line.length; ) {
      const point = line.codePointAt(i)!;
      const c = String.fromCodePoint(point);
      if (quote === '' && /\s/.test(c)) break;
      if (quote === '' && bytes.length === 0 && (c === '"' || c === "'")) {
        quote = c;
        i++;
        const close = consume();
        if (close < 0) return null;
        i = close + 1;
        if (i < line.length && !/\s/.test(line[i]!)) return null;
        break;
      }
      bytes.push(...enc.encode(c));
      i += c.length;
    }
    out.push(textOf(Uint8Array.from(bytes)));

    function consume(): number {
      for (let j = i; j < line.length; ) {
        const c = String.fromCodePoint(line.codePointAt(j)!);
        if (c === quote) return j;
        if (c === '\\' && quote === "'" && line[j + 1] === "'") {
          bytes.push(39);
          j += 2;
        } else if (c === '\\' && quote === '"' && j + 1 < line.length) {
          const hex = /^x([0-9a-fA-F]{2})/.exec(line.slice(j + 1, j + 4));
          if (hex) {
            bytes.push(parseInt(hex[1]!, 16));
            j += 4;
          } else {
            const next = line[j + 1]!;
            bytes.push(...(next in simple ? [simple[next]!] : enc.encode(next)));
            j += 2;
          }
        } else {
          bytes.push(...enc.encode(c));
          j += c.length;
        }
      }
      return -1;
    }
  }
}
