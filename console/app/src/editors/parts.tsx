import { useEffect, useRef, useState } from 'preact/hooks';
import { bytesOf, escapeBytes, str, type Text } from '../reply';
import { Problem, useAction } from '../ui';

/** A text with any bytes, readable. */
export const show = (t: Text): string => (typeof t === 'string' ? t : escapeBytes(bytesOf(t)));

/** A value in a table that becomes a form by a click. Bytes that are no text are not edited here. */
export function Cell({ value, save, label, locked }: { value: Text; save: (v: string) => Promise<void>; label: string; locked: boolean }) {
  const [draft, setDraft] = useState<string | null>(null);
  const input = useRef<HTMLTextAreaElement>(null);
  const act = useAction(async () => {
    if (draft !== null && draft !== value) await save(draft);
    setDraft(null);
  });
  useEffect(() => input.current?.focus(), [draft === null]);
  if (draft === null) {
    const fixed = locked || typeof value !== 'string';
    return fixed
      ? <span class="mono value">{show(value)}</span>
      : <button class="cell mono value" title={`Change ${label}`} aria-label={`Change ${label}`} onClick={() => setDraft(value as string)}>{value === '' ? <i class="muted">empty</i> : show(value)}</button>;
  }
  return (
    <form class="cellform" onSubmit={(e) => { e.preventDefault(); void act.go(); }}>
      <textarea ref={input} aria-label={label} rows={Math.min(8, draft.split('\n').length)} value={draft} onInput={(e) => setDraft(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === 'Escape') setDraft(null);
          if (e.key === 'Enter' && !e.shiftKey) { e.preventDefault(); void act.go(); }
        }} />
      <button class="small primary" disabled={act.busy}>Save</button>
      <button class="small" type="button" onClick={() => setDraft(null)}>Cancel</button>
      {act.error && <Problem text={act.error} />}
    </form>
  );
}

/** A row of inputs and a button that adds something. */
export function Adder({ fields, verb, add }: { fields: { name: string; label: string; optional?: boolean; preset?: string }[]; verb: string; add: (...v: string[]) => Promise<void> }) {
  const fresh = () => fields.map((f) => f.preset ?? '');
  const [values, setValues] = useState(fresh);
  const act = useAction(async () => {
    await add(...values);
    setValues(fresh());
  });
  return (
    <form class="adder" onSubmit={(e) => { e.preventDefault(); void act.go(); }}>
      {fields.map((f, i) => (
        <input key={f.name} name={f.name} aria-label={f.label} placeholder={f.label} class="mono wide" required={!f.optional} value={values[i]}
          onInput={(e) => setValues(values.map((v, j) => (i === j ? e.currentTarget.value : v)))} />
      ))}
      <button class="small" disabled={act.busy}>{verb}</button>
      {act.error && <Problem text={act.error} />}
    </form>
  );
}

/** A button that acts at once and shows its error beside it. */
export function Act({ verb, act, danger, title }: { verb: string; act: () => Promise<void>; danger?: boolean; title?: string }) {
  const a = useAction(act);
  return (
    <>
      <button class={'small' + (danger ? ' danger' : '')} disabled={a.busy} title={title} aria-label={title ?? verb} onClick={() => void a.go()}>{verb}</button>
      {a.error && <span class="problem">{a.error}</span>}
    </>
  );
}

/** Windows of a long sequence. */
export function Pager({ from, size, total, move }: { from: number; size: number; total: number; move: (from: number) => void }) {
  if (total <= size) return <p class="hint">{total.toLocaleString('en-US')} in all</p>;
  const last = Math.max(0, Math.floor((total - 1) / size) * size);
  return (
    <div class="pager">
      <button class="small" disabled={from === 0} onClick={() => move(0)}>First</button>
      <button class="small" disabled={from === 0} onClick={() => move(Math.max(0, from - size))}>←</button>
      <span>{(from + 1).toLocaleString('en-US')} to {Math.min(total, from + size).toLocaleString('en-US')} of {total.toLocaleString('en-US')}</span>
      <button class="small" disabled={from + size >= total} onClick={() => move(from + size)}>→</button>
      <button class="small" disabled={from + size >= total} onClick={() => move(last)}>Last</button>
    </div>
  );
}

export const label = (t: Text): string => str(t).slice(0, 40);
