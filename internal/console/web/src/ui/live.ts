import { useEffect, useState } from 'preact/hooks'
import { whoAmI } from '../api'

export type State = 'live' | 'resting' | 'lost'

const again = 3000 // milliseconds, after a refusal; the browser itself reopens a connection that breaks
const use = 10 * 60_000 // viewing a page keeps the session alive, but reading a stream does not count as use

// useEvents follows a stream of events. Each event replaces the previous one of its kind. It pauses while the page is
// hidden, and resumes when it is visible.
export function useEvents<T extends object>(
  path: string,
  ...kinds: (keyof T & string)[]
): { told: Partial<T>; state: State } {
  const [told, setTold] = useState<Partial<T>>({})
  const [state, setState] = useState<State>('live')
  useEffect(() => {
    let source: EventSource | undefined
    let timer = 0
    const rest = () => {
      source?.close()
      source = undefined
      window.clearTimeout(timer)
    }
    const follow = () => {
      rest()
      if (document.hidden) {
        setState('resting')
        return
      }
      const now = new EventSource(path)
      source = now
      for (const kind of kinds) {
        now.addEventListener(kind, (e) => {
          const data = JSON.parse((e as MessageEvent<string>).data) as T[typeof kind]
          setTold((before) => ({ ...before, [kind]: data }))
        })
      }
      now.onopen = () => setState('live')
      now.onerror = () => {
        setState('lost')
        if (now.readyState !== EventSource.CLOSED) return
        timer = window.setTimeout(follow, again)
        void whoAmI().catch(() => undefined) // the session may have ended
      }
    }
    follow()
    document.addEventListener('visibilitychange', follow)
    const using = window.setInterval(() => {
      if (!document.hidden) void whoAmI().catch(() => undefined)
    }, use)
    return () => {
      rest()
      document.removeEventListener('visibilitychange', follow)
      window.clearInterval(using)
    }
  }, [path])
  return { told, state }
}
