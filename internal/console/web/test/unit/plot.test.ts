import { expect, test } from 'vitest'
import { readFields, words } from '../../src/logfile'
import { points, ticks } from '../../src/plot'

test('ticks are round, and reach the highest value', () => {
  expect(ticks(0)).toEqual([0, 1])
  expect(ticks(49.152)).toEqual([0, 10, 20, 30, 40, 50])
  expect(ticks(0.3)).toEqual([0, 0.1, 0.2, 0.3])
  expect(ticks(7706)).toEqual([0, 2000, 4000, 6000, 8000])
})

test('points span the width, from the bottom to the top', () => {
  expect(points([0, 5, 10], 10)).toBe('0.00,100.00 50.00,50.00 100.00,0.00')
  expect(points([3], 3)).toBe('0.00,0.00')
})

test('fields are pairs, and anything else is an error', () => {
  expect(readFields(' user=uid, tenant=a.b=c')).toEqual({ user: 'uid', tenant: 'a.b=c' })
  expect(() => readFields('user')).toThrow('invalid field "user"')
  expect(words('a, b  c')).toEqual(['a', 'b', 'c'])
})
