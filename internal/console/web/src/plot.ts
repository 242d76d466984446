// The geometry of the charts in reports.

// ticks returns round values from 0 to at least the highest one, at most six.
export function ticks(highest: number): number[] {
  if (!(highest > 0)) return [0, 1]
  const unit = 10 ** Math.floor(Math.log10(highest / 5))
  const step = unit * ([1, 2, 5, 10].find((n) => highest / (n * unit) <= 5.0001) ?? 10)
  const count = Math.ceil(highest / step - 1e-9)
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)))
}

// points returns a line within a square of 100 by 100, as an SVG polyline has it.
export function points(values: number[], top: number): string {
  const step = 100 / Math.max(1, values.length - 1)
  return values.map((v, i) => `${(i * step).toFixed(2)},${(100 - (100 * v) / top).toFixed(2)}`).join(' ')
}

// numberText writes a value without the noise of floating point.
export const numberText = (n: number) => n.toLocaleString('en', { maximumSignificantDigits: 4 })
