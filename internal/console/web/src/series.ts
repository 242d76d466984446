import type { Counts } from './types'

export interface Points {
  at: number[] // seconds since 1970, of the end of each step
  counts: (Counts | null)[] // null: unknown
}

interface Steps {
  from: string
  to: string // now
  since?: string // when counting began
  step_ms: number
  series: (Counts | null)[]
}

// points returns the steps that are over: an incomplete one would look like a drop. What was before counting began is
// unknown, not zero.
export function points({ from, to, since, step_ms, series }: Steps): Points {
  const begin = Date.parse(from)
  const end = Date.parse(to)
  const first = since === undefined ? begin : Date.parse(since)
  const found: Points = { at: [], counts: [] }
  for (const [i, counts] of series.entries()) {
    const over = begin + (i + 1) * step_ms
    if (over > end) break
    found.at.push(over / 1000)
    found.counts.push(over <= first ? null : counts)
  }
  return found
}

// rates returns what there was in a second of each step.
export function rates(of: Points, step_ms: number, value: (c: Counts) => number): (number | null)[] {
  return of.counts.map((c) => (c === null ? null : (value(c) * 1000) / step_ms))
}
