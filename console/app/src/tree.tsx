import { useState } from 'preact/hooks';
import { escapeBytes, bytesOf, list, pairs, str, type Reply } from './reply';

const step = 100;

/** A reply of the terminal; arrays and maps can be folded. */
export function Tree({ reply, depth = 0 }: { reply: Reply; depth?: number }) {
  const [open, setOpen] = useState(depth < 3);
  const [shown, setShown] = useState(step);
  if (reply === null) return <div class="r null">(nil)</div>;
  if (typeof reply === 'boolean') return <div class="r num">({String(reply)})</div>;
  if (typeof reply === 'number') return <div class="r num">(integer) {reply}</div>;
  if (typeof reply === 'string') return <div class="r text">"{escape(reply)}"</div>;
  if (!Array.isArray(reply)) {
    if ('status' in reply) return <div class="r status">{reply.status}</div>;
    if ('error' in reply) return <div class="r error">{reply.error}</div>;
    if ('int' in reply) return <div class="r num">(integer) {reply.int}</div>;
    if ('double' in reply) return <div class="r num">(double) {reply.double}</div>;
    if ('big' in reply) return <div class="r num">(big) {reply.big}</div>;
    if ('verbatim' in reply) return <pre class="r text">{reply.verbatim}</pre>;
    if ('bytes' in reply) return <div class="r text">"{escapeBytes(bytesOf(reply))}"</div>;
  }
  const map = !Array.isArray(reply) && 'map' in reply;
  const kind = Array.isArray(reply) ? 'array' : map ? 'map' : 'set' in reply ? 'set' : 'push';
  const items: [Reply | null, Reply][] = map ? pairs(reply) : list(reply).map((v) => [null, v]);
  if (items.length === 0) return <div class="r null">(empty {kind})</div>;
  return (
    <div class="branch">
      <button class="fold" aria-expanded={open} onClick={(e) => { e.stopPropagation(); setOpen(!open); }}>{open ? '▾' : '▸'} {kind} <small>{items.length}</small></button>
      {open && (
        <ol>
          {items.slice(0, shown).map(([k, v], i) => (
            <li key={i}>
              <span class="at">{map ? str(k) : i + 1}</span>
              <Tree reply={v} depth={depth + 1} />
            </li>
          ))}
          {items.length > shown && <li><button class="small" onClick={() => setShown(shown + 10 * step)}>{items.length - shown} more</button></li>}
        </ol>
      )}
    </div>
  );
}

/** What stays readable as it is: UTF-8, with control characters escaped. */
function escape(s: string): string {
  return s.replace(/["\\\x00-\x1f\x7f]/g, (c) => escapeBytes(Uint8Array.of(c.charCodeAt(0))));
}
