import { id, str, text, type Reply, type Text } from './reply';

// The tree of keys, as far as it was read: see console/tree.go.

export interface Node {
  prefix: Text;
  label: string;
  count: number; // keys below it, as far as its parent knows
  found: number; // keys found by reading the node itself
  cursor: string; // '' at the beginning, '0' at the end
  open: boolean;
  running: boolean;
  groups: Map<string, Node>;
  keys: Text[];
  seen: Set<string>; // SCAN may return a key twice
  types: Map<string, string>;
  leaves: number;
  others: number;
}

export interface Part {
  cursor: string;
  found: number;
  groups: { name: Reply; count: number }[] | null;
  keys: Reply[] | null;
  leaves: number;
  others: number;
}

export const empty = (prefix: Text, label: string): Node => ({
  prefix, label, count: 0, found: 0, cursor: '', open: false, running: false, groups: new Map(), keys: [], seen: new Set(), types: new Map(), leaves: 0, others: 0,
});

const maxGroups = 5000;

/** Adds a part to a node, and returns the keys that are new. */
export function add(node: Node, part: Part): Text[] {
  node.cursor = part.cursor;
  node.found += part.found;
  node.leaves += part.leaves;
  node.others += part.others;
  for (const g of part.groups ?? []) {
    const name = text(g.name);
    const old = node.groups.get(id(name));
    if (old) old.count += g.count;
    else if (node.groups.size < maxGroups) {
      const child = empty(join(node.prefix, name), str(g.name));
      child.count = g.count;
      node.groups.set(id(name), child);
    } else node.others += g.count;
  }
  const fresh: Text[] = [];
  for (const k of part.keys ?? []) {
    const name = text(k);
    if (node.seen.has(id(name))) continue;
    node.seen.add(id(name));
    node.keys.push(name);
    fresh.push(name);
  }
  return fresh;
}

/** Two texts behind each other. */
export function join(a: Text, b: Text): Text {
  if (typeof a === 'string' && typeof b === 'string') return a + b;
  const raw = (t: Text) => (typeof t === 'string' ? String.fromCharCode(...new TextEncoder().encode(t)) : atob(t.bytes));
  return { bytes: btoa(raw(a) + raw(b)) };
}

export type Row =
  | { kind: 'group'; key: string; depth: number; node: Node }
  | { kind: 'key'; key: string; depth: number; name: Text; label: string; type: string }
  | { kind: 'more'; key: string; depth: number; text: string };

/** The rows of a tree in the order of the page: groups by name, then keys by name. */
export function rowsOf(root: Node): Row[] {
  const rows: Row[] = [];
  const walk = (node: Node, depth: number) => {
    const groups = [...node.groups.values()].sort((a, b) => (a.label < b.label ? -1 : 1));
    for (const g of groups) {
      rows.push({ kind: 'group', key: 'g' + id(g.prefix), depth, node: g });
      if (g.open) walk(g, depth + 1);
    }
    const prefix = str(node.prefix);
    const keys = node.keys.map((k) => [str(k), k] as const).sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [full, k] of keys) {
      const label = full.startsWith(prefix) && full.length > prefix.length ? full.slice(prefix.length) : full;
      rows.push({ kind: 'key', key: 'k' + id(k), depth, name: k, label, type: node.types.get(id(k)) ?? '' });
    }
    if (node.leaves > node.keys.length && node.keys.length >= 2000) rows.push({ kind: 'more', key: 'm' + id(node.prefix), depth, text: `and ${(node.leaves - node.keys.length).toLocaleString('en-US')} more keys: a pattern finds them` });
    if (node.others > 0) rows.push({ kind: 'more', key: 'o' + id(node.prefix), depth, text: `and ${node.others.toLocaleString('en-US')} keys with other prefixes` });
  };
  walk(root, 0);
  return rows;
}
