import { useState } from 'preact/hooks'
import { del, type Failure, post } from '../api'
import { attributes } from '../attributes'
import type { Attributes, KeyState } from '../types'
import { Trouble } from '../ui/load'
import { offerUndo } from '../ui/undo'
import { left } from './blocks'

// KeyActions resets the counters of a client, bans it, lifts its ban, or gives it its own limit.
export function KeyActions(props: { state: KeyState; attributes: Attributes; done: () => void }) {
  const [error, setError] = useState<Failure>()
  const [dialog, setDialog] = useState<'ban' | 'override'>()
  const { rule, key, banned_until, can_ban } = props.state
  const client = { rule, attributes: props.attributes }
  const run = async (request: Promise<unknown>) => {
    try {
      await request
      setError(undefined)
      setDialog(undefined)
      props.done()
    } catch (err) {
      setError(err as Failure)
    }
  }
  const name = attributes(key) || 'everybody'
  const reset = () => {
    if (
      window.confirm(
        `Forget the counters, strikes, bans and reservations of ${name} under ${rule}? This cannot be undone.`,
      )
    )
      void run(post('/v1/keys/reset', { body: client }))
  }
  const ban = async (duration: string, reason: string) => {
    await post('/v1/bans', { body: { ...client, duration, reason } })
    offerUndo(`Banned ${name} under ${rule}.`, () => del('/v1/bans', { body: client }).then(props.done))
  }
  const lift = async (until: string) => {
    await del('/v1/bans', { body: client })
    offerUndo(`Lifted the ban of ${name} under ${rule}.`, () =>
      post('/v1/bans', { body: { ...client, duration: left(until) } }).then(props.done),
    )
  }
  const override = (limit: string, hours: number) => {
    if (
      /^0+\//.test(limit.trim()) &&
      !window.confirm(`A limit of 0 denies every request of ${name} under ${rule}. Save it?`)
    )
      return undefined
    const expires = new Date(Date.now() + hours * 3600e3).toISOString()
    return run(post('/v1/rules/{name}/overrides', { path: { name: rule }, body: { match: key, limit, expires } }))
  }
  return (
    <>
      <div class="row">
        <button type="button" class="small" onClick={reset}>
          Reset
        </button>
        {banned_until && (
          <button type="button" class="small" onClick={() => void run(lift(banned_until))}>
            Lift ban
          </button>
        )}
        {!banned_until && can_ban && (
          <button type="button" class="small" onClick={() => setDialog('ban')}>
            Ban
          </button>
        )}
        <button type="button" class="small" onClick={() => setDialog('override')}>
          Override
        </button>
      </div>
      {error && <Trouble error={error} />}
      {dialog === 'ban' && (
        <BanForm cancel={() => setDialog(undefined)} ban={(duration, reason) => run(ban(duration, reason))} />
      )}
      {dialog === 'override' && <OverrideForm cancel={() => setDialog(undefined)} add={override} />}
    </>
  )
}

function BanForm({ ban, cancel }: { ban: (duration: string, reason: string) => void; cancel: () => void }) {
  const [length, setLength] = useState('1h')
  const [reason, setReason] = useState('')
  return (
    <form
      class="row inset"
      onSubmit={(e) => {
        e.preventDefault()
        ban(length, reason)
      }}
    >
      <label>
        For how long <input value={length} onInput={(e) => setLength(e.currentTarget.value)} />
      </label>
      <label class="grow">
        Reason <input class="wide" maxLength={500} value={reason} onInput={(e) => setReason(e.currentTarget.value)} />
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
        Expires after (hours){' '}
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
