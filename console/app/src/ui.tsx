import { type ComponentChildren, type JSX } from 'preact';
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';

// Parts that all pages use.

export type Theme = 'system' | 'light' | 'dark';

const dark = matchMedia('(prefers-color-scheme: dark)');
const themeListeners = new Set<() => void>();

export const chosenTheme = (): Theme => (localStorage.getItem('theme') as Theme | null) ?? 'system';

export function applyTheme(t: Theme = chosenTheme()): void {
  localStorage.setItem('theme', t);
  document.documentElement.dataset.theme = t === 'system' ? (dark.matches ? 'dark' : 'light') : t;
  for (const f of themeListeners) f();
}
dark.addEventListener('change', () => applyTheme());

/** The theme in effect. */
export function useTheme(): string {
  const [theme, set] = useState(document.documentElement.dataset.theme ?? 'light');
  useEffect(() => {
    const f = () => set(document.documentElement.dataset.theme ?? 'light');
    themeListeners.add(f);
    return () => void themeListeners.delete(f);
  }, []);
  return theme;
}

/** Loads something, again whenever the dependencies change, and every so many milliseconds. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, deps: unknown[], every = 0) {
  const [data, setData] = useState<T | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [loading, setLoading] = useState(true);
  const [at, setAt] = useState(0);
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const go = async () => {
      try {
        const d = await load(control.signal);
        if (control.signal.aborted) return;
        setData(d);
        setError(null);
        setAt(Date.now());
      } catch (e) {
        if (control.signal.aborted) return;
        setError(e instanceof Error ? e.message : String(e));
      }
      setLoading(false);
      if (every > 0) timer = window.setTimeout(() => (document.hidden ? (timer = window.setTimeout(go, every)) : void go()), every);
    };
    setLoading(true);
    void go();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [...deps, turn]);
  useEffect(() => {
    setData(null);
    setError(null);
  }, deps);
  const reload = useCallback(() => {
    setLoading(true); // at once: what is typed until the data is there would be lost
    setTurn((n) => n + 1);
  }, []);
  return { data, error, loading, reload, at };
}

export function Problem({ text, again }: { text: string; again?: () => void }) {
  return (
    <div class="problem" role="alert">
      <span>{text}</span>
      {again && <button class="small" onClick={again}>Try again</button>}
    </div>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
    </div>
  );
}

export const Loading = ({ what = 'Loading' }: { what?: string }) => <div class="loading" role="status"><i />{what}…</div>;

/** What a page shows while it has no data, or why it has none. */
export function Gate<T>({ of, children }: { of: { data: T | null; error: string | null; reload: () => void }; children: (data: T) => ComponentChildren }) {
  if (of.data === null) return of.error ? <Problem text={of.error} again={of.reload} /> : <Loading />;
  return (
    <>
      {of.error && <Problem text={`${of.error} What is below is not live.`} again={of.reload} />}
      {children(of.data)}
    </>
  );
}

export function Page({ title, note, actions, children }: { title: string; note?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }) {
  useEffect(() => {
    document.title = `${title} · Redoubt`;
  }, [title]);
  return (
    <main>
      <header class="page">
        <h1>{title}</h1>
        {note && <span class="note">{note}</span>}
        <span class="grow" />
        {actions}
      </header>
      {children}
    </main>
  );
}

/** A row of buttons of which one is chosen. */
export function Choice<T extends string | number>({ value, options, set, label }: { value: T; options: [T, string][]; set: (v: T) => void; label: string }) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([v, text]) => (
        <button key={String(v)} aria-pressed={v === value} onClick={() => set(v)}>{text}</button>
      ))}
    </div>
  );
}

/** A dialog. Escape closes it. */
export function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    ref.current!.showModal();
  }, []);
  return (
    <dialog ref={ref} onClose={close} onClick={(e) => e.target === ref.current && close()}>
      <form method="dialog" onSubmit={(e) => e.preventDefault()}>
        <h2>{title}</h2>
        {children}
      </form>
    </dialog>
  );
}

/** Asks before something is done that cannot be undone, and shows why it failed. */
export function Confirm({ title, text, verb, act, close }: { title: string; text: ComponentChildren; verb: string; act: () => Promise<void>; close: () => void }) {
  const todo = useAction(async () => {
    await act();
    close();
  });
  return (
    <Dialog title={title} close={close}>
      <p>{text}</p>
      {todo.error && <Problem text={todo.error} />}
      <footer>
        <button type="button" onClick={close}>Cancel</button>
        <button type="button" class="danger" disabled={todo.busy} onClick={() => void todo.go()}>{verb}</button>
      </footer>
    </Dialog>
  );
}

/** Something that is done on request, with its error. */
export function useAction<A extends unknown[]>(f: (...a: A) => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const go = async (...a: A): Promise<boolean> => {
    setBusy(true);
    setError(null);
    try {
      await f(...a);
      return true;
    } catch (e) {
      setError(e instanceof Error ? e.message : String(e));
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { go, busy, error, clear: () => setError(null) };
}

export const Field = ({ label, hint, children }: { label: string; hint?: string; children: ComponentChildren }) => (
  <label class="field">
    <span>{label}</span>
    {children}
    {hint && <small>{hint}</small>}
  </label>
);

/** The rows of a long list, of which only those in view are in the page. */
export function Rows<T>({ items, height, render, onEnd, class: cls = '' }: {
  items: T[]; height: number; render: (item: T, i: number) => JSX.Element; onEnd?: () => void; class?: string;
}) {
  const ref = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useEffect(() => {
    const el = ref.current!;
    const look = () => setView({ top: el.scrollTop, height: el.clientHeight });
    const resize = new ResizeObserver(look);
    resize.observe(el);
    el.addEventListener('scroll', look, { passive: true });
    return () => {
      resize.disconnect();
      el.removeEventListener('scroll', look);
    };
  }, []);
  const from = Math.max(0, Math.floor(view.top / height) - 8);
  const to = Math.min(items.length, Math.ceil((view.top + view.height) / height) + 8);
  useEffect(() => {
    if (onEnd && to >= items.length) onEnd();
  }, [to, items.length]);
  const pad = useRef<HTMLDivElement>(null);
  const body = useRef<HTMLDivElement>(null);
  useEffect(() => {
    pad.current!.style.height = `${items.length * height}px`;
    body.current!.style.transform = `translateY(${from * height}px)`;
  });
  return (
    <div class={'rows ' + cls} ref={ref} tabIndex={-1}>
      <div ref={pad}>
        <div ref={body}>{items.slice(from, to).map((item, i) => render(item, from + i))}</div>
      </div>
    </div>
  );
}

/** Sets the width of a bar; the page's policy forbids style attributes. */
export function Bar({ part, class: cls = '' }: { part: number; class?: string }) {
  const ref = useRef<HTMLElement>(null);
  useEffect(() => {
    ref.current!.style.width = `${100 * Math.max(0, Math.min(1, part || 0))}%`;
  });
  return <span class={'bar ' + cls}><i ref={ref} /></span>;
}
