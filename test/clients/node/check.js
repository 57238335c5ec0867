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
