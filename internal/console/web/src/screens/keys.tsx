import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { type Failure, get, mayChange } from '../api'
import { isBare } from '../attributes'
import { query } from '../request'
import type { Keys as Page } from '../types'
import { DeniedKeys } from '../ui/deniedkeys'
import { Empty, Trouble, useLoad } from '../ui/load'
import { Veiled, Who } from '../ui/who'
import { Denied } from './blocks'
import { Find } from './find'
import { Key } from './key'

export function Keys() {
  const { query: asked, route } = useLocation()
  const [text, setText] = useState(asked.q ?? '')
  useEffect(() => setText(asked.q ?? ''), [asked.q])
  const rules = useLoad('/v1/rules')
  const known = useLoad('/v1/attributes')
  const find = (e: Event) => {
    e.preventDefault()
    route(`/keys${query({ q: text.trim(), rule: asked.rule })}`)
  }
  return (
    <>
      <h1>Keys</h1>
      <form class="row" onSubmit={find}>
        <datalist id="known">
          {known.data?.attributes.map((a) => (
            <option key={a.name} value={`${a.name}=`}>
              {a.rules.join(', ')}
            </option>
          ))}
        </datalist>
        {mayChange() && (
          <label class="grow">
            Who
            <input
              class="wide"
              list="known"
              placeholder="198.51.100.7   or   user=u1 plan=gold"
              value={text}
              onInput={(e) => setText(e.currentTarget.value)}
            />
          </label>
        )}
        <label>
          Rule
          <select
            value={asked.rule ?? ''}
            onChange={(e) => route(`/keys${query({ q: asked.q, rule: e.currentTarget.value })}`)}
          >
            <option value="">all</option>
            {rules.data?.rules.map((r) => (
              <option key={r.name} value={r.name}>
                {r.name}
              </option>
            ))}
          </select>
        </label>
        {mayChange() && (
          <button type="submit" class="primary">
            Find
          </button>
        )}
      </form>
      <Veiled />
      {!asked.q || !mayChange() ? (
        <List rule={asked.rule} />
      ) : isBare(asked.q) ? (
        <Find value={asked.q} rule={asked.rule} />
      ) : (
        <Key text={asked.q} rule={asked.rule} />
      )}
    </>
  )
}

// List shows the most denied clients, and all keys of one rule.
function List({ rule }: { rule?: string }) {
  const stats = useLoad('/v1/stats', { query: { last: '1h' }, every: 5000 })
  const rows = (stats.data?.rules ?? [])
    .filter((r) => !rule || r.rule === rule)
    .flatMap((r) => r.top.map((k) => ({ rule: r.rule, ...k })))
    .sort((a, b) => b.denied - a.denied)
  return (
    <>
      {mayChange() && <Denied />}
      <section>
        <h2>Denied most in the last hour</h2>
        {rows.length === 0 ? (
          <Empty title="No denied requests">
            {mayChange() ? (
              <p>Enter above whose counters you want to see: an address, a user, a token, or name=value.</p>
            ) : (
              <p>
                Clients appear here when a rule denies them. The <a href="/tail">live tail</a> shows every request.
              </p>
            )}
          </Empty>
        ) : (
          <DeniedKeys rows={rows.slice(0, 50)} withAllowed />
        )}
      </section>
      {rule && <Stored rule={rule} />}
    </>
  )
}

function Stored({ rule }: { rule: string }) {
  const [pages, setPages] = useState<Page[]>([])
  const [wrong, setWrong] = useState<Failure>()
  const more = async (cursor?: string) => {
    try {
      const page = await get('/v1/keys', { query: { rule, cursor } })
      setPages((before) => (cursor ? [...before, page] : [page]))
    } catch (err) {
      setWrong(err as Failure)
    }
  }
  useEffect(() => {
    void more()
  }, [rule])
  const next = pages.at(-1)?.next
  const keys = pages.flatMap((p) => p.keys)
  return (
    <section>
      <h2>In the store</h2>
      {wrong && <Trouble error={wrong} />}
      <p class="quiet">
        The store knows clients by a keyed hash. Names are known for clients that this node has seen recently.
      </p>
      <ul class="keys">
        {keys.map((k) => (
          <li key={k.subject}>
            <code class="quiet">{k.subject.slice(0, 12)}</code> {k.key && <Who of={k.key} rule={rule} />}
          </li>
        ))}
      </ul>
      {pages.length > 0 && keys.length === 0 && (
        <p class="quiet">This rule has counted no client yet, or its counters have expired.</p>
      )}
      {next && (
        <button type="button" onClick={() => void more(next)}>
          More
        </button>
      )}
    </section>
  )
}
