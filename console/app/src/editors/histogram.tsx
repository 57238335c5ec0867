import { whole } from '../format';
import { Empty } from '../ui';

/** Limits of so many ranges between two numbers. */
export function edges(low: number, high: number, n: number): number[] {
  if (!isFinite(low) || !isFinite(high)) return [-Infinity, Infinity].map((v, i) => (i === 0 ? Math.max(v, isFinite(low) ? low : -1e308) : Math.min(v, isFinite(high) ? high : 1e308)));
  if (low === high) return [low, high];
  return Array.from({ length: n + 1 }, (_, i) => (i === n ? high : low + ((high - low) * i) / n));
}

const short = (v: number): string => (Math.abs(v) >= 1e6 || (v !== 0 && Math.abs(v) < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(5))));

export function Histogram({ limits, counts }: { limits: number[]; counts: number[] }) {
  const most = Math.max(...counts);
  if (!(most > 0)) return <Empty title="There are no scores" />;
  const w = 640;
  const h = 180;
  const step = w / counts.length;
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${w} ${h}`} role="img" aria-label="Histogram of scores">
        {counts.map((c, i) => (
          <rect key={i} x={i * step + 1} width={Math.max(1, step - 2)} y={h - (c / most) * (h - 4)} height={(c / most) * (h - 4)} rx={2}>
            <title>{`${short(limits[i]!)} to ${short(limits[i + 1]!)}: ${whole(c)}`}</title>
          </rect>
        ))}
      </svg>
      <figcaption><span>{short(limits[0]!)}</span><span>most in one range: {whole(most)}</span><span>{short(limits.at(-1)!)}</span></figcaption>
    </figure>
  );
}
