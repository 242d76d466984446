import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { mayChange } from '../api'
import { instant } from '../format'
import { query } from '../request'
import type { RuleView } from '../types'
import { Empty, Show, useLoad } from '../ui/load'
import { Problems } from '../ui/problems'
import { History } from './history'
import { RuleTable } from './ruletable'

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
                <pre tabIndex={0}>penstock rules apply --database sqlite:penstock.db rules.yaml</pre>
              </Empty>
            ) : (
              <RuleTable
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
