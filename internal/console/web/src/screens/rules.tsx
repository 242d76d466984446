import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type Failure, get, mayChange, post } from '../api'
import { count, instant, limit, percent } from '../format'
import { query } from '../request'
import type { RuleStats, RuleView, Stats, Version } from '../types'
import { Badge } from '../ui/badge'
import { Spark } from '../ui/chart'
import { Empty, Show, Trouble, useLoad } from '../ui/load'
import { Problems } from '../ui/problems'

export function Rules() {
  const { query: asked, route } = useLocation()
  const set = useLoad('/v1/rules', { every: 5000 })
  const stats = useLoad('/v1/stats', { query: { last: '15m' }, every: 5000 })
  const [filter, setFilter] = useState('')
  return (
    <>
      <div class="head">
        <h1>Rules</h1>
        <span class="grow" />
        <input
          type="search"
          aria-label="Filter rules"
          placeholder="Filter"
          value={filter}
          onInput={(e) => setFilter(e.currentTarget.value)}
        />
        <a class="button primary" href="/rules/edit">
          {mayChange() && set.data?.editable ? 'Edit' : 'Document'}
        </a>
      </div>
      <Show of={set}>
        {(s) => (
          <>
            <p class="quiet">
              {s.rules.length === 1 ? 'One rule' : `${s.rules.length} rules`} from {s.origin}
              {s.version ? `, version ${s.version.version} by ${s.version.author}, ${instant(s.version.at)}` : ''}.{' '}
              {s.reason}
            </p>
            <Problems list={s.problems} />
            {s.rules.length === 0 ? (
              <Empty title="No rules">
                <p>
                  Nothing is limited. <a href="/rules/edit">Write the first rule</a>, or:
                </p>
                <pre>penstock rules apply --database sqlite:penstock.db rules.yaml</pre>
              </Empty>
            ) : (
              <Table
                rules={s.rules.filter((r) => matches(r, filter))}
                stats={stats.data}
                chosen={asked.rule}
                choose={(name) => route(`/rules${query({ rule: name === asked.rule ? '' : name })}`)}
              />
            )}
            {s.kind === 'database' && (
              <History editable={s.editable} current={s.version?.version ?? 0} changed={set.again} />
            )}
          </>
        )}
      </Show>
    </>
  )
}

function matches(r: RuleView, filter: string): boolean {
  const text = [r.name, r.match, r.key.join(' '), r.mode, r.owner ?? '', ...r.limits.map((l) => l.text)]
    .join(' ')
    .toLowerCase()
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

function Table({
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
    <div class="scroll">
      <table class="wide">
        <thead>
          <tr>
            <th>Rule</th>
            <th>Mode</th>
            <th>Match</th>
            <th>Key</th>
            <th>Limits</th>
            <th>Last 15 min</th>
            <th class="num">Calls</th>
            <th class="num">Denied</th>
          </tr>
        </thead>
        <tbody>
          {rules.map((r) => {
            const seen = of.get(r.name)
            const open = r.name === chosen
            return (
              <>
                <tr key={r.name} class={open ? 'chosen' : ''}>
                  <td>
                    <button type="button" class="link" aria-expanded={open} onClick={() => choose(r.name)}>
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
                        of={(c) => c.denied + c.shadow}
                        color={r.mode === 'shadow' ? 'shadow' : 'denied'}
                      />
                    )}
                  </td>
                  <td class="num">{count(callsOf(seen))}</td>
                  <td class="num">{seen ? percent(seen.total.denied + seen.total.shadow, callsOf(seen)) : ''}</td>
                </tr>
                {open && (
                  <tr key={`${r.name} more`} class="chosen">
                    <td colSpan={8}>
                      <Detail rule={r} seen={seen} />
                    </td>
                  </tr>
                )}
              </>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

const callsOf = (r?: RuleStats) => (r ? r.total.allowed + r.total.denied + r.total.shadow : 0)

function Detail({ rule: r, seen }: { rule: RuleView; seen?: RuleStats }) {
  return (
    <div class="detail">
      <dl>
        <dt>Domain</dt>
        <dd>{r.domain}</dd>
        <dt>Algorithm</dt>
        <dd>{[...new Set(r.limits.map((l) => l.algorithm))].join(', ')}</dd>
        <dt>Without the store</dt>
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
            <dt>Different callers</dt>
            <dd>about {count(seen.distinct_keys)}</dd>
          </>
        )}
      </dl>
      {r.overrides.length > 0 && (
        <>
          <h3>Overrides</h3>
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
          Its keys
        </a>{' '}
        <a class="button" href={`/tail${query({ rule: r.name })}`}>
          Its calls, live
        </a>
      </p>
    </div>
  )
}

function History({ editable, current, changed }: { editable: boolean; current: number; changed: () => void }) {
  const [wrong, setWrong] = useState<Failure>()
  const [diff, setDiff] = useState<{ version: number; text: string }>()
  const versions = useLoad('/v1/rules/versions', { every: 5000 })
  const show = async (v: Version) => {
    if (v.version === 1) {
      const first = await get('/v1/rules/versions/{number}', { path: { number: 1 } })
      setDiff({ version: 1, text: (first.document ?? '').replace(/^/gm, '+') })
      return
    }
    const answer = await post('/v1/rules/diff', { body: { from: v.version - 1, to: v.version } })
    setDiff({ version: v.version, text: answer.text ?? '' })
  }
  const rollBack = async (v: Version) => {
    if (!window.confirm(`Save version ${v.version} again as the newest? It takes effect on every node within seconds.`))
      return
    try {
      await post('/v1/rules/rollback', {
        body: { to: v.version, base: current, message: `Roll back to version ${v.version}` },
      })
      setWrong(undefined)
      changed()
    } catch (err) {
      setWrong(err as Failure)
    }
  }
  return (
    <section>
      <h2>History</h2>
      {wrong && <Trouble error={wrong} />}
      <Show of={versions}>
        {(found) => (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Version</th>
                  <th>When</th>
                  <th>Who</th>
                  <th>Why</th>
                  <th>
                    <span class="hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {found.versions.map((v) => (
                  <tr key={v.version}>
                    <td>
                      {v.version}
                      {v.version === current ? ' (current)' : ''}
                    </td>
                    <td>{instant(v.at)}</td>
                    <td>{v.author}</td>
                    <td>
                      {v.message}
                      {v.restores ? ` (again ${v.restores})` : ''}
                    </td>
                    <td class="actions">
                      <button type="button" class="small" onClick={() => void show(v)}>
                        Changes
                      </button>
                      {editable && mayChange() && v.version !== current && (
                        <button type="button" class="small" onClick={() => void rollBack(v)}>
                          Roll back
                        </button>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Show>
      {diff && (
        <>
          <h3>Changes of version {diff.version}</h3>
          <Diff text={diff.text} />
        </>
      )}
    </section>
  )
}

// Diff shows what was taken away and added, by more than colour.
export function Diff({ text }: { text: string }) {
  if (text === '') return <p class="quiet">No difference.</p>
  return (
    <pre class="diff">
      {text.split('\n').map((line, i) => (
        <span key={i} class={line.startsWith('+') ? 'added' : line.startsWith('-') ? 'removed' : ''}>
          {`${line}\n`}
        </span>
      ))}
    </pre>
  )
}
