import { expect, test } from 'vitest'
import { emptyForm, ruleFromForm } from '../../src/ruleform'

test('a form is a rule', () => {
  expect(
    ruleFromForm({ ...emptyForm, name: 'orders', key: 'user, plan,', method: 'POST', limit: '3/1h', mode: 'enforce' }),
  ).toEqual({
    name: 'orders',
    match: { method: 'POST', path: '/{rest...}' },
    key: ['user', 'plan'],
    limits: [{ rate: '3/1h', algorithm: 'sliding_window_counter' }],
  })
})

test('it matches everything without method and path, and is in shadow mode unless enforced', () => {
  const rule = ruleFromForm({ ...emptyForm, name: 'all', path: '' })
  expect(rule.match).toBeUndefined()
  expect(rule.mode).toBe('shadow')
})

test('a concurrency limit has the ttl that the rules require', () => {
  const form = { ...emptyForm, algorithm: 'concurrency' }
  expect(ruleFromForm({ ...form, limit: '5' }).limits).toEqual([{ concurrent: 5, ttl: '1m' }])
  expect(ruleFromForm({ ...form, limit: 'many' }).limits).toEqual([{ concurrent: 1, ttl: '1m' }])
})
