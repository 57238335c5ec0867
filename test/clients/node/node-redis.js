// Uses a server as programs with node-redis do: pool, pipeline, transactions that
// are tried again, scripts, messages, a consumer group, a cache on the client's
// side.

import { BasicClientSideCache, createClient, createClientPool, defineScript, WatchError } from 'redis';
import { address, run, same, takeScript, until, useChannel } from './check.js';

const socket = { ...address(), reconnectStrategy: false };
const scripts = {
  take: defineScript({
    SCRIPT: takeScript,
    NUMBER_OF_KEYS: 1,
    parseCommand(parser, key, n) {
      parser.pushKey(key);
      parser.push(String(n));
    },
    transformReply: (reply) => reply,
  }),
};
const client = createClient({ socket, scripts });
client.on('error', (e) => console.log('error', e));

async function pool() {
  const p = await createClientPool({ socket }, { minimum: 2, maximum: 8 }).connect();
  await Promise.all(Array.from({ length: 50 }, async (_, i) => {
    for (let n = 0; n < 20; n++) {
      await p.set(`nr:pool:${i}`, n, { expiration: { type: 'EX', value: 60 } });
      same('the value', await p.get(`nr:pool:${i}`), String(n));
    }
  }));
  await p.close();
}

async function pipeline() {
  const sums = await Promise.all(Array.from({ length: 1000 }, () => client.incr('nr:n'))); // sent together
  same('the sum', sums[999], 1000);
  const got = await client.multi().set('nr:text', 'abc').get('nr:text').execAsPipeline();
  same('the replies', got, ['OK', 'abc']);
}

async function transaction() {
  const users = 6, each = 20;
  await Promise.all(Array.from({ length: users }, async () => {
    const own = await client.duplicate().connect(); // what is watched belongs to a connection
    for (let done = 0; done < each;) {
      try {
        await own.watch('nr:counter');
        const n = Number(await own.get('nr:counter'));
        await own.multi().set('nr:counter', String(n + 1)).rPush('nr:log', String(n + 1)).exec();
        done++;
      } catch (e) {
        if (!(e instanceof WatchError)) throw e; // else somebody was quicker: again
      }
    }
    await own.close();
  }));
  const want = Array.from({ length: users * each }, (_, i) => String(i + 1));
  same('the log', await client.lRange('nr:log', 0, -1), want);
}

async function script() {
  await client.scriptFlush();
  const failure = await client.evalSha('0'.repeat(40)).catch((e) => e);
  if (!failure.message?.startsWith('NOSCRIPT')) throw new Error(`an unknown script: ${failure}`);
  await client.set('nr:stock', '5');
  same('the reply', await client.take('nr:stock', 2), [3, 'nr:stock']);
  await client.scriptFlush(); // the library finds out, and sends the script again
  same('the reply', await client.take('nr:stock', 2), [1, 'nr:stock']);
  same('the error', await client.take('nr:stock', 2).catch((e) => e.message), 'EMPTY only 1');
}

async function pubsub() {
  for (const RESP of [2, 3]) {
    const sub = await createClient({ socket, RESP, maintNotifications: 'disabled' }).connect();
    const got = [];
    await sub.subscribe('nr:news', (text, channel) => got.push([channel, text]));
    await sub.pSubscribe('nr:log:*', (text, channel) => got.push([channel, text]));
    same('receivers', await client.publish('nr:news', 'hello'), 1);
    await client.publish('nr:log:disk', 'full');
    await until('two messages', () => got.length === 2);
    same('the messages', got, [['nr:news', 'hello'], ['nr:log:disk', 'full']]);
    if (RESP === 3) same('a command beside them', await sub.echo('x'), 'x');
    await sub.unsubscribe();
    await sub.pUnsubscribe();
    same('a subscriber that left', String(await sub.ping()), 'PONG');
    await sub.close();
  }
}

async function stream() {
  const key = 'nr:stream', group = 'workers', entries = 20;
  await client.xGroupCreate(key, group, '0', { MKSTREAM: true });
  for (let i = 0; i < entries; i++) await client.xAdd(key, '*', { n: String(i) });
  const own = await client.duplicate().connect(); // it blocks its connection
  const read = async (consumer, COUNT) => {
    const got = await own.xReadGroup(group, consumer, { key, id: '>' }, { COUNT, BLOCK: 50 });
    return got ? got[0].messages : [];
  };
  same('of the dead', (await read('dead', 1)).length, 1);
  const seen = new Set();
  for (let batch; (batch = await read('alive', 7)).length > 0;) {
    for (const { id, message } of batch) {
      seen.add(message.n);
      same('acknowledged', await client.xAck(key, group, id), 1);
    }
  }
  same('pending', (await client.xPending(key, group)).pending, 1);
  const { messages } = await client.xAutoClaim(key, group, 'alive', 0, '0');
  same('taken over', messages.length, 1);
  seen.add(messages[0].message.n);
  await client.xAck(key, group, messages[0].id);
  same('entries seen', seen.size, entries);
  same('pending', (await client.xPending(key, group)).pending, 0);
  await own.close();
}

async function cache() {
  const kept = new BasicClientSideCache({ ttl: 0, maxEntries: 100, evictPolicy: 'LRU' });
  const cached = await client.duplicate({ RESP: 3, clientSideCache: kept }).connect();
  for (let turn = 0; turn < 3; turn++) {
    const want = `value ${turn}`;
    await client.set('nr:cached', want);
    await until('the new value', async () => (await cached.get('nr:cached')) === want);
    for (let i = 0; i < 100; i++) same('the value', await cached.get('nr:cached'), want);
  }
  if (kept.stats().hitCount < 300) throw new Error(`the cache was not used: ${JSON.stringify(kept.stats())}`);
  await cached.close();
}

async function channel() {
  const plain = await createClient({ socket, RESP: 2 }).connect();
  await useChannel('nr-channel', (...words) => plain.sendCommand(words));
  await plain.close();
}

await client.connect();
await client.flushAll();
await run('redis', [pool, pipeline, transaction, script, pubsub, stream, cache, channel]);
