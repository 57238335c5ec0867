import { useEffect, useState } from 'preact/hooks';
import { ask, change, run } from '../api';
import { bytes, whole } from '../format';
import { hex, unhex } from '../hex';
import { bytesOf, isError, num, text, textOf, type Text } from '../reply';
import { Choice, Gate, Problem, useAction, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Adder } from './parts';

const whole1 = 1 << 20; // a longer string is shown in windows, and not edited as a whole
const window1 = 64 << 10;
const comparable = 64 << 10;

type View = 'text' | 'json' | 'hex' | 'bits' | 'hll';

/** A string: as text, JSON, hexadecimal digits or bits, or a HyperLogLog. */
export function StringEditor(p: EditorProps) {
  const [from, setFrom] = useState(0);
  const data = useLoad(async (signal) => {
    const [size] = await run(p.db, [['STRLEN', p.name]], { signal });
    const total = num(size!);
    const cut = total > whole1;
    const value = await ask(p.db, cut ? ['GETRANGE', p.name, String(from), String(from + window1 - 1)] : ['GET', p.name], { signal });
    return { total, cut, value: value === null ? '' : text(value) };
  }, [p.db, p.name, from]);
  return (
    <Gate of={data}>
      {(d) => (
        <>
          {d.cut && (
            <div class="pager">
              <button class="small" disabled={from === 0} onClick={() => setFrom(Math.max(0, from - window1))}>←</button>
              <span>bytes {whole(from)} to {whole(Math.min(d.total, from + window1))} of {whole(d.total)}</span>
              <button class="small" disabled={from + window1 >= d.total} onClick={() => setFrom(from + window1)}>→</button>
            </div>
          )}
          <Value key={JSON.stringify(d.value).length + ':' + from + ':' + d.total} {...p} value={d.value} total={d.total} fixed={d.cut || p.readOnly} loading={data.loading} again={() => { data.reload(); p.changed(); }} />
        </>
      )}
    </Gate>
  );
}

