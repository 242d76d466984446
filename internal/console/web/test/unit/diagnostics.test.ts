import { Text } from '@codemirror/state'
import { expect, test } from 'vitest'
import { diagnostics } from '../../src/ui/diagnostics'

const doc = Text.of(['rules:', '  - {name: a, limits: [often]}', '  - {name: "😀", limits: [often]}'])
const marked = (line: number, column?: number) =>
  diagnostics(doc, [{ severity: 'error', message: 'no', line, column }]).map((d) => doc.sliceString(d.from, d.to))

test('a problem marks the word at its position', () => {
  expect(marked(2, 24)).toEqual(['often'])
  expect(marked(1)).toEqual(['rules:'])
})

test('columns count characters, of which some take two units', () => {
  expect(marked(3, 26)).toEqual(['often'])
})

test('a position beyond the document marks nothing', () => {
  expect(marked(2, 500)).toEqual([''])
  expect(marked(4, 1)).toEqual([])
  expect(marked(0, 1)).toEqual([])
  expect(diagnostics(doc, [{ severity: 'error', message: 'no' }])).toEqual([])
})

test('a diagnostic has the severity, and the hint', () => {
  const [found] = diagnostics(doc, [{ severity: 'warning', message: 'no', hint: 'write 1/1m', line: 1, column: 1 }])
  expect(found).toMatchObject({ severity: 'warning', message: 'no (write 1/1m)' })
})
