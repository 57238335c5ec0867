// Uses the front ends of a store as programs with ioredis's cluster client do.

import Redis from 'ioredis';
import { nodes, runInCluster, same, until } from './cluster.js';

const cluster = new Redis.Cluster(nodes, { slotsRefreshTimeout: 10_000 });
cluster.on('node error', () => {}); // of one that was killed

async function members() {
  same('the nodes', cluster.nodes('master').length, nodes.length);
}

async function pipeline() {
  const got = await cluster.pipeline().set('{ioc}a', 1).incr('{ioc}a').set('{ioc}b', 'x').exec();
  same('the replies', got, [[null, 'OK'], [null, 2], [null, 'OK']]);
  same('the transaction', await cluster.multi().incr('{ioc}a').get('{ioc}b').exec(), [[null, 3], [null, 'x']]);
  same('the script', await cluster.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, 'ioc:n', 5), 5);
}

async function waiting() {
  const other = new Redis.Cluster(nodes);
  const element = other.blpop('ioc:list', 20);
  await cluster.rpush('ioc:list', 'element');
  same('the element', await element, ['ioc:list', 'element']);
  await other.quit();
}

async function messages() {
  const subscriber = new Redis.Cluster(nodes);
  const got = [];
  subscriber.on('message', (channel, text) => got.push([channel, text]));
  await subscriber.subscribe('ioc:news');
  for (const { host, port } of nodes) { // it hears what any of them is told
    const one = new Redis(port, host);
    await one.publish('ioc:news', String(port));
    await one.quit();
  }
  await until('all messages came', () => got.length === nodes.length);
  same('the messages', got.map(([, text]) => text), nodes.map(({ port }) => String(port)));
  subscriber.disconnect();
}

await runInCluster('ioredis', cluster, [members, pipeline, waiting, messages]);
