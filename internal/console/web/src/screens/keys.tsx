import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { del, type Failure, get, mayChange, post } from '../api'
import { attributes, count, duration, instant, percent, readAttributes } from '../format'
import { query } from '../request'
import type { Attributes, KeyState, KeyStates, LimitState, Keys as Page } from '../types'
import { Badge } from '../ui/badge'
import { Calls } from '../ui/calls'
import { Empty, Trouble, useLoad } from '../ui/load'
import { Veiled, Who } from '../ui/who'

export function Keys() {
  const { query: asked, route } = useLocation()
  const [text, setText] = useState(asked.q ?? '')
  useEffect(() => setText(asked.q ?? ''), [asked.q])
  const rules = useLoad('/v1/rules')
  const find = (e: Event) => {
    e.preventDefault()
    route(`/keys${query({ q: text.trim(), rule: asked.rule })}`)
  }
  return (
    <>
      <h1>Keys</h1>
      <form class="row" onSubmit={find}>
        {mayChange() && (
          <label class="grow">
            Who
            <input
              class="wide"
              placeholder="ip=198.51.100.7   or   user=u1 plan=gold"
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
      {asked.q && mayChange() ? <Key text={asked.q} rule={asked.rule} /> : <List rule={asked.rule} />}
    </>
  )
}

// List shows who is denied most, and all keys of one rule.
function List({ rule }: { rule?: string }) {
  const stats = useLoad('/v1/stats', { query: { last: '1h' }, every: 5000 })
  const rows = (stats.data?.rules ?? [])
    .filter((r) => !rule || r.rule === rule)
    .flatMap((r) => r.top.map((k) => ({ rule: r.rule, ...k })))
    .sort((a, b) => b.denied - a.denied)
  return (
    <>
      <section>
        <h2>Denied most in the last hour, at this node</h2>
        {rows.length === 0 ? (
          <Empty title="Nobody was denied">
            {mayChange() && (
              <p>Write above whose counters you want to see, by the attributes that the rules' keys name.</p>
            )}
          </Empty>
        ) : (
          <div class="scroll">
            <table>
              <thead>
                <tr>
                  <th>Who</th>
                  <th>Rule</th>
                  <th class="num">Allowed</th>
                  <th class="num">Denied</th>
                  <th class="num">Share</th>
                </tr>
              </thead>
              <tbody>
                {rows.slice(0, 50).map((k) => (
                  <tr key={k.rule + attributes(k.key)}>
                    <td>
                      <Who of={k.key} rule={k.rule} />
                    </td>
                    <td>{k.rule}</td>
                    <td class="num">{count(k.allowed)}</td>
                    <td class="num">{count(k.denied)}</td>
                    <td class="num">{percent(k.denied, k.allowed + k.denied)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
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
      <p class="quiet">The store knows callers by a keyed hash. Names are of those that called this node of late.</p>
      <ul class="keys">
        {keys.map((k) => (
          <li key={k.subject}>
            <code class="quiet">{k.subject.slice(0, 12)}</code> {k.key && <Who of={k.key} rule={rule} />}
          </li>
        ))}
      </ul>
      {keys.length === 0 && <p class="quiet">None.</p>}
      {next && (
        <button type="button" onClick={() => void more(next)}>
          More
        </button>
      )}
    </section>
  )
}

function Key({ text, rule }: { text: string; rule?: string }) {
  const { found, wrong } = readAttributes(text)
  const [shown, setShown] = useState<KeyStates>()
  const [trouble, setTrouble] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  const again = () => setTurn((n) => n + 1)
  useEffect(() => {
    if (wrong) return
    let gone = false
    let timer = 0
    const load = async () => {
      try {
        const answer = await post('/v1/keys/show', { body: { attributes: found, rule: rule || undefined } })
        if (gone) return
        setShown(answer)
        setTrouble(undefined)
      } catch (err) {
        if (!gone) setTrouble(err as Failure)
      }
      if (!gone) timer = window.setTimeout(load, 2000)
    }
    void load()
    return () => {
      gone = true
      window.clearTimeout(timer)
    }
  }, [text, rule, turn])
  if (wrong) return <Trouble error={new Error(`"${wrong}" is no name=value`)} />
  return (
    <>
      {trouble && <Trouble error={trouble} />}
      {shown?.keys.map((k) => (
        <State key={k.rule} state={k} attributes={found} done={again} />
      ))}
      {shown && shown.keys.length === 0 && (
        <Empty title="No rule keeps state of this caller">
          <p>
            The rules' keys name other attributes. <a href={`/explain${query({ q: text })}`}>Explain</a> says which
            rules look at what.
          </p>
        </Empty>
      )}
      {shown && (
        <section>
          <h2>Last calls</h2>
          <Calls list={shown.recent} />
        </section>
      )}
    </>
  )
}

function State({ state: s, attributes: of, done }: { state: KeyState; attributes: Attributes; done: () => void }) {
  const [wrong, setWrong] = useState<Failure>()
  const [dialog, setDialog] = useState<'ban' | 'override' | ''>('')
  const run = async (what: () => Promise<unknown>) => {
    try {
      await what()
      setWrong(undefined)
      setDialog('')
      done()
    } catch (err) {
      setWrong(err as Failure)
    }
  }
  const reset = () => run(() => post('/v1/keys/reset', { body: { rule: s.rule, attributes: of } }))
  return (
    <section class="card">
      <div class="head">
        <h2>
          <a href={`/rules${query({ rule: s.rule })}`}>{s.rule}</a>
        </h2>
        <code>{attributes(s.key) || 'everybody'}</code>
        {s.mode === 'shadow' && <Badge kind="shadow">shadow</Badge>}
        {s.banned_until && <Badge kind="denied">banned until {instant(s.banned_until)}</Badge>}
        {s.unlimited && <Badge kind="allowed">unlimited by an override</Badge>}
        <span class="grow" />
        {mayChange() && (
          <>
            <button type="button" class="small" onClick={() => void reset()}>
              Reset
            </button>
            {s.banned_until ? (
              <button
                type="button"
                class="small"
                onClick={() => void run(() => del('/v1/bans', { body: { rule: s.rule, attributes: of } }))}
              >
                Lift the ban
              </button>
            ) : (
              s.can_ban && (
                <button type="button" class="small" onClick={() => setDialog('ban')}>
                  Ban
                </button>
              )
            )}
            <button type="button" class="small" onClick={() => setDialog('override')}>
              Override
            </button>
          </>
        )}
      </div>
      {wrong && <Trouble error={wrong} />}
      {dialog === 'ban' && (
        <BanForm
          cancel={() => setDialog('')}
          ban={(d) => run(() => post('/v1/bans', { body: { rule: s.rule, attributes: of, duration: d } }))}
        />
      )}
      {dialog === 'override' && (
        <OverrideForm
          cancel={() => setDialog('')}
          add={(limit, hours) =>
            run(() =>
              post('/v1/rules/{name}/overrides', {
                path: { name: s.rule },
                body: { match: s.key, limit, expires: new Date(Date.now() + hours * 3600e3).toISOString() },
              }),
            )
          }
        />
      )}
      <div class="meters">
        {s.limits.map((l) => (
          <Meter key={l.policy} limit={l} />
        ))}
      </div>
      {s.other_counters?.map((c) => (
        <section key={c.override ?? -1}>
          <p class="quiet">
            {c.override === undefined ? 'Counted by the rule itself' : `Counted by override ${c.override}`}
          </p>
          <div class="meters">
            {c.limits.map((l) => (
              <Meter key={l.policy} limit={l} />
            ))}
          </div>
        </section>
      ))}
      <p class="quiet">
        {s.can_ban && `${s.strikes} strikes, banned ${s.bans} times. `}
        {s.reserved > 0 && `${s.reserved} reservations. `}
        <span>hash {s.subject.slice(0, 12)}</span>
      </p>
    </section>
  )
}

function Meter({ limit: l }: { limit: LimitState }) {
  const full = l.limit > 0 ? Math.min(1, l.used / l.limit) : 0
  return (
    <div>
      <div class="row">
        <span>{l.policy}</span>
        <span class="grow" />
        <strong>{count(l.used)}</strong> of {count(l.limit)}
      </div>
      <meter min={0} max={1} high={0.8} optimum={0} value={full} aria-label={`${l.policy}: ${l.used} of ${l.limit}`} />
      <span class="quiet">
        {l.algorithm.replaceAll('_', ' ')} · {count(l.remaining)} left · fresh in {duration(l.reset_after_ms)}
        {l.allowed ? '' : ` · next in ${duration(l.retry_after_ms)}`}
      </span>
    </div>
  )
}

function BanForm({ ban, cancel }: { ban: (duration: string) => void; cancel: () => void }) {
  const [length, setLength] = useState('1h')
  return (
    <form
      class="row inset"
      onSubmit={(e) => {
        e.preventDefault()
        ban(length)
      }}
    >
      <label>
        For how long <input value={length} onInput={(e) => setLength(e.currentTarget.value)} />
      </label>
      <button type="submit" class="danger">
        Ban
      </button>
      <button type="button" onClick={cancel}>
        Cancel
      </button>
    </form>
  )
}

function OverrideForm({ add, cancel }: { add: (limit: string, hours: number) => void; cancel: () => void }) {
  const [limit, setLimit] = useState('1000/1m')
  const [hours, setHours] = useState(24)
  return (
    <form
      class="row inset"
      onSubmit={(e) => {
        e.preventDefault()
        add(limit, hours)
      }}
    >
      <label>
        Limit <input value={limit} onInput={(e) => setLimit(e.currentTarget.value)} />
      </label>
      <label>
        Hours it holds{' '}
        <input
          type="number"
          min={1}
          max={8760}
          value={hours}
          onInput={(e) => setHours(Number(e.currentTarget.value))}
        />
      </label>
      <button type="submit" class="primary">
        Save as a version of the rules
      </button>
      <button type="button" onClick={cancel}>
        Cancel
      </button>
    </form>
  )
}
