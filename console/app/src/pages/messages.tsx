import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, run } from '../api';
import { clock, whole } from '../format';
import { isError, list, num, pairs, str, type Reply } from '../reply';
import { useSession } from '../session';
import { Choice, Empty, Gate, Page, Problem, useLoad } from '../ui';
import { Adder } from '../editors/parts';

interface Line {
  n: number;
  at: number;
  channel: string;
  text: string;
}

const kept = 1000;

/** Subscriptions of all clients, and what is published now, or what the server runs now. */
export function Messages() {
  const { readOnly } = useSession();
  const [mode, setMode] = useState<'messages' | 'monitor'>('messages');
  const [names, setNames] = useState('*');
  const [following, setFollowing] = useState('');
  const subs = useLoad(async (signal) => {
    const [channels, patterns, shards] = await run(0, [['PUBSUB', 'CHANNELS'], ['PUBSUB', 'NUMPAT'], ['PUBSUB', 'SHARDCHANNELS']], { signal });
    if (isError(channels!)) throw new Error(channels.error);
    const all = list(channels!).map(str).sort();
    const counts = all.length > 0 ? await run(0, [['PUBSUB', 'NUMSUB', ...all.slice(0, 1000)]], { signal }) : [];
    return { channels: counts.length > 0 ? pairs(Array.isArray(counts[0]) ? { map: counts[0] } : counts[0]!).map(([c, n]) => [str(c), num(n)] as const) : [], patterns: num(patterns!), shards: list(shards!).map(str) };
  }, [], 3000);
  const query = mode === 'monitor' ? 'monitor=1' : names.split(/\s+/).filter(Boolean).map((n) => (/[*?[]/.test(n) ? 'pattern=' : 'channel=') + encodeURIComponent(n)).join('&');
  return (
    <Page title="Messages" actions={<Choice label="What to follow" value={mode} set={(m) => { setMode(m); setFollowing(''); }} options={[['messages', 'Messages'], ['monitor', 'Commands']]} />}>
      <div class="halves">
        <section class="card">
          <header><h3>Subscriptions</h3></header>
          <Gate of={subs}>
            {(d) => (d.channels.length + d.patterns + d.shards.length === 0 ? <Empty title="Nobody subscribes" /> : (
              <>
                <p class="facts"><span>{whole(d.channels.length)} channels</span><span>{whole(d.patterns)} patterns</span><span>{whole(d.shards.length)} shard channels</span></p>
                <div class="scroll tall"><table>
                  <thead><tr><th>Channel</th><th class="n">Subscribers</th></tr></thead>
                  <tbody>{d.channels.map(([c, n]) => <tr key={c}><td class="mono">{c}</td><td class="n">{whole(n)}</td></tr>)}</tbody>
                </table></div>
              </>
            ))}
          </Gate>
          {!readOnly && <Adder verb="Publish" fields={[{ name: 'to', label: 'Channel' }, { name: 'text', label: 'Message' }]} add={async (c, m) => { await ask(0, ['PUBLISH', c!, m!]); }} />}
        </section>
        <section class="card">
          <form class="filters" onSubmit={(e) => { e.preventDefault(); setFollowing(following ? '' : query); }}>
            {mode === 'messages'
              ? <input class="mono wide" aria-label="Channels and patterns" name="names" value={names} onInput={(e) => setNames(e.currentTarget.value)} disabled={following !== ''} />
              : <span class="muted wide">Every command that any client runs, as MONITOR shows them. It costs the server time.</span>}
            <button class={following ? '' : 'primary'} disabled={query === ''}>{following ? 'Stop' : 'Follow'}</button>
          </form>
          {following === '' ? <Empty title={mode === 'messages' ? 'Nothing is followed' : 'Commands are not shown'}>{mode === 'messages' ? 'Name channels or patterns. Keyspace events are on __keyevent@*, if notify-keyspace-events says so.' : 'Follow shows them as they run.'}</Empty> : <Follow query={following} />}
        </section>
      </div>
    </Page>
  );
}

function Follow({ query }: { query: string }) {
  const [lines, setLines] = useState<Line[]>([]);
  const [skipped, setSkipped] = useState(0);
  const [problem, setProblem] = useState<string | null>(null);
  const n = useRef(0);
  useEffect(() => {
    setLines([]);
    setProblem(null);
    const source = new EventSource('api/listen?' + query);
    source.addEventListener('messages', (e) => {
      const batch = JSON.parse((e as MessageEvent<string>).data) as { messages: Reply[] | null; skipped: number };
      const fresh = (batch.messages ?? []).flatMap(read).map((l) => ({ ...l, n: n.current++, at: Date.now() / 1000 }));
      setProblem(null);
      setSkipped((s) => s + batch.skipped);
      if (fresh.length > 0) setLines((old) => [...fresh.reverse(), ...old].slice(0, kept));
    });
    source.addEventListener('end', (e) => {
      setProblem(JSON.parse((e as MessageEvent<string>).data) as string);
      source.close();
    });
    source.onerror = () => setProblem('The connection is lost; the browser tries again. Messages of the time between are lost.');
    return () => source.close();
  }, [query]);
  return (
    <>
      {problem && <Problem text={problem} />}
      {skipped > 0 && <p class="hint">{whole(skipped)} more came than can be shown.</p>}
      {lines.length === 0 && !problem && <p class="loading"><i />Waiting for what comes</p>}
      <ol class="lines" aria-live="off">
        {lines.map((l) => <li key={l.n}><time>{clock(l.at)}</time>{l.channel && <b class="mono">{l.channel}</b>}<span class="mono value">{l.text}</span></li>)}
      </ol>
    </>
  );
}

/** A message, or a line of MONITOR; what confirms a subscription is none. */
export function read(m: Reply): { channel: string; text: string }[] {
  if (m !== null && typeof m === 'object' && 'status' in m) return m.status === 'OK' ? [] : [{ channel: '', text: m.status }];
  const [kind, ...rest] = list(m).map(str);
  if (kind === 'message' || kind === 'smessage') return [{ channel: rest[0] ?? '', text: rest[1] ?? '' }];
  if (kind === 'pmessage') return [{ channel: rest[1] ?? '', text: rest[2] ?? '' }];
  return [];
}
