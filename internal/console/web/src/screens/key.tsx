import { useState } from 'preact/hooks'
import { mayChange, post } from '../api'
import { attributes, readAttributes } from '../attributes'
import { count, duration, instant } from '../format'
import { query } from '../request'
import type { Attributes, KeyState, LimitState } from '../types'
import { Badge } from '../ui/badge'
import { Calls } from '../ui/calls'
import { Empty, Trouble, usePolled } from '../ui/load'
import { BlockForm } from './blockform'
import { LiftBlock } from './blocks'
import { KeyActions } from './keyactions'

// Key shows the counters of one client, and its recent requests.
export function Key({ text, rule }: { text: string; rule?: string }) {
  const { found, wrong } = readAttributes(text)
  const loaded = usePolled(wrong ? null : JSON.stringify([text, rule]), 2000, (signal) =>
    post('/v1/keys/show', { body: { attributes: found, rule: rule || undefined }, signal }),
  )
  const shown = loaded.data
  const [form, setForm] = useState(false)
  if (wrong) return <Trouble error={new Error(`invalid attribute "${wrong}": write name=value`)} />
  return (
    <>
      {loaded.error && <Trouble error={loaded.error} />}
      <div class="head">
        <h2>
          <code>{attributes(found)}</code>
        </h2>
        <a href={`/explain${query({ q: text })}`}>Explain</a>
        {shown?.block && (
          <>
            <Badge kind="denied">blocked until {instant(shown.block.until)}</Badge>
            <span>
              {shown.block.reason} ({shown.block.author})
            </span>
          </>
        )}
        <span class="grow" />
        {shown?.block && mayChange() && <LiftBlock of={shown.block} done={loaded.again} />}
        {!shown?.block && mayChange() && (
          <button type="button" aria-expanded={form} onClick={() => setForm(!form)}>
            Block
          </button>
        )}
      </div>
      {form && (
        <BlockForm
          of={found}
          cancel={() => setForm(false)}
          done={() => {
            setForm(false)
            loaded.again()
          }}
        />
      )}
      {shown?.keys.map((k) => (
        <State key={k.rule} state={k} attributes={found} done={loaded.again} />
      ))}
      {shown && shown.keys.length === 0 && (
        <Empty title="No rule has state of this client">
          <p>
            The keys of the rules have other attributes. <a href={`/explain${query({ q: text })}`}>Explain</a> shows
            what each rule matches.
          </p>
        </Empty>
      )}
      {shown && (
        <section>
          <h2>Recent requests</h2>
          <Calls list={shown.recent} />
        </section>
      )}
    </>
  )
}

// State is what one rule knows about the client, and what an operator can do about it.
function State({ state: s, attributes: of, done }: { state: KeyState; attributes: Attributes; done: () => void }) {
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
      </div>
      {mayChange() && <KeyActions state={s} attributes={of} done={done} />}
      <Meters limits={s.limits} />
      {s.other_counters?.map((c) => (
        <section key={c.override ?? -1}>
          <p class="quiet">
            {c.override === undefined ? 'Counted by the rule itself' : `Counted by override ${c.override}`}
          </p>
          <Meters limits={c.limits} />
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

const Meters = ({ limits }: { limits: LimitState[] }) => (
  <div class="meters">
    {limits.map((l) => (
      <Meter key={l.policy} limit={l} />
    ))}
  </div>
)

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
        {l.algorithm.replaceAll('_', ' ')} · {count(l.remaining)} left · resets in {duration(l.reset_after_ms)}
        {l.allowed ? '' : ` · next in ${duration(l.retry_after_ms)}`}
      </span>
    </div>
  )
}
