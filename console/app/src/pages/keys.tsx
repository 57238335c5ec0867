import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ask, call, run } from '../api';
import { bytes, count, span, whole } from '../format';
import { Detail } from '../editors/detail';
import { NewKey } from '../editors/new';
import { id, num, str, text, type Reply, type Text } from '../reply';
import { go, useDB, useRoute, useSession } from '../session';
import { add, empty, rowsOf, type Node, type Part, type Row } from '../keytree';
import { Choice, Empty, Page, Problem, Rows, useAction } from '../ui';

export interface Filter {
  match: string;
  type: string;
  ttl: string;
  minSize: number;
  separator: string;
}

const types = ['string', 'hash', 'list', 'set', 'zset', 'stream', 'channel'];
const none: Filter = { match: '', type: '', ttl: '', minSize: 0, separator: ':' };
const pages = 400; // requests for one node before somebody has to say "go on"

/** A key in an address: s and the text, or b and base64. */
export const keyOf = (s: string | null): Text | null => (s === null || s === '' ? null : s[0] === 'b' ? { bytes: s.slice(1) } : s.slice(1));

export function Keys() {
  const session = useSession();
  const route = useRoute();
  const [db, setDB] = useDB();
  const [filter, setFilter] = useState(none);
  const [mode, setMode] = useState<'browse' | 'size' | 'idle'>('browse');
  const [making, setMaking] = useState(false);
  const [turn, setTurn] = useState(0);
  const [size, setSize] = useState<number | null>(null);
  const key = keyOf(route.query.get('key'));
  const open = (k: Text | null) => go('keys', k === null ? {} : { key: id(k) });
  useEffect(() => {
    let over = false;
    void ask(db, ['DBSIZE']).then((n) => over || setSize(num(n)), () => setSize(null));
    return () => void (over = true);
  }, [db, turn]);
  return (
    <Page
      title="Keys"
      note={size === null ? '' : `${whole(size)} keys in database ${db}`}
      actions={
        <>
          <label class="check">Database
            <select value={db} onChange={(e) => { open(null); setDB(Number(e.currentTarget.value)); }}>
              {Array.from({ length: Math.min(session.about?.databases ?? 16, 256) }, (_, i) => <option value={i} key={i}>{i}</option>)}
            </select>
          </label>
          <Choice label="View" value={mode} set={setMode} options={[['browse', 'Browse'], ['size', 'Biggest'], ['idle', 'Hottest']]} />
          {!session.readOnly && <button class="primary" onClick={() => setMaking(true)}>New key</button>}
        </>
      }
    >
      {making && <NewKey db={db} close={() => setMaking(false)} made={(k) => { setMaking(false); setTurn(turn + 1); open(k); }} />}
      <div class={'keys' + (key !== null ? ' chosen' : '')}>
        <section class="card list">
          {mode === 'browse'
            ? <Browser db={db} filter={filter} setFilter={setFilter} chosen={key} open={open} turn={turn} reload={() => setTurn(turn + 1)} />
            : <Samples db={db} by={mode} open={open} chosen={key} />}
        </section>
        <section class="card detail">
          {key === null
            ? <Empty title="No key is chosen">Choose one on the left to see what it holds, and to change it.</Empty>
            : <Detail key={db + id(key)} db={db} name={key} close={() => open(null)} renamed={(k) => { setTurn(turn + 1); open(k); }} deleted={() => { open(null); setTurn(turn + 1); }} />}
        </section>
      </div>
    </Page>
  );
}

