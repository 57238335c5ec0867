import { useState } from 'preact/hooks';
import { change, run } from '../api';
import { isError, list, num, text } from '../reply';
import { Empty, Gate, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder, Cell, Pager } from './parts';

const page = 100;

/** A list: a window of its elements. */
export function List({ db, name, readOnly, changed }: EditorProps) {
  const [from, setFrom] = useState(0);
  const data = useLoad(async (signal) => {
    const [size, part] = await run(db, [['LLEN', name], ['LRANGE', name, String(from), String(from + page - 1)]], { signal });
    if (isError(part!)) throw new Error(part.error);
    return { size: num(size!), items: list(part!).map(text) };
  }, [db, name, from]);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      {!readOnly && (
        <>
          <Adder verb="Push at the head" fields={[{ name: 'head', label: 'Element' }]} add={async (v) => { await change(db, [['LPUSH', name, v!]]); again(); }} />
          <Adder verb="Push at the tail" fields={[{ name: 'tail', label: 'Element' }]} add={async (v) => { await change(db, [['RPUSH', name, v!]]); again(); }} />
        </>
      )}
      <Gate of={data}>
        {(d) => (
          <>
            {d.items.length === 0 ? <Empty title="Nothing is here" /> : (
              <div class="scroll"><table>
                <thead><tr><th class="n">Index</th><th>Element</th><th /></tr></thead>
                <tbody>
                  {d.items.map((v, i) => {
                    const at = String(from + i);
                    return (
                      <tr key={at}>
                        <td class="n muted">{at}</td>
                        <td><Cell value={v} label={`element ${at}`} locked={readOnly} save={async (n) => { await change(db, [['LSET', name, at, n]]); again(); }} /></td>
                        <td class="acts">{!readOnly && <Act verb="×" title={`Remove element ${at}`} danger act={async () => {
                          const gone = 'removed-' + crypto.getRandomValues(new Uint32Array(4)).join('-');
                          await change(db, [['LSET', name, at, gone], ['LREM', name, '1', gone]]);
                          again();
                        }} />}</td>
                      </tr>
                    );
                  })}
                </tbody>
              </table></div>
            )}
            <Pager from={from} size={page} total={d.size} move={setFrom} />
          </>
        )}
      </Gate>
    </>
  );
}
