import { useEffect, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { mayChange } from '../api'
import { count } from '../format'
import { query, url } from '../request'
import type { Verdict } from '../types'
import { Badge } from '../ui/badge'
import { Calls } from '../ui/calls'
import { Empty, useLoad } from '../ui/load'
import { NodeFilter } from '../ui/nodefilter'
import { Veiled } from '../ui/who'

const shown = 200

interface Tailed {
  list: Verdict[] // newest first
  missed: number // requests that were not sent because there were too many
  lost: boolean
}

// useTail follows the stream of verdicts at an address while it is not paused.
function useTail(address: string, paused: boolean): Tailed {
  const [list, setList] = useState<Verdict[]>([])
  const [missed, setMissed] = useState(0)
  const [lost, setLost] = useState(false)
  useEffect(() => {
    if (paused) return
    setList([])
    setMissed(0)
    let waiting: Verdict[] = []
    const source = new EventSource(address)
    source.addEventListener('verdict', (e: MessageEvent<string>) => waiting.unshift(JSON.parse(e.data)))
    source.addEventListener('dropped', (e: MessageEvent<string>) => setMissed(JSON.parse(e.data).dropped))
    source.onopen = () => setLost(false)
    source.onerror = () => setLost(true)
    // Many arrive at once: they are shown together.
    const timer = window.setInterval(() => {
      if (waiting.length === 0) return
      const came = waiting
      waiting = []
      setList((before) => [...came, ...before].slice(0, shown))
    }, 250)
    return () => {
      source.close()
      window.clearInterval(timer)
    }
  }, [address, paused])
  return { list, missed, lost }
}

export function Tail() {
  const { query: asked, route } = useLocation()
  const [paused, setPaused] = useState(false)
  const [by, setBy] = useState(asked.attribute ? `${asked.attribute}=${asked.value ?? ''}` : '')
  const { rule, attribute, value, node } = asked
  const filter = { rule, denied: asked.denied === 'true', attribute, value, node }
  const nodes = useLoad('/v1/nodes', { every: 10_000 })
  const listed = (nodes.data?.nodes ?? []).map((n) => ({ id: n.id, name: n.about?.name ?? n.id }))
  const { list, missed, lost } = useTail(url('get', '/v1/events', { query: filter }), paused)
  const set = (change: Partial<typeof filter>) => route(`/tail${query({ ...filter, ...change })}`)
  const choose = (e: Event) => {
    e.preventDefault()
    const at = by.indexOf('=')
    set(at > 0 ? { attribute: by.slice(0, at).trim(), value: by.slice(at + 1).trim() } : { attribute: '', value: '' })
  }
  return (
    <>
      <div class="head">
        <h1>Live tail</h1>
        {lost ? (
          <Badge kind="denied">reconnecting</Badge>
        ) : paused ? (
          <Badge kind="shadow">paused</Badge>
        ) : (
          <Badge kind="allowed">live</Badge>
        )}
        <span class="grow" />
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? 'Resume' : 'Pause'}
        </button>
      </div>
      <form class="row" onSubmit={choose}>
        <label class="check">
          <input type="checkbox" checked={filter.denied} onChange={(e) => set({ denied: e.currentTarget.checked })} />{' '}
          Denied only
        </label>
        <label>
          Rule <input value={filter.rule ?? ''} onChange={(e) => set({ rule: e.currentTarget.value })} />
        </label>
        <NodeFilter nodes={listed} chosen={node ?? ''} choose={(n) => set({ node: n })} />
        {mayChange() && (
          <label>
            Attribute <input placeholder="user=u1" value={by} onInput={(e) => setBy(e.currentTarget.value)} />
          </label>
        )}
        {mayChange() && <button type="submit">Filter</button>}
      </form>
      <Veiled />
      {missed > 0 && (
        <p class="quiet">
          About {count(missed)} requests are not shown, because there are too many. A filter shows every match, up to a
          thousand per second.
        </p>
      )}
      {list.length === 0 ? (
        <Empty title="Waiting for requests">
          <p>
            Requests appear within half a second of their decision on any node. If none do, remove the filter, or see
            how to <a href="/integrations">send requests</a>.
          </p>
        </Empty>
      ) : (
        <Calls list={list} />
      )}
    </>
  )
}
