import { useState } from 'preact/hooks'
import { del, type Failure, mayChange, post } from '../api'
import { inputTime, instant, parseInputTime, zone } from '../format'
import { Trouble } from './load'
import { offerUndo } from './undo'

// Annotate writes on the charts of all nodes what somebody did or found, about one rule or about all.
export function Annotate({ rule, done }: { rule?: string; done: () => void }) {
  const [open, setOpen] = useState(false)
  if (!mayChange()) return null
  if (open) {
    const close = () => setOpen(false)
    return (
      <AnnotationForm
        rule={rule}
        cancel={close}
        done={() => {
          close()
          done()
        }}
      />
    )
  }
  return (
    <button type="button" class="small" onClick={() => setOpen(true)}>
      Annotate
    </button>
  )
}

function AnnotationForm({ rule, done, cancel }: { rule?: string; done: () => void; cancel: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(() => inputTime(new Date()))
  const [error, setError] = useState<Failure>()
  const add = async () => {
    try {
      setError(undefined)
      const added = await post('/v1/annotations', { body: { text, rule, at: parseInputTime(at).toISOString() } })
      offerUndo(`Annotated ${instant(added.at)}.`, async () => {
        await del('/v1/annotations/{id}', { path: { id: added.id } })
        done()
      })
      done()
    } catch (err) {
      setError(err as Failure)
    }
  }
  return (
    <form
      class="inset"
      aria-label="Annotate"
      onSubmit={(e) => {
        e.preventDefault()
        void add()
      }}
    >
      <div class="row">
        <label class="grow">
          What happened, for everybody who looks at {rule ? `the charts of ${rule}` : 'the charts'}
          <input
            class="wide"
            required
            maxLength={500}
            placeholder="blocked scraper, ticket 123"
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </label>
        <label>
          When ({zone()})
          <input type="datetime-local" step={1} required value={at} onInput={(e) => setAt(e.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">
          Save annotation
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
      {error && <Trouble error={error} />}
    </form>
  )
}
