import { useState } from 'preact/hooks';
import { change, run } from '../api';
import { id, isError, list, num, pairs, str, text, type Text } from '../reply';
import { Choice, Empty, Gate, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder, Cell, Pager, label, show } from './parts';
import { Histogram, edges } from './histogram';
import { Map as GeoMap, type Place } from './map';

const page = 100;
const maxPlaces = 1000;

/** Whether scores may be those of GEOADD: integers of 52 bits. */
const geo = (scores: number[]): boolean => scores.length > 0 && scores.every((s) => Number.isInteger(s) && s > 2 ** 40 && s < 2 ** 52);

/** A sorted set: a window by rank, a histogram of its scores, and a map if it is a geo set. */
export function SortedSet({ db, name, readOnly, changed }: EditorProps) {
  const [from, setFrom] = useState(0);
  const [down, setDown] = useState(false);
  const [view, setView] = useState<'members' | 'scores' | 'map'>('members');
  const data = useLoad(async (signal) => {
    const order = down ? ['REV'] : [];
    const [size, part] = await run(db, [['ZCARD', name], ['ZRANGE', name, String(from), String(from + page - 1), ...order, 'WITHSCORES']], { signal });
    if (isError(part!)) throw new Error(part.error);
    return { size: num(size!), members: pairs(part!).map(([m, s]) => ({ member: text(m), score: str(s) })) };
  }, [db, name, from, down]);
  const again = () => { data.reload(); changed(); };
  const isGeo = geo((data.data?.members ?? []).map((m) => Number(m.score)));
  return (
    <>
      <div class="filters">
        <Choice label="View" value={view} set={setView} options={[['members', 'Members'], ['scores', 'Scores'], ...(isGeo ? [['map', 'Map'] as ['map', string]] : [])]} />
        {view === 'members' && <Choice label="Order" value={down ? 1 : 0} set={(v) => { setDown(v === 1); setFrom(0); }} options={[[0, 'lowest first'], [1, 'highest first']]} />}
      </div>
      {view === 'scores' && <Scores db={db} name={name} />}
      {view === 'map' && <Places db={db} name={name} readOnly={readOnly} again={again} />}
      {view === 'members' && (
        <>
          {!readOnly && <Adder verb="Add" fields={[{ name: 'member', label: 'Member' }, { name: 'score', label: 'Score', preset: '0' }]} add={async (m, s) => { await change(db, [['ZADD', name, s!, m!]]); again(); }} />}
          <Gate of={data}>
            {(d) => (
              <>
                {d.members.length === 0 ? <Empty title="Nothing is here" /> : (
                  <div class="scroll"><table>
                    <thead><tr><th class="n">Rank</th><th>Member</th><th>Score</th><th /></tr></thead>
                    <tbody>
                      {d.members.map((m, i) => (
                        <tr key={id(m.member)}>
                          <td class="n muted">{from + i}</td>
                          <td class="mono value">{show(m.member)}</td>
                          <td><Cell value={m.score} label={`score of ${label(m.member)}`} locked={readOnly} save={async (s) => { await change(db, [['ZADD', name, 'XX', s, m.member]]); again(); }} /></td>
                          <td class="acts">{!readOnly && <Act verb="×" title={`Remove ${label(m.member)}`} danger act={async () => { await change(db, [['ZREM', name, m.member]]); again(); }} />}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table></div>
                )}
                <Pager from={from} size={page} total={d.size} move={setFrom} />
              </>
            )}
          </Gate>
        </>
      )}
    </>
  );
}

/** Counts of members in ranges of scores: exact, since ZCOUNT needs no walk. */
function Scores({ db, name }: { db: number; name: Text }) {
  const data = useLoad(async (signal) => {
    const ends = await run(db, [['ZRANGE', name, '0', '0', 'WITHSCORES'], ['ZRANGE', name, '-1', '-1', 'WITHSCORES']], { signal });
    const [low, high] = ends.map((e) => num(pairs(e)[0]?.[1]));
    const limits = edges(low!, high!, 32);
    const counts = await run(db, limits.slice(0, -1).map((a, i) => ['ZCOUNT', name, String(a), (i + 2 < limits.length ? '(' : '') + String(limits[i + 1])]), { signal });
    return { limits, counts: counts.map(num) };
  }, [db, name]);
  return <Gate of={data}>{(d) => <Histogram limits={d.limits} counts={d.counts} />}</Gate>;
}

function Places({ db, name, readOnly, again }: { db: number; name: Text; readOnly: boolean; again: () => void }) {
  const data = useLoad(async (signal) => {
    const [part] = await run(db, [['ZRANGE', name, '0', String(maxPlaces - 1)]], { signal });
    const members = list(part!).map(text);
    const [at] = await run(db, [['GEOPOS', name, ...members]], { signal });
    return list(at!).flatMap((p, i): Place[] => (p === null ? [] : [{ name: show(members[i]!), lon: num(list(p)[0]), lat: num(list(p)[1]) }]));
  }, [db, name]);
  return (
    <>
      {!readOnly && <Adder verb="Place" fields={[{ name: 'member', label: 'Member' }, { name: 'lon', label: 'Longitude' }, { name: 'lat', label: 'Latitude' }]} add={async (m, lon, lat) => { await change(db, [['GEOADD', name, lon!, lat!, m!]]); data.reload(); again(); }} />}
      <Gate of={data}>{(places) => <GeoMap places={places} />}</Gate>
      {(data.data?.length ?? 0) >= maxPlaces && <p class="hint">The first {maxPlaces} members are shown.</p>}
    </>
  );
}
