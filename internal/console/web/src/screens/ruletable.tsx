import { useState } from 'preact/hooks'
import { count, instant, limit, percent } from '../format'
import { query } from '../request'
import { points } from '../series'
import type { RuleStats, RuleView, Stats } from '../types'
import { Badge } from '../ui/badge'
import { Spark } from '../ui/chart'
import { Show, useLoad } from '../ui/load'
import { num, Table } from '../ui/table'
import { TrafficChart } from '../ui/trafficchart'

export function RuleTable({
  rules,
  stats,
  chosen,
  choose,
}: {
  rules: RuleView[]
  stats?: Stats
  chosen?: string
  choose: (name: string) => void
}) {
  const of = new Map(stats?.rules.map((r) => [r.rule, r]))
  return (
    <Table
      name="Rules"
      class="wide"
      columns={[
        'Rule',
        'Mode',
        'Match',
        'Key',
        'Limits',
        'Last 15 min',
        num('Requests'),
        num('Denied'),
        num('Would deny'),
      ]}
    >
      {rules.map((r) => (
        <Row key={r.name} rule={r} seen={of.get(r.name)} open={r.name === chosen} choose={() => choose(r.name)} />
      ))}
    </Table>
  )
}

interface RowProps {
  rule: RuleView
  seen?: RuleStats
  open: boolean
  choose: () => void
}

// Row is a rule and, if it is open, its details below.
function Row({ rule: r, seen, open, choose }: RowProps) {
  return (
    <>
      <tr class={open ? 'chosen' : ''}>
        <td>
          <button type="button" class="link" aria-expanded={open} onClick={choose}>
            {r.name}
          </button>
        </td>
        <td>
          <Badge kind={r.mode}>{r.mode}</Badge>
        </td>
        <td>{r.match}</td>
        <td>
          <code>{r.key.join(', ') || 'everybody'}</code>
        </td>
        <td>
          {r.limits.map((l) => (
            <div key={l.policy}>{limit(l.text)}</div>
          ))}
        </td>
        <td>
          {seen?.series && (
            <Spark
              series={seen.series}
              of={(c) => (r.mode === 'shadow' ? c.shadow : c.denied)}
              color={r.mode === 'shadow' ? 'shadow' : 'denied'}
            />
          )}
        </td>
        <td class="num">{count(callsOf(seen))}</td>
        <td class="num">{seen && r.mode !== 'shadow' ? percent(seen.total.denied, callsOf(seen)) : ''}</td>
        <td class="num">{seen && r.mode === 'shadow' ? percent(seen.total.shadow, callsOf(seen)) : ''}</td>
      </tr>
      {open && (
        <tr class="chosen">
          <td colSpan={9}>
            <Detail rule={r} seen={seen} />
          </td>
        </tr>
      )}
    </>
  )
}

const callsOf = (r?: RuleStats) => (r ? r.total.allowed + r.total.denied + r.total.shadow : 0)

// RuleHistory is the chart of a rule's last day, or of what is selected in it.
function RuleHistory({ rule }: { rule: string }) {
  const [zoomed, setZoomed] = useState<{ from: string; to: string }>()
  const iso = (at: number) => new Date(at * 1000).toISOString()
  const period = zoomed ?? { last: '24h' }
  const history = useLoad('/v1/history', { query: { ...period, rule }, every: 60_000 })
  return (
    <Show of={history}>
      {(h) => (
        <section aria-label="Last 24 hours">
          <h2 class="minor">
            {zoomed ? `${instant(h.from)} to ${instant(h.to)}` : 'Last 24 hours'}, requests/s{' '}
            {zoomed && (
              <button type="button" onClick={() => setZoomed(undefined)}>
                Last 24 hours
              </button>
            )}
          </h2>
          <TrafficChart
            of={points({ ...h, series: h.rules[0]?.series ?? h.series.map((c) => c && none) })}
            step_ms={h.step_ms}
            marks={h.marks}
            marked={history.again}
            rule={rule}
            height={160}
            zoom={(from, to) => setZoomed({ from: iso(from), to: iso(to) })}
          />
        </section>
      )}
    </Show>
  )
}

const none = { allowed: 0, denied: 0, shadow: 0, degraded: 0, errors: 0 }

function Detail({ rule: r, seen }: { rule: RuleView; seen?: RuleStats }) {
  return (
    <div class="detail">
      <RuleHistory rule={r.name} />
      <dl>
        <dt>Domain</dt>
        <dd>{r.domain}</dd>
        <dt>Algorithm</dt>
        <dd>{[...new Set(r.limits.map((l) => l.algorithm))].join(', ')}</dd>
        <dt>Fallback</dt>
        <dd>{r.on_store_error}</dd>
        <dt>Consistency</dt>
        <dd>{r.leased ? 'leased' : 'exact'}</dd>
        {r.penalty && (
          <>
            <dt>Bans</dt>
            <dd>repeat offenders</dd>
          </>
        )}
        {r.owner && (
          <>
            <dt>Owner</dt>
            <dd>{r.owner}</dd>
          </>
        )}
        {r.expires_at && (
          <>
            <dt>Expires</dt>
            <dd>{instant(r.expires_at)}</dd>
          </>
        )}
        {seen && (
          <>
            <dt>Distinct clients</dt>
            <dd>about {count(seen.distinct_keys)}</dd>
          </>
        )}
      </dl>
      {r.overrides.length > 0 && (
        <>
          <h2 class="minor">Overrides</h2>
          <ul>
            {r.overrides.map((o, i) => (
              <li key={i}>
                {o.match}: {o.unlimited ? 'unlimited' : o.limits.map((l) => limit(l.text)).join(', ')}
                {o.expires_at ? `, until ${instant(o.expires_at)}` : ''}
              </li>
            ))}
          </ul>
        </>
      )}
      <p>
        <a class="button" href={`/rules/edit${query({ line: r.line })}`}>
          Open in the document
        </a>{' '}
        <a class="button" href={`/keys${query({ rule: r.name })}`}>
          Keys
        </a>{' '}
        <a class="button" href={`/tail${query({ rule: r.name })}`}>
          Live requests
        </a>
      </p>
    </div>
  )
}
