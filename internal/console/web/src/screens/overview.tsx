import type { ComponentChildren } from 'preact'
import { useLocation } from 'preact-iso'
import { count, duration, instant, percent } from '../format'
import { query, url } from '../request'
import { points } from '../series'
import type { Attention as Judged, Nodes as Listed, Node, Stats, Status } from '../types'
import { Badge } from '../ui/badge'
import { DemoTraffic } from '../ui/demo'
import { useEvents } from '../ui/live'
import { Empty, Show, useLoad } from '../ui/load'
import { MissingNodes, NodeFilter } from '../ui/nodefilter'
import { Nodes } from '../ui/nodes'
import { TrafficChart } from '../ui/trafficchart'
import { Attention, Targets } from './attention'
import { TopKeys } from './topkeys'

interface Told {
  stats: Stats
  status: Status
  nodes: Listed
  attention: Judged
}

const live = ['5m', '15m', '1h'] // in steps of seconds, from memory
const spans = [...live, '6h', '24h'] // the longer ones are from the history

export function Overview() {
  const { query: asked, route } = useLocation()
  const zoomed = asked.from !== undefined && asked.to !== undefined
  const last = zoomed ? '' : spans.includes(asked.last ?? '') ? asked.last! : '15m'
  const node = asked.node ?? ''
  const address = url('get', '/v1/overview', { query: { last: live.includes(last) ? last : '15m', node } })
  const { told, state } = useEvents<Told>(address, 'stats', 'status', 'nodes', 'attention')
  const listed = (told.nodes?.nodes ?? []).map((n) => ({ id: n.id, name: n.about?.name ?? n.id }))
  const show = (change: Record<string, string>) => route(`/${query({ last, node, ...change })}`)
  const zoom = (from: number, to: number) =>
    show({ last: '', from: new Date(from * 1000).toISOString(), to: new Date(to * 1000).toISOString() })
  const period = zoomed ? { from: asked.from, to: asked.to } : { last }
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        {state === 'live' ? (
          <Badge kind="allowed">live</Badge>
        ) : (
          <Badge kind={state === 'lost' ? 'denied' : 'plain'}>{state === 'lost' ? 'reconnecting' : 'paused'}</Badge>
        )}
        <div class="choice" role="group" aria-label="Time range">
          {spans.map((s) => (
            <button key={s} type="button" aria-pressed={s === last} onClick={() => show({ last: s })}>
              {s}
            </button>
          ))}
        </div>
        <NodeFilter
          nodes={listed}
          chosen={node}
          choose={(n) => show({ node: n, ...(zoomed ? { from: asked.from!, to: asked.to! } : {}) })}
        />
        <DemoTraffic whileOn />
      </div>
      {told.stats ? (
        <Numbers told={told} stats={told.stats}>
          {live.includes(last) ? (
            <Live stats={told.stats} status={told.status} period={period} node={node} zoom={zoom} />
          ) : (
            <Past period={period} node={node} zoom={zoom} back={() => show({ last: '15m' })} />
          )}
        </Numbers>
      ) : (
        <p class="quiet" role="status">
          {state === 'lost' ? 'This node does not respond. Retrying every few seconds.' : 'Loading…'}
        </p>
      )}
    </>
  )
}

function Numbers({ told, stats, children }: { told: Partial<Told>; stats: Stats; children: ComponentChildren }) {
  const { status, attention } = told
  const nodes = told.nodes?.nodes ?? []
  const calls = stats.total.allowed + stats.total.denied
  const now = points(stats).counts.at(-1)
  const p99 = attention?.targets.find((t) => t.name === 'decision p99')
  const unusual = attention?.findings.some((f) => f.kind === 'denies_more' && f.severity === 'critical')
  return (
    <>
      <MissingNodes of={stats} />
      <div class="tiles">
        <Tile
          name="Requests/s"
          value={count(now ? ((now.allowed + now.denied) * 1000) / stats.step_ms : 0)}
          note={`${count(calls)} total`}
        />
        <Tile
          name="Denied"
          value={percent(stats.total.denied, calls)}
          note={`${count(stats.total.denied)} requests`}
          kind={unusual ? 'denied' : ''}
        />
        <Tile
          name="Decision p99"
          value={duration(stats.latency.p99_us / 1000)}
          note={`target < 2 ms${p99?.baseline ? ` · usually ${duration(p99.baseline)}` : ''}`}
          kind={p99?.state === 'fail' ? 'denied' : ''}
        />
        <StoreTile status={status} degraded={stats.total.degraded} self={nodes.find((n) => n.self)} />
      </div>
      {children}
      <div class="halves">
        <Attention judged={attention} />
        <TopKeys rules={stats.rules} />
      </div>
      <Targets judged={attention} />
      <section>
        <h2>Nodes</h2>
        <Nodes list={nodes} />
      </section>
    </>
  )
}

