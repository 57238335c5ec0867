// What the programs with cluster clients share: work that goes on when a front end is
// killed. The program says "at work", and is told when that has happened.

import { createInterface } from 'node:readline';
import { run, same, until } from './check.js';

export const nodes = process.argv.slice(2).map((a) => {
  const [, host, port] = /^(.*):(\d+)$/.exec(a);
  return { host, port: Number(port) };
});

const keys = (name) => Array.from({ length: 64 }, (_, i) => `${name}:${i}`);

/** Runs the tests that every library gets; its own ones come first. */
export function runInCluster(library, client, own) {
  const list = keys(library);

  async function commands() {
    await Promise.all(list.map((k, i) => client.set(k, String(i))));
    same('the values', await Promise.all(list.map((k) => client.get(k))), list.map((_, i) => String(i)));
  }

  /** A command may fail when its node dies; what was answered is there, and soon all
   * keys can be used again. */
  async function survives() {
    let killed = false;
    createInterface({ input: process.stdin }).once('line', () => { killed = true; });
    console.log('at work');
    const began = Date.now();
    let n = 0, errors = 0;
    for (let over = false; !over;) {
      const last = killed;
      n++;
      let clean = true;
      for (const k of list) {
        try {
          await client.set(k, String(n));
          const got = await client.get(k);
          if (got !== String(n)) throw new Error(`WRONG ${k} is ${got}, not ${n}`);
        } catch (e) {
          if (e.message.startsWith('WRONG')) throw e;
          errors++;
          clean = false;
        }
      }
      over = last && clean;
      if (Date.now() - began > 120_000) throw new Error(`still no round without an error; ${errors} so far`);
    }
    same('all', await Promise.all(list.map((k) => client.get(k))), list.map(() => String(n)));
    console.log(`${n} rounds, ${errors} errors, ${(Date.now() - began) / 1000} s`);
  }

  return run(library, [commands, ...own, survives]);
}

export { same, until };
