import { expect, test } from 'vitest'
import { verdictIDs } from '../../src/verdictids'

const list = [{ at: '12:00:02' }, { at: '12:00:01' }, { at: '12:00:01' }]

test('verdicts of one time have different ids', () => {
  expect(new Set(verdictIDs(list)).size).toBe(list.length)
})

test('an id stays when newer verdicts arrive', () => {
  expect(verdictIDs([{ at: '12:00:03' }, { at: '12:00:02' }, ...list]).slice(2)).toEqual(verdictIDs(list))
})
