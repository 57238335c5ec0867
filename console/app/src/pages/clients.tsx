import { useState } from 'preact/hooks';
import { ask } from '../api';
import { bytes, span, whole } from '../format';
import { str } from '../reply';
import { useSession } from '../session';
import { Confirm, Empty, Gate, Page, useLoad } from '../ui';

export type Client = Record<string, string>;

/** The lines of CLIENT LIST. */
export function readClients(text: string): Client[] {
  return text.split('\n').filter((l) => l.trim() !== '').map((line) => Object.fromEntries(line.trim().split(' ').map((p) => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)])));
}

const columns: { name: string; title: string; by: (c: Client) => number | string; numeric?: boolean }[] = [
  { name: 'id', title: 'Id', by: (c) => Number(c.id), numeric: true },
  { name: 'addr', title: 'Address', by: (c) => c.addr ?? '' },
  { name: 'name', title: 'Name', by: (c) => c.name || c['lib-name'] || '' },
  { name: 'user', title: 'User', by: (c) => c.user ?? '' },
  { name: 'cmd', title: 'Last command', by: (c) => c.cmd ?? '' },
  { name: 'age', title: 'Connected', by: (c) => Number(c.age), numeric: true },
  { name: 'idle', title: 'Idle', by: (c) => Number(c.idle), numeric: true },
  { name: 'omem', title: 'Unread', by: (c) => Number(c.omem), numeric: true },
  { name: 'tot-mem', title: 'Memory', by: (c) => Number(c['tot-mem']), numeric: true },
];

const flags: Record<string, string> = { b: 'waits', P: 'subscribed', O: 'monitor', x: 'in MULTI', t: 'tracking', e: 'never evicted' };
const shown = 500;

export function Clients() {
  const { readOnly } = useSession();
  const [order, setOrder] = useState('tot-mem');
  const [filter, setFilter] = useState('');
  const [killing, setKilling] = useState<Client | null>(null);
  const data = useLoad(async (signal) => readClients(str(await ask(0, ['CLIENT', 'LIST'], { signal }))), [], 2000);
  return (
    <Page title="Clients" note={data.data ? `${whole(data.data.length)} connected` : ''} actions={<input type="search" placeholder="Address, name, user, command" aria-label="Filter" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />}>
      <Gate of={data}>
        {(all) => {
          const by = columns.find((c) => c.name === order)!;
          const list = all.filter((c) => filter === '' || Object.values(c).some((v) => v.includes(filter)))
            .sort((a, b) => { const x = by.by(a); const y = by.by(b); return by.numeric ? Number(y) - Number(x) : String(x) < String(y) ? -1 : 1; });
          return (
            <section class="card">
              {list.length === 0 ? <Empty title="No client is like that" /> : (
                <div class="scroll"><table>
                  <thead><tr>{columns.map((c) => <th key={c.name} class={c.numeric ? 'n' : ''}><button aria-pressed={order === c.name} onClick={() => setOrder(c.name)}>{c.title}{order === c.name ? ' ↓' : ''}</button></th>)}<th /></tr></thead>
                  <tbody>
                    {list.slice(0, shown).map((c) => (
                      <tr key={c.id}>
                        <td class="n muted">{c.id}</td>
                        <td class="nowrap">{c.addr}</td>
                        <td>{c.name || <span class="muted">{c['lib-name']}</span>} {[...(c.flags ?? '')].filter((f) => flags[f]).map((f) => <span class="badge plain" key={f}>{flags[f]}</span>)}</td>
                        <td>{c.user}</td>
                        <td class="mono">{(c.cmd ?? '').replace('|', ' ')}</td>
                        <td class="n">{span(1000 * Number(c.age))}</td>
                        <td class="n">{span(1000 * Number(c.idle))}</td>
                        <td class="n">{bytes(Number(c.omem))}</td>
                        <td class="n">{bytes(Number(c['tot-mem']))}</td>
                        <td class="acts">{!readOnly && <button class="small danger" aria-label={`Close client ${c.id}`} onClick={() => setKilling(c)}>Close</button>}</td>
                      </tr>
                    ))}
                  </tbody>
                </table></div>
              )}
              {list.length > shown && <p class="hint">{whole(list.length - shown)} more: the filter finds them.</p>}
            </section>
          );
        }}
      </Gate>
      {killing && (
        <Confirm title="Close the client?" verb="Close it" close={() => setKilling(null)} text={<>The connection of <b>{killing.name || killing.addr}</b> (user {killing.user}) ends at once. What it runs is given up; most clients connect again.</>}
          act={async () => { await ask(0, ['CLIENT', 'KILL', 'ID', killing.id!]); data.reload(); }} />
      )}
    </Page>
  );
}
