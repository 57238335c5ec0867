// Tests of the page in Chromium: make test-console. They print "N passed, M failed" at the end.
//
//   node browser/test.mjs PROGRAM [--keys N] [--shots DIRECTORY]
import assert from 'node:assert/strict';
import { existsSync, mkdirSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { startServer } from './server.mjs';

const [program, ...options] = process.argv.slice(2);
const option = (name, byDefault) => (options.includes(name) ? options[options.indexOf(name) + 1] : byDefault);
const keys = Number(option('--keys', 1_000_000));
const shots = option('--shots', '');
const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
if (!existsSync(executablePath)) {
  console.error(`needs chromium: ${executablePath} is not there; make tools-console installs it, CHROMIUM=path names another`);
  console.log('0 passed, 1 failed');
  process.exit(1);
}

const tests = [];
const test = (name, f) => tests.push({ name, f });
const password = 'correct horse';
let server, db, browser, page, problems;

async function open(hash = '', o = {}) {
  await page?.context().close();
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...o });
  page = await context.newPage();
  page.setDefaultTimeout(20_000);
  problems = [];
  page.on('pageerror', (e) => problems.push(e.message));
  // Refused requests are wanted here; all else, such as what the policy forbids, is a fault.
  page.on('console', (m) => m.type() === 'error' && !/Failed to load resource/.test(m.text()) && problems.push(m.text()));
  await page.goto(server.url + hash);
}

async function logIn(user = 'default', pass = password) {
  await page.fill('input[name=user]', user);
  await page.fill('input[name=password]', pass);
  await page.click('button[type=submit]');
}

async function at(path, o) {
  await open('#/' + path, o);
  await logIn();
  await page.waitForSelector('h1');
}

const key = (name) => 'keys?key=' + encodeURIComponent('s' + name);
/** Waits until a reply of the server is as wanted. */
async function until(want, ...command) {
  let got;
  for (let i = 0; i < 200; i++) {
    got = await db.do(...command);
    if (JSON.stringify(got) === JSON.stringify(want)) return;
    await new Promise((r) => setTimeout(r, 25));
  }
  assert.deepEqual(got, want, command.join(' '));
}
async function editCell(label, value) {
  await page.click(`button[aria-label="Change ${label}"]`);
  await page.fill(`textarea[aria-label="${label}"]`, value);
  await page.press(`textarea[aria-label="${label}"]`, 'Enter');
}
async function adder(verb, values) {
  for (const [name, v] of Object.entries(values)) await page.fill(`.adder input[name="${name}"]`, v);
  await page.click(`.adder button:has-text("${verb}")`);
}

test('a wrong password is refused, the right one is not, and one can log out', async () => {
  await open();
  await logIn('default', 'wrong');
  await page.waitForSelector('.problem:has-text("WRONGPASS")');
  await logIn('nobody', password);
  await page.waitForSelector('.problem:has-text("WRONGPASS")');
  await logIn();
  await page.waitForSelector('h1:has-text("Overview")');
  const cookies = await page.context().cookies();
  assert.ok(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === 'Strict');
  await page.click('button:has-text("Log out")');
  await page.waitForSelector('input[name=password]');
  assert.equal(await page.evaluate(async () => (await fetch('api/history')).status), 401);
});

test('a deleted user is logged out', async () => {
  await db.do('ACL', 'SETUSER', 'guest', 'on', '>pw', '~*', '+@all');
  await open('#/clients');
  await logIn('guest', 'pw');
  await page.waitForSelector('h1:has-text("Clients")');
  await db.do('ACL', 'DELUSER', 'guest');
  await page.waitForSelector('input[name=password]');
});

