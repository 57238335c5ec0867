import { useState } from 'preact/hooks';
import { ask, run } from '../api';
import { span } from '../format';
import { isError, list, num, record, str, split, type Text } from '../reply';
import { useSession } from '../session';
import { Confirm, Dialog, Empty, Field, Gate, Page, Problem, useAction, useLoad } from '../ui';

interface User {
  name: string;
  on: boolean;
  open: boolean;
  commands: string;
  keys: string;
  channels: string;
  line: string;
}

export function Users() {
  const session = useSession();
  const [editing, setEditing] = useState<User | 'new' | null>(null);
  const [deleting, setDeleting] = useState<User | null>(null);
  const data = useLoad(async (signal) => {
    const [names, lines, log] = await run(0, [['ACL', 'USERS'], ['ACL', 'LIST'], ['ACL', 'LOG', '50']], { signal });
    if (isError(names!)) throw new Error(names.error);
    const users = await run(0, list(names!).map((n) => ['ACL', 'GETUSER', str(n)]), { signal });
    return {
      users: list(names!).map((n, i): User => {
        const u = record(users[i]!);
        const flags = list(u.flags ?? null).map(str);
        const line = list(lines!).map(str).find((l) => l.startsWith(`user ${str(n)} `)) ?? '';
        return { name: str(n), on: flags.includes('on'), open: flags.includes('nopass'), commands: str(u.commands), keys: str(u.keys), channels: str(u.channels), line: line.split(' ').slice(2).join(' ') };
      }),
      log: isError(log!) ? [] : list(log!).map(record),
    };
  }, [], 10000);
  return (
    <Page title="Users" note="of the ACL" actions={!session.readOnly && <button class="primary" onClick={() => setEditing('new')}>New user</button>}>
      <Gate of={data}>
        {(d) => (
          <>
            <section class="card"><div class="scroll"><table>
              <thead><tr><th>User</th><th>State</th><th>Commands</th><th>Keys</th><th>Channels</th><th /></tr></thead>
              <tbody>
                {d.users.map((u) => (
                  <tr key={u.name}>
                    <td><b>{u.name}</b>{u.name === session.user && <small> you</small>}</td>
                    <td class="nowrap"><span class={'badge ' + (u.on ? 'good' : 'plain')}>{u.on ? 'on' : 'off'}</span> {u.open && <span class="badge">no password</span>}</td>
                    <td class="mono value">{u.commands}</td><td class="mono value">{u.keys || '–'}</td><td class="mono value">{u.channels || '–'}</td>
                    <td class="acts">{!session.readOnly && <><button class="small" aria-label={`Edit ${u.name}`} onClick={() => setEditing(u)}>Edit</button>{u.name !== 'default' && <button class="small danger" aria-label={`Delete ${u.name}`} onClick={() => setDeleting(u)}>×</button>}</>}</td>
                  </tr>
                ))}
              </tbody>
            </table></div></section>
            <section class="card">
              <header><h3>Refused lately</h3></header>
              {d.log.length === 0 ? <Empty title="Nothing was refused" /> : (
                <div class="scroll"><table>
                  <thead><tr><th class="n">Ago</th><th class="n">Times</th><th>Reason</th><th>Object</th><th>User</th><th>Client</th></tr></thead>
                  <tbody>{d.log.map((l, i) => (
                    <tr key={i}><td class="n">{span(1000 * num(l['age-seconds']))}</td><td class="n">{str(l.count)}</td><td>{str(l.reason)}</td><td class="mono">{str(l.object)}</td><td>{str(l.username)}</td><td class="muted">{/addr=(\S+)/.exec(str(l['client-info']))?.[1]}</td></tr>
                  ))}</tbody>
                </table></div>
              )}
            </section>
          </>
        )}
      </Gate>
      {editing && <EditUser user={editing} close={() => setEditing(null)} done={() => { setEditing(null); data.reload(); }} />}
      {deleting && <Confirm title="Delete the user?" verb="Delete" close={() => setDeleting(null)} text={<>The connections of <b>{deleting.name}</b> end at once.</>} act={async () => { await ask(0, ['ACL', 'DELUSER', deleting.name]); data.reload(); }} />}
    </Page>
  );
}

function EditUser({ user, close, done }: { user: User | 'new'; close: () => void; done: () => void }) {
  const [name, setName] = useState(user === 'new' ? '' : user.name);
  const [on, setOn] = useState(user === 'new' || user.on);
  const [password, setPassword] = useState('');
  const [rules, setRules] = useState(user === 'new' ? '~* &* +@read' : user.line.split(' ').filter((w) => !/^(on|off|#|nopass|sanitize-payload|skip-sanitize-payload)/.test(w)).join(' '));
  const act = useAction(async () => {
    const words: Text[] | null = split(rules);
    if (!words) throw new Error('A quote is not closed.');
    const secret = password === '' ? [] : ['resetpass', '>' + password];
    await ask(0, ['ACL', 'SETUSER', name, 'resetkeys', 'resetchannels', 'nocommands', 'clearselectors', on ? 'on' : 'off', ...secret, ...words]);
    done();
  });
  return (
    <Dialog title={user === 'new' ? 'New user' : `Edit ${user.name}`} close={close}>
      {user === 'new' && <Field label="Name"><input name="name" value={name} autofocus onInput={(e) => setName(e.currentTarget.value)} /></Field>}
      <label class="check"><input type="checkbox" checked={on} onChange={(e) => setOn(e.currentTarget.checked)} /> may log in</label>
      <Field label="Password" hint={user === 'new' ? '' : 'Empty: it stays as it is.'}><input name="newpassword" type="password" autocomplete="new-password" value={password} onInput={(e) => setPassword(e.currentTarget.value)} /></Field>
      <Field label="Rules" hint="Keys ~pattern, channels &pattern, commands +get -set +@read, selectors (…)"><textarea name="rules" rows={4} value={rules} onInput={(e) => setRules(e.currentTarget.value)} /></Field>
      {act.error && <Problem text={act.error} />}
      <footer><button type="button" onClick={close}>Cancel</button><button class="primary" disabled={act.busy || name === ''} onClick={() => void act.go()}>Save</button></footer>
    </Dialog>
  );
}
