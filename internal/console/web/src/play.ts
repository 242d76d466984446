import { signal } from '@preact/signals'
import type { Arrival } from './types'

// A game: limits side by side on the same arrivals. The server decides, with the code that decides every request.

export interface Limit {
  rate?: string
  algorithm?: string
  burst?: number
  refill?: string
  queue?: number
  count_denied?: boolean
  concurrent?: number
  ttl?: string
}

export interface Lane {
  name: string
  limit: Limit
}

export interface Preset {
  name: string
  about: string
  lanes: Lane[]
  arrivals: Arrival[]
  hold_ms?: number
}

const s = (...seconds: number[]): Arrival[] => seconds.map((at) => ({ at_ms: at * 1000 }))
const hours = (...h: number[]): Arrival[] => h.map((at) => ({ at_ms: at * 3600e3 }))
const times = (n: number, at: number) => Array<number>(n).fill(at)

export const presets: Preset[] = [
  {
    name: 'Three answers to one trace',
    about:
      'Six requests in the first minute, three more at 80 s, six allowed per minute. The fixed window has dropped the first minute, the log keeps every request, the counter estimates.',
    lanes: [
      { name: 'Fixed window', limit: { rate: '6/1m', algorithm: 'fixed_window' } },
      { name: 'Sliding log', limit: { rate: '6/1m', algorithm: 'sliding_window_log' } },
      { name: 'Sliding counter', limit: { rate: '6/1m', algorithm: 'sliding_window_counter' } },
    ],
    arrivals: s(10, 25, 35, 45, 50, 55, ...times(3, 80)),
  },
  {
    name: 'The burst at the edge',
    about: 'Five requests at 59 s and five at 60 s. A fixed window allows all ten within a second.',
    lanes: [
      { name: 'Fixed window', limit: { rate: '5/1m', algorithm: 'fixed_window' } },
      { name: 'Sliding counter', limit: { rate: '5/1m', algorithm: 'sliding_window_counter' } },
      { name: 'Token bucket', limit: { rate: '5/1m', algorithm: 'token_bucket', burst: 5 } },
    ],
    arrivals: s(...times(5, 59), ...times(5, 60), 75, 90, 105),
  },
  {
    name: 'Coins in a bucket',
    about:
      'A bucket of three tokens, filled every minute. At 50 s it is empty; tokens that do not fit at 120 s are lost; three requests at 130 s take all three at once.',
    lanes: [
      { name: 'Filled every minute', limit: { rate: '3/1m', algorithm: 'token_bucket', burst: 3, refill: 'interval' } },
      { name: 'Filled all the time', limit: { rate: '3/1m', algorithm: 'token_bucket', burst: 3 } },
    ],
    arrivals: s(0, 20, 40, 50, 60, ...times(4, 130)),
  },
  {
    name: 'Water with a hole',
    about: 'Eight requests at once. One proceeds every 15 s, six wait in order, and the rest are denied.',
    lanes: [
      { name: 'Leaky bucket', limit: { rate: '4/1m', algorithm: 'leaky_bucket', queue: 6 } },
      { name: 'Token bucket', limit: { rate: '4/1m', algorithm: 'token_bucket', burst: 4 } },
    ],
    arrivals: s(...times(8, 5), 40, 70, 95),
  },
  {
    name: 'Roller coaster, twice a day',
    about:
      'With the calendar, a visitor who has ridden twice waits until tomorrow; with the log, until a day after the first ride.',
    lanes: [
      { name: 'By the calendar', limit: { rate: '2/day', algorithm: 'fixed_window' } },
      { name: 'Any 24 hours', limit: { rate: '2/1d', algorithm: 'sliding_window_log' } },
    ],
    arrivals: hours(10, 15, 20, 25, 33, 35, 40),
  },
  {
    name: 'A hundred posts a day',
    about: 'A post every eight minutes, and one hour at about ten times that rate.',
    lanes: [
      { name: 'Fixed window', limit: { rate: '100/day', algorithm: 'fixed_window' } },
      { name: 'Token bucket', limit: { rate: '100/1d', algorithm: 'token_bucket', burst: 20 } },
      { name: 'Sliding counter', limit: { rate: '100/1d', algorithm: 'sliding_window_counter' } },
    ],
    arrivals: hours(
      ...Array.from({ length: 120 }, (_, i) => (i * 8) / 60),
      ...Array.from({ length: 60 }, (_, i) => 16 + i / 60),
    ).sort((a, b) => a.at_ms - b.at_ms),
  },
  {
    name: 'Five at the same time',
    about: 'Every request runs for 20 s. However fast they arrive, at most five run.',
    lanes: [
      { name: 'Concurrency', limit: { concurrent: 5, ttl: '1m' } },
      { name: 'Sliding counter', limit: { rate: '15/1m', algorithm: 'sliding_window_counter' } },
    ],
    arrivals: s(...Array.from({ length: 30 }, (_, i) => i * 2)),
    hold_ms: 20_000,
  },
]

export const kinds: { name: string; make: (count: number, window: string) => Limit }[] = [
  { name: 'Fixed window', make: (n, w) => ({ rate: `${n}/${w}`, algorithm: 'fixed_window' }) },
  { name: 'Sliding log', make: (n, w) => ({ rate: `${n}/${w}`, algorithm: 'sliding_window_log' }) },
  { name: 'Sliding counter', make: (n, w) => ({ rate: `${n}/${w}`, algorithm: 'sliding_window_counter' }) },
  { name: 'Token bucket', make: (n, w) => ({ rate: `${n}/${w}`, algorithm: 'token_bucket', burst: n }) },
  { name: 'Leaky bucket', make: (n, w) => ({ rate: `${n}/${w}`, algorithm: 'leaky_bucket', queue: n }) },
  { name: 'Concurrency', make: (n) => ({ concurrent: n, ttl: '1m' }) },
]

export const game = signal<Preset>(presets[0]!)

// generate makes arrivals: evenly, at random, or in bursts. The same seed makes the same arrivals.
export function generate(kind: string, perMinute: number, minutes: number): Arrival[] {
  const n = Math.max(1, Math.min(2000, Math.round(perMinute * minutes)))
  const span = minutes * 60e3
  let seed = 42
  const random = () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return seed / 2 ** 32
  }
  const at = Array.from({ length: n }, (_, i) => {
    if (kind === 'even') return (span * i) / n
    if (kind === 'random') return span * random()
    return Math.floor((i * 6) / n) * (span / 6) + random() * (span / 60)
  })
  return at.sort((a, b) => a - b).map((ms) => ({ at_ms: Math.round(ms) }))
}

// readArrivals reads pasted times: seconds, or with ms, s, m or h; "x3" repeats one.
export function readArrivals(text: string): { found: Arrival[]; wrong: string } {
  const found: Arrival[] = []
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60e3, min: 60e3, h: 3600e3 }
  for (const word of text.split(/[\s,;]+/).filter(Boolean)) {
    const m = /^(\d+(?:\.\d+)?)(ms|s|m|min|h)?(?:x(\d+))?$/.exec(word)
    if (!m) return { found, wrong: word }
    for (let i = 0; i < Math.min(2000, Number(m[3] ?? 1)); i++)
      found.push({ at_ms: Number(m[1]) * units[m[2] ?? 's']! })
  }
  return { found: found.sort((a, b) => a.at_ms - b.at_ms).slice(0, 2000), wrong: '' }
}