test('a user sees and does what the ACL allows', async () => {
  await db.do('ACL', 'SETUSER', 'reader', 'on', '>pw', '~public:*', '+@read', '+scan', '-keys');
  await db.do('SET', 'public:a', 'seen');
  await open('#/' + key('public:a'));
  await logIn('reader', 'pw');
  await page.waitForSelector('textarea[aria-label=Value]');
  await page.fill('textarea[aria-label=Value]', 'changed');
  await page.click('button:has-text("Save")');
  await page.waitForSelector('.problem:has-text("NOPERM")');
  assert.equal(await db.do('GET', 'public:a'), 'seen');
  await page.evaluate(() => (location.hash = '#/overview'));
  await page.waitForSelector('text=These figures are not for this user');
});

test('the overview is live, and says so when it is not', async () => {
  await at('overview');
  await page.waitForSelector('.state.on');
  const before = await page.textContent('.tile b');
  for (let i = 0; i < 40; i++) await db.all(Array.from({ length: 500 }, () => ['PING']));
  await page.waitForFunction((old) => document.querySelector('.tile b').textContent !== old, before);
  await page.waitForSelector('td:has-text("PING")');
  assert.ok((await page.locator('.chart canvas').count()) >= 9);
  server.hold();
  try {
    await page.waitForSelector('.state.off');
    assert.ok((await page.locator('.tile b').allTextContents()).every((t) => t === '–'), 'old figures are not shown as those of now');
  } finally {
    server.goOn();
  }
  await page.waitForSelector('.state.on');
});

test('the terminal completes, shows trees, and keeps its state', async () => {
  await db.do('DEL', 'h');
  await db.do('HSET', 'h', 'a', '1');
  await at('terminal');
  const line = '.prompt input';
  const say = async (text) => {
    await page.waitForSelector(line + ':not([disabled])');
    await page.fill(line, text);
    await page.press(line, 'Enter');
  };
  await page.fill(line, 'hgeta');
  await page.waitForSelector('.suggest button:has-text("HGETALL")');
  await page.press(line, 'Tab');
  assert.equal(await page.inputValue(line), 'HGETALL ');
  await page.waitForSelector('.manual:has-text("HGETALL key")');
  await say('HGETALL h');
  await page.waitForSelector('.branch:has-text("map")');
  await say('select 3');
  await page.waitForSelector('.prompt b:has-text("3>")');
  await say('set "a b" \'c d\'');
  await page.waitForSelector('.r.status >> nth=1');
  await page.press(line, 'ArrowUp');
  assert.match(await page.inputValue(line), /^set "a b"/);
  await say('get none');
  await page.waitForSelector('.r.null');
  await say('incr');
  await page.waitForSelector('.r.error:has-text("wrong number of arguments")');
  await say('blpop never 0');
  await page.click('.entry button:has-text("Cancel")');
  await page.waitForSelector('.r.error:has-text("Cancelled")');
  await say('get "a b"');
  await page.waitForSelector('.prompt b:has-text("0>")');
});

/** Waits until the form of a string has read the value again that it has saved. */
const saved = () => page.waitForSelector('textarea:not([readonly]) ~ .acts-row button:has-text("Save"):disabled');

