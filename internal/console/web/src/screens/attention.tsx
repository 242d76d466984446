import type { ComponentChildren } from 'preact'
import { duration, percent } from '../format'
import { query } from '../request'
import type { Counts, Node, RuleStats, Stats, Status } from '../types'
import { Badge } from '../ui/badge'
import { nodeName } from '../ui/nodes'

interface Finding {
  key: string
  kind: 'denied' | 'shadow' // as urgent as a denial, or as a would-be denial
  text: ComponentChildren
}

// Attention lists what an operator should check, most urgent first.
export function Attention({ stats, status, nodes }: { stats: Stats; status?: Status; nodes: Node[] }) {
  const found = [
    ...(status ? statusFindings(status) : []),
    ...nodes.flatMap(nodeFindings),
    ...stats.rules.flatMap(ruleFindings),
  ]
  return (
    <section>
      <h2>Needs attention</h2>
      {found.length === 0 ? (
        <p class="quiet">
          Nothing. Rules that deny a tenth of their calls, would deny in shadow mode, or cannot be read appear here.
        </p>
      ) : (
        <ul class="list">
          {found.slice(0, 8).map((f) => (
            <li key={f.key}>
              <Badge kind={f.kind}>{f.kind === 'shadow' ? 'look' : 'now'}</Badge> <span>{f.text}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

function statusFindings({ store, rules }: Status): Finding[] {
  const found: Finding[] = []
  if (!store.connected) found.push({ key: 'store', kind: 'denied', text: `The store does not answer: ${store.error}` })
  if (rules.refused) found.push({ key: 'refused', kind: 'denied', text: `Newer rules are refused: ${rules.refused}` })
  if (rules.error) found.push({ key: 'stale', kind: 'denied', text: `The rules cannot be read: ${rules.error}` })
  if (rules.from_copy) {
    found.push({
      key: 'copy',
      kind: 'shadow',
      text: 'The rules are from the copy on disk, as their origin could not be read',
    })
  }
  return found
}

function nodeFindings(n: Node): Finding[] {
  const name = <strong>{nodeName(n)}</strong>
  const finding = (kind: Finding['kind'], ...text: ComponentChildren[]) => [
    { key: n.id, kind, text: ['Node ', name, ...text] },
  ]
  if (n.silent) return finding('shadow', ' was not heard for ', duration(Math.round(n.heard_ago_seconds) * 1000))
  if (n.about?.quality === 'degraded') return finding('denied', ' decides without the shared state')
  if (n.about?.rules === 'behind') {
    return finding('shadow', ` serves rules v${n.about.rules_version}, which are not the newest`)
  }
  if (n.about?.rules === 'different') return finding('shadow', ' and others serve different rules')
  return []
}

function ruleFindings(r: RuleStats): Finding[] {
  const { allowed, denied, shadow } = r.total
  const calls = allowed + denied + shadow
  const link = <a href={`/rules${query({ rule: r.rule })}`}>{r.rule}</a>
  const found: Finding[] = []
  if (denied > 0 && denied * 10 >= calls) {
    found.push({ key: r.rule, kind: 'denied', text: [link, ` denies ${percent(denied, calls)} ${trend(r)}`] })
  }
  if (shadow > 0) {
    const text = [link, ` (shadow) would deny ${percent(shadow, calls)}`]
    found.push({ key: `${r.rule} shadow`, kind: 'shadow', text })
  }
  return found
}

// trend reports whether the later half of a series denies more than the earlier one.
function trend(r: RuleStats): string {
  const series = r.series ?? [] // null if there are too many rules
  const half = Math.floor(series.length / 2)
  const sum = (part: Counts[]) => part.reduce((n, c) => n + c.denied, 0)
  const before = sum(series.slice(0, half))
  const after = sum(series.slice(half))
  return after > before * 1.5 ? '↑' : before > after * 1.5 ? '↓' : ''
}
