import { useEffect, useState } from 'preact/hooks';
import { Chart, type Line } from '../chart';
import { fresh, live } from '../live';
import { bytes, count, micros, percent, span } from '../format';
import { Bar, Choice, Empty, Loading, Page, Problem } from '../ui';

const perSecond = (v: number | null) => (v === null ? '–' : count(v));
const nanosEach = (nanos: number, n: number) => (n > 0 ? nanos / n / 1000 : 0);

/** Draws again with each second that comes, and when figures become old. */
export function useLive(): number {
  const [version, set] = useState(0);
  useEffect(() => live.subscribe(() => set((n) => n + 1)), []);
  return version;
}

const charts: { title: string; format: (v: number | null) => string; lines: Line[]; log?: boolean; only?: string }[] = [
  { title: 'Commands a second', format: perSecond, lines: [
    { name: 'commands', label: 'commands', color: 1, fill: true }, { name: 'errors', label: 'errors', color: 4 }] },
  { title: 'Reads a second', format: perSecond, lines: [
    { name: 'hits', label: 'hits', color: 1 }, { name: 'misses', label: 'misses', color: 3 }, { name: 'cold_reads', label: 'cold reads', color: 4 }] },
  { title: 'Memory', format: bytes, lines: [
    { name: 'memory_rss', label: 'process', color: 1, fill: true }, { name: 'resident', label: 'rows', color: 2 }, { name: 'memory_heap', label: 'heap', color: 3 },
    { name: 'block_cache', label: 'cache', color: 5 }, { name: 'memory_limit', label: 'maxmemory', color: 6, dash: true }] },
  { title: 'Dirty rows', format: bytes, only: 'dirty', lines: [
    { name: 'dirty', label: 'dirty', color: 3, fill: true }, { name: 'journal', label: 'journal since the last round', color: 1 }, { name: 'dirty_limit', label: 'limit', color: 6, dash: true }] },
  { title: 'Not yet on disk', format: bytes, only: 'lag_bytes', lines: [{ name: 'lag_bytes', label: 'journal, not synced', color: 4, fill: true }] },
  { title: 'Syncs', format: micros, only: 'syncs', lines: [{ name: 'sync_nanos', by: 'syncs', op: nanosEach, label: 'mean fsync', color: 1 }] },
  { title: 'Write-back and compaction', format: bytes, only: 'writeback_bytes', lines: [
    { name: 'writeback_bytes', label: 'written back a second', color: 1, fill: true }, { name: 'compaction_debt', label: 'to be compacted', color: 3 }] },
  { title: 'Clients', format: perSecond, lines: [
    { name: 'clients', label: 'connected', color: 1, fill: true }, { name: 'clients_blocked', label: 'waiting', color: 3 }] },
  { title: 'Network a second', format: bytes, lines: [{ name: 'net_in', label: 'in', color: 1 }, { name: 'net_out', label: 'out', color: 2 }] },
];