const editors = {
  async string() {
    await db.do('SET', 's:text', 'hello', 'EX', 1000);
    await at(key('s:text'));
    await page.fill('textarea[aria-label=Value]', 'changed');
    await page.click('button:has-text("Save")');
    await until('changed', 'GET', 's:text');
    assert.ok((await db.do('TTL', 's:text')) > 900, 'the expiry stays');
    await saved();
    await db.do('SET', 's:text', 'by another');
    await page.fill('textarea[aria-label=Value]', 'lost');
    await page.click('button:has-text("Save")');
    await page.waitForSelector('.problem:has-text("has changed")');
    assert.equal(await db.do('GET', 's:text'), 'by another');
  },
  async json() {
    await db.do('SET', 's:json', '{"a":1}');
    await at(key('s:json'));
    await page.waitForFunction(() => document.querySelector('textarea')?.value === '{\n  "a": 1\n}');
    await page.fill('textarea[aria-label=Value]', '{"a": 2,');
    await page.click('button:has-text("Save")');
    await page.waitForSelector('.problem');
    await page.fill('textarea[aria-label=Value]', '{"a": 2}');
    await page.click('button:has-text("Save")');
    await until('{"a":2}', 'GET', 's:json');
  },
  async 'hex and bits'() {
    await db.do('SET', 's:bits', 'A');
    await at(key('s:bits'));
    await page.click('button:has-text("Hex")');
    await page.waitForFunction(() => document.querySelector('textarea')?.value.trim() === '41');
    await page.fill('textarea[aria-label=Value]', '42 43');
    await page.click('button:has-text("Save")');
    await until('BC', 'GET', 's:bits');
    await saved();
    await page.click('button:has-text("Bits")');
    await page.click('button[aria-label="bit 7"]');
    await until('CC', 'GET', 's:bits');
  },
  async hash() {
    await db.do('DEL', 'e:hash');
    await db.do('HSET', 'e:hash', 'f', 'v', 'g', 'w');
    await at(key('e:hash'));
    await editCell('value of f', 'v2');
    await until('v2', 'HGET', 'e:hash', 'f');
    await adder('Set field', { field: 'n', value: '1' });
    await until('1', 'HGET', 'e:hash', 'n');
    await page.click('button[aria-label="Expiry of f"]');
    await page.fill('dialog input[name=seconds]', '500');
    await page.click('dialog button:has-text("Set")');
    await page.waitForSelector('dialog', { state: 'detached' });
    await editCell('value of f', 'v3');
    await until('v3', 'HGET', 'e:hash', 'f');
    assert.ok((await db.do('HTTL', 'e:hash', 'FIELDS', 1, 'f'))[0] > 400, "the field's expiry stays");
    await page.click('button[aria-label="Delete g"]');
    await until(0, 'HEXISTS', 'e:hash', 'g');
  },
  async list() {
    await db.do('DEL', 'e:list');
    await db.do('RPUSH', 'e:list', 'a', 'b', 'c');
    await at(key('e:list'));
    await editCell('element 1', 'B');
    await until(['a', 'B', 'c'], 'LRANGE', 'e:list', 0, -1);
    await page.fill('.adder input[name=head]', 'first');
    await page.click('button:has-text("Push at the head")');
    await until(['first', 'a', 'B', 'c'], 'LRANGE', 'e:list', 0, -1);
    await page.click('button[aria-label="Remove element 2"]');
    await until(['first', 'a', 'c'], 'LRANGE', 'e:list', 0, -1);
  },
  async set() {
    await db.do('DEL', 'e:set');
    await db.do('SADD', 'e:set', 'a');
    await at(key('e:set'));
    await adder('Add', { member: 'b' });
    await until(1, 'SISMEMBER', 'e:set', 'b');
    await page.click('button[aria-label="Remove a"]');
    await until(['b'], 'SMEMBERS', 'e:set');
  },
  async 'sorted set'() {
    await db.do('DEL', 'e:zset');
    await db.all(Array.from({ length: 300 }, (_, i) => ['ZADD', 'e:zset', (i * i) % 97, 'm' + i]));
    await at(key('e:zset'));
    await adder('Add', { member: 'new', score: '-5' });
    await until('-5', 'ZSCORE', 'e:zset', 'new');
    await editCell('score of new', '-7.5');
    await until('-7.5', 'ZSCORE', 'e:zset', 'new');
    await page.click('button[aria-label="Remove new"]');
    await until(null, 'ZSCORE', 'e:zset', 'new');
    await page.click('button:has-text("Scores")');
    await page.waitForSelector('.histogram rect >> nth=31');
  },
  async geo() {
    await db.do('DEL', 'e:geo');
    await db.do('GEOADD', 'e:geo', 2.35, 48.85, 'Paris', 13.4, 52.52, 'Berlin');
    await at(key('e:geo'));
    await page.click('button:has-text("Map")');
    await page.waitForSelector('.map circle >> nth=1');
    await adder('Place', { member: 'Rome', lon: '12.49', lat: '41.9' });
    await until(3, 'ZCARD', 'e:geo');
    await page.waitForSelector('.map circle >> nth=2');
  },
  async stream() {
    await db.do('DEL', 'e:stream');
    await db.do('XADD', 'e:stream', '5-1', 'a', 'b');
    await at(key('e:stream'));
    await adder('Add entry', { field: 'f', value: 'v' });
    await until(2, 'XLEN', 'e:stream');
    await page.click('button[aria-label="Delete entry 5-1"]');
    await until(1, 'XLEN', 'e:stream');
    await page.click('button:has-text("Groups")');
    await adder('Create group', { group: 'g', start: '0' });
    await page.waitForSelector('.group:has-text("g")');
    await page.click('button:has-text("Destroy")');
    await until([], 'XINFO', 'GROUPS', 'e:stream');
  },
  async HyperLogLog() {
    await db.do('DEL', 'e:hll');
    await db.do('PFADD', 'e:hll', 'a', 'b');
    await at(key('e:hll'));
    await page.waitForSelector('.big-number b:has-text("2")');
    await adder('Count', { element: 'c' });
    await until(3, 'PFCOUNT', 'e:hll');
  },
  async channel() {
    await db.do('DEL', 'e-channel');
    await db.do('CHSUBSCRIBE', 'e-channel', 'alice');
    await at(key('e-channel'));
    await page.click('button:has-text("Publish")');
    await adder('Publish', { message: 'm1', content: '{"a":1}' });
    await page.click('button:has-text("Subscribers")');
    await page.click('button:has-text("alice")');
    await page.waitForSelector('td:has-text("{\\"a\\":1}")');
    await adder('Subscribe', { subscriber: 'bob' });
    await until(['alice', 'bob'], 'CHLIST', 'e-channel');
    await page.click('button[aria-label="Unsubscribe alice"]');
    await until(['bob'], 'CHLIST', 'e-channel');
  },
};
for (const [name, f] of Object.entries(editors)) test(`a ${name} is edited`, f);

