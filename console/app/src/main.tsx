import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { getState, logOut, onLoggedOut, type State } from './api';
import { applyTheme, chosenTheme, Loading, Problem, type Theme } from './ui';
import { SessionContext, go, useRoute } from './session';
import { LogIn } from './pages/login';
import { Overview } from './pages/overview';
import { Keys } from './pages/keys';
import { Terminal } from './pages/terminal';
import { SlowLog } from './pages/slowlog';
import { Clients } from './pages/clients';
import { Messages } from './pages/messages';
import { Users } from './pages/users';
import { Configuration } from './pages/config';
import { Cluster } from './pages/cluster';
import 'uplot/dist/uPlot.min.css';

const pages = [
  { path: 'overview', title: 'Overview', hint: 'o', page: Overview },
  { path: 'keys', title: 'Keys', hint: 'k', page: Keys },
  { path: 'terminal', title: 'Terminal', hint: 't', page: Terminal },
  { path: 'slow', title: 'Slow log', hint: 's', page: SlowLog },
  { path: 'clients', title: 'Clients', hint: 'c', page: Clients },
  { path: 'messages', title: 'Messages', hint: 'm', page: Messages },
  { path: 'users', title: 'Users', hint: 'u', page: Users },
  { path: 'config', title: 'Configuration', hint: 'g', page: Configuration },
  { path: 'cluster', title: 'Cluster', hint: 'l', page: Cluster },
];

function App() {
  const [state, setState] = useState<State | null>(null);
  const [error, setError] = useState<string | null>(null);
  const load = () => getState().then((s) => { setState(s); setError(null); }, (e: Error) => setError(e.message));
  useEffect(() => {
    void load();
    onLoggedOut(() => void load());
  }, []);
  if (error && !state) return <div class="alone"><Problem text={error} again={() => void load()} /></div>;
  if (!state) return <div class="alone"><Loading /></div>;
  if (!state.user) return <LogIn open={state.open} done={setState} />;
  return (
    <SessionContext.Provider value={state}>
      <Frame state={state} out={() => void logOut().finally(load)} />
    </SessionContext.Provider>
  );
}

function Frame({ state, out }: { state: State; out: () => void }) {
  const route = useRoute();
  const [menu, setMenu] = useState(false);
  const here = pages.find((p) => p.path === route.path) ?? pages[0]!;
  useEffect(() => setMenu(false), [route.path]);
  // g and then a letter goes to a page, unless somebody types.
  useEffect(() => {
    let armed = 0;
    const key = (e: KeyboardEvent) => {
      const el = e.target as HTMLElement;
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(el.tagName)) return;
      if (armed && Date.now() - armed < 1500) {
        const page = pages.find((p) => p.hint === e.key);
        armed = 0;
        if (page) {
          e.preventDefault();
          go(page.path);
        }
        return;
      }
      if (e.key === 'g') armed = Date.now();
      if (e.key === '/') {
        const find = document.querySelector<HTMLInputElement>('input[type=search]');
        if (find) {
          e.preventDefault();
          find.focus();
        }
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
  const about = state.about!;
  return (
    <div class="frame">
      <a class="skip" href="#main">To the page</a>
      <nav class={menu ? 'open' : ''} aria-label="Pages">
        <div class="brand">
          <svg viewBox="0 0 32 32" aria-hidden="true"><path d="M4 28V9h5v4h4V9h6v4h4V9h5v19h-9v-6a3 3 0 0 0-6 0v6z" /></svg>
          <span>Redoubt<small>{about.addr}</small></span>
          <button class="menu" aria-expanded={menu} aria-label="Menu" onClick={() => setMenu(!menu)}>☰</button>
        </div>
        <ul>
          {pages.map((p) => (
            <li key={p.path}>
              <a href={'#/' + p.path} aria-current={p === here ? 'page' : undefined} title={`g ${p.hint}`}>{p.title}</a>
            </li>
          ))}
        </ul>
        <div class="foot">
          <p title={`commands of Redis ${about.redis}`}>
            {about.version} · {about.engine} · {about.durability}
          </p>
          {state.readOnly && <p class="badge">read-only</p>}
          <ThemeChoice />
          <div class="who">
            <span title="The user whose rights this page has">{state.user}</span>
            <button class="small" onClick={out}>Log out</button>
          </div>
        </div>
      </nav>
      <div class="content" id="main">
        <here.page key={here.path} />
      </div>
    </div>
  );
}

function ThemeChoice() {
  const [theme, set] = useState<Theme>(chosenTheme());
  return (
    <label class="theme">
      Theme
      <select value={theme} onChange={(e) => { const t = e.currentTarget.value as Theme; set(t); applyTheme(t); }}>
        <option value="system">System</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  );
}

applyTheme();
render(<App />, document.getElementById('app')!);
