import { mayChange } from '../api'
import type { Attention as Judged } from '../types'
import { Badge } from '../ui/badge'
import { num, Table } from '../ui/table'

type Finding = Judged['findings'][number]
type Target = Judged['targets'][number]

const kinds: Record<Finding['severity'], string> = { critical: 'denied', warning: 'shadow', info: 'plain' }

// Attention lists what an operator should check, most urgent first, as the node judges it.
export function Attention({ judged }: { judged?: Judged }) {
  const found = judged?.findings ?? []
  return (
    <section aria-label="Needs attention">
      <h2>Needs attention</h2>
      {found.length === 0 ? (
        <p class="quiet">
          {judged ? 'Nothing. Rules deny as much as they usually do, and all targets are met.' : 'Loading…'}
        </p>
      ) : (
        <ul class="list findings">
          {found.slice(0, 8).map((f) => (
            <li key={f.kind + (f.rule ?? '') + (f.node ?? '') + f.text}>
              <Badge kind={kinds[f.severity]}>{f.severity}</Badge> <span>{f.text}.</span>{' '}
              {(mayChange() || !f.action.path.startsWith('/keys')) && <a href={f.action.path}>{f.action.text}</a>}
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const signs: Record<Target['state'], string> = { ok: '✓', warn: '▲', fail: '✗', unknown: '…' }

const measured = (n: number, unit: string) => `${n < 10 ? Math.round(n * 100) / 100 : Math.round(n)} ${unit}`

// Targets shows measurements of the last five minutes beside what they should be.
export function Targets({ judged }: { judged?: Judged }) {
  if (!judged) return null
  return (
    <section>
      <h2>Targets</h2>
      <Table name="Targets" columns={['Last 5 minutes', num('Now'), num('Target'), num('Alert'), num('Usually')]}>
        {judged.targets.map((t) => (
          <tr key={t.name}>
            <td>{t.name}</td>
            <td class={`num ${t.state === 'fail' ? 'bad-text' : t.state === 'ok' ? 'good-text' : ''}`}>
              {signs[t.state]} {t.value === null ? 'none' : measured(t.value, t.unit)}
            </td>
            <td class="num">&lt; {measured(t.target, t.unit)}</td>
            <td class="num">{measured(t.alert, t.unit)}</td>
            <td class="num">{t.baseline === null ? '' : measured(t.baseline, t.unit)}</td>
          </tr>
        ))}
      </Table>
    </section>
  )
}