test('a key is made, renamed, given an expiry, and deleted', async () => {
  await at('keys');
  await page.click('button:has-text("New key")');
  await page.fill('dialog input[name=name]', 'made:here');
  await page.fill('dialog input[name=first]', 'v');
  await page.click('dialog button:has-text("Create")');
  await until('v', 'GET', 'made:here');
  await page.click('.keyhead button:has-text("Expiry")');
  await page.fill('dialog input[name=seconds]', '300');
  await page.click('dialog button:has-text("Set")');
  await page.waitForSelector('text=expires in');
  await page.click('.keyhead button:has-text("Rename")');
  await page.fill('dialog input[name=to]', 'made:there');
  await page.click('dialog button:has-text("Rename")');
  await until('v', 'GET', 'made:there');
  await page.waitForSelector('h2:has-text("made:there")');
  await page.click('.keyhead button:has-text("Delete")');
  await page.click('dialog button.danger');
  await until(0, 'EXISTS', 'made:there');
});

test('slow commands are listed', async () => {
  await db.do('EVAL', 'local n = 0 for i = 1, 3000000 do n = n + i end return n', '0');
  await at('slow');
  await page.waitForSelector('td:has-text("EVAL local n")');
  await page.click('button:has-text("Latency events")');
  await page.waitForSelector('.card');
});

test('a client is closed', async () => {
  const victim = server.dial();
  await victim.do('AUTH', password);
  await victim.do('CLIENT', 'SETNAME', 'victim');
  const id = await victim.do('CLIENT', 'ID');
  await at('clients');
  await page.click(`button[aria-label="Close client ${id}"]`);
  await page.click('dialog button.danger');
  await until('', 'CLIENT', 'LIST', 'ID', id);
  victim.close();
});

