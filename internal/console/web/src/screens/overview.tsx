import { useLocation } from 'preact-iso'
import { attributes, count, duration, percent } from '../format'
import { query, url } from '../request'
import type { Counts, Nodes as Listed, Node, RuleStats, Stats, Status } from '../types'
import { Badge } from '../ui/badge'
import { Chart } from '../ui/chart'
import { DemoTraffic } from '../ui/demo'
import { useEvents } from '../ui/live'
import { Empty } from '../ui/load'
import { Nodes, nodeName } from '../ui/nodes'
import { Who } from '../ui/who'

interface Told {
  stats: Stats
  status: Status
  nodes: Listed
}

const spans = ['5m', '15m', '1h']

export function Overview() {
  const { query: asked, route } = useLocation()
  const last = spans.includes(asked.last ?? '') ? asked.last! : '15m'
  const { told, state } = useEvents<Told>(url('get', '/v1/overview', { query: { last } }), 'stats', 'status', 'nodes')
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
            <button key={s} type="button" aria-pressed={s === last} onClick={() => route(`/?last=${s}`)}>
              {s}
            </button>
          ))}
        </div>
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
  // The last point is not full yet: what is told as the rate now is of the one before.
  const now = stats.series.at(-2) ?? stats.series.at(-1)
  const calls = stats.total.allowed + stats.total.denied
  return (
    <>
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

// StoreTile goes by what this node says of itself too: the store may be gone before a call has noticed.
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

// Attention lists what an operator should look at, the most pressing first.
function Attention({ stats, status, nodes }: { stats: Stats; status?: Status; nodes: Node[] }) {
  const found: { key: string; kind: string; what: preact.JSX.Element }[] = []
  const add = (key: string, kind: string, what: preact.JSX.Element) => found.push({ key, kind, what })
  if (status && !status.store.connected) add('store', 'denied', <>The store does not answer: {status.store.error}</>)
  if (status?.rules.refused) add('refused', 'denied', <>Newer rules are refused: {status.rules.refused}</>)
  if (status?.rules.error) add('stale', 'denied', <>The rules cannot be read: {status.rules.error}</>)
  if (status?.rules.from_copy)
    add('copy', 'shadow', <>The rules are from the copy on disk, as their origin could not be read</>)
  for (const n of nodes) {
    const name = <strong>{nodeName(n)}</strong>
    if (n.silent)
      add(
        n.id,
        'shadow',
        <>
          Node {name} was not heard for {duration(Math.round(n.heard_ago_seconds) * 1000)}
        </>,
      )
    else if (n.about?.quality === 'degraded') add(n.id, 'denied', <>Node {name} decides without the shared state</>)
    else if (n.about?.rules === 'behind')
      add(
        n.id,
        'shadow',
        <>
          Node {name} serves rules v{n.about.rules_version}, which are not the newest
        </>,
      )
    else if (n.about?.rules === 'different') add(n.id, 'shadow', <>Node {name} and others serve different rules</>)
  }
  for (const r of stats.rules) {
    const calls = r.total.allowed + r.total.denied + r.total.shadow
    const link = <a href={`/rules${query({ rule: r.rule })}`}>{r.rule}</a>
    if (r.total.denied > 0 && r.total.denied * 10 >= calls)
      add(
        r.rule,
        'denied',
        <>
          {link} denies {percent(r.total.denied, calls)} {trend(r)}
        </>,
      )
    if (r.total.shadow > 0)
      add(
        `${r.rule} shadow`,
        'shadow',
        <>
          {link} (shadow) would deny {percent(r.total.shadow, calls)}
        </>,
      )
  }
  return (
    <section>
      <h2>Needs attention</h2>
      {found.length === 0 ? (
        <p class="quiet">
          Nothing. Rules that deny a tenth of their calls, would deny in shadow mode, or cannot be read appear here.
        </p>
      ) : (
        <ul class="list">
          {found.slice(0, 8).map((f) => (
            <li key={f.key}>
              <Badge kind={f.kind}>{f.kind === 'shadow' ? 'look' : 'now'}</Badge> <span>{f.what}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

// trend tells whether the later half of a series denies more than the earlier.
function trend(r: RuleStats): string {
  const series = r.series ?? []
  const half = Math.floor(series.length / 2)
  const sum = (part: Counts[]) => part.reduce((n, c) => n + c.denied, 0)
  const before = sum(series.slice(0, half))
  const after = sum(series.slice(half))
  return after > before * 1.5 ? '↑' : before > after * 1.5 ? '↓' : ''
}

function TopKeys({ rules }: { rules: RuleStats[] }) {
  // Of rules that are only tried nobody was denied.
  const all = rules
    .filter((r) => r.total.denied > 0)
    .flatMap((r) => r.top.map((k) => ({ rule: r.rule, ...k })))
    .sort((a, b) => b.denied - a.denied)
  return (
    <section>
      <h2>Denied most</h2>
      {all.length === 0 ? (
        <p class="quiet">Nobody was denied.</p>
      ) : (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th>Who</th>
                <th>Rule</th>
                <th class="num">Denied</th>
                <th class="num">Share</th>
              </tr>
            </thead>
            <tbody>
              {all.slice(0, 10).map((k) => (
                <tr key={k.rule + attributes(k.key)}>
                  <td>
                    <Who of={k.key} rule={k.rule} />
                  </td>
                  <td>{k.rule}</td>
                  <td class="num">{count(k.denied)}</td>
                  <td class="num">{percent(k.denied, k.denied + k.allowed)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}
