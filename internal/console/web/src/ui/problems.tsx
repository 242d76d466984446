import type { RuleProblem } from '../types'
import { Badge } from './badge'
import { isWarning } from './diagnostics'

// Problems lists errors and warnings in rules, each with its position.
export function Problems({ list, go }: { list: RuleProblem[]; go?: (p: RuleProblem) => void }) {
  if (list.length === 0) return null
  return (
    <ul class="problems">
      {list.map((p, i) => (
        <li key={i}>
          <Badge kind={isWarning(p) ? 'shadow' : 'denied'}>{isWarning(p) ? 'warning' : 'error'}</Badge>{' '}
          {p.line ? (
            go ? (
              <button type="button" class="link" onClick={() => go(p)}>
                {place(p)}
              </button>
            ) : (
              <span class="quiet">{place(p)}</span>
            )
          ) : null}{' '}
          {p.message}
          {p.hint ? <span class="quiet"> ({p.hint})</span> : null}
        </li>
      ))}
    </ul>
  )
}

const place = (p: RuleProblem) => `line ${p.line}:${p.column ?? 1}`