test('messages are followed', async () => {
  await at('messages');
  await page.fill('input[name=names]', 'news');
  await page.click('button:has-text("Follow")');
  await until(['news', 1], 'PUBSUB', 'NUMSUB', 'news');
  await db.do('PUBLISH', 'news', 'hello there');
  await page.waitForSelector('.lines li:has-text("hello there")');
});

test('a user of the ACL is made, changed and deleted', async () => {
  await at('users');
  await page.click('button:has-text("New user")');
  await page.fill('dialog input[name=name]', 'made');
  await page.fill('dialog input[name=newpassword]', 'pw');
  await page.fill('dialog textarea', '~m:* +get');
  await page.click('dialog button:has-text("Save")');
  await page.waitForSelector('td:has-text("~m:*")');
  await page.click('button[aria-label="Edit made"]');
  await page.fill('dialog textarea', '~n:* +get');
  await page.click('dialog button:has-text("Save")');
  await page.waitForSelector('td:has-text("~n:*")');
  assert.equal(await db.do('ACL', 'DRYRUN', 'made', 'GET', 'n:1'), 'OK');
  await page.click('button[aria-label="Delete made"]');
  await page.click('dialog button.danger');
  await until(null, 'ACL', 'GETUSER', 'made');
});

test('a directive is changed, and what it means is told', async () => {
  await at('config');
  await page.fill('input[type=search]', 'slowlog-max-len');
  await page.waitForSelector('td:has-text("How many commands the slow log keeps")');
  await editCell('slowlog-max-len', '77');
  await until(['slowlog-max-len', '77'], 'CONFIG', 'GET', 'slowlog-max-len');
  await page.waitForSelector('tr:has-text("slowlog-max-len") .badge:has-text("changed")');
});

test('the cluster is drawn', async () => {
  await at('cluster');
  await page.waitForSelector('text=This server is not in a cluster');
});

test('a phone shows all pages without scrolling sideways', async () => {
  await at('overview', { viewport: { width: 390, height: 780 }, hasTouch: true, isMobile: true });
  for (const path of ['overview', 'keys', 'terminal', 'slow', 'clients', 'messages', 'users', 'config', 'cluster']) {
    await page.evaluate((p) => (location.hash = '#/' + p), path);
    await page.waitForFunction(() => document.querySelector('main') && !document.querySelector('main > .loading'));
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth + 1), path);
  }
});

test('the keyboard goes everywhere', async () => {
  await at('overview');
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.waitForSelector('h1:has-text("Keys")');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.type), 'search');
});

test(`${keys.toLocaleString('en-US')} keys are browsed`, async () => {
  await db.do('FLUSHALL');
  const batch = 5000;
  for (let i = 0; i < keys; i += batch) {
    await db.all([['MSET', ...Array.from({ length: Math.min(batch, keys - i) }, (_, j) => [`${i % 2 ? 'odd' : 'user'}:${(i + j) % 1000}:${i + j}`, 'v']).flat()]]);
  }
  assert.equal(await db.do('DBSIZE'), keys);
  await at('keys');
  await page.evaluate(() => {
    window.longest = 0;
    let last = performance.now();
    const look = (now) => { window.longest = Math.max(window.longest, now - last); last = now; requestAnimationFrame(look); };
    requestAnimationFrame(look);
  });
  await page.waitForFunction(() => /keys$/.test(document.querySelector('.scan')?.textContent.trim() ?? '') && !document.querySelector('.scan .loading'), null, { timeout: 200_000 });
  await page.click('.keyrow:has-text("user:")');
  await page.waitForSelector('.keyrow.d1');
  await page.mouse.move(300, 500);
  for (let i = 0; i < 20; i++) await page.mouse.wheel(0, 2000);
  assert.ok((await page.locator('.keyrow').count()) < 200, 'only rows in view are in the page');
  await page.fill('input[type=search]', `*:${keys - 1}`);
  await page.click(`.keyrow:has-text(":${keys - 1}")`, { timeout: 200_000 });
  await page.waitForSelector('textarea[aria-label=Value]');
  console.log(`      longest time between two frames: ${Math.round(await page.evaluate(() => window.longest))} ms`);
});