export function Overview() {
  const version = useLive();
  const [seconds, setSeconds] = useState(300);
  const [command, setCommand] = useState('');
  const s = live.series;
  if (live.status === 'refused') {
    return <Page title="Overview"><Empty title="These figures are not for this user">{live.problem} An administrator can give it with ACL SETUSER.</Empty></Page>;
  }
  if (s.times.length === 0) {
    return <Page title="Overview">{live.problem ? <Problem text={live.problem} /> : <Loading what="Reading the last hour" />}</Page>;
  }
  const stale = live.status !== 'live';
  const now = (name: string) => (stale ? null : s.last(name));
  const hits = now('hits');
  const misses = now('misses');
  const calls = s.commands(60);
  const latency = command ? `command:${command}:` : '';
  return (
    <Page
      title="Overview"
      note={stale
        ? <span class="state off">not live{live.arrived ? `: last figures ${span(Date.now() - live.arrived)} ago` : ''}</span>
        : <span class="state on">live</span>}
      actions={<Choice label="Period" value={seconds} set={setSeconds} options={[[300, '5 min'], [900, '15 min'], [3600, '1 hour']]} />}
    >
      {stale && live.arrived > 0 && Date.now() - live.arrived > fresh && <Problem text={live.problem || 'No figures come from the server.'} />}
      <div class="tiles">
        <Tile name="Commands" value={perSecond(now('commands'))} unit="a second" />
        <Tile name="Latency, p99" value={micros(now('p99'))} unit={`p50 ${micros(now('p50'))}`} />
        <Tile name="Hit rate" value={hits !== null && misses !== null && hits + misses > 0 ? percent(hits / (hits + misses)) : '–'} unit={`${perSecond(now('cold_reads') ?? now('cold_commands'))} cold a second`} />
        <Tile name="Memory" value={bytes(now('memory_rss'))} unit={(now('memory_limit') ?? 0) > 0 ? `of ${bytes(now('memory_limit'))}` : 'no limit'}
          part={(now('memory_limit') ?? 0) > 0 ? (now('memory_rss') ?? 0) / now('memory_limit')! : undefined} />
        <Tile name="Not yet on disk" value={now('lag_bytes') === null ? count(now('lag_commits')) : bytes(now('lag_bytes'))} unit={`${count(now('lag_commits'))} commits`} />
        <Tile name="Clients" value={count(now('clients'))} unit={`${count(now('clients_blocked'))} waiting`} />
        <Tile name="On disk" value={bytes(now('disk'))} unit={now('disk_free') === null ? '' : `${bytes(now('disk_free'))} free`} />
      </div>
      <div class="charts">
        <Chart title={charts[0]!.title} format={charts[0]!.format} lines={charts[0]!.lines} seconds={seconds} version={version} stale={stale} />
        <Chart title={`Latency${command ? ' of ' + command.toUpperCase().replace('|', ' ') : ', all commands'}`} format={micros} log seconds={seconds} version={version} stale={stale}
          lines={[{ name: latency + 'p50', label: 'p50', color: 2 }, { name: latency + 'p99', label: 'p99', color: 1 }, { name: latency + 'p999', label: 'p99.9', color: 4 }]} />
        {charts.slice(1).filter((c) => !c.only || s.last(c.only) !== null || s.most(c.only, seconds) !== null).map((c) => (
          <Chart key={c.title} title={c.title} format={c.format} lines={c.lines} seconds={seconds} version={version} stale={stale} />
        ))}
      </div>
      <section class="card">
        <header><h3>Commands of the last minute</h3></header>
        {calls.length === 0
          ? <Empty title="No command was run in the last minute">What clients send shows up here within a second.</Empty>
          : <div class="scroll"><table>
              <thead><tr><th>Command</th><th class="n">Calls</th><th class="n">Share</th><th class="n">p50</th><th class="n">p99</th><th class="n">p99.9</th></tr></thead>
              <tbody>
                {calls.slice(0, 20).map((c) => {
                  const worst = (p: string) => micros(s.most(`command:${c.name}:${p}`, 60));
                  const all = calls.reduce((a, b) => a + b.calls, 0);
                  return (
                    <tr key={c.name} class={c.name === command ? 'chosen' : ''}>
                      <td><button class="link mono" aria-pressed={c.name === command} onClick={() => setCommand(c.name === command ? '' : c.name)}>{c.name.toUpperCase().replace('|', ' ')}</button></td>
                      <td class="n">{count(Math.round(c.calls))}</td>
                      <td class="n share"><Bar part={c.calls / all} /></td>
                      <td class="n">{worst('p50')}</td><td class="n">{worst('p99')}</td><td class="n">{worst('p999')}</td>
                    </tr>
                  );
                })}
              </tbody>
            </table></div>}
        <p class="hint">Latencies are those of the worst second. Choose a command to see it in the chart above.</p>
      </section>
    </Page>
  );
}

function Tile({ name, value, unit, part }: { name: string; value: string; unit: string; part?: number | undefined }) {
  return (
    <div class="card tile">
      <h3>{name}</h3>
      <b>{value}</b>
      {part !== undefined && <Bar part={part} class={part > 0.95 ? 'hot' : ''} />}
      <small>{unit}</small>
    </div>
  );
}
