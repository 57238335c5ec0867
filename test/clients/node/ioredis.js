// Uses a server as programs with ioredis do. The library has neither a pool nor
// a cache: one connection serves all, commands of one turn are sent together.

import Redis from 'ioredis';
import { address, run, same, takeScript, until, useChannel } from './check.js';

const where = address();
const options = { ...where, maxRetriesPerRequest: 1 };
const redis = new Redis(options);

async function autoPipelining() {
  const auto = new Redis({ ...options, enableAutoPipelining: true });
  const users = Array.from({ length: 50 }, async (_, i) => {
    for (let n = 0; n < 20; n++) {
      await auto.set(`io:user:${i}`, n, 'EX', 60);
      same('the value', await auto.get(`io:user:${i}`), String(n));
    }
  });
  await Promise.all(users);
  await auto.quit();
}

async function pipeline() {
  const p = redis.pipeline();
  for (let i = 0; i < 1000; i++) p.incr('io:n');
  const got = await p.set('io:text', 'abc').incr('io:text').exec();
  same('the sum', got[999], [null, 1000]);
  same('the text', got[1000], [null, 'OK']);
  if (!got[1001][0]) throw new Error('an increment of a text succeeds');
}

async function transaction() {
  const users = 6, each = 20;
  await Promise.all(Array.from({ length: users }, async () => {
    const own = new Redis(options); // what is watched belongs to a connection
    for (let done = 0; done < each;) {
      await own.watch('io:counter');
      const n = Number(await own.get('io:counter'));
      const replies = await own.multi().set('io:counter', n + 1).rpush('io:log', n + 1).exec();
      if (replies !== null) done++; // else somebody was quicker: again
    }
    await own.quit();
  }));
  const want = Array.from({ length: users * each }, (_, i) => String(i + 1));
  same('the log', await redis.lrange('io:log', 0, -1), want);
}

async function script() {
  await redis.script('FLUSH');
  const failure = await redis.evalsha('0'.repeat(40), 0).catch((e) => e);
  if (!failure.message?.startsWith('NOSCRIPT')) throw new Error(`an unknown script: ${failure}`);
  redis.defineCommand('take', { numberOfKeys: 1, lua: takeScript });
  await redis.set('io:stock', 5);
  same('the reply', await redis.take('io:stock', 2), [3, 'io:stock']);
  await redis.script('FLUSH'); // the library finds out, and sends the script again
  same('the reply', await redis.take('io:stock', 2), [1, 'io:stock']);
  const empty = await redis.take('io:stock', 2).catch((e) => e.message);
  same('the error', empty, 'EMPTY only 1');
}

async function pubsub() {
  const sub = new Redis(options);
  const got = [];
  sub.on('message', (channel, text) => got.push([channel, text]));
  sub.on('pmessage', (pattern, channel, text) => got.push([pattern, channel, text]));
  same('subscriptions', await sub.subscribe('io:news'), 1);
  same('subscriptions', await sub.psubscribe('io:log:*'), 2);
  same('receivers', await redis.publish('io:news', 'hello'), 1);
  await redis.publish('io:log:disk', 'full');
  await until('two messages', () => got.length === 2);
  same('the messages', got, [['io:news', 'hello'], ['io:log:*', 'io:log:disk', 'full']]);
  await sub.unsubscribe('io:news');
  await sub.punsubscribe('io:log:*');
  same('a subscriber that left', await sub.ping(), 'PONG');
  await sub.quit();
}

async function stream() {
  const key = 'io:stream', group = 'workers', entries = 20;
  await redis.xgroup('CREATE', key, group, '0', 'MKSTREAM');
  for (let i = 0; i < entries; i++) await redis.xadd(key, '*', 'n', i);
  const own = new Redis(options); // it blocks its connection
  const read = async (consumer, count) => {
    const got = await own.xreadgroup('GROUP', group, consumer, 'COUNT', count, 'BLOCK', 50, 'STREAMS', key, '>');
    return got ? got[0][1] : [];
  };
  same('of the dead', (await read('dead', 1)).length, 1);
  const seen = new Set();
  for (let batch; (batch = await read('alive', 7)).length > 0;) {
    for (const [id, fields] of batch) {
      seen.add(fields[1]);
      same('acknowledged', await redis.xack(key, group, id), 1);
    }
  }
  same('pending', (await redis.xpending(key, group))[0], 1);
  const [, taken] = await redis.xautoclaim(key, group, 'alive', 0, '0');
  same('taken over', taken.length, 1);
  seen.add(taken[0][1][1]);
  await redis.xack(key, group, taken[0][0]);
  same('entries seen', seen.size, entries);
  same('pending', (await redis.xpending(key, group))[0], 0);
  await own.quit();
}

async function scan() {
  await redis.mset(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`io:scan:${i}`, i])));
  const found = new Set();
  for await (const keys of redis.scanStream({ match: 'io:scan:*', count: 50 })) keys.forEach((k) => found.add(k));
  same('keys found', found.size, 500);
}

async function channel() {
  await useChannel('io-channel', (...words) => redis.call(...words));
}

await redis.flushall();
await run('ioredis', [autoPipelining, pipeline, transaction, script, pubsub, stream, scan, channel]);
