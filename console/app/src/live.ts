// The figures of the last hour: the history once, then each second as it comes.

export const span = 3600;

export interface Sample {
  t: number;
  values: Record<string, number | null>;
  commands: Record<string, (number | null)[]>;
}

export type Column = (number | null)[];

const parts = ['', ':p50', ':p99', ':p999'];

/** A table of columns by name, a row for each second. */
export class Series {
  times: number[] = [];
  columns = new Map<string, Column>();

  /** Reads an answer of api/history: a line of JSON, then columns of float32. */
  load(buffer: ArrayBuffer): void {
    const raw = new Uint8Array(buffer);
    const end = raw.indexOf(10);
    const head = JSON.parse(new TextDecoder().decode(raw.subarray(0, end))) as { from: number; count: number; names: string[] };
    const view = new DataView(buffer, end + 1);
    this.times = Array.from({ length: head.count }, (_, i) => head.from + i);
    this.columns.clear();
    head.names.forEach((name, c) => {
      const column: Column = new Array(head.count);
      for (let i = 0; i < head.count; i++) {
        const v = view.getFloat32(4 * (c * head.count + i), true);
        column[i] = Number.isFinite(v) ? v : null;
      }
      this.columns.set(name, column);
    });
  }

  /** Adds a second. Seconds that are missing before it become empty rows. */
  add(s: Sample): void {
    const last = this.times.at(-1);
    if (last !== undefined && s.t <= last) return;
    const from = last === undefined ? s.t : Math.max(last + 1, s.t - span + 1);
    for (let t = from; t <= s.t; t++) {
      this.times.push(t);
      for (const c of this.columns.values()) c.push(null);
    }
    const set = (name: string, v: number | null) => {
      let c = this.columns.get(name);
      if (!c) {
        c = new Array(this.times.length).fill(null) as Column;
        this.columns.set(name, c);
      }
      c[c.length - 1] = v;
    };
    for (const [name, v] of Object.entries(s.values)) set(name, v);
    for (const [name, four] of Object.entries(s.commands)) parts.forEach((p, i) => set(`command:${name}${p}`, four[i] ?? null));
    const extra = this.times.length - span;
    if (extra > 0) {
      this.times.splice(0, extra);
      for (const c of this.columns.values()) c.splice(0, extra);
    }
  }

  column(name: string): Column {
    return this.columns.get(name) ?? [];
  }

  /** The value of the newest second. */
  last(name: string): number | null {
    return this.columns.get(name)?.at(-1) ?? null;
  }

  /** Calls of the commands in the newest seconds, the most called first. */
  commands(seconds: number): { name: string; calls: number }[] {
    const out: { name: string; calls: number }[] = [];
    for (const [name, c] of this.columns) {
      if (!name.startsWith('command:') || /:p(50|99|999)$/.test(name)) continue;
      const calls = c.slice(-seconds).reduce<number>((a, v) => a + (v ?? 0), 0);
      if (calls > 0) out.push({ name: name.slice(8), calls });
    }
    return out.sort((a, b) => b.calls - a.calls);
  }

  /** The largest value of the newest seconds. */
  most(name: string, seconds: number): number | null {
    let m: number | null = null;
    for (const v of this.column(name).slice(-seconds)) if (v !== null && (m === null || v > m)) m = v;
    return m;
  }
}

/** Nothing older than this many milliseconds is shown as live. */
export const fresh = 5000;

type Status = 'waiting' | 'live' | 'stale' | 'refused';

/** Follows the server while somebody listens. */
class Live {
  series = new Series();
  arrived = 0;
  status: Status = 'waiting';
  problem = '';
  private source: EventSource | null = null;
  private timer = 0;
  private retry = 0;
  private listeners = new Set<() => void>();

  subscribe(f: () => void): () => void {
    this.listeners.add(f);
    if (this.listeners.size === 1) void this.open();
    return () => {
      this.listeners.delete(f);
      if (this.listeners.size === 0) this.close();
    };
  }

  private tell(): void {
    for (const f of this.listeners) f();
  }

  private async open(): Promise<void> {
    clearInterval(this.timer);
    this.timer = window.setInterval(() => this.check(), 500);
    try {
      const res = await fetch('api/history', { credentials: 'same-origin' });
      if (!res.ok) {
        this.problem = String((await res.json().catch(() => ({}))).error ?? res.statusText);
        this.status = res.status === 403 ? 'refused' : 'stale';
        this.tell();
        if (res.status !== 403) this.again();
        return;
      }
      this.series.load(await res.arrayBuffer());
    } catch {
      this.status = 'stale';
      this.problem = 'The server does not answer.';
      this.tell();
      this.again();
      return;
    }
    if (this.listeners.size === 0) return;
    this.source?.close();
    const source = new EventSource('api/live');
    this.source = source;
    source.addEventListener('sample', (e) => {
      this.series.add(JSON.parse((e as MessageEvent<string>).data) as Sample);
      this.arrived = Date.now();
      this.status = 'live';
      this.problem = '';
      this.tell();
    });
    source.addEventListener('over', () => this.close());
    source.onerror = () => {
      source.close();
      this.again();
    };
  }

  private again(): void {
    clearTimeout(this.retry);
    if (this.listeners.size > 0) this.retry = window.setTimeout(() => void this.open(), 2000);
  }

  private check(): void {
    if (this.status === 'live' && Date.now() - this.arrived > fresh) {
      this.status = 'stale';
      this.problem ||= 'No figures come from the server.';
    }
    if (this.status === 'stale') this.tell();
  }

  private close(): void {
    clearInterval(this.timer);
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
    this.status = 'waiting';
  }
}

export const live = new Live();
