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

// useLoad gets a path of the API, again whenever the path or the query changes, and at an interval in milliseconds if
// one is given.
export function useLoad<P extends PathOf<'get'>>(
  path: P | null,
  { every = 0, ...query }: Query<P> & { every?: number } = {},
): Loaded<Result<'get', P>> {
  const input = query as Input<'get', P>
  const load = (signal: AbortSignal) => get(path as P, { ...input, signal })
  return usePolled(path === null ? null : url('get', path, input), every, load)
}

// usePolled keeps the result of load. It loads whenever the key changes, and at an interval in milliseconds if one is
// given. The data stays until there is newer data for the same key. Nothing is loaded while the key is null.
export function usePolled<T>(key: string | null, every: number, load: (signal: AbortSignal) => Promise<T>): Loaded<T> {
  const [data, setData] = useState<T>()
  const [error, setError] = useState<Failure>()
  const [turn, setTurn] = useState(0)
  const shown = useRef(key)
  useEffect(() => {
    if (key === null) return
    if (shown.current !== key) {
      shown.current = key
      setData(undefined)
      setError(undefined)
    }
    return poll(every, async (signal) => {
      const [loaded, failure] = await load(signal).then(
        (result) => [result, undefined] as const,
        (err) => [undefined, err instanceof Failure ? err : new Failure(0, { detail: String(err) })] as const,
      )
      if (signal.aborted) return
      if (!failure) setData(loaded)
      setError(failure)
    })
  }, [key, every, turn])
  return { data, error, again: useCallback(() => setTurn((n) => n + 1), []) }
}

// poll runs a function now, and again at an interval in milliseconds after it has ended, less often while the page is
// hidden. It returns the function that stops it.
function poll(every: number, run: (signal: AbortSignal) => Promise<void>): () => void {
  const stop = new AbortController()
  let timer = 0
  const turn = async () => {
    await run(stop.signal)
    if (every > 0 && !stop.signal.aborted) timer = window.setTimeout(turn, document.hidden ? every * 5 : every)
  }
  void turn()
  return () => {
    stop.abort()
    window.clearTimeout(timer)
  }
}

// Show shows the loaded data, or why loading failed.
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

// Trouble shows an error, with the positions of errors in rules.
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

// Secret is a text that is shown once, with a button to copy it.
export function Secret({ title, text }: { title: string; text: string }) {
  return (
    <div class="good" role="status">
      <p>
        <strong>{title}</strong>: copy it now, it is not shown again.
      </p>
      <div class="copy">
        <Copy text={text} />
        <pre tabIndex={0}>{text}</pre>
      </div>
    </div>
  )
}

// Copy is a text that can be copied.
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
