import { useState } from 'preact/hooks'
import { del, type Failure, post } from '../api'
import { attributes } from '../attributes'
import { count, instant, percent } from '../format'
import type { Attributes, Blocked } from '../types'
import { Trouble, useLoad } from '../ui/load'
import { offerUndo } from '../ui/undo'
import { warnedShare } from './savewarnings'

interface NewBlock {
  attributes: Attributes
  duration: string
  reason: string
}

// isWanted asks if a block would have denied many requests that were allowed.
function isWanted({ calls, allowed }: Blocked['recent']): boolean {
  if (calls === 0 || allowed / calls <= warnedShare) return true
  const share = percent(allowed, calls)
  return window.confirm(
    `This would have denied ${share} of the last ${count(calls)} requests, which were allowed. Block?`,
  )
}

// useBlock returns a function that blocks a key, what the API has said about it, and why it failed.
function useBlock(done: () => void) {
  const [seen, setSeen] = useState<Blocked>()
  const [error, setError] = useState<Failure>()
  const block = async (body: NewBlock) => {
    try {
      setError(undefined)
      const preview = await post('/v1/blocks', { body: { ...body, preview: true } })
      setSeen(preview)
      if (!isWanted(preview.recent)) return
      const { id, key, until } = await post('/v1/blocks', { body })
      offerUndo(`Blocked ${attributes(key)} until ${instant(until)}.`, () => del('/v1/blocks', { body: { id } }))
      done()
    } catch (err) {
      setError(err as Failure)
    }
  }
  return { block, seen, error }
}

// BlockForm blocks a key for a time. It asks first if that would have denied many requests.
export function BlockForm({ of, done, cancel }: { of?: Attributes; done: () => void; cancel: () => void }) {
  const first = Object.entries(of ?? { ip: '' })[0] ?? ['ip', '']
  const [attribute, setAttribute] = useState(first[0])
  const [value, setValue] = useState(first[1])
  const [duration, setDuration] = useState('1h')
  const [reason, setReason] = useState('')
  const { block, seen, error } = useBlock(done)
  return (
    <form
      class="inset"
      aria-label="Block a key"
      onSubmit={(e) => {
        e.preventDefault()
        void block({ attributes: { [attribute.trim()]: value.trim() }, duration, reason })
      }}
    >
      <div class="row">
        <AttributeInput value={attribute} set={setAttribute} />
        <label class="grow">
          Value or network
          <input
            class="wide"
            required
            placeholder="198.51.100.0/24"
            value={value}
            onInput={(e) => setValue(e.currentTarget.value)}
          />
        </label>
        <label>
          For how long <input required value={duration} onInput={(e) => setDuration(e.currentTarget.value)} />
        </label>
      </div>
      <div class="row">
        <label class="grow">
          Reason, for other operators
          <input
            class="wide"
            required
            maxLength={500}
            value={reason}
            onInput={(e) => setReason(e.currentTarget.value)}
          />
        </label>
        <button type="submit" class="danger">
          Block on all nodes
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
      {seen?.warnings.map((w) => (
        <p key={w} class="trouble">
          {w}
        </p>
      ))}
      {error && <Trouble error={error} />}
    </form>
  )
}

// AttributeInput suggests the attributes that rules read.
function AttributeInput({ value, set }: { value: string; set: (value: string) => void }) {
  const known = useLoad('/v1/attributes')
  return (
    <>
      <label>
        Attribute
        <input list="attributes" required value={value} onInput={(e) => set(e.currentTarget.value)} />
      </label>
      <datalist id="attributes">
        {known.data?.attributes.map((a) => (
          <option key={a.name} value={a.name} />
        ))}
      </datalist>
    </>
  )
}
