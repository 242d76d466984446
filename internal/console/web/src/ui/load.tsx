import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { Failure, get } from '../api'
import { type Input, type PathOf, type Result, url } from '../request'
import { Problems } from './problems'

export interface Loaded<T> {
  data: T | undefined
  error: Failure | undefined
  again: () => void
}

type Query<P extends PathOf<'get'>> = Pick<Input<'get', P>, 'query'>

// useLoad gets a path of the API, again whenever the path or the query changes, and every so many milliseconds if that
// is given. The data stays until there is newer data.
export function useLoad<P extends PathOf<'get'>>(
  path: P | null,
  { every = 0, ...query }: Query<P> & { every?: number } = {},
): Loaded<Result<'get', P>> {
  const [data, setData] = useState<Result<'get', P>>()
  const [error, setError] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  const input = query as Input<'get', P>
  const address = path === null ? null : url('get', path, input)
  const shown = useRef(address)
  useEffect(() => {
    if (path === null) return
    if (shown.current !== address) {
      shown.current = address
      setData(undefined)
      setError(undefined)
    }
    const gone = new AbortController()
    let timer = 0
    const load = async () => {
      try {
        const answer = await get(path, { ...input, signal: gone.signal })
        if (gone.signal.aborted) return
        setData(answer)
        setError(undefined)
      } catch (err) {
        if (gone.signal.aborted) return
        setError(err instanceof Failure ? err : new Failure(0, { detail: String(err) }))
      }
      if (every > 0 && !gone.signal.aborted) timer = window.setTimeout(load, document.hidden ? every * 5 : every)
    }
    void load()
    return () => {
      gone.abort()
      window.clearTimeout(timer)
    }
  }, [address, every, turn])
  return { data, error, again: useCallback(() => setTurn((n) => n + 1), []) }
}

// Show shows what was loaded, or why it was not.
export function Show<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.error && <Trouble error={of.error} again={of.again} />}
      {of.data !== undefined
        ? children(of.data)
        : !of.error && (
            <p class="quiet" role="status">
              Loading…
            </p>
          )}
    </>
  )
}

// Trouble shows an error, with the positions of what is wrong in rules.
export function Trouble({ error, again }: { error: Error; again?: () => void }) {
  return (
    <div class="trouble" role="alert">
      <p class="lines">{error.message}</p>
      {error instanceof Failure && <Problems list={error.problems} />}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
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