async function picture(name, path, o, before) {
  await at(path, o);
  await page.waitForTimeout(2500); // the charts have begun
  await before?.();
  await page.screenshot({ path: `${shots}/${name}.png` });
}

/** Writes the pictures of the documentation. */
async function pictures() {
  mkdirSync(shots, { recursive: true });
  await db.do('FLUSHALL');
  await db.all([
    ['SET', 'shop:config', '{"name":"shop","currency":"EUR","limits":{"cart":50,"rate":[1,2,3]}}'], ['HSET', 'user:1', 'name', 'Ann', 'mail', 'ann@example.com', 'visits', '17'],
    ['RPUSH', 'jobs:mail', 'a', 'b'], ['SADD', 'tags', 'red', 'green'], ['XADD', 'events', '*', 'kind', 'click'], ['CHSUBSCRIBE', 'news', 'alice'],
    ...Array.from({ length: 1500 }, (_, i) => ['ZADD', 'board', Math.round(500 + 120 * (Math.sin(i) + Math.sin(i * 1.7) + Math.cos(i * 0.3))), 'player:' + i]),
  ]);
  let over = false;
  const load = (async () => {
    for (let n = 0; !over; n++) {
      await db.all(Array.from({ length: 300 + Math.round(120 * Math.sin(n / 300) + 60 * Math.random()) }, (_, i) => [['SET', `user:${(n * i) % 5000}:name`, 'v'.repeat(i % 200)], ['GET', `user:${(n + i) % 9000}:name`], ['HINCRBY', 'user:1', 'visits', 1], ['ZINCRBY', 'board', 1, 'player:' + (i % 1500)]][i % 4]));
      await new Promise((r) => setTimeout(r, 20));
    }
  })();
  await new Promise((r) => setTimeout(r, 40_000));
  await picture('console-overview', 'overview');
  await picture('console-overview-dark', 'overview', { colorScheme: 'dark' });
  await picture('console-keys', key('board'), {}, async () => { await page.click('button:has-text("Scores")'); await page.waitForSelector('.histogram rect'); });
  await picture('console-terminal', 'terminal', {}, async () => {
    for (const line of ['HGETALL user:1', 'ZRANGE board 0 2 WITHSCORES']) {
      await page.fill('.prompt input', line);
      await page.press('.prompt input', 'Enter');
      await page.waitForSelector('.prompt input:not([disabled])');
    }
    await page.fill('.prompt input', 'ZADD board ');
    await page.waitForSelector('.manual');
  });
  await picture('console-config', 'config');
  await picture('console-phone', 'overview', { viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
  over = true;
  await load;
}

server = await startServer(program, '--requirepass', password, '--slowlog-log-slower-than', '5000');
browser = await chromium.launch({ executablePath, args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
db = server.dial();
await db.do('AUTH', password);
let passed = 0, failed = 0;
try {
  if (shots) await pictures();
  else {
    for (const { name, f } of tests.filter((t) => t.name.includes(option('--run', '')))) {
      const began = Date.now();
      try {
        await f();
        assert.deepEqual(problems, [], 'errors in the page');
        passed++;
        console.log(`ok    ${name} (${Date.now() - began} ms)`);
      } catch (e) {
        failed++;
        console.log(`FAIL  ${name}\n${e.stack}`);
        await page?.screenshot({ path: `${option('--failures', '.')}/failed-${failed}.png` }).catch(() => {});
      }
    }
  }
} finally {
  await browser.close();
  db.close();
  await server.stop();
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed > 0 ? 1 : 0);
