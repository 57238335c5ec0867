import { useEffect, useState } from 'preact/hooks';
import { logIn, type State } from '../api';
import { Field, Problem, useAction } from '../ui';

/** A server without a password needs no form: everybody is the default user. */
export function LogIn({ open, done }: { open: boolean; done: (s: State) => void }) {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  const enter = useAction(async (u: string, p: string) => done(await logIn(u, p)));
  useEffect(() => {
    document.title = 'Log in · Redoubt';
    if (open) void enter.go('default', '');
  }, []);
  return (
    <div class="alone">
      <form class="card login" onSubmit={(e) => { e.preventDefault(); void enter.go(user, password); }}>
        <div class="brand big">
          <svg viewBox="0 0 32 32" aria-hidden="true"><path d="M4 28V9h5v4h4V9h6v4h4V9h5v19h-9v-6a3 3 0 0 0-6 0v6z" /></svg>
          <span>Redoubt</span>
        </div>
        <Field label="User">
          <input name="user" autocomplete="username" autocapitalize="none" spellcheck={false} placeholder="default" value={user} onInput={(e) => setUser(e.currentTarget.value)} />
        </Field>
        <Field label="Password">
          <input name="password" type="password" autocomplete="current-password" autofocus value={password} onInput={(e) => setPassword(e.currentTarget.value)} />
        </Field>
        {enter.error && <Problem text={enter.error} />}
        <button class="primary" type="submit" disabled={enter.busy}>{enter.busy ? 'Logging in…' : 'Log in'}</button>
        <p class="hint">Users are those of the server’s ACL. What you may do here is what they may do.</p>
      </form>
    </div>
  );
}
