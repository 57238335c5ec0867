import { useState } from 'preact/hooks';
import { change, run } from '../api';
import { span, when, whole } from '../format';
import { id, isError, list, num, pairs, record, str, text, type Reply, type Text } from '../reply';
import { Choice, Empty, Gate, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder, show } from './parts';

const page = 50;

/** A stream: entries, the newest first, and consumer groups. */
export function Stream(p: EditorProps) {
  const [view, setView] = useState<'entries' | 'groups'>('entries');
  return (
    <>
      <div class="filters"><Choice label="View" value={view} set={setView} options={[['entries', 'Entries'], ['groups', 'Groups']]} /></div>
      {view === 'entries' ? <Entries {...p} /> : <Groups {...p} />}
    </>
  );
}

function Entries({ db, name, readOnly, changed }: EditorProps) {
  const [ends, setEnds] = useState(['+']);
  const end = ends.at(-1)!;
  const data = useLoad(async (signal) => {
    const [size, part] = await run(db, [['XLEN', name], ['XREVRANGE', name, end === '+' ? '+' : '(' + end, '-', 'COUNT', String(page)]], { signal });
    if (isError(part!)) throw new Error(part.error);
    return { size: num(size!), entries: list(part!).map((e) => ({ at: str(list(e)[0]), fields: pairs({ map: list(list(e)[1] ?? null) }) as [Reply, Reply][] })) };
  }, [db, name, end]);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      {!readOnly && <Adder verb="Add entry" fields={[{ name: 'field', label: 'Field' }, { name: 'value', label: 'Value' }]} add={async (f, v) => { await change(db, [['XADD', name, '*', f!, v!]]); setEnds(['+']); again(); }} />}
      <Gate of={data}>
        {(d) => (
          <>
            {d.entries.length === 0 ? <Empty title="There are no entries">Groups stay, and wait for new ones.</Empty> : (
              <div class="scroll"><table>
                <thead><tr><th>Id</th><th>Time</th><th>Fields</th><th /></tr></thead>
                <tbody>
                  {d.entries.map((e) => (
                    <tr key={e.at}>
                      <td class="mono">{e.at}</td>
                      <td class="muted">{when(Number(e.at.split('-')[0]))}</td>
                      <td class="mono">{e.fields.map(([f, v], i) => <div key={i}><span class="muted">{show(text(f))}</span> {show(text(v))}</div>)}</td>
                      <td class="acts">{!readOnly && <Act verb="×" title={`Delete entry ${e.at}`} danger act={async () => { await change(db, [['XDEL', name, e.at]]); again(); }} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table></div>
            )}
            <div class="pager">
              <button class="small" disabled={ends.length === 1} onClick={() => setEnds(ends.slice(0, -1))}>← newer</button>
              <span>{whole(d.size)} entries</span>
              <button class="small" disabled={d.entries.length < page} onClick={() => setEnds([...ends, d.entries.at(-1)!.at])}>older →</button>
            </div>
          </>
        )}
      </Gate>
    </>
  );
}

function Groups({ db, name, readOnly, changed }: EditorProps) {
  const data = useLoad(async (signal) => {
    const [reply] = await run(db, [['XINFO', 'GROUPS', name]], { signal });
    if (isError(reply!)) throw new Error(reply.error);
    const groups = list(reply!).map(record);
    const consumers = await run(db, groups.map((g) => ['XINFO', 'CONSUMERS', name, text(g.name!)]), { signal });
    return groups.map((g, i) => ({ name: text(g.name!), pending: num(g.pending), last: str(g['last-delivered-id']), lag: g.lag ?? null, consumers: list(consumers[i]!).map(record) }));
  }, [db, name]);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      {!readOnly && <Adder verb="Create group" fields={[{ name: 'group', label: 'Group' }, { name: 'start', label: 'Behind id', preset: '$' }]} add={async (g, s) => { await change(db, [['XGROUP', 'CREATE', name, g!, s!]]); again(); }} />}
      <Gate of={data}>
        {(groups) => (groups.length === 0 ? <Empty title="There are no groups" /> : (
          <>
            {groups.map((g) => (
              <section class="group" key={id(g.name)}>
                <header>
                  <b class="mono">{show(g.name)}</b>
                  <span class="muted">{whole(g.pending)} pending · {g.lag === null ? 'lag unknown' : `${whole(num(g.lag))} behind`} · delivered up to {g.last}</span>
                  <span class="grow" />
                  {!readOnly && <Act verb="Destroy" danger act={async () => { await change(db, [['XGROUP', 'DESTROY', name, g.name]]); again(); }} />}
                </header>
                {g.consumers.length > 0 && (
                  <table>
                    <thead><tr><th>Consumer</th><th class="n">Pending</th><th class="n">Idle</th><th /></tr></thead>
                    <tbody>
                      {g.consumers.map((c) => (
                        <tr key={str(c.name)}>
                          <td class="mono">{str(c.name)}</td><td class="n">{whole(num(c.pending))}</td><td class="n">{span(num(c.idle))}</td>
                          <td class="acts">{!readOnly && <Act verb="×" title={`Delete consumer ${str(c.name)}`} danger act={async () => { await change(db, [['XGROUP', 'DELCONSUMER', name, g.name, text(c.name!) as Text]]); again(); }} />}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table>
                )}
              </section>
            ))}
          </>
        ))}
      </Gate>
    </>
  );
}
