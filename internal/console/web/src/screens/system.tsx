import { type ComponentChildren, Fragment } from 'preact'
import { duration, instant } from '../format'
import type { Status } from '../types'
import { Badge } from '../ui/badge'
import { DemoTraffic } from '../ui/demo'
import { Show, useLoad } from '../ui/load'
import { Nodes } from '../ui/nodes'

export function System() {
  const status = useLoad('/v1/status', { every: 2000 })
  const nodes = useLoad('/v1/nodes', { every: 3000 })
  return (
    <>
      <h1>System</h1>
      <DemoTraffic />
      <Show of={status}>{(s) => <Node status={s} />}</Show>
      <section>
        <h2>Nodes that share the limits</h2>
        <Show of={nodes}>{(n) => <Nodes list={n.nodes} />}</Show>
      </section>
    </>
  )
}

function Node({ status }: { status: Status }) {
  return (
    <div class="cards">
      <NodeCard status={status} />
      <StoreCard store={status.store} />
      <RulesCard rules={status.rules} />
      {status.upstreams && status.upstreams.length > 0 && <UpstreamsCard upstreams={status.upstreams} />}
    </div>
  )
}

const code = (text: string) => <code>{text}</code>

type Field = [name: string, value: ComponentChildren]

// Card is a list of named values. Those without a value are left out.
function Card({
  title,
  fields,
  children,
}: {
  title: ComponentChildren
  fields: Field[]
  children?: ComponentChildren
}) {
  const present = fields.filter(([, value]) => value !== undefined && value !== '')
  return (
    <section class="card">
      <h2>{title}</h2>
      <dl>
        {present.map(([name, value]) => (
          <Fragment key={name}>
            <dt>{name}</dt>
            <dd class="lines">{value}</dd>
          </Fragment>
        ))}
      </dl>
      {children}
    </section>
  )
}

function NodeCard({ status: s }: { status: Status }) {
  const ready = s.ready ? <Badge kind="allowed">ready</Badge> : <Badge kind="denied">not ready</Badge>
  return (
    <Card
      title={['This node ', ready]}
      fields={[
        ['Reason', s.not_ready],
        ['Name', s.node],
        ['Version', `${s.build.version} (${s.build.go})`],
        ['Commit', code(s.build.commit)],
        ['Up for', `${duration(s.uptime_seconds * 1000)}, since ${instant(s.started)}`],
        ...Object.entries(s.addresses).map(([name, address]): Field => [name, code(address)]),
      ]}
    />
  )
}

function StoreCard({ store }: { store: Status['store'] }) {
  const { breaker } = store
  const answers = store.connected ? <Badge kind="allowed">connected</Badge> : <Badge kind="denied">unavailable</Badge>
  return (
    <Card
      title={['Store ', answers]}
      fields={[
        ['Kind', store.kind],
        ['Nodes that share limits', store.nodes],
        ['Error', store.error],
        ['Circuit breaker', breaker && `${breaker.state} since ${instant(breaker.since)}`],
        ['Opened', breaker && `${breaker.opened} times, ${breaker.refused} requests not sent`],
      ]}
    >
      {!store.connected && (
        <p>
          Rules decide by their <code>on_store_error</code>. <code>penstock doctor</code> looks for the cause.
        </p>
      )}
    </Card>
  )
}

function RulesCard({ rules }: { rules: Status['rules'] }) {
  const state = rules.refused ? (
    <Badge kind="denied">newer ones refused</Badge>
  ) : rules.error ? (
    <Badge kind="shadow">stale</Badge>
  ) : (
    <Badge kind="allowed">current</Badge>
  )
  return (
    <Card
      title={['Rules ', state]}
      fields={[
        ['From', rules.origin],
        ['Version', `${rules.version}, ${rules.rules} rules, since ${instant(rules.since)}`],
        ['Checksum', code(rules.checksum.slice(0, 16))],
        ['Note', rules.from_copy ? 'from the copy on disk' : undefined],
        ['Refused', rules.refused],
        ['Error', rules.error],
      ]}
    />
  )
}

function UpstreamsCard({ upstreams }: { upstreams: NonNullable<Status['upstreams']> }) {
  const state = (up: boolean) => (up ? <Badge kind="allowed">up</Badge> : <Badge kind="denied">down</Badge>)
  return (
    <Card
      title="Upstreams"
      fields={upstreams.map((u) => [u.url, [state(u.up), u.failures > 0 && ` ${u.failures} failures in a row`]])}
    />
  )
}
