import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { call, runRaw } from '../api';
import { complete, commandDocs, docOf, type Doc } from '../docs';
import { micros } from '../format';
import { split, str, isError, type Reply, type Text } from '../reply';
import { Tree } from '../tree';
import { Page } from '../ui';

interface Entry {
  line: string;
  db: number;
  replies: Reply[];
  pushes: Reply[];
  problem?: string;
  micros?: number;
}

const maxEntries = 200;
const maxHistory = 500;
const secret = /^\s*(auth|hello|acl\s+setuser|config\s+set\s+\S*(pass|auth|token))/i;

// The transcript outlives the page, as the connection does.
const terminal = Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, '0')).join('');
let transcript: Entry[] = [];
let present = 0;

const readHistory = (): string[] => {
  try {
    return JSON.parse(localStorage.getItem('history') ?? '[]') as string[];
  } catch {
    return [];
  }
};

export function Terminal() {
  const [entries, setEntries] = useState(transcript);
  const [db, setDB] = useState(present);
  const [line, setLine] = useState('');
  const [running, setRunning] = useState<AbortController | null>(null);
  const [docs, setDocs] = useState<Map<string, Doc>>(new Map());
  const [choice, setChoice] = useState(-1);
  const history = useRef(readHistory());
  const place = useRef(-1); // in the history; -1: a new line
  const draft = useRef('');
  const input = useRef<HTMLInputElement>(null);
  const end = useRef<HTMLDivElement>(null);

  useEffect(() => void commandDocs().then(setDocs), []);
  useEffect(() => {
    if (!running) input.current?.focus();
  }, [running]);
  useEffect(() => end.current?.scrollIntoView({ block: 'end' }), [entries, running]);

  const options = useMemo(() => (running ? [] : complete(docs, line)), [docs, line, running]);
  const doc = useMemo(() => docOf(docs, line), [docs, line]);

  const put = (e: Entry) => {
    transcript = [...transcript, e].slice(-maxEntries);
    setEntries(transcript);
  };

  const submit = async () => {
    const text = line.trim();
    if (text === '' || running) return;
    setLine('');
    setChoice(-1);
    place.current = -1;
    if (!secret.test(text)) {
      history.current = [...history.current.filter((l) => l !== text), text].slice(-maxHistory);
      localStorage.setItem('history', JSON.stringify(history.current));
    }
    const words = split(text);
    const entry: Entry = { line: secret.test(text) ? text.split(/\s+/).slice(0, 2).join(' ') + ' …' : text, db, replies: [], pushes: [] };
    if (!words) return put({ ...entry, problem: 'Invalid argument(s): a quote is not closed.' });
    const name = str(words[0] ?? '').toLowerCase();
    if (name === 'clear') {
      transcript = [];
      return setEntries([]);
    }
    // A number before a command repeats it, as in redis-cli.
    const times = /^[1-9]\d{0,2}$/.test(name) && words.length > 1 ? Number(name) : 1;
    const command: Text[] = times > 1 ? words.slice(1) : words;
    const control = new AbortController();
    setRunning(control);
    try {
      const r = await runRaw(0, Array.from({ length: times }, () => command), { terminal, signal: control.signal });
      put({ ...entry, replies: r.replies ?? [], pushes: r.pushes ?? [], micros: r.micros, ...(r.error ? { problem: r.error } : {}) });
      const reply = r.replies?.at(-1);
      if (name === 'select' && reply !== undefined && !isError(reply)) change(Number(str(words[1] ?? '0')));
      if (name === 'reset' || r.error) change(0);
    } catch (e) {
      put({ ...entry, problem: control.signal.aborted ? 'Cancelled. The connection was closed; the next command opens another.' : (e as Error).message });
      if (control.signal.aborted) change(0);
    } finally {
      setRunning(null);
    }
  };
  const change = (n: number) => {
    present = n;
    setDB(n);
  };
  const cancel = () => {
    running?.abort();
    void call('DELETE', 'terminal/' + terminal).catch(() => {});
  };

  const take = (o: string) => {
    setLine(o.toLowerCase() === o ? o : o + ' ');
    setChoice(-1);
    input.current?.focus();
  };
  const walk = (step: number) => {
    const h = history.current;
    if (place.current === -1) {
      if (step > 0) return;
      draft.current = line;
      place.current = h.length;
    }
    place.current = Math.max(0, place.current + step);
    if (place.current >= h.length) {
      place.current = -1;
      setLine(draft.current);
    } else setLine(h[place.current]!);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === 'Tab' && options.length > 0) {
      e.preventDefault();
      if (options.length === 1 || choice >= 0) take(options[Math.max(0, choice)]!);
      else setChoice(0);
    } else if (choice >= 0 && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      e.preventDefault();
      setChoice((choice + (e.key === 'ArrowDown' ? 1 : options.length - 1)) % options.length);
    } else if (choice >= 0 && e.key === 'Enter') {
      e.preventDefault();
      take(options[choice]!);
    } else if (choice >= 0 && e.key === 'Escape') setChoice(-1);
    else if (e.key === 'ArrowUp' || e.key === 'ArrowDown') {
      e.preventDefault();
      walk(e.key === 'ArrowUp' ? -1 : 1);
    } else if (e.key === 'l' && e.ctrlKey) {
      e.preventDefault();
      transcript = [];
      setEntries([]);
    } else if (e.key === 'c' && e.ctrlKey && !getSelection()?.toString() && input.current?.selectionStart === input.current?.selectionEnd) {
      if (running) cancel();
      else setLine('');
    }
  };

  return (
    <Page title="Terminal" note="↑ ↓ history · Tab completes · Ctrl-C cancels · Ctrl-L clears">
      <div class="terminal card" onClick={() => getSelection()?.isCollapsed && input.current?.focus()}>
        <div class="transcript" role="log" aria-live="polite">
          {entries.length === 0 && <p class="hint">Commands run as your user, on a connection that lasts: SELECT, MULTI and WATCH work as in redis-cli.</p>}
          {entries.map((e, i) => (
            <div class="entry" key={i}>
              <div class="said"><b>{e.db}&gt;</b> {e.line}{e.micros !== undefined && <small>{micros(e.micros)}</small>}</div>
              {e.replies.map((r, j) => <Tree key={j} reply={r} />)}
              {e.pushes.map((r, j) => <div class="push" key={j}><small>push</small><Tree reply={r} /></div>)}
              {e.problem && <div class="r error">{e.problem}</div>}
            </div>
          ))}
          {running && <div class="entry"><div class="loading"><i />running… <button class="small" onClick={cancel}>Cancel</button></div></div>}
          <div ref={end} />
        </div>
        <form onSubmit={(e) => { e.preventDefault(); void submit(); }}>
          <div class="suggest" role="listbox" aria-label="Completions" id="completions">
            {(choice >= 0 || options.length > 0 && line.trim().length > 0 && !doc) && options.map((o, i) => (
              <button type="button" role="option" id={'option' + i} aria-selected={i === choice} key={o} onClick={() => take(o)}>
                <b>{o}</b><span>{docs.get(o)?.summary}</span>
              </button>
            ))}
          </div>
          {doc && choice < 0 && (
            <div class="manual">
              <code>{doc.name} {doc.syntax}</code>
              <span>{doc.summary}{doc.complexity && <em> {doc.complexity}</em>}</span>
            </div>
          )}
          <label class="prompt">
            <b>{db}&gt;</b>
            <input ref={input} value={line} disabled={!!running} aria-label="Command" autocomplete="off" autocapitalize="none" spellcheck={false}
              role="combobox" aria-expanded={choice >= 0} aria-controls="completions" aria-activedescendant={choice >= 0 ? 'option' + choice : undefined}
              onInput={(e) => { setLine(e.currentTarget.value); setChoice(-1); }} onKeyDown={key} />
          </label>
        </form>
      </div>
    </Page>
  );
}
