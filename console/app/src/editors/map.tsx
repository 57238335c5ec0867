import { useState } from 'preact/hooks';
import { Empty } from '../ui';

export interface Place {
  name: string;
  lon: number;
  lat: number;
}

/** The part of the world that has all places, with a margin. */
export function frame(places: Place[]): { west: number; east: number; south: number; north: number } {
  const lons = places.map((p) => p.lon);
  const lats = places.map((p) => p.lat);
  const half = Math.max(0.01, 0.55 * Math.max(Math.max(...lons) - Math.min(...lons), 2 * (Math.max(...lats) - Math.min(...lats))));
  const x = (Math.max(...lons) + Math.min(...lons)) / 2;
  const y = (Math.max(...lats) + Math.min(...lats)) / 2;
  return { west: x - half, east: x + half, south: y - half / 2, north: y + half / 2 };
}

/** Distances between lines: 1, 2 or 5 times a power of ten. */
export function spacing(width: number): number {
  const raw = width / 8;
  const power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((f) => f * power >= raw) ?? 10);
}

function lines(from: number, to: number, step: number): number[] {
  const out: number[] = [];
  for (let v = Math.ceil(from / step) * step; v <= to && out.length < 50; v += step) out.push(Number(v.toFixed(6)));
  return out;
}

/** Longitudes and latitudes as x and y: no tiles, so nothing is asked of anybody. */
export function Map({ places }: { places: Place[] }) {
  const [at, setAt] = useState<Place | null>(null);
  if (places.length === 0) return <Empty title="There are no places" />;
  const f = frame(places);
  const w = 720;
  const h = 360;
  const x = (lon: number) => ((lon - f.west) / (f.east - f.west)) * w;
  const y = (lat: number) => ((f.north - lat) / (f.north - f.south)) * h;
  const step = spacing(f.east - f.west);
  return (
    <figure class="map">
      <svg viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`Map of ${places.length} places`}>
        {lines(f.west, f.east, step).map((v) => <g key={'x' + v}><line x1={x(v)} x2={x(v)} y1={0} y2={h} /><text x={x(v) + 3} y={h - 4}>{v}°</text></g>)}
        {lines(f.south, f.north, step).map((v) => <g key={'y' + v}><line x1={0} x2={w} y1={y(v)} y2={y(v)} /><text x={3} y={y(v) - 3}>{v}°</text></g>)}
        {places.map((p) => (
          <circle key={p.name} cx={x(p.lon)} cy={y(p.lat)} r={p === at ? 6 : 4} onMouseEnter={() => setAt(p)}><title>{p.name}</title></circle>
        ))}
        {places.length <= 40 && places.map((p) => <text class="place" key={p.name} x={x(p.lon) + 7} y={y(p.lat) + 4}>{p.name}</text>)}
      </svg>
      <figcaption>{at ? `${at.name}: ${at.lat.toFixed(5)}°, ${at.lon.toFixed(5)}°` : `${places.length} places`}</figcaption>
    </figure>
  );
}
