import type { Diagnostic } from '@codemirror/lint'
import type { Text } from '@codemirror/state'
import type { RuleProblem } from '../types'

export const isWarning = (p: RuleProblem) => p.severity === 'warning'

// diagnostics returns the problems that have a position in the document. Each marks the word at its position.
export function diagnostics(doc: Text, problems: RuleProblem[]): Diagnostic[] {
  return problems.flatMap((p) => {
    if (!p.line || p.line > doc.lines) return []
    const line = doc.line(p.line)
    const before = columnOffset(line.text, p.column ?? 1)
    const word = /^[^\s,\]}]+/.exec(line.text.slice(before))?.[0] ?? ''
    const from = line.from + before
    const message = p.hint ? `${p.message} (${p.hint})` : p.message
    return [{ from, to: from + word.length, severity: isWarning(p) ? 'warning' : 'error', message }]
  })
}

// columnOffset returns the index of a column in a line. Columns count characters from 1; an index counts UTF-16
// units.
function columnOffset(line: string, column: number): number {
  return [...line].slice(0, Math.max(0, column - 1)).join('').length
}
