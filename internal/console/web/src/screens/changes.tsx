import type { RuleDiff } from '../types'
import { Badge } from '../ui/badge'

export function Changes({ diff }: { diff: RuleDiff }) {
  return (
    <section>
      <h2>Changes</h2>
      <ul class="list">
        {diff.changes.map((c, i) => (
          <li key={i}>
            <Badge kind={c.op === 'add' ? 'allowed' : c.op === 'remove' ? 'denied' : 'shadow'}>{c.op}</Badge>{' '}
            <span>
              {c.kind} <strong>{c.name}</strong> {c.value}
              {c.fields?.map((f) => ` ${f.field}: ${f.from ?? 'none'} → ${f.to ?? 'none'}`).join(';')}
            </span>
          </li>
        ))}
        {diff.changes.length === 0 && <li>The same in meaning.</li>}
      </ul>
      <Diff text={diff.text ?? ''} />
    </section>
  )
}

// Diff shows what was removed and added, by more than colour.
export function Diff({ text }: { text: string }) {
  if (text === '') return <p class="quiet">No difference.</p>
  return (
    <pre class="diff" tabIndex={0}>
      {text.split('\n').map((line, i) => (
        <span key={i} class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''}>
          {`${line}\n`}
        </span>
      ))}
    </pre>
  )
}
