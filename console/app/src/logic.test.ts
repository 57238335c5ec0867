import { describe, expect, it } from 'vitest';
import { complete, docOf, readDocs, syntax } from './docs';
import { bytes, count, micros, percent, span } from './format';
import { hex, unhex } from './hex';
import { add, empty, join, rowsOf, type Part } from './keytree';
import { Series, span as kept } from './live';

describe('numbers', () => {
  it.each<[string, string]>([
    [bytes(0), '0 B'], [bytes(1023), '1023 B'], [bytes(1536), '1.50 KB'], [bytes(5 * 2 ** 30), '5.00 GB'], [bytes(null), '–'],
    [count(999), '999'], [count(12345), '12.3 k'], [count(2_500_000), '2.50 M'], [count(0.25), '0.25'], [count(NaN), '–'],
    [micros(0.5), '0.5 µs'], [micros(1500), '1.50 ms'], [micros(2e6), '2.00 s'],
    [span(500), '500 ms'], [span(61_000), '1 m 1 s'], [span(90_000_000), '1 d 1 h'], [span(3_600_000), '1 h'],
    [percent(0.5), '50.0 %'], [percent(0.9999), '99.99 %'],
  ])('%s', (got, want) => expect(got).toBe(want));
  it('reads the hexadecimal digits that it writes', () => {
    const raw = Uint8Array.from({ length: 40 }, (_, i) => (i * 37) & 255);
    expect(unhex(hex(raw))).toEqual(raw);
    expect(unhex('0')).toBeNull();
    expect(unhex('zz')).toBeNull();
  });
});

describe('the last hour', () => {
  const sample = (t: number, ops: number) => ({ t, values: { commands: ops }, commands: { get: [ops, 1, 2, 3] } });
  it('has a row for each second, also for those without figures', () => {
    const s = new Series();
    s.add(sample(100, 1));
    s.add(sample(103, 4));
    s.add(sample(103, 9));
    s.add(sample(90, 9));
    expect(s.times).toEqual([100, 101, 102, 103]);
    expect(s.column('commands')).toEqual([1, null, null, 4]);
    expect(s.column('command:get:p99')).toEqual([2, null, null, 2]);
    expect(s.commands(2)).toEqual([{ name: 'get', calls: 4 }]);
    expect(s.most('commands', 4)).toBe(4);
  });
  it('forgets what is older than an hour', () => {
    const s = new Series();
    for (let t = 1; t <= kept + 50; t++) s.add(sample(t, t));
    s.add({ t: kept + 51, values: { later: 1 }, commands: {} });
    expect(s.times).toHaveLength(kept);
    expect(s.times[0]).toBe(52);
    for (const c of s.columns.values()) expect(c).toHaveLength(kept);
    s.add(sample(10 * kept, 1));
    expect(s.times).toHaveLength(kept);
    expect(s.times.at(-1)).toBe(10 * kept);
  });
  it('reads what the server sends', () => {
    const head = new TextEncoder().encode('{"from":7,"count":2,"names":["a","b"]}\n');
    const raw = new Uint8Array(head.length + 16);
    raw.set(head);
    const view = new DataView(raw.buffer, head.length);
    [1.5, 2, NaN, 4].forEach((v, i) => view.setFloat32(4 * i, v, true));
    const s = new Series();
    s.load(raw.buffer);
    expect(s.times).toEqual([7, 8]);
    expect(s.column('a')).toEqual([1.5, 2]);
    expect(s.column('b')).toEqual([null, 4]);
  });
});

describe('the tree of keys', () => {
  const part = (p: Partial<Part>): Part => ({ cursor: '0', found: 0, groups: [], keys: [], leaves: 0, others: 0, ...p });
  it('joins pages', () => {
    const root = empty('', '');
    expect(add(root, part({ cursor: '9', found: 3, groups: [{ name: 'b:', count: 2 }], keys: ['z'], leaves: 1 }))).toEqual(['z']);
    expect(add(root, part({ found: 3, groups: [{ name: 'b:', count: 1 }, { name: 'a:', count: 1 }], keys: ['z', 'y'], leaves: 2 }))).toEqual(['y']);
    expect(rowsOf(root).map((r) => (r.kind === 'group' ? r.node.label + r.node.count : r.kind === 'key' ? r.label : r.text))).toEqual(['a:1', 'b:3', 'y', 'z']);
  });
  it('shows names below their prefix', () => {
    const root = empty('', '');
    add(root, part({ groups: [{ name: 'a:', count: 1 }] }));
    const a = [...root.groups.values()][0]!;
    expect(a.prefix).toBe('a:');
    a.open = true;
    add(a, part({ keys: ['a:1'], leaves: 1 }));
    expect(rowsOf(root).map((r) => r.kind === 'key' && r.label)).toEqual([false, '1']);
  });
  it('keeps names that are no text', () => expect(join('a', { bytes: '/w==' })).toEqual({ bytes: btoa('a\xff') }));
});

describe('documentation of commands', () => {
  const arg = (o: Record<string, unknown>) => ({ map: Object.entries(o).flat() }) as never;
  const docs = readDocs({ map: [
    'client', arg({ summary: 'About clients.', subcommands: { map: ['client|list', arg({ summary: 'Lists.', arguments: [arg({ name: 'type', type: 'string', token: 'TYPE', flags: ['optional'] })] })] } }),
    'set', arg({ summary: 'Sets.', arguments: [arg({ name: 'key', type: 'key' }), arg({ name: 'c', type: 'oneof', flags: ['optional'], arguments: [arg({ name: 'nx', type: 'pure-token', token: 'NX' }), arg({ name: 'xx', type: 'pure-token', token: 'XX' })] })] }),
  ] });
  it('writes syntax as manuals do', () => {
    expect(docs.get('SET')!.syntax).toBe('key [NX | XX]');
    expect(docs.get('CLIENT LIST')!.syntax).toBe('[TYPE type]');
    expect(syntax([arg({ name: 'k', type: 'key', flags: ['multiple'] })])).toBe('k [k ...]');
  });
  it('completes names', () => {
    expect(complete(docs, 'se')).toEqual(['SET']);
    expect(complete(docs, 'client ')).toEqual(['CLIENT LIST']);
    expect(complete(docs, 'set k')).toEqual([]);
    expect(docOf(docs, 'client list TYPE')?.name).toBe('CLIENT LIST');
    expect(docOf(docs, 'set k v')?.name).toBe('SET');
  });
});
