import { createContext } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';
import type { State } from './api';

export const SessionContext = createContext<State>({ admin: false, readOnly: false, open: false });
export const useSession = (): State => useContext(SessionContext);

export interface Route {
  path: string;
  query: URLSearchParams;
}

function read(): Route {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return { path, query: new URLSearchParams(query) };
}

/** Where the page is: #/path?query. */
export function useRoute(): Route {
  const [route, set] = useState(read);
  useEffect(() => {
    const f = () => set(read());
    addEventListener('hashchange', f);
    return () => removeEventListener('hashchange', f);
  }, []);
  return route;
}

export function go(path: string, query: Record<string, string> = {}): void {
  const q = new URLSearchParams(query).toString();
  location.hash = `#/${path}${q ? '?' + q : ''}`;
}

/** The database that the pages show, kept in the browser. */
export function useDB(): [number, (db: number) => void] {
  const [db, set] = useState(() => Number(sessionStorage.getItem('db') ?? 0) || 0);
  return [db, (n) => { sessionStorage.setItem('db', String(n)); set(n); }];
}
