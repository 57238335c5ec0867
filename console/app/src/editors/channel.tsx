import { useState } from 'preact/hooks';
import { ask, change } from '../api';
import { bytes, span, whole } from '../format';
import { list, num, record, str } from '../reply';
import { Choice, Empty, Gate, useLoad } from '../ui';
import type { EditorProps } from './detail';
import { Act, Adder } from './parts';

/** A durable channel: its figures, its subscribers and what they have not read, and its limits. */
export function Channel({ db, name, readOnly, changed }: EditorProps) {
  const [view, setView] = useState<'subscribers' | 'publish' | 'limits'>('subscribers');
  const [reader, setReader] = useState<string | null>(null);
  const data = useLoad(async (signal) => {
    const info = record(await ask(db, ['CHINFO', name, 'FULL'], { signal }));
    return { ...info, readers: list(info.subscriptions ?? null).map(record) } as Record<string, unknown> & { readers: Record<string, never>[] } & Record<'messages' | 'bytes' | 'oldest-age' | 'expire' | 'maxlen' | 'maxbytes', never>;
  }, [db, name], 3000);
  const again = () => { data.reload(); changed(); };
  return (
    <>
      <div class="filters">
        <Choice label="View" value={view} set={setView} options={[['subscribers', 'Subscribers'], ...(readOnly ? [] : [['publish', 'Publish'] as ['publish', string], ['limits', 'Limits'] as ['limits', string]])]} />
      </div>
      <Gate of={data}>
        {(d) => (
          <>
            <p class="facts">
              <span>{whole(num(d.messages))} messages</span><span>{bytes(num(d.bytes))}</span>
              <span>oldest {num(d.messages) > 0 ? span(num(d['oldest-age'])) : '–'}</span>
              <span>messages live {span(num(d.expire))}</span>
              {num(d.maxlen) > 0 && <span>at most {whole(num(d.maxlen))}</span>}
              {num(d.maxbytes) > 0 && <span>at most {bytes(num(d.maxbytes))}</span>}
            </p>
            {view === 'publish' && <Adder verb="Publish" fields={[{ name: 'message', label: 'Message id', preset: 'm' + Date.now().toString(36) }, { name: 'content', label: 'Content (JSON)' }]} add={async (m, c) => { await change(db, [['CHPUBLISH', name, m!, c!]]); again(); }} />}
            {view === 'limits' && <Adder verb="Set" fields={[{ name: 'expire', label: 'Life of messages, ms', preset: str(d.expire) }, { name: 'maxlen', label: 'Most messages, 0 is any', preset: str(d.maxlen) }, { name: 'maxbytes', label: 'Most bytes, 0 is any', preset: str(d.maxbytes) }]}
              add={async (e, l, b) => { await change(db, [['CHCONFIG', name, 'EXPIRE', e!, 'MAXLEN', l!, 'MAXBYTES', b!]]); again(); }} />}
            {view === 'subscribers' && (
              <>
                {!readOnly && <Adder verb="Subscribe" fields={[{ name: 'subscriber', label: 'Subscriber' }]} add={async (s) => { await change(db, [['CHSUBSCRIBE', name, s!]]); again(); }} />}
                {d.readers.length === 0 ? <Empty title="Nobody subscribes" /> : (
                  <div class="scroll"><table>
                    <thead><tr><th>Subscriber</th><th class="n">Not acknowledged</th><th class="n">Oldest</th><th class="n">Forgotten in</th><th /></tr></thead>
                    <tbody>
                      {d.readers.map((s) => (
                        <tr key={str(s.name)} class={reader === str(s.name) ? 'chosen' : ''}>
                          <td><button class="link mono" onClick={() => setReader(reader === str(s.name) ? null : str(s.name))}>{str(s.name)}</button></td>
                          <td class="n">{whole(num(s.backlog))}</td>
                          <td class="n">{num(s.backlog) > 0 ? span(num(s['oldest-age'])) : '–'}</td>
                          <td class="n">{num(s.ttl) > 0 ? span(num(s.ttl)) : '–'}</td>
                          <td class="acts">{!readOnly && <Act verb="×" title={`Unsubscribe ${str(s.name)}`} danger act={async () => { await change(db, [['CHUNSUBSCRIBE', name, str(s.name)]]); again(); }} />}</td>
                        </tr>
                      ))}
                    </tbody>
                  </table></div>
                )}
                {reader !== null && <Backlog db={db} name={name} reader={reader} version={num(d.messages)} />}
              </>
            )}
          </>
        )}
      </Gate>
    </>
  );
}

/** What a subscriber has not acknowledged. Looking changes nothing: only CHACK does. */
function Backlog({ db, name, reader, version }: { db: number; name: EditorProps['name']; reader: string; version: number }) {
  const data = useLoad(async (signal) => {
    const reply = record(await ask(db, ['CHFETCH', name, reader, 'COUNT', '50'], { signal }));
    return { messages: list(reply.messages ?? null).map(list), more: reply.more === true || num(reply.more) === 1 };
  }, [db, name, reader, version]);
  return (
    <Gate of={data}>
      {(d) => (d.messages.length === 0 ? <Empty title={`${reader} has read everything`} /> : (
        <div class="scroll"><table>
          <thead><tr><th class="n">Clock</th><th>Id</th><th>Content</th></tr></thead>
          <tbody>{d.messages.map((m) => <tr key={str(m[0])}><td class="n muted">{str(m[0])}</td><td class="mono">{str(m[1])}</td><td class="mono value">{str(m[2])}</td></tr>)}</tbody>
        </table>{d.more && <p class="hint">There are more.</p>}</div>
      ))}
    </Gate>
  );
}
