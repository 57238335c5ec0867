import { CommandError, isError, type Reply, type Text } from './reply';

// The API of the console: see console/run.go.

export interface State {
  user?: string;
  token?: string;
  admin: boolean;
  readOnly: boolean;
  open: boolean;
  about?: { version: string; redis: string; engine: string; durability: string; databases: number; addr: string };
}

/** An answer that is not 2xx. Status 0: there was none. */
export class ApiError extends Error {
  constructor(readonly status: number, message: string) {
    super(message);
  }
}

let token = '';
let loggedOut: () => void = () => {};

export function onLoggedOut(f: () => void): void {
  loggedOut = f;
}

export async function call<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  let res: Response;
  try {
    res = await fetch('api/' + path, {
      method, signal: signal ?? null, credentials: 'same-origin',
      headers: { ...(method === 'GET' ? {} : { 'X-Redoubt-Token': token }), ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? null : JSON.stringify(body),
    });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError(0, 'The server does not answer. It may have stopped, or the network is down.');
  }
  if (res.status === 204) return undefined as T;
  const answer = await res.json().catch(() => ({ error: `The answer is not understood (status ${res.status}).` }));
  if (!res.ok) {
    if (res.status === 401 && !path.startsWith('login')) loggedOut();
    throw new ApiError(res.status, String(answer.error ?? res.statusText));
  }
  return answer as T;
}

async function keep(s: Promise<State>): Promise<State> {
  const state = await s;
  token = state.token ?? '';
  return state;
}

export const getState = (): Promise<State> => keep(call('GET', 'login'));
export const logIn = (user: string, password: string): Promise<State> => keep(call('POST', 'login', { user, password }));
export const logOut = (): Promise<void> => call('DELETE', 'login');

export interface Result {
  replies: Reply[] | null;
  pushes?: Reply[];
  error?: string;
  micros: number;
}

export interface RunOptions {
  atomic?: boolean;
  terminal?: string;
  signal?: AbortSignal;
}

export const runRaw = (db: number, commands: Text[][], o: RunOptions = {}): Promise<Result> =>
  call('POST', 'run', { db, commands, ...(o.atomic ? { atomic: true } : {}), ...(o.terminal ? { terminal: o.terminal } : {}) }, o.signal);

/** Runs commands, and returns a reply for each; an error reply is a reply. */
export async function run(db: number, commands: Text[][], o: RunOptions = {}): Promise<Reply[]> {
  if (commands.length === 0) return [];
  const r = await runRaw(db, commands, o);
  if (r.error) throw new CommandError(r.error);
  return r.replies ?? [];
}

/** Runs a command, and throws an error reply. */
export async function ask(db: number, command: Text[], o: RunOptions = {}): Promise<Reply> {
  const [reply] = await run(db, [command], o);
  if (isError(reply!)) throw new CommandError(reply.error);
  return reply!;
}

/** Runs commands all or none, and throws the first error. */
export async function change(db: number, commands: Text[][]): Promise<void> {
  const replies = commands.length === 1 ? await run(db, commands) : await run(db, commands, { atomic: true });
  const bad = replies.flatMap((r) => (Array.isArray(r) ? r : [r])).find((r) => r !== null && isError(r));
  if (bad) throw new CommandError((bad as { error: string }).error);
}