function Browser({ db, filter, setFilter, chosen, open, turn, reload }: {
  db: number; filter: Filter; setFilter: (f: Filter) => void; chosen: Text | null; open: (k: Text) => void; turn: number; reload: () => void;
}) {
  const root = useRef<Node>(empty('', ''));
  const [version, setVersion] = useState(0);
  const [error, setError] = useState<string | null>(null);
  const [more, setMore] = useState(false);
  const [typed, setTyped] = useState(filter.match);
  const stop = useRef(new AbortController());
  const draw = () => setVersion((n) => n + 1);

  const scan = async (node: Node) => {
    if (node.running || node.cursor === '0') return;
    const signal = stop.current.signal;
    node.running = true;
    draw();
    try {
      for (let i = 0; i < pages && node.open && !signal.aborted; i++) {
        const part = await call<Part>('POST', 'tree', {
          db, prefix: node.prefix, separator: filter.match ? '' : filter.separator, match: filter.match, type: filter.type, ttl: filter.ttl, minSize: filter.minSize,
          cursor: node.cursor, keys: Math.max(0, 2000 - node.keys.length),
        }, signal);
        if (signal.aborted) return;
        const fresh = add(node, part);
        if (fresh.length > 0 && filter.type === '') {
          const kinds = await run(db, fresh.map((k) => ['TYPE', k]), { signal });
          fresh.forEach((k, j) => node.types.set(id(k), str(kinds[j]!)));
        }
        draw();
        if (node.cursor === '0') break;
      }
    } catch (e) {
      if (!signal.aborted) setError((e as Error).message);
    } finally {
      node.running = false;
      draw();
    }
  };
  useEffect(() => {
    stop.current.abort();
    stop.current = new AbortController();
    root.current = empty('', '');
    root.current.open = true;
    setError(null);
    void scan(root.current);
    return () => stop.current.abort();
  }, [db, filter, turn]);
  useEffect(() => {
    const t = setTimeout(() => typed !== filter.match && setFilter({ ...filter, match: typed }), 350);
    return () => clearTimeout(t);
  }, [typed]);

  const rows = useMemo(() => rowsOf(root.current), [version]);
  const toggle = (node: Node) => {
    node.open = !node.open;
    draw();
    if (node.open) void scan(node);
  };
  const top = root.current;
  const filtered = filter.type !== '' || filter.ttl !== '' || filter.minSize > 0 || filter.match !== '';
  const walk = (e: KeyboardEvent) => {
    if (e.key !== 'ArrowDown' && e.key !== 'ArrowUp') return;
    const here = (e.target as HTMLElement).closest('.keyrow');
    const next = e.key === 'ArrowDown' ? here?.nextElementSibling : here?.previousElementSibling;
    if (next instanceof HTMLElement) {
      e.preventDefault();
      next.focus();
    }
  };
  return (
    <>
      <div class="filters">
        <input type="search" placeholder="Pattern, such as user:*" aria-label="Pattern" value={typed} onInput={(e) => setTyped(e.currentTarget.value)} />
        <button class="small" aria-expanded={more} onClick={() => setMore(!more)}>Filter{filtered && filter.match === '' ? ' •' : ''}</button>
        <button class="small" title="Read the keys again" aria-label="Read the keys again" onClick={reload}>↻</button>
      </div>
      {more && (
        <div class="filters more">
          <label class="field"><span>Type</span><select name="type" value={filter.type} onChange={(e) => setFilter({ ...filter, type: e.currentTarget.value })}>
            <option value="">all</option>{types.map((t) => <option key={t}>{t}</option>)}</select></label>
          <label class="field"><span>Expiry</span><select name="ttl" value={filter.ttl} onChange={(e) => setFilter({ ...filter, ttl: e.currentTarget.value })}>
            <option value="">any</option><option value="expires">expires</option><option value="lasts">does not</option></select></label>
          <label class="field"><span>At least</span><select name="size" value={filter.minSize} onChange={(e) => setFilter({ ...filter, minSize: Number(e.currentTarget.value) })}>
            <option value={0}>any size</option><option value={1024}>1 KB</option><option value={65536}>64 KB</option><option value={1 << 20}>1 MB</option><option value={16 << 20}>16 MB</option></select></label>
          <label class="field"><span>Separator</span><input class="tiny" value={filter.separator} maxLength={4} onChange={(e) => setFilter({ ...filter, separator: e.currentTarget.value })} /></label>
        </div>
      )}
      {error && <Problem text={error} again={() => { setError(null); void scan(top); }} />}
      <div class="tree" role="tree" aria-label="Keys" onKeyDown={walk}>
        {rows.length === 0 && top.cursor === '0'
          ? <Empty title={filtered ? 'No key is like that' : 'This database is empty'}>{filtered ? 'Other filters may find some.' : 'Make a key here, or have a client write one.'}</Empty>
          : <Rows items={rows} height={28} render={(r: Row) => <Line key={r.key} row={r} chosen={chosen !== null && r.kind === 'key' && id(r.name) === id(chosen)} open={open} toggle={toggle} />} />}
      </div>
      <footer class="scan">
        {top.running
          ? <span class="loading"><i />{count(top.found)} keys found so far</span>
          : top.cursor === '0'
            ? <span>{count(top.found)} keys</span>
            : <span>{count(top.found)} keys so far <button class="small" onClick={() => void scan(top)}>Go on</button></span>}
      </footer>
    </>
  );
}

