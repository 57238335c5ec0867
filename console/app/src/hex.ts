// Bytes as hexadecimal digits, sixteen in a line.

export function hex(b: Uint8Array): string {
  const out: string[] = [];
  for (let i = 0; i < b.length; i += 16) out.push(Array.from(b.subarray(i, i + 16), (c) => c.toString(16).padStart(2, '0')).join(' '));
  return out.join('\n');
}

/** Reads hexadecimal digits; null if they are none, or half a byte is left over. */
export function unhex(s: string): Uint8Array | null {
  const digits = s.replace(/\s+/g, '');
  if (digits.length % 2 !== 0 || /[^0-9a-fA-F]/.test(digits)) return null;
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) => parseInt(digits.slice(2 * i, 2 * i + 2), 16));
}
