// What the programs of this directory share: their tests are functions that
// throw, run one after the other.

import { deepStrictEqual } from 'node:assert';
import { readFileSync } from 'node:fs';

export function address() {
  const [, host, port] = /^(.*):(\d+)$/.exec(process.argv[2]);
  return { host, port: Number(port) };
}

export function same(what, got, want) {
  deepStrictEqual(got, want, `${what} is ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

/** Waits until f returns something true. */
export async function until(what, f, patience = 20_000) {
  for (const end = Date.now() + patience; Date.now() < end;) {
    const got = await f();
    if (got) return got;
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
  throw new Error(`still not: ${what}`);
}

/** Runs the tests, tells the library's version, and ends the process. */
export async function run(library, tests) {
  let failed = 0;
  for (const test of tests) {
    try {
      await test();
      console.log('ok', test.name);
    } catch (e) {
      failed++;
      console.log('FAILED', test.name, e);
    }
  }
  const manifest = new URL(`node_modules/${library}/package.json`, import.meta.url);
  console.log('client', library, JSON.parse(readFileSync(manifest)).version);
  process.exit(failed ? 1 : 0);
}

export const takeScript = `
  local n = tonumber(redis.call('GET', KEYS[1]) or '0')
  if n < tonumber(ARGV[1]) then return redis.error_reply('EMPTY only ' .. n) end
  return {redis.call('DECRBY', KEYS[1], ARGV[1]), KEYS[1]}`;

/** Uses a durable channel by commands and over HTTP. send sends the words of a command. */
export async function useChannel(name, send) {
  const http = process.argv[3];
  if (!http) return console.log('skipped channel: the server has no channels over HTTP');
  const ask = async (method, path, body) => {
    const res = await fetch(`http://${http}/channel/${name}${path}`, { method, body });
    const text = await res.text();
    if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text}`);
    return text && JSON.parse(text);
  };
  const read = (patience) => send('CHREAD', name, 'reader', 'BLOCK', String(patience));
  await send('CHSUBSCRIBE', name, 'reader');
  same('the publish', await send('CHPUBLISH', name, 'm1', '{"n":1}'), [1, 1]);
  same('a retry', await send('CHPUBLISH', name, 'm1', '{"n":1}'), [1, 0]);
  await ask('PUT', '/message/m2', '{"n":2}');
  const got = await read(1000);
  // In RESP3 it is a map, which ioredis gives as a list of names and values.
  same('what is read', got[0] === 'messages' ? got[1] : got[0], [[1, 'm1', '{"n":1}'], [2, 'm2', '{"n":2}']]);
  const polled = await ask('GET', '/subscription/polling/reader?timeout=1s'); // nothing was acknowledged
  same('what is polled', polled.messages.map((m) => m.content), [{ n: 1 }, { n: 2 }]);
  await ask('DELETE', `/subscription/polling/reader/message?ackHandle=${polled.ackHandle}`);
  same('after the acknowledgement', await read(10), null);
}
