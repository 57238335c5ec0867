import { chromium } from 'playwright-core';
const b = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless','--no-sandbox','--disable-gpu','--disable-quic','--no-first-run','--disable-background-networking','--disable-component-update','--disable-sync'] });
const [path, name, w='1280', h='860', theme='light', ...acts] = process.argv.slice(2);
const p = await b.newPage({ viewport: { width: +w, height: +h }, colorScheme: theme });
p.on('console', m => console.log('console:', m.text())); p.on('pageerror', e => console.log('pageerror:', e.message));
await p.goto('http://127.0.0.1:7391/console/#/' + path);
await p.waitForSelector('nav', {timeout: 8000}).catch(e=>console.log(e.message));
await p.waitForTimeout(2500);
for (const a of acts) { const [verb, ...r] = a.split('::'); 
 if (verb==='click') await p.click(r[0]); if (verb==='fill') await p.fill(r[0], r[1]); if (verb==='press') await p.press(r[0], r[1]); if (verb==='wait') await p.waitForTimeout(+r[0]); }
if (acts.length) await p.waitForTimeout(600);
await p.screenshot({ path: '/tmp/cs/' + name + '.png' });
await b.close();
