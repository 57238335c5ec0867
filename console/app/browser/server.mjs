// A server for the tests of the page, and a client of its port.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Starts the program on free ports, and returns once it serves. */
export async function startServer(program, ...args) {
  const dir = mkdtempSync(join(tmpdir(), 'redoubt-console-'));
  const child = spawn(program, ['--port', '0', '--bind', '127.0.0.1', '--http-addr', '127.0.0.1:0', '--dir', dir, '--loglevel', 'warning', '--maxmemory', '1gb', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  const find = (pattern) => said.match(pattern)?.[1];
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (d) => {
      said += d;
      if (/durability/.test(said)) resolve();
    });
    child.on('exit', (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return {
    url: find(/console\s+(\S+)/),
    port: Number(find(/listening\s+\S+:(\d+)/)),
    hold() { child.kill('SIGSTOP'); },
    goOn() { child.kill('SIGCONT'); },
    dial() { return new Client(this.port); },
    async stop() {
      if (child.exitCode === null) {
        child.removeAllListeners('exit');
        const gone = new Promise((resolve) => child.on('exit', resolve));
        child.kill('SIGTERM');
        await gone;
      }
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

const encode = (args) => `*${args.length}\r\n` + args.map((a) => `$${Buffer.byteLength(String(a))}\r\n${a}\r\n`).join('');

/** A client that speaks RESP2. */
export class Client {
  #waiting = [];
  #buf = Buffer.alloc(0);
  constructor(port) {
    this.socket = net.connect(port, '127.0.0.1');
    this.socket.on('error', () => this.#waiting.splice(0).forEach((w) => w(new Error('connection lost'))));
    this.socket.on('data', (d) => {
      this.#buf = this.#buf.length ? Buffer.concat([this.#buf, d]) : d;
      for (let r; this.#waiting.length && (r = parse(this.#buf, 0)); ) {
        this.#buf = this.#buf.subarray(r[1]);
        this.#waiting.shift()(r[0]);
      }
    });
  }
  do(...args) { return this.all([args]).then((r) => r[0]); }
  all(commands) {
    const replies = commands.map(() => new Promise((resolve) => this.#waiting.push(resolve)));
    this.socket.write(commands.map(encode).join(''));
    return Promise.all(replies);
  }
  close() { this.socket.destroy(); }
}

/** Returns a reply and the offset behind it; null if it is not complete. */
function parse(b, at) {
  const end = b.indexOf('\r\n', at);
  if (end < 0) return null;
  const line = b.toString('utf8', at + 1, end);
  switch (b[at]) {
    case 36: {
      const n = Number(line);
      if (n < 0) return [null, end + 2];
      return b.length < end + 4 + n ? null : [b.toString('utf8', end + 2, end + 2 + n), end + 4 + n];
    }
    case 42: {
      const list = [];
      for (let i = 0, next = end + 2; ; i++) {
        if (i >= Number(line)) return [list, next];
        const r = parse(b, next);
        if (!r) return null;
        list.push(r[0]);
        next = r[1];
      }
    }
    case 58: return [Number(line), end + 2];
    case 45: return [new Error(line), end + 2];
    default: return [line, end + 2];
  }
}