type Period = { last?: string; from?: string; to?: string }

interface LiveProps {
  stats: Stats
  status?: Status
  period: Period
  node: string
  zoom: (from: number, to: number) => void
}

// Live is the chart of the last minutes.
function Live({ stats, status, period, node, zoom }: LiveProps) {
  const history = useLoad('/v1/history', { query: { ...period, node }, every: 15_000 })
  if (stats.total.allowed + stats.total.denied + stats.total.errors === 0) {
    return (
      <Empty title="No requests yet">
        <p>Send some through the gateway. They appear here within a second:</p>
        <pre
          tabIndex={0}
        >{`for i in $(seq 20); do curl -i http://${status?.addresses.gateway ?? 'localhost:8080'}/; done`}</pre>
        <DemoTraffic />
        <p>
          For other APIs, see <a href="/integrations">Integrations</a>.
        </p>
      </Empty>
    )
  }
  return (
    <section>
      <h2>Requests/s</h2>
      <TrafficChart
        of={points(stats)}
        step_ms={stats.step_ms}
        marks={history.data?.marks ?? []}
        marked={history.again}
        zoom={zoom}
      />
    </section>
  )
}

interface PastProps {
  period: Period
  node: string
  zoom: (from: number, to: number) => void
  back: () => void
}

// Past is the chart of hours, by minutes.
function Past({ period, node, zoom, back }: PastProps) {
  const history = useLoad('/v1/history', { query: { ...period, node }, every: 30_000 })
  return (
    <Show of={history}>
      {(h) => (
        <section aria-label="History">
          <div class="head">
            <h2>Requests/s</h2>
            <span class="quiet">
              {instant(h.from)} to {instant(h.to)}: {count(h.total.allowed + h.total.denied)} requests,{' '}
              {count(h.total.denied)} denied
            </span>
            <span class="grow" />
            <button type="button" onClick={back}>
              Back to live
            </button>
          </div>
          {h.problem && (
            <p class="warning" role="status">
              Some data may be missing: {h.problem}
            </p>
          )}
          <TrafficChart of={points(h)} step_ms={h.step_ms} marks={h.marks} marked={history.again} zoom={zoom} />
        </section>
      )}
    </Show>
  )
}

function Tile({ name, value, note, kind = '' }: { name: string; value: string; note: string; kind?: string }) {
  return (
    <div class={`tile ${kind}`}>
      <span class="name">{name}</span>
      <strong>{value}</strong>
      <span class="quiet">{note}</span>
    </div>
  )
}

// StoreTile also uses what this node reports about itself: the store may become unavailable before a request notices.
function StoreTile({ status, degraded, self }: { status?: Status; degraded: number; self?: Node }) {
  if (!status) return <Tile name="Store" value="…" note="" />
  const answers = status.store.connected && self?.about?.quality !== 'degraded'
  const nodes = status.store.nodes === 1 ? 'one node' : `${status.store.nodes} nodes`
  const rules = status.rules.version > 0 ? `v${status.rules.version}` : status.rules.checksum.slice(0, 7)
  return (
    <Tile
      name="Store"
      value={status.store.kind + (answers ? ' ✓' : ' ✗')}
      note={degraded > 0 ? `${count(degraded)} verdicts were not exact` : `rules ${rules} · ${nodes}`}
      kind={answers ? '' : 'denied'}
    />
  )
}
