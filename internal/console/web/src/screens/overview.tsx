import { useLocation } from 'preact-iso'
import { count, duration, percent } from '../format'
import { query, url } from '../request'
import type { Counts, Nodes as Listed, Node, Stats, Status } from '../types'
import { Badge } from '../ui/badge'
import { Chart } from '../ui/chart'
import { DemoTraffic } from '../ui/demo'
import { useEvents } from '../ui/live'
import { Empty } from '../ui/load'
import { MissingNodes, NodeFilter } from '../ui/nodefilter'
import { Nodes } from '../ui/nodes'
import { Attention } from './attention'
import { TopKeys } from './topkeys'

interface Told {
  stats: Stats
  status: Status
  nodes: Listed
}

const spans = ['5m', '15m', '1h']

export function Overview() {
  const { query: asked, route } = useLocation()
  const last = spans.includes(asked.last ?? '') ? asked.last! : '15m'
  const node = asked.node ?? ''
  const address = url('get', '/v1/overview', { query: { last, node } })
  const { told, state } = useEvents<Told>(address, 'stats', 'status', 'nodes')
  const listed = (told.nodes?.nodes ?? []).map((n) => ({ id: n.id, name: n.about?.name ?? n.id }))
  return (
    <>
      <div class="head">
        <h1>Overview</h1>
        {state === 'live' ? (
          <Badge kind="allowed">live</Badge>
        ) : (
          <Badge kind={state === 'lost' ? 'denied' : 'plain'}>{state === 'lost' ? 'reconnecting' : 'resting'}</Badge>
        )}
        <div class="choice" role="group" aria-label="Time shown">
          {spans.map((s) => (
            <button
              key={s}
              type="button"
              aria-pressed={s === last}
              onClick={() => route(`/${query({ last: s, node })}`)}
            >
              {s}
            </button>
          ))}
        </div>
        <NodeFilter nodes={listed} chosen={node} choose={(n) => route(`/${query({ last, node: n })}`)} />
        <DemoTraffic whileOn />
      </div>
      {told.stats ? (
        <Numbers stats={told.stats} status={told.status} nodes={told.nodes?.nodes ?? []} />
      ) : (
        <p class="quiet" role="status">
          {state === 'lost' ? 'This node does not answer. It is asked again every few seconds.' : 'Loading…'}
        </p>
      )}
    </>
  )
}

function Numbers({ stats, status, nodes }: { stats: Stats; status?: Status; nodes: Node[] }) {
  const seconds = stats.step_ms / 1000
  const at = stats.series.map((_, i) => new Date(stats.from).getTime() / 1000 + (i + 1) * seconds)
  const rate = (of: (c: Counts) => number) => stats.series.map((c) => of(c) / seconds)
  // The last point is not complete yet, so the current rate is that of the one before.
  const now = stats.series.at(-2) ?? stats.series.at(-1)
  const calls = stats.total.allowed + stats.total.denied
  return (
    <>
      <MissingNodes of={stats} />
      <div class="tiles">
        <Tile
          name="Calls a second"
          value={count(now ? (now.allowed + now.denied) / seconds : 0)}
          note={`${count(calls)} in all`}
        />
        <Tile
          name="Denied"
          value={percent(stats.total.denied, calls)}
          note={`${count(stats.total.denied)} calls`}
          kind={stats.total.denied > 0 ? 'denied' : ''}
        />
        <Tile
          name="Decision p99"
          value={duration(stats.latency.p99_us / 1000)}
          note={`p50 ${duration(stats.latency.p50_us / 1000)}`}
        />
        <StoreTile status={status} degraded={stats.total.degraded} self={nodes.find((n) => n.self)} />
      </div>
      {calls === 0 && stats.total.errors === 0 ? (
        <Empty title="No calls yet">
          <p>Send some through the gateway, and they appear here within a second:</p>
          <pre>{`for i in $(seq 20); do curl -i http://${status?.addresses.gateway ?? 'localhost:8080'}/; done`}</pre>
          <DemoTraffic />
          <p>
            Other doors are under <a href="/integrations">Integrations</a>.
          </p>
        </Empty>
      ) : (
        <section>
          <h2>Calls a second</h2>
          <Chart
            at={at}
            stacked
            lines={[
              { label: 'allowed', color: '--allowed', values: rate((c) => c.allowed), fill: true },
              { label: 'denied', color: '--denied', values: rate((c) => c.denied), fill: true },
              { label: 'shadow would deny', color: '--shadow', values: rate((c) => c.shadow), apart: true },
            ]}
          />
        </section>
      )}
      <div class="halves">
        <Attention stats={stats} status={status} nodes={nodes} />
        <TopKeys rules={stats.rules} />
      </div>
      <section>
        <h2>Nodes</h2>
        <Nodes list={nodes} />
      </section>
    </>
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
      note={degraded > 0 ? `${count(degraded)} answers were not exact` : `rules ${rules} · ${nodes}`}
      kind={answers ? '' : 'denied'}
    />
  )
}