function pretty(t: Text): string | null {
  if (typeof t !== 'string' || !/^\s*[[{"]/.test(t)) return null;
  try {
    return JSON.stringify(JSON.parse(t), null, 2);
  } catch {
    return null;
  }
}

function Value({ db, name, value, total, fixed, loading, readOnly, again }: EditorProps & { value: Text; total: number; fixed: boolean; loading: boolean; again: () => void }) {
  const json = pretty(value);
  const log = typeof value === 'object' && new TextDecoder().decode(bytesOf(value).subarray(0, 4)) === 'HYLL' || typeof value === 'string' && value.startsWith('HYLL');
  const [view, setView] = useState<View>(log ? 'hll' : json !== null ? 'json' : typeof value === 'string' ? 'text' : 'hex');
  const shown = view === 'json' ? json ?? '' : view === 'hex' ? hex(bytesOf(value)) : typeof value === 'string' ? value : '';
  const [draft, setDraft] = useState(shown);
  useEffect(() => setDraft(shown), [shown]);
  const save = useAction(async () => {
    let next: Text = draft;
    if (view === 'hex') {
      const b = unhex(draft);
      if (!b) throw new Error('These are not pairs of hexadecimal digits.');
      next = textOf(b);
    }
    if (view === 'json') next = JSON.stringify(JSON.parse(draft));
    // The time stays, and what somebody else has written meanwhile is not lost.
    const guard: Text[] = total <= comparable ? ['IFEQ', value] : [];
    if ((await ask(db, ['SET', name, next, 'KEEPTTL', ...guard])) === null) throw new Error('The value has changed since it was read. Read it again before you save.');
    again();
  });
  const options: [View, string][] = [['text', 'Text'], ['json', 'JSON'], ['hex', 'Hex'], ['bits', 'Bits']];
  if (log) options.unshift(['hll', 'HyperLogLog']);
  return (
    <>
      <div class="filters">
        <Choice label="Form" value={view} set={setView} options={options.filter(([v]) => (v !== 'json' || json !== null) && (v !== 'text' || typeof value === 'string'))} />
        <span class="muted">{bytes(total)}</span>
      </div>
      {view === 'bits' && <Bits db={db} name={name} total={total} locked={readOnly} again={again} />}
      {view === 'hll' && <HyperLogLog db={db} name={name} readOnly={readOnly} again={again} />}
      {view !== 'bits' && view !== 'hll' && (
        <>
          <textarea aria-label="Value" class="whole" rows={Math.min(24, Math.max(6, draft.split('\n').length + 1))} readOnly={fixed || save.busy || loading} spellcheck={false} value={draft} onInput={(e) => setDraft(e.currentTarget.value)} />
          {save.error && <Problem text={save.error} />}
          {!fixed && (
            <div class="acts-row">
              {draft !== shown && <button onClick={() => setDraft(shown)}>Discard</button>}
              <button class="primary" disabled={save.busy || loading || draft === shown} onClick={() => void save.go()}>Save</button>
            </div>
          )}
        </>
      )}
    </>
  );
}

const row = 64;
const bitsPage = 32 * row;

function Bits({ db, name, total, locked, again }: { db: number; name: Text; total: number; locked: boolean; again: () => void }) {
  const [from, setFrom] = useState(0);
  const data = useLoad(async (signal) => {
    const [part, all] = await run(db, [['GETRANGE', name, String(from / 8), String((from + bitsPage) / 8 - 1)], ['BITCOUNT', name]], { signal });
    if (isError(part!)) throw new Error(part.error);
    return { part: bytesOf(text(part!)), all: num(all!) };
  }, [db, name, from]);
  const flip = useAction(async (at: number, to: number) => {
    await change(db, [['SETBIT', name, String(at), String(to)]]);
    data.reload();
    if (at >= 8 * total) again();
  });
  return (
    <Gate of={data}>
      {(d) => {
        const n = Math.min(bitsPage, Math.max(row, Math.ceil((8 * d.part.length) / row) * row));
        return (
          <>
            <p class="hint">{whole(d.all)} of {whole(8 * total)} bits are set.{locked ? '' : ' A click flips one.'}</p>
            <div class="bits" role="group" aria-label="Bits">
              {Array.from({ length: n / row }, (_, r) => (
                <div key={r}>
                  <small>{from + r * row}</small>
                  {Array.from({ length: row }, (_, c) => {
                    const i = r * row + c;
                    const on = ((d.part[i >> 3] ?? 0) >> (7 - (i & 7))) & 1;
                    return <button key={c} class={on ? 'on' : ''} disabled={locked} aria-pressed={on === 1} aria-label={`bit ${from + i}`} title={`bit ${from + i}: ${on}`} onClick={() => void flip.go(from + i, 1 - on)} />;
                  })}
                </div>
              ))}
            </div>
            {flip.error && <Problem text={flip.error} />}
            {8 * total > bitsPage && (
              <div class="pager">
                <button class="small" disabled={from === 0} onClick={() => setFrom(Math.max(0, from - bitsPage))}>←</button>
                <span>bits {whole(from)} to {whole(Math.min(8 * total, from + bitsPage))}</span>
                <button class="small" disabled={from + bitsPage >= 8 * total} onClick={() => setFrom(from + bitsPage)}>→</button>
              </div>
            )}
          </>
        );
      }}
    </Gate>
  );
}

function HyperLogLog({ db, name, readOnly, again }: { db: number; name: Text; readOnly: boolean; again: () => void }) {
  const data = useLoad(async (signal) => num(await ask(db, ['PFCOUNT', name], { signal })), [db, name]);
  return (
    <Gate of={data}>
      {(n) => (
        <>
          <p class="big-number"><b>{whole(n)}</b> different elements, more or less: the standard error is 0.81 %.</p>
          {!readOnly && <Adder verb="Count" fields={[{ name: 'element', label: 'Element' }]} add={async (e) => { await change(db, [['PFADD', name, e!]]); data.reload(); again(); }} />}
        </>
      )}
    </Gate>
  );
}
