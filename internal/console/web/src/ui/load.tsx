import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Failure, get } from '../api'

export interface Loaded<T> {
  data: T | undefined
  error: Failure | undefined
  again: () => void
}

// useLoad asks for something, again when the path changes and every so many milliseconds if that is given. What was
// there stays until there is something newer.
export function useLoad<T>(path: string | null, every = 0): Loaded<T> {
  const [data, setData] = useState<T>()
  const [error, setError] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  const shown = useRef(path)
  useEffect(() => {
    if (path === null) return
    if (shown.current !== path) {
      shown.current = path
      setData(undefined)
      setError(undefined)
    }
    const gone = new AbortController()
    let timer = 0
    const load = async () => {
      try {
        const answer = await get<T>(path, gone.signal)
        if (gone.signal.aborted) return
        setData(answer)
        setError(undefined)
      } catch (err) {
        if (gone.signal.aborted) return
        setError(err instanceof Failure ? err : new Failure(0, { detail: String(err) }, 0))
      }
      if (every > 0 && !gone.signal.aborted) timer = window.setTimeout(load, document.hidden ? every * 5 : every)
    }
    void load()
    return () => {
      gone.abort()
      window.clearTimeout(timer)
    }
  }, [path, every, turn])
  return { data, error, again: useCallback(() => setTurn((n) => n + 1), []) }
}

// Show shows what was loaded, or why it was not.
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <Trouble error={of.error} again={of.again} />}
      {of.data !== undefined ? children(of.data) : !of.error && <p class="quiet" role="status">Loading…</p>}
    </>
  )
}

export function Trouble({ error, again }: { error: Error; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p class="lines">{error.message}</p>
      {again && <button type="button" onClick={again}>Try again</button>}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={'badge ' + kind}>{children}</span>
}

export function Answer({ allowed }: { allowed: boolean }) {
  return <Badge kind={allowed ? 'allowed' : 'denied'}>{allowed ? 'allowed' : 'denied'}</Badge>
}

// Copy is a text to take along.
export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false)
  return (
    <button
      type="button"
      class="small"
      onClick={async () => {
        await navigator.clipboard.writeText(text)
        setDone(true)
        window.setTimeout(() => setDone(false), 1500)
      }}
    >
      {done ? 'Copied' : label}
    </button>
  )
}
