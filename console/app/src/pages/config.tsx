import { useState } from 'preact/hooks';
import { ask, call } from '../api';
import { bytes } from '../format';
import { record, str } from '../reply';
import { useSession } from '../session';
import { Choice, Empty, Gate, Page, useAction, useLoad } from '../ui';
import { Cell, Act } from '../editors/parts';

interface Directive {
  name: string;
  kind: string;
  default: string;
  doc: string;
  own?: boolean;
  immutable?: boolean;
  values?: string[] | null;
}

const noEffect = /it has no effect here/;

export function Configuration() {
  const session = useSession();
  const [filter, setFilter] = useState('');
  const [which, setWhich] = useState<'effective' | 'changed' | 'all'>('effective');
  const data = useLoad(async (signal) => {
    const [directives, values] = await Promise.all([call<Directive[]>('GET', 'directives', undefined, signal), ask(0, ['CONFIG', 'GET', '*'], { signal })]);
    const now = record(values);
    return directives.filter((d) => d.name in now).map((d) => ({ ...d, value: str(now[d.name]!) }));
  }, []);
  return (
    <Page title="Configuration"
      actions={<>
        <input type="search" placeholder="Name or meaning" aria-label="Filter" value={filter} onInput={(e) => setFilter(e.currentTarget.value)} />
        <Choice label="Which" value={which} set={setWhich} options={[['effective', 'With effect'], ['changed', 'Changed'], ['all', 'All']]} />
        {!session.readOnly && <Act verb="Write to the file" title="CONFIG REWRITE: what is set now is there after the next start" act={async () => { await ask(0, ['CONFIG', 'REWRITE']); }} />}
      </>}>
      <Gate of={data}>
        {(all) => {
          const wanted = filter.toLowerCase();
          const list = all.filter((d) => (which !== 'changed' || d.value !== d.default) && (which !== 'effective' || !noEffect.test(d.doc)) && (wanted === '' || d.name.includes(wanted) || d.doc.toLowerCase().includes(wanted)));
          return (
            <section class="card">
              {list.length === 0 ? <Empty title="No directive is like that" /> : (
                <div class="scroll"><table class="config">
                  <thead><tr><th>Directive</th><th>Value</th><th>Default</th></tr></thead>
                  <tbody>
                    {list.map((d) => (
                      <tr key={d.name}>
                        <td><b class="mono">{d.name}</b> {d.own && <span class="badge plain">Redoubt’s</span>}<p class="muted">{d.doc}</p></td>
                        <td class="setting">
                          <Setting d={d} locked={session.readOnly || !!d.immutable} saved={data.reload} />
                          {d.kind === 'bytes' && Number(d.value) >= 1024 && <small>{bytes(Number(d.value))}</small>}
                          {d.value !== d.default && <span class="badge accent">changed</span>}
                          {d.immutable && <small title="Only the configuration file and the command line set it">set at the start</small>}
                        </td>
                        <td class="mono muted value">{d.default === '' ? '–' : d.default}</td>
                      </tr>
                    ))}
                  </tbody>
                </table></div>
              )}
            </section>
          );
        }}
      </Gate>
    </Page>
  );
}

function Setting({ d, locked, saved }: { d: Directive & { value: string }; locked: boolean; saved: () => void }) {
  const set = async (v: string) => {
    await ask(0, ['CONFIG', 'SET', d.name, v]);
    saved();
  };
  const act = useAction(set);
  const options = d.kind === 'yes or no' ? ['yes', 'no'] : d.kind === 'one of' ? d.values ?? [] : null;
  if (options && !locked) {
    return (
      <>
        <select aria-label={d.name} value={d.value} disabled={act.busy} onChange={(e) => void act.go(e.currentTarget.value)}>{options.map((o) => <option key={o}>{o}</option>)}</select>
        {act.error && <span class="problem">{act.error}</span>}
      </>
    );
  }
  return <Cell value={d.value} label={d.name} locked={locked} save={set} />;
}
