import { useState } from 'preact/hooks';
import { change, run } from '../api';
import { id, isError, list, num, str, text } from '../reply';
import { Empty, Gate, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder, label, show } from './parts';

/** A set: its members, in pages of SSCAN. */
export function SetEditor({ db, name, readOnly, changed }: EditorProps) {
  const [match, setMatch] = useState('');
  const [cursors, setCursors] = useState(['0']);
  const cursor = cursors.at(-1)!;
  const data = useLoad(async (signal) => {
    const [size, scan] = await run(db, [['SCARD', name], ['SSCAN', name, cursor, 'MATCH', match === '' ? '*' : match, 'COUNT', '200']], { signal });
    if (isError(scan!)) throw new Error(scan.error);
    const [next, found] = list(scan!);
    return { size: num(size!), next: str(next), members: list(found!).map(text) };
  }, [db, name, cursor, match]);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      <div class="filters"><input type="search" placeholder="Members, such as a*" aria-label="Members" value={match} onInput={(e) => { setMatch(e.currentTarget.value); setCursors(['0']); }} /></div>
      {!readOnly && <Adder verb="Add" fields={[{ name: 'member', label: 'Member' }]} add={async (m) => { await change(db, [['SADD', name, m!]]); again(); }} />}
      <Gate of={data}>
        {(d) => (
          <>
            {d.members.length === 0 && d.next === '0' ? <Empty title="No such member" /> : (
              <ul class="members">
                {d.members.map((m) => (
                  <li key={id(m)}><span class="mono value">{show(m)}</span>{!readOnly && <Act verb="×" title={`Remove ${label(m)}`} danger act={async () => { await change(db, [['SREM', name, m]]); again(); }} />}</li>
                ))}
              </ul>
            )}
            <div class="pager">
              <button class="small" disabled={cursors.length === 1} onClick={() => setCursors(cursors.slice(0, -1))}>←</button>
              <span>{d.size.toLocaleString('en-US')} members</span>
              <button class="small" disabled={d.next === '0'} onClick={() => setCursors([...cursors, d.next])}>→</button>
            </div>
          </>
        )}
      </Gate>
    </>
  );
}
