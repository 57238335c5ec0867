// Uses the front ends of a store as programs with node-redis's cluster client do.

import { createClient, createCluster } from 'redis';
import { nodes, runInCluster, same, until } from './cluster.js';

const cluster = createCluster({ rootNodes: nodes.map(({ host, port }) => ({ url: `redis://${host}:${port}` })) });
cluster.on('error', () => {}); // of one that was killed
cluster.on('node-error', () => {});
await cluster.connect();

async function members() {
  same('the nodes', cluster.masters.length, nodes.length);
}

async function pipeline() {
  same('the transaction', await cluster.multi().set('{nrc}a', 1).incr('{nrc}a').get('{nrc}a').exec(), ['OK', 2, '2']);
  same('the script', await cluster.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", { keys: ['nrc:n'], arguments: ['5'] }), 5);
}

async function messages() {
  const got = [];
  await cluster.subscribe('nrc:news', (text) => got.push(text));
  for (const { host, port } of nodes) { // it hears what any of them is told
    const one = await createClient({ url: `redis://${host}:${port}` }).connect();
    await one.publish('nrc:news', String(port));
    one.destroy();
  }
  await until('all messages came', () => got.length === nodes.length);
  same('the messages', got, nodes.map(({ port }) => String(port)));
  await cluster.unsubscribe('nrc:news');
}

await runInCluster('redis', cluster, [members, pipeline, messages]);