function Line({ row, chosen, open, toggle }: { row: Row; chosen: boolean; open: (k: Text) => void; toggle: (n: Node) => void }) {
  const indent = 'd' + Math.min(row.depth, 8);
  if (row.kind === 'more') return <div class={'keyrow note ' + indent}>{row.text}</div>;
  if (row.kind === 'group') {
    return (
      <button class={'keyrow ' + indent} role="treeitem" aria-expanded={row.node.open} onClick={() => toggle(row.node)}>
        <span class="twist">{row.node.open ? '▾' : '▸'}</span>
        <span class="name">{row.node.label}</span>
        <small>{row.node.running && row.node.found === 0 ? '…' : count(row.node.count)}</small>
      </button>
    );
  }
  return (
    <button class={'keyrow ' + indent} role="treeitem" aria-selected={chosen} onClick={() => open(row.name)}>
      <span class={'type ' + row.type} title={row.type}>{mark(row.type)}</span>
      <span class="name">{row.label}</span>
    </button>
  );
}

export const mark = (type: string): string => ({ string: 'S', hash: 'H', list: 'L', set: 'E', zset: 'Z', stream: 'X', channel: 'C' })[type] ?? '·';

interface Sampled {
  key: Text;
  type: string;
  value: number;
}

/** Keys of a random sample, the biggest or the most recently used first. */
function Samples({ db, by, open, chosen }: { db: number; by: 'size' | 'idle'; open: (k: Text) => void; chosen: Text | null }) {
  const [found, setFound] = useState<Map<string, Sampled>>(new Map());
  const [looked, setLooked] = useState(0);
  const [lfu, setLFU] = useState(false);
  const take = useAction(async () => {
    const policy = by === 'idle' ? str((await ask(db, ['INFO', 'memory']).catch(() => '')) as Reply) : '';
    const byUse = /maxmemory_policy:\S*lfu/.test(policy);
    setLFU(byUse);
    for (let i = 0; i < 8; i++) {
      const names = await run(db, Array.from({ length: 250 }, () => ['RANDOMKEY']));
      const keys = new Map<string, Text>();
      for (const n of names) if (n !== null && typeof n !== 'object' || n !== null && 'bytes' in (n as object)) keys.set(id(text(n)), text(n));
      const list = [...keys.values()];
      const ask2 = list.flatMap((k): Text[][] => [by === 'size' ? ['MEMORY', 'USAGE', k] : ['OBJECT', byUse ? 'FREQ' : 'IDLETIME', k], ['TYPE', k]]);
      const replies = await run(db, ask2);
      setLooked((n) => n + list.length);
      setFound((old) => {
        const all = new Map(old);
        list.forEach((k, j) => {
          const value = num(replies[2 * j]!);
          if (isFinite(value)) all.set(id(k), { key: k, type: str(replies[2 * j + 1]!), value });
        });
        const order = [...all.entries()].sort(([, a], [, b]) => (by === 'size' || byUse ? b.value - a.value : a.value - b.value));
        return new Map(order.slice(0, 100));
      });
      if (list.length < 20) break;
    }
  });
  useEffect(() => {
    setFound(new Map());
    setLooked(0);
    void take.go();
  }, [db, by]);
  const rows = [...found.values()];
  return (
    <>
      <div class="filters">
        <span class="muted">{by === 'size' ? 'Biggest' : lfu ? 'Most used' : 'Most recently used'} of {whole(looked)} keys taken at random</span>
        <span class="grow" />
        <button class="small" disabled={take.busy} onClick={() => void take.go()}>Take more</button>
      </div>
      {take.error && <Problem text={take.error} again={() => void take.go()} />}
      <div class="tree">
        {rows.length === 0 && !take.busy
          ? <Empty title="There are no keys to take" />
          : <Rows items={rows} height={28} render={(s) => (
              <button key={id(s.key)} class="keyrow d0" aria-selected={chosen !== null && id(s.key) === id(chosen)} onClick={() => open(s.key)}>
                <span class={'type ' + s.type} title={s.type}>{mark(s.type)}</span>
                <span class="name">{str(s.key)}</span>
                <small>{by === 'size' ? bytes(s.value) : lfu ? whole(s.value) : s.value < 1 ? 'just now' : span(1000 * s.value) + ' ago'}</small>
              </button>
            )} />}
      </div>
    </>
  );
}
