import { beforeEach, expect, test, vi } from 'vitest'

beforeEach(() => {
  vi.resetModules()
  const kept: Record<string, string> = {}
  vi.stubGlobal('localStorage', {
    getItem: (k: string) => kept[k] ?? null,
    setItem: (k: string, v: string) => (kept[k] = v),
  })
})

test('midnight is 00, and UTC is said', async () => {
  const { instant, time, toggleUTC, zone } = await import('../../src/format')
  toggleUTC()
  expect(time('2026-11-16T00:05:09Z')).toBe('00:05:09')
  expect(instant('2026-11-16T00:05:09Z')).toMatch(/00:05:09 UTC$/)
  expect(zone()).toBe('UTC')
  toggleUTC()
  expect(zone()).toMatch(/^Local time( \(UTC[+-].+\))?$/)
})
