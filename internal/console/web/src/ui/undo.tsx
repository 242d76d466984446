import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import type { Failure } from '../api'
import { Trouble } from './load'

interface Undoable {
  text: string // what was done
  undo: () => Promise<unknown>
}

const last = signal<Undoable | undefined>(undefined)

// offerUndo shows what was done, with a button that takes it back. The previous offer ends.
export function offerUndo(text: string, undo: () => Promise<unknown>) {
  last.value = { text, undo }
}

const shownFor = 60_000 // milliseconds

// UndoBar is the offer to undo the last action. It stays while the user moves to other screens.
export function UndoBar() {
  const offer = last.value
  const [error, setError] = useState<Failure>()
  useEffect(() => {
    setError(undefined)
    if (!offer) return
    const timer = window.setTimeout(() => {
      if (last.value === offer) last.value = undefined
    }, shownFor)
    return () => window.clearTimeout(timer)
  }, [offer])
  if (!offer) return null
  const undo = async () => {
    try {
      await offer.undo()
      last.value = undefined
    } catch (err) {
      setError(err as Failure)
    }
  }
  return (
    <div class="undo good" role="status">
      <div class="row">
        <span class="grow">{offer.text}</span>
        <button type="button" class="small" onClick={() => void undo()}>
          Undo
        </button>
        <button type="button" class="small" onClick={() => (last.value = undefined)}>
          Dismiss
        </button>
      </div>
      {error && <Trouble error={error} />}
    </div>
  )
}
