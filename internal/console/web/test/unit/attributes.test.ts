import { expect, test } from 'vitest'
import { attributes, readAttributes, writeAttributes } from '../../src/attributes'

test('attributes are read as name=value, with quotes or without', () => {
  const { found, wrong } = readAttributes('ip=198.51.100.7  path="/a b"\tq="say \\"hi\\"" empty= next=a=b')
  expect(wrong).toBe('')
  expect(found).toEqual({ ip: '198.51.100.7', path: '/a b', q: 'say "hi"', empty: '', next: 'a=b' })
})

test.each(['ip', '=x', 'a=1 b'])('%j is refused', (text) => {
  expect(readAttributes(text).wrong).not.toBe('')
})

test.each(['', 'a b', '"', '\\', 'a\\', 'a\\ b', '"quoted"', '\\"', 'x=y', 'tab\there', '😀'])(
  'the value %j is read as it was written',
  (value) => expect(readAttributes(writeAttributes({ a: value, b: '1' })).found).toEqual({ a: value, b: '1' }),
)

test('what cannot be seen is shown', () => {
  expect(attributes({ user: 'a\u202eb\u0000' })).toBe('user=a\\u202eb\\u0000')
})
