import type { Problem } from '../types'
import { Badge } from './load'

// Problems are mistakes and warnings in rules, each in its place.
export function Problems({ list, go }: { list: Problem[]; go?: (p: Problem) => void }) {
  if (list.length === 0) return null
  return (
    <ul class="problems">
      {list.map((p, i) => (
        <li key={i}>
          <Badge kind={isWarning(p) ? 'shadow' : 'denied'}>{isWarning(p) ? 'warning' : 'error'}</Badge>{' '}
          {p.line ? (go ? <button type="button" class="link" onClick={() => go(p)}>{place(p)}</button> : <span class="quiet">{place(p)}</span>) : null} {p.message}
          {p.hint ? <span class="quiet"> ({p.hint})</span> : null}
        </li>
      ))}
    </ul>
  )
}

const place = (p: Problem) => `line ${p.line}:${p.column ?? 1}`

export const isWarning = (p: Problem) => p.severity === 'warning'
