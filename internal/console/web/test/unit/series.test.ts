import { expect, test } from 'vitest'
import { points, rates } from '../../src/series'

const counts = (allowed: number) => ({ allowed, denied: 0, shadow: 0, degraded: 0, errors: 0 })
const stats = {
  from: '2026-01-31T03:00:00Z',
  to: '2026-01-31T03:00:27Z',
  step_ms: 10_000,
  series: [counts(10), counts(20), counts(3)],
}

test('a step that is not over is left out', () => {
  const found = points(stats)
  expect(found.counts.map((c) => c?.allowed)).toEqual([10, 20])
  expect(found.at[1]).toBe(Date.parse('2026-01-31T03:00:20Z') / 1000)
  expect(points({ ...stats, to: '2026-01-31T03:00:30Z' }).counts.length).toBe(3)
})

test('the time before the start is unknown, not zero', () => {
  const found = points({ ...stats, since: '2026-01-31T03:00:12Z' })
  expect(found.counts.map((c) => c?.allowed)).toEqual([undefined, 20])
  expect(rates(found, stats.step_ms, (c) => c.allowed)).toEqual([null, 2])
})
