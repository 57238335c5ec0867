import { run } from '../api';
import { bytes, span, whole } from '../format';
import { isError, list, num, record, str, type Reply } from '../reply';
import { Empty, Gate, Page, useLoad } from '../ui';

export interface Member {
  id: string;
  addr: string;
  role: string;
  health: string;
  ranges: [number, number][];
}

export const slots = 16384;

/** The answer of CLUSTER SHARDS. */
export function readShards(reply: Reply): Member[] {
  return list(reply).map(record).flatMap((shard) => {
    const numbers = list(shard.slots ?? null).map(num);
    const ranges: [number, number][] = [];
    for (let i = 0; i + 1 < numbers.length; i += 2) ranges.push([numbers[i]!, numbers[i + 1]!]);
    return list(shard.nodes ?? null).map(record).map((n) => ({
      id: str(n.id), addr: `${str(n.endpoint) || str(n.ip)}:${str(n.port ?? n['tls-port'] ?? null)}`, role: str(n.role), health: str(n.health), ranges,
    }));
  });
}

const owned = (m: Member): number => m.ranges.reduce((a, [x, y]) => a + y - x + 1, 0);

/** The lines name:value of INFO. */
export function readInfo(text: string): Record<string, string> {
  return Object.fromEntries(text.split(/\r?\n/).filter((l) => l.includes(':') && !l.startsWith('#')).map((l) => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 1)]));
}

export function Cluster() {
  const data = useLoad(async (signal) => {
    const [shards, me, info] = await run(0, [['CLUSTER', 'SHARDS'], ['CLUSTER', 'MYID'], ['INFO', 'server', 'replication', 'redoubt', 'persistence']], { signal });
    return { members: isError(shards!) ? null : readShards(shards!), why: isError(shards!) ? shards.error : '', me: isError(me!) ? '' : str(me!), info: isError(info!) ? {} : readInfo(str(info!)) };
  }, [], 3000);
  return (
    <Page title="Cluster">
      <Gate of={data}>
        {(d) => {
          const i = d.info;
          return (
            <>
              <section class="card">
                <header><h3>This server</h3></header>
                <dl class="pairs">
                  <Pair name="Version" value={i.redoubt_version} />
                  <Pair name="Engine" value={i.engine} />
                  <Pair name="Durability" value={i.durability} />
                  <Pair name="Role" value={i.role} />
                  <Pair name="Term" value={i.raft_term ?? i.replica_term} />
                  <Pair name="Lag" value={i.replica_lag ?? i.raft_lag} />
                  <Pair name="Up" value={i.uptime_in_seconds && span(1000 * Number(i.uptime_in_seconds))} />
                  <Pair name="Data" value={i.store_dir} />
                  <Pair name="On disk" value={i.disk_bytes && bytes(Number(i.disk_bytes))} />
                  <Pair name="Store" value={i.store_error === '' ? 'in order' : i.store_error} />
                  <Pair name="Other front ends" value={i.cluster_peers && `${i.cluster_peers_connected} of ${i.cluster_peers} connected`} />
                </dl>
              </section>
              {d.members === null || d.members.length === 0
                ? <section class="card"><Empty title="This server is not in a cluster">{/disabled/.test(d.why) || d.why === '' ? 'Its store is its own. cluster-enabled yes has it answer cluster clients; front ends on a shared store do so together.' : d.why}</Empty></section>
                : <Members members={d.members} me={d.me} />}
            </>
          );
        }}
      </Gate>
    </Page>
  );
}

const Pair = ({ name, value }: { name: string; value: string | undefined }) => (value ? <><dt>{name}</dt><dd class="value">{value}</dd></> : null);

function Members({ members, me }: { members: Member[]; me: string }) {
  const order = [...members].sort((a, b) => (a.ranges[0]?.[0] ?? slots) - (b.ranges[0]?.[0] ?? slots));
  const width = 1024;
  const covered = order.filter((m) => m.role === 'master').reduce((a, m) => a + owned(m), 0);
  return (
    <section class="card">
      <header><h3>{members.length === 1 ? 'One front end has all slots' : `${members.length} members`}</h3>{covered < slots && <span class="badge">{whole(slots - covered)} slots belong to nobody</span>}</header>
      <figure class="slots">
        <svg viewBox={`0 0 ${width} 56`} role="img" aria-label="Who has which of the 16384 slots" preserveAspectRatio="none">
          <rect class="free" x={0} y={0} width={width} height={56} />
          {order.flatMap((m, i) => m.ranges.map(([a, b]) => (
            <rect key={m.id + a} class={`s${(i % 6) + 1}`} x={(a / slots) * width} width={Math.max(0.5, ((b - a + 1) / slots) * width)} y={0} height={56}><title>{`${m.addr}: ${a} to ${b}`}</title></rect>
          )))}
        </svg>
        <figcaption><span>0</span><span>4096</span><span>8192</span><span>12288</span><span>16383</span></figcaption>
      </figure>
      <div class="scroll"><table>
        <thead><tr><th /><th>Address</th><th>Role</th><th>Health</th><th class="n">Slots</th><th>Ranges</th></tr></thead>
        <tbody>
          {order.map((m, i) => (
            <tr key={m.id}>
              <td><i class={`swatch c${(i % 6) + 1}`} /></td>
              <td>{m.addr} {m.id === me && <span class="badge accent">this one</span>}</td>
              <td>{m.role}</td><td><span class={'badge ' + (m.health === 'online' ? 'good' : '')}>{m.health}</span></td>
              <td class="n">{whole(owned(m))}</td>
              <td class="muted">{m.ranges.slice(0, 6).map(([a, b]) => `${a}–${b}`).join(', ')}{m.ranges.length > 6 ? ` and ${m.ranges.length - 6} more` : ''}</td>
            </tr>
          ))}
        </tbody>
      </table></div>
    </section>
  );
}
