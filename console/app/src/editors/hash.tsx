import { useState } from 'preact/hooks';
import { ask, change, run } from '../api';
import { span } from '../format';
import { id, isError, list, num, pairs, str, text, type Text } from '../reply';
import { Dialog, Empty, Field, Gate, Problem, useAction, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder, Cell, label, show } from './parts';

const page = 100;

/** A hash: fields with values and times. */
export function Hash({ db, name, readOnly, changed }: EditorProps) {
  const [match, setMatch] = useState('');
  const [cursors, setCursors] = useState(['0']); // of the pages so far
  const [timed, setTimed] = useState<Text | null>(null);
  const cursor = cursors.at(-1)!;
  const data = useLoad(async (signal) => {
    const [size, scan] = await run(db, [['HLEN', name], ['HSCAN', name, cursor, 'MATCH', match === '' ? '*' : match, 'COUNT', String(page)]], { signal });
    if (isError(scan!)) throw new Error(scan.error);
    const [next, found] = list(scan!);
    const fields = pairs(list(found!)).map(([f, v]) => ({ field: text(f), value: text(v), ttl: -1 }));
    if (fields.length > 0) {
      const times = await run(db, [['HPTTL', name, 'FIELDS', String(fields.length), ...fields.map((f) => f.field)]], { signal });
      list(times[0]!).forEach((t, i) => (fields[i]!.ttl = num(t)));
    }
    return { size: num(size!), next: str(next), fields };
  }, [db, name, cursor, match]);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      <div class="filters">
        <input type="search" placeholder="Fields, such as addr*" aria-label="Fields" value={match} onInput={(e) => { setMatch(e.currentTarget.value); setCursors(['0']); }} />
      </div>
      {!readOnly && <Adder verb="Set field" fields={[{ name: 'field', label: 'Field' }, { name: 'value', label: 'Value', optional: true }]} add={async (f, v) => { await change(db, [['HSET', name, f!, v!]]); again(); }} />}
      <Gate of={data}>
        {(d) => (
          <>
            {d.fields.length === 0 && d.next === '0' ? <Empty title="No such field" /> : (
              <div class="scroll"><table>
                <thead><tr><th>Field</th><th>Value</th><th>Expires</th><th /></tr></thead>
                <tbody>
                  {d.fields.map((f) => (
                    <tr key={id(f.field)}>
                      <td class="mono fieldname">{show(f.field)}</td>
                      <td><Cell value={f.value} label={`value of ${label(f.field)}`} locked={readOnly} save={async (v) => {
                        // HSET would take the field's time away.
                        await change(db, f.ttl > 0 ? [['HSETEX', name, 'KEEPTTL', 'FIELDS', '1', f.field, v]] : [['HSET', name, f.field, v]]);
                        again();
                      }} /></td>
                      <td class="n">{readOnly ? (f.ttl > 0 ? span(f.ttl) : '–') : <button class="link" aria-label={`Expiry of ${label(f.field)}`} onClick={() => setTimed(f.field)}>{f.ttl > 0 ? span(f.ttl) : '–'}</button>}</td>
                      <td class="acts">{!readOnly && <Act verb="×" title={`Delete ${label(f.field)}`} danger act={async () => { await change(db, [['HDEL', name, f.field]]); again(); }} />}</td>
                    </tr>
                  ))}
                </tbody>
              </table></div>
            )}
            <div class="pager">
              <button class="small" disabled={cursors.length === 1} onClick={() => setCursors(cursors.slice(0, -1))}>←</button>
              <span>{d.size.toLocaleString('en-US')} fields</span>
              <button class="small" disabled={d.next === '0'} onClick={() => setCursors([...cursors, d.next])}>→</button>
            </div>
          </>
        )}
      </Gate>
      {timed !== null && <FieldTime db={db} name={name} field={timed} close={() => setTimed(null)} done={() => { setTimed(null); again(); }} />}
    </>
  );
}

function FieldTime({ db, name, field, close, done }: { db: number; name: Text; field: Text; close: () => void; done: () => void }) {
  const [seconds, setSeconds] = useState('');
  const act = useAction(async () => {
    await ask(db, seconds === '' ? ['HPERSIST', name, 'FIELDS', '1', field] : ['HEXPIRE', name, seconds, 'FIELDS', '1', field]);
    done();
  });
  return (
    <Dialog title={`When the field ${label(field)} expires`} close={close}>
      <Field label="Seconds from now" hint="Empty: it does not expire."><input name="seconds" inputMode="numeric" value={seconds} autofocus onInput={(e) => setSeconds(e.currentTarget.value)} /></Field>
      {act.error && <Problem text={act.error} />}
      <footer><button type="button" onClick={close}>Cancel</button><button class="primary" disabled={act.busy} onClick={() => void act.go()}>Set</button></footer>
    </Dialog>
  );
}
