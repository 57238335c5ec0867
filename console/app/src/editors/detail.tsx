import { useState } from 'preact/hooks';
import { ask, change, run } from '../api';
import { bytes, span } from '../format';
import { isError, num, str, type Text } from '../reply';
import { useSession } from '../session';
import { Confirm, Dialog, Empty, Field, Gate, Problem, useAction, useLoad } from '../ui';
import { Channel } from './channel';
import { Hash } from './hash';
import { List } from './list';
import { SetEditor } from './set';
import { SortedSet } from './zset';
import { Stream } from './stream';
import { StringEditor } from './string';

export interface EditorProps {
  db: number;
  name: Text;
  readOnly: boolean;
  changed: () => void; // have the head read again
}

const editors = { string: StringEditor, hash: Hash, list: List, set: SetEditor, zset: SortedSet, stream: Stream, channel: Channel };

/** A key: what is common to all types, and the form of its type. */
export function Detail({ db, name, close, renamed, deleted }: { db: number; name: Text; close: () => void; renamed: (k: Text) => void; deleted: () => void }) {
  const session = useSession();
  const [dialog, setDialog] = useState<'' | 'rename' | 'expire' | 'delete'>('');
  const head = useLoad(async (signal) => {
    const [type, ttl, memory, encoding] = await run(db, [['TYPE', name], ['PTTL', name], ['MEMORY', 'USAGE', name], ['OBJECT', 'ENCODING', name]], { signal });
    if (isError(type!)) throw new Error(type.error);
    return { type: str(type!), ttl: num(ttl!), memory: num(memory!), encoding: encoding === null || isError(encoding!) ? '' : str(encoding!), at: Date.now() };
  }, [db, name]);
  return (
    <Gate of={head}>
      {(h) => {
        const Editor = editors[h.type as keyof typeof editors];
        return (
          <>
            <header class="keyhead">
              <button class="small back" onClick={close} aria-label="Back to the keys">←</button>
              <h2 class="mono" title={str(name)}>{str(name)}</h2>
              {!session.readOnly && h.type !== 'none' && (
                <span class="acts-row">
                  <button class="small" onClick={() => setDialog('expire')}>Expiry</button>
                  <button class="small" onClick={() => setDialog('rename')}>Rename</button>
                  <button class="small danger" onClick={() => setDialog('delete')}>Delete</button>
                </span>
              )}
            </header>
            {h.type === 'none'
              ? <Empty title="The key is not there">It was deleted, or has expired. <button class="link" onClick={head.reload}>Look again</button></Empty>
              : (
                <>
                  <p class="facts">
                    <span class="badge accent">{h.type}</span>
                    {h.encoding && <span>{h.encoding}</span>}
                    <span>{bytes(h.memory)}</span>
                    <span>{h.ttl < 0 ? 'does not expire' : `expires in ${span(h.ttl)}`}</span>
                  </p>
                  {Editor ? <Editor db={db} name={name} readOnly={session.readOnly} changed={head.reload} /> : <Empty title={`There is no form for the type ${h.type}`}>The terminal can show it.</Empty>}
                </>
              )}
            {dialog === 'rename' && <Rename db={db} name={name} close={() => setDialog('')} done={renamed} />}
            {dialog === 'expire' && <Expire db={db} name={name} ttl={h.ttl} close={() => setDialog('')} done={() => { setDialog(''); head.reload(); }} />}
            {dialog === 'delete' && (
              <Confirm title="Delete the key?" verb="Delete" close={() => setDialog('')} text={<><b class="mono">{str(name)}</b> and all it holds will be gone.</>}
                act={async () => { await change(db, [['UNLINK', name]]); deleted(); }} />
            )}
          </>
        );
      }}
    </Gate>
  );
}

function Rename({ db, name, close, done }: { db: number; name: Text; close: () => void; done: (k: Text) => void }) {
  const [to, setTo] = useState(str(name));
  const act = useAction(async () => {
    if (num(await ask(db, ['RENAMENX', name, to])) === 0) throw new Error('A key with this name exists. Delete it first.');
    close();
    done(to);
  });
  return (
    <Dialog title="Rename the key" close={close}>
      <Field label="New name"><input class="mono" name="to" value={to} autofocus onInput={(e) => setTo(e.currentTarget.value)} /></Field>
      {act.error && <Problem text={act.error} />}
      <footer><button type="button" onClick={close}>Cancel</button><button class="primary" disabled={act.busy || to === ''} onClick={() => void act.go()}>Rename</button></footer>
    </Dialog>
  );
}

function Expire({ db, name, ttl, close, done }: { db: number; name: Text; ttl: number; close: () => void; done: () => void }) {
  const [seconds, setSeconds] = useState(ttl > 0 ? String(Math.ceil(ttl / 1000)) : '');
  const act = useAction(async () => {
    await ask(db, seconds === '' ? ['PERSIST', name] : ['EXPIRE', name, seconds]);
    done();
  });
  return (
    <Dialog title="When the key expires" close={close}>
      <Field label="Seconds from now" hint="Empty: it does not expire."><input name="seconds" inputMode="numeric" value={seconds} autofocus onInput={(e) => setSeconds(e.currentTarget.value)} /></Field>
      {act.error && <Problem text={act.error} />}
      <footer><button type="button" onClick={close}>Cancel</button><button class="primary" disabled={act.busy} onClick={() => void act.go()}>Set</button></footer>
    </Dialog>
  );
}
