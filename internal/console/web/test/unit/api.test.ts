import { expect, test } from 'vitest'
import { Failure } from '../../src/api'
import { query, url } from '../../src/request'

// The bodies are answers of the real server to POST /v1/bans and POST /v1/rules/{name}/overrides.
test('a failure says where each error of the request is, once', () => {
  const failure = new Failure(400, {
    title: 'Bad Request',
    status: 400,
    code: 'invalid',
    detail: 'duration: invalid duration "soon"; rule: must be a string, is a number',
    errors: [
      { at: 'duration', message: 'invalid duration "soon"' },
      { at: 'rule', message: 'must be a string, is a number' },
    ],
  })
  expect(failure.message).toBe('duration: invalid duration "soon"\nrule: must be a string, is a number')
})

test('a failure keeps the positions of errors in rules', () => {
  const problems = [{ severity: 'error' as const, line: 15, column: 59, message: 'invalid rate "often"' }]
  const failure = new Failure(400, { title: 'Bad Request', detail: 'the rules have 1 mistake', problems })
  expect(failure.message).toBe('the rules have 1 mistake')
  expect(failure.problems).toEqual(problems)
})

test('a failure without errors says the detail, the title or the status', () => {
  expect(new Failure(503, { title: 'Service Unavailable', detail: 'no Redis' }).message).toBe('no Redis')
  expect(new Failure(503, { title: 'Service Unavailable' }).message).toBe('Service Unavailable')
  expect(new Failure(502, {}).message).toBe('status 502')
})

test('url fills in path and query, escaped', () => {
  const input = { path: { name: 'a/b c' }, body: { match: { ip: '*' }, limit: '1/1h' } }
  expect(url('post', '/v1/rules/{name}/overrides', input)).toBe('/v1/rules/a%2Fb%20c/overrides')
  expect(url('get', '/v1/audit', { query: { limit: 50, before: undefined } })).toBe('/v1/audit?limit=50')
})

test('query leaves out what is empty', () => {
  expect(query({ a: '', b: undefined, c: false })).toBe('')
  expect(query({ q: 'ip=1 2', denied: true, line: 0 })).toBe('?q=ip%3D1+2&denied=true&line=0')
})
