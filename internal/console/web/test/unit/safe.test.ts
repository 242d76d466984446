import { expect, test } from 'vitest'
import { isBare } from '../../src/attributes'
import { warningsOf } from '../../src/screens/savewarnings'

test.each(['198.51.100.7', 'u1', ' sk_live_1 ', 'YWJj=', 'YWI==', '2001:db8::1', 'Ann Lee'])(
  '%j is a bare value',
  (text) => expect(isBare(text)).toBe(true),
)

test.each(['', ' ', 'ip=198.51.100.7', 'user=u1 plan=gold', 'token=abc='])('%j is not', (text) =>
  expect(isBare(text)).toBe(false),
)

test('a change that denies much, or everything, gets a warning', () => {
  expect(warningsOf({ calls: 100, newly_denied: 5, deny_all: [] })).toEqual([])
  expect(warningsOf({ calls: 0, newly_denied: 0, deny_all: [] })).toEqual([])
  expect(warningsOf({ calls: 100, newly_denied: 6, deny_all: ['login'] })).toEqual([
    'login has a limit of 0: it denies every request under it.',
    'These rules would have denied 6 % of the last 100 requests, which the current rules allow.',
  ])
})
