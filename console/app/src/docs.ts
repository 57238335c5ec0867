import { ask } from './api';
import { list, pairs, record, str, type Reply } from './reply';

// COMMAND DOCS, for completion and hints.

export interface Doc {
  name: string; // in capitals, with its container: CLIENT LIST
  summary: string;
  group: string;
  complexity: string;
  since: string;
  syntax: string;
}

/** The syntax of arguments as manuals write it: [EX seconds | PX milliseconds]. */
export function syntax(args: Reply | undefined): string {
  return list(args ?? null).map((a) => one(record(a))).join(' ');
}

function one(a: Record<string, Reply>): string {
  const flags = list(a.flags ?? null).map(str);
  const type = str(a.type);
  const token = str(a.token);
  let inner: string;
  if (type === 'oneof') inner = list(a.arguments ?? null).map((x) => one(record(x))).join(' | ');
  else if (type === 'block') inner = syntax(a.arguments);
  else if (type === 'pure-token') inner = token;
  else inner = str(a.display_text) || str(a.name);
  const multiple = flags.includes('multiple');
  if (multiple) inner += ` [${token && flags.includes('multiple_token') ? token + ' ' : ''}${inner} ...]`;
  if (token && type !== 'pure-token') inner = token + ' ' + (type === 'oneof' ? `<${inner}>` : inner);
  else if (type === 'oneof' && !flags.includes('optional')) inner = `<${inner}>`;
  return flags.includes('optional') ? `[${inner}]` : inner;
}

export function readDocs(reply: Reply): Map<string, Doc> {
  const all = new Map<string, Doc>();
  const add = (raw: string, r: Reply) => {
    const d = record(r);
    const name = raw.toUpperCase().replace('|', ' ');
    all.set(name, { name, summary: str(d.summary), group: str(d.group), complexity: str(d.complexity), since: str(d.since), syntax: syntax(d.arguments) });
    for (const [sub, s] of pairs(d.subcommands ?? null)) add(str(sub), s);
  };
  for (const [name, r] of pairs(reply)) add(str(name), r);
  return all;
}

let loaded: Promise<Map<string, Doc>> | null = null;

/** All commands; empty if the user may not ask for them. */
export function commandDocs(): Promise<Map<string, Doc>> {
  loaded ??= ask(0, ['COMMAND', 'DOCS']).then(readDocs, () => {
    loaded = null;
    return new Map<string, Doc>();
  });
  return loaded;
}

/** The documented command that a line begins with. */
export function docOf(docs: Map<string, Doc>, line: string): Doc | undefined {
  const [a = '', b = ''] = line.trimStart().toUpperCase().split(/\s+/);
  return docs.get(`${a} ${b}`) ?? docs.get(a);
}

/** Names that complete what is typed, as long as the name itself is being typed. */
export function complete(docs: Map<string, Doc>, line: string): string[] {
  const typed = line.trimStart().toUpperCase().replace(/\s+/g, ' ');
  if (typed === '') return [];
  const deep = typed.includes(' ');
  return [...docs.keys()].filter((n) => n.startsWith(typed) && n !== typed && (deep || !n.includes(' '))).sort().slice(0, 12);
}
