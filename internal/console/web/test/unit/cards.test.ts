import { expect, test } from 'vitest'
import { labelCells } from '../../src/ui/cards'

const cell = (text: string, colSpan = 1) => ({ textContent: text, colSpan, dataset: {} as Record<string, string> })

test('cells have the name of their column, and none across several', () => {
  const [when, who, all, what] = [cell('noon'), cell('ann'), cell('nothing', 2), cell('reset')]
  const table = {
    tHead: { rows: [{ cells: [cell(' When '), cell('Who'), cell('What')] }] },
    tBodies: [{ rows: [{ cells: [when, who] }, { cells: [all, what] }] }],
  }
  labelCells(table as unknown as HTMLTableElement)
  expect([when, who, all, what].map((c) => c!.dataset.label)).toEqual(['When', 'Who', '', 'What'])
})
