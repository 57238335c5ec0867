import { useState } from 'preact/hooks';
import { ask, change, run } from '../api';
import { num, type Text } from '../reply';
import { Dialog, Field, Problem, useAction } from '../ui';

const kinds: Record<string, { first: string; second?: string; make: (k: Text, a: string, b: string) => Text[] }> = {
  string: { first: 'Value', make: (k, a) => ['SET', k, a, 'NX'] },
  hash: { first: 'Field', second: 'Value', make: (k, a, b) => ['HSET', k, a, b] },
  list: { first: 'First element', make: (k, a) => ['RPUSH', k, a] },
  set: { first: 'First member', make: (k, a) => ['SADD', k, a] },
  zset: { first: 'First member', second: 'Score', make: (k, a, b) => ['ZADD', k, b || '0', a] },
  stream: { first: 'Field', second: 'Value', make: (k, a, b) => ['XADD', k, '*', a, b] },
  channel: { first: 'Subscriber', make: (k, a) => ['CHSUBSCRIBE', k, a] },
};

export function NewKey({ db, close, made }: { db: number; close: () => void; made: (k: Text) => void }) {
  const [name, setName] = useState('');
  const [type, setType] = useState('string');
  const [a, setA] = useState('');
  const [b, setB] = useState('');
  const kind = kinds[type]!;
  const act = useAction(async () => {
    const [there] = await run(db, [['EXISTS', name]]);
    if (num(there!) > 0) throw new Error('A key with this name exists already.');
    if (type === 'string') {
      if ((await ask(db, kind.make(name, a, b))) === null) throw new Error('A key with this name exists already.');
    } else await change(db, [kind.make(name, a, b)]);
    made(name);
  });
  return (
    <Dialog title="New key" close={close}>
      <Field label="Name"><input class="mono" name="name" value={name} autofocus onInput={(e) => setName(e.currentTarget.value)} /></Field>
      <Field label="Type"><select name="kind" value={type} onChange={(e) => setType(e.currentTarget.value)}>{Object.keys(kinds).map((t) => <option key={t}>{t}</option>)}</select></Field>
      <Field label={kind.first}><input class="mono" name="first" value={a} onInput={(e) => setA(e.currentTarget.value)} /></Field>
      {kind.second && <Field label={kind.second}><input class="mono" name="second" value={b} onInput={(e) => setB(e.currentTarget.value)} /></Field>}
      {act.error && <Problem text={act.error} />}
      <footer>
        <button type="button" onClick={close}>Cancel</button>
        <button class="primary" disabled={act.busy || name === ''} onClick={() => void act.go()}>Create</button>
      </footer>
    </Dialog>
  );
}
