import { describe, expect, it } from 'vitest';
import { bytesOf, escapeBytes, id, isError, list, num, pairs, record, split, str, text, textOf } from './reply';

describe('split', () => {
  it.each<[string, unknown]>([
    ['GET k', ['GET', 'k']],
    ['  SET  k "a b"  ', ['SET', 'k', 'a b']],
    ['SET k "a\\nb\\x41\\""', ['SET', 'k', 'a\nbA"']],
    ["SET k 'it\\'s \\n'", ['SET', 'k', "it's \\n"]],
    ['SET k ""', ['SET', 'k', '']],
    ['SET k "\\xff"', ['SET', 'k', { bytes: '/w==' }]],
    ['SET ключ 🙂', ['SET', 'ключ', '🙂']],
    ['a"b', ['a"b']],
    ['', []],
    ['SET k "open', null],
    ['SET k "a"b', null],
    ["'", null],
  ])('%s', (line, want) => expect(split(line)).toEqual(want));
});

describe('replies', () => {
  it('reads maps of RESP3 and pairs of RESP2', () => {
    expect(record({ map: ['a', 1, 'b', { double: '1.5' }] })).toEqual({ a: 1, b: { double: '1.5' } });
    expect(pairs([['m', 1], ['n', 2]])).toEqual([['m', 1], ['n', 2]]);
    expect(pairs(['m', '1', 'n', '2'])).toEqual([['m', '1'], ['n', '2']]);
    expect(list(null)).toEqual([]);
  });
  it('reads numbers exactly or not at all', () => {
    expect(num({ double: 'inf' })).toBe(Infinity);
    expect(num({ int: '9223372036854775807' })).toBeGreaterThan(9e18);
    expect(num(null)).toBeNaN();
    expect(str({ int: '9223372036854775807' })).toBe('9223372036854775807');
  });
  it('keeps bytes', () => {
    const raw = Uint8Array.of(0, 255, 10, 65);
    expect(bytesOf(textOf(raw))).toEqual(raw);
    expect(escapeBytes(raw)).toBe('\\x00\\xff\\nA');
    expect(text({ bytes: '/w==' })).toEqual({ bytes: '/w==' });
    expect(id('a')).not.toBe(id({ bytes: 'a' }));
    expect(textOf(new TextEncoder().encode('\ufeffx'))).toBe('\ufeffx');
  });
  it('tells errors', () => {
    expect(isError({ error: 'ERR' })).toBe(true);
    expect(isError('error')).toBe(false);
    expect(isError(null)).toBe(false);
  });
});
