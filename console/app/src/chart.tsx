import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { live, type Column } from './live';
import { bytes, clock } from './format';
import { useTheme } from './ui';

export interface Line {
  name: string; // of the column
  label: string;
  color: number; // 1 to 6
  /** Makes the value of two columns. */
  by?: string;
  op?: (a: number, b: number) => number;
  fill?: boolean;
  dash?: boolean;
}

interface Props {
  title: string;
  lines: Line[];
  format: (v: number | null) => string;
  seconds: number;
  version: number; // changes when there are new figures
  stale: boolean;
  log?: boolean;
}

const key = uPlot.sync('charts').key;

function columnOf(line: Line): Column {
  const a = live.series.column(line.name);
  if (!line.by) return a;
  const b = live.series.column(line.by);
  return a.map((v, i) => (v === null || b[i] == null ? null : line.op!(v, b[i]!)));
}

/** Steps of an axis of bytes. */
const powers = Array.from({ length: 46 }, (_, i) => 2 ** i);
const tens = (_u: uPlot, ticks: number[]) => ticks.map((t) => (isTen(t) ? t : null));
const isTen = (t: number) => Math.abs(Math.log10(t) - Math.round(Math.log10(t))) < 1e-9;

const css = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A chart of the newest seconds. All charts have one time cursor. */
export function Chart(p: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const [at, setAt] = useState<number | null>(null);
  const names = p.lines.map((l) => l.name).join();

  const data = (): uPlot.AlignedData => {
    const times = live.series.times.slice(-p.seconds);
    return [times, ...p.lines.map((l) => {
      const c = columnOf(l).slice(-p.seconds);
      return c.length === times.length ? c : new Array(times.length).fill(null);
    })] as uPlot.AlignedData;
  };

  useLayoutEffect(() => {
    const el = box.current!;
    const axis = { stroke: css('--muted'), grid: { stroke: css('--line'), width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif' };
    const u = new uPlot({
      width: el.clientWidth || 300, height: 150, legend: { show: false }, padding: [8, 4, 0, 0],
      cursor: { sync: { key, setSeries: false }, points: { size: 6 }, drag: { x: false, y: false } },
      hooks: { setCursor: [(u: uPlot) => setAt(u.cursor.idx ?? null)] },
      scales: { x: { time: true, range: (_u: uPlot, min: number, max: number) => [Math.max(max - p.seconds, Math.min(min, max - 60)), max] }, y: p.log ? { distr: 3 } : { range: (_u: uPlot, _min: number, max: number) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { ...axis, size: 22, space: 70, values: (_u, ticks) => ticks.map((t) => clock(t).slice(0, p.seconds > 600 ? 5 : 8)) },
        { ...axis, size: 62, space: 32, ...(p.format === bytes ? { incrs: powers } : {}), ...(p.log ? { grid: { ...axis.grid, filter: tens } } : {}), values: (_u, ticks) => ticks.map((t) => (t === null || (p.log && !isTen(t)) ? '' : p.format(t))) },
      ],
      series: [{}, ...p.lines.map((l) => {
        const stroke = css(`--c${l.color}`);
        return { stroke, width: 1.5, points: { show: false }, spanGaps: false, ...(l.fill ? { fill: stroke + '22' } : {}), ...(l.dash ? { dash: [4, 4] } : {}) };
      })],
    }, data(), el);
    plot.current = u;
    const resize = new ResizeObserver(() => el.clientWidth > 0 && u.setSize({ width: el.clientWidth, height: 150 }));
    resize.observe(el);
    return () => {
      resize.disconnect();
      u.destroy();
      plot.current = null;
    };
  }, [theme, names, p.seconds, p.log]);

  useEffect(() => plot.current?.setData(data()), [p.version, p.seconds]);

  const shown = plot.current?.data;
  const row = at !== null && shown && at < shown[0]!.length ? at : -1;
  return (
    <section class={'card chart' + (p.stale ? ' stale' : '')} aria-label={p.title}>
      <header>
        <h3>{p.title}</h3>
        {row >= 0 && <time>{clock(shown![0]![row] as number)}</time>}
      </header>
      <ul class="legend">
        {p.lines.map((l, i) => (
          <li key={l.label}>
            <i class={`swatch c${l.color}`} />
            {l.label} <b>{row >= 0 ? p.format((shown![i + 1]![row] as number | null) ?? null) : p.stale ? '–' : p.format(columnOf(l).at(-1) ?? null)}</b>
          </li>
        ))}
      </ul>
      <div class="plot" ref={box} />
    </section>
  );
}
