// A real application of scripts, streams, sorted sets and blocking commands:
// BullMQ, a queue of jobs. Jobs are done once each, later when they are delayed,
// again when they fail, in the order of their priority, after their children;
// and everybody hears of it.

import { FlowProducer, Queue, QueueEvents, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { address, run, same, until } from './check.js';

const connection = { ...address(), maxRetriesPerRequest: null };
const open = [];
const keep = (x) => {
  x.on('error', (e) => console.log('error', e.message));
  x.setMaxListeners?.(0);
  open.push(x);
  return x;
};
const queue = (name) => keep(new Queue(name, { connection }));
const worker = (name, f, more = {}) => keep(new Worker(name, f, { connection, ...more }));

/** Many jobs, two workers: each is done once, and its result comes back. */
async function jobs() {
  const q = queue('sums');
  const events = keep(new QueueEvents('sums', { connection }));
  await events.waitUntilReady();
  const done = [];
  const sum = async (job) => {
    done.push(job.data.n);
    await job.updateProgress(100);
    return job.data.n * 2;
  };
  worker('sums', sum, { concurrency: 10 });
  worker('sums', sum, { concurrency: 10 });
  const added = await q.addBulk(Array.from({ length: 200 }, (_, n) => ({ name: 'sum', data: { n } })));
  const results = await Promise.all(added.map((job) => job.waitUntilFinished(events, 30_000)));
  same('the results', results, Array.from({ length: 200 }, (_, n) => n * 2));
  same('done', done.sort((a, b) => a - b), Array.from({ length: 200 }, (_, n) => n));
  const counts = await q.getJobCounts('completed', 'failed', 'waiting', 'active');
  same('the counts', counts, { completed: 200, failed: 0, waiting: 0, active: 0 });
}

/** A delayed job is not done before its time. */
async function delayed() {
  const q = queue('later');
  const times = [];
  worker('later', async (job) => times.push([job.name, Date.now()]));
  const start = Date.now();
  await q.add('third', {}, { delay: 600 });
  await q.add('second', {}, { delay: 300 });
  await q.add('first', {});
  same('delayed', await q.getDelayedCount(), 2);
  await until('three jobs', () => times.length === 3);
  same('the order', times.map(([name]) => name), ['first', 'second', 'third']);
  if (times[1][1] - start < 300 || times[2][1] - start < 600) throw new Error(`too early: ${times}`);
}

/** A job that fails is tried again, later each time, and fails for good at last. */
async function retry() {
  const q = queue('flaky');
  const events = keep(new QueueEvents('flaky', { connection }));
  await events.waitUntilReady();
  let tries = 0;
  worker('flaky', async (job) => {
    tries++;
    if (job.name === 'hopeless' || job.attemptsMade < 2) throw new Error(`no luck ${job.attemptsMade}`);
    return 'luck';
  });
  const backoff = { type: 'exponential', delay: 20 };
  const job = await q.add('lucky', {}, { attempts: 3, backoff });
  same('the result', await job.waitUntilFinished(events, 20_000), 'luck');
  same('tries', tries, 3);
  const bad = await q.add('hopeless', {}, { attempts: 2, backoff });
  const reason = await bad.waitUntilFinished(events, 20_000).catch((e) => e.message);
  same('the reason', reason, 'no luck 1');
  const [failed] = await q.getFailed();
  same('failed', [failed.id, failed.attemptsMade], [bad.id, 2]);
  await failed.retry();
  await until('one more try', () => tries > 5);
}

/** Events tell each step of a job's life, in order. */
async function events() {
  const q = queue('told');
  const heard = keep(new QueueEvents('told', { connection, lastEventId: '0-0' }));
  const steps = [];
  for (const name of ['added', 'waiting', 'active', 'progress', 'completed']) heard.on(name, () => steps.push(name));
  await heard.waitUntilReady();
  worker('told', async (job) => job.updateProgress(50));
  await q.add('x', {});
  await until('it is completed', () => steps.includes('completed'));
  same('the steps', steps, ['added', 'waiting', 'active', 'progress', 'completed']);
}

/** Jobs of a higher priority come first; a queue that is paused does none. */
async function priorities() {
  const q = queue('urgent');
  await q.pause();
  const order = [];
  worker('urgent', async (job) => order.push(job.data));
  for (const n of [5, 1, 4, 2, 3]) await q.add('x', n, { priority: n });
  same('while it is paused', order, []);
  await q.resume();
  await until('five jobs', () => order.length === 5);
  same('the order', order, [1, 2, 3, 4, 5]);
}

/** A parent waits for its children and sees their results; a queue may be limited. */
async function flow() {
  const producer = keep(new FlowProducer({ connection }));
  const total = new Promise((resolve) => {
    worker('parent', async (job) => {
      const values = Object.values(await job.getChildrenValues());
      resolve(values.reduce((a, b) => a + b, 0));
    });
  });
  worker('child', async (job) => job.data.n, { limiter: { max: 2, duration: 50 } });
  await producer.add({
    name: 'sum', queueName: 'parent',
    children: [1, 2, 3, 4].map((n) => ({ name: 'part', queueName: 'child', data: { n } })),
  });
  same('the total', await total, 10);
}

/** A job that comes again and again. */
async function repeated() {
  const q = queue('often');
  let n = 0;
  worker('often', async () => n++);
  await q.upsertJobScheduler('tick', { every: 100 }, { name: 'tick' });
  await until('three ticks', () => n >= 3);
  same('removed', await q.removeJobScheduler('tick'), true);
}

async function cleanup() {
  await Promise.all(open.map((x) => x.close()));
  const q = new Queue('sums', { connection });
  await q.obliterate({ force: true });
  await q.close();
  const redis = new Redis(connection);
  same('keys left', await redis.keys('bull:sums:*'), []);
  await redis.quit();
}

const redis = new Redis(connection);
await redis.flushall();
await redis.quit();
await run('bullmq', [jobs, delayed, retry, events, priorities, flow, repeated, cleanup]);
