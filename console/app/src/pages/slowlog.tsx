import { useState } from 'preact/hooks';
import { ask, change, run } from '../api';
import { micros, span, when, whole } from '../format';
import { isError, list, num, str } from '../reply';
import { useSession } from '../session';
import { Choice, Empty, Gate, Page, useLoad } from '../ui';
import { Act } from '../editors/parts';

/** Slow commands, and the events of the latency monitor. */
export function SlowLog() {
  const [view, setView] = useState<'commands' | 'events'>('commands');
  return (
    <Page title="Slow log" actions={<Choice label="View" value={view} set={setView} options={[['commands', 'Commands'], ['events', 'Latency events']]} />}>
      {view === 'commands' ? <Commands /> : <Events />}
    </Page>
  );
}

function Commands() {
  const { readOnly } = useSession();
  const [order, setOrder] = useState<'time' | 'took'>('time');
  const data = useLoad(async (signal) => {
    const [entries, limits] = await run(0, [['SLOWLOG', 'GET', '-1'], ['CONFIG', 'GET', 'slowlog*']], { signal });
    if (isError(entries!)) throw new Error(entries.error);
    const config = isError(limits!) ? [] : list(limits!).map(str);
    return {
      limit: config[config.indexOf('slowlog-log-slower-than') + 1],
      entries: list(entries!).map((e) => {
        const [n, at, took, args, addr, name] = list(e);
        return { n: str(n), at: num(at) * 1000, took: num(took), args: list(args ?? null).map(str), addr: str(addr), name: str(name) };
      }),
    };
  }, [], 3000);
  return (
    <Gate of={data}>
      {(d) => (
        <section class="card">
          <header>
            <h3>{d.limit === undefined ? 'Slow commands' : Number(d.limit) < 0 ? 'Nothing is kept (slowlog-log-slower-than is negative)' : `Commands that took ${micros(Number(d.limit))} or longer (slowlog-log-slower-than)`}</h3>
            <span class="grow" />
            <Choice label="Order" value={order} set={setOrder} options={[['time', 'Newest'], ['took', 'Slowest']]} />
            {!readOnly && d.entries.length > 0 && <Act verb="Clear" act={async () => { await change(0, [['SLOWLOG', 'RESET']]); data.reload(); }} />}
          </header>
          {d.entries.length === 0 ? <Empty title="No command was slow">That is good. The limit can be changed on the page Configuration.</Empty> : (
            <div class="scroll"><table>
              <thead><tr><th>When</th><th class="n">Took</th><th>Command</th><th>Client</th></tr></thead>
              <tbody>
                {[...d.entries].sort((a, b) => (order === 'took' ? b.took - a.took : Number(b.n) - Number(a.n))).map((e) => (
                  <tr key={e.n}><td class="nowrap">{when(e.at)}</td><td class="n"><b>{micros(e.took)}</b></td><td class="mono value">{e.args.join(' ')}</td><td class="muted nowrap">{e.name || e.addr}</td></tr>
                ))}
              </tbody>
            </table></div>
          )}
        </section>
      )}
    </Gate>
  );
}

function Events() {
  const { readOnly } = useSession();
  const [chosen, setChosen] = useState<string | null>(null);
  const data = useLoad(async (signal) => {
    const [latest, limit] = await run(0, [['LATENCY', 'LATEST'], ['CONFIG', 'GET', 'latency-monitor-threshold']], { signal });
    if (isError(latest!)) throw new Error(latest.error);
    return { limit: isError(limit!) ? NaN : Number(str(list(limit!)[1])), events: list(latest!).map(list).map(([name, at, last, most]) => ({ name: str(name), at: num(at) * 1000, last: num(last), most: num(most) })) };
  }, [], 3000);
  return (
    <Gate of={data}>
      {(d) => (
        <section class="card">
          <header>
            <h3>{d.limit > 0 ? `Events that took ${whole(d.limit)} ms or longer (latency-monitor-threshold)` : 'Latency events'}</h3>
            <span class="grow" />
            {!readOnly && d.events.length > 0 && <Act verb="Clear" act={async () => { await ask(0, ['LATENCY', 'RESET']); data.reload(); }} />}
          </header>
          {d.events.length === 0
            ? <Empty title={d.limit > 0 ? 'There were no events' : 'Events are not recorded'}>{d.limit > 0 ? 'Syncs, write-back and slow commands show up here.' : 'Set latency-monitor-threshold to a number of milliseconds, on the page Configuration.'}</Empty>
            : <div class="scroll"><table>
                <thead><tr><th>Event</th><th>Last</th><th class="n">Took</th><th class="n">Longest</th></tr></thead>
                <tbody>{d.events.map((e) => (
                  <tr key={e.name} class={chosen === e.name ? 'chosen' : ''}>
                    <td><button class="link mono" onClick={() => setChosen(chosen === e.name ? null : e.name)}>{e.name}</button></td>
                    <td>{when(e.at)}</td><td class="n">{whole(e.last)} ms</td><td class="n">{whole(e.most)} ms</td>
                  </tr>))}</tbody>
              </table></div>}
          {chosen && <History name={chosen} />}
        </section>
      )}
    </Gate>
  );
}

function History({ name }: { name: string }) {
  const data = useLoad(async (signal) => list(await ask(0, ['LATENCY', 'HISTORY', name], { signal })).map(list).map(([at, ms]) => ({ at: num(at) * 1000, ms: num(ms) })), [name], 3000);
  return (
    <Gate of={data}>
      {(h) => {
        const most = Math.max(1, ...h.map((e) => e.ms));
        return (
          <figure class="histogram">
            <svg viewBox="0 0 640 120" role="img" aria-label={`History of ${name}`}>
              {h.map((e, i) => <rect key={i} x={(640 / h.length) * i + 1} width={Math.max(1, Math.min(24, 640 / h.length - 2))} y={118 - (e.ms / most) * 114} height={(e.ms / most) * 114 + 2}><title>{`${when(e.at)}: ${e.ms} ms`}</title></rect>)}
            </svg>
            <figcaption><span>{h[0] ? span(Date.now() - h[0].at) + ' ago' : ''}</span><span>longest {most} ms</span><span>{h.at(-1) ? span(Date.now() - h.at(-1)!.at) + ' ago' : ''}</span></figcaption>
          </figure>
        );
      }}
    </Gate>
  );
}
