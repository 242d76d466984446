import { Fragment } from 'preact'
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

function Node({ status: s }: { status: Status }) {
  return (
    <div class="cards">
      <section class="card">
        <h2>This node {s.ready ? <Badge kind="allowed">ready</Badge> : <Badge kind="denied">not ready</Badge>}</h2>
        <dl>
          {s.not_ready && (
            <>
              <dt>Why not</dt>
              <dd>{s.not_ready}</dd>
            </>
          )}
          <dt>Name</dt>
          <dd>{s.node}</dd>
          <dt>Version</dt>
          <dd>
            {s.build.version} ({s.build.go})
          </dd>
          <dt>Commit</dt>
          <dd>
            <code>{s.build.commit}</code>
          </dd>
          <dt>Up for</dt>
          <dd>
            {duration(s.uptime_seconds * 1000)}, since {instant(s.started)}
          </dd>
          {Object.entries(s.addresses).map(([name, address]) => (
            <Fragment key={name}>
              <dt>{name}</dt>
              <dd>
                <code>{address}</code>
              </dd>
            </Fragment>
          ))}
        </dl>
      </section>
      <section class="card">
        <h2>
          Store{' '}
          {s.store.connected ? <Badge kind="allowed">answers</Badge> : <Badge kind="denied">does not answer</Badge>}
        </h2>
        <dl>
          <dt>Kind</dt>
          <dd>{s.store.kind}</dd>
          <dt>Nodes that share limits</dt>
          <dd>{s.store.nodes}</dd>
          {s.store.error && (
            <>
              <dt>Error</dt>
              <dd class="lines">{s.store.error}</dd>
            </>
          )}
          {s.store.breaker && (
            <>
              <dt>Breaker</dt>
              <dd>
                {s.store.breaker.state} since {instant(s.store.breaker.since)}
              </dd>
              <dt>Given up on</dt>
              <dd>
                {s.store.breaker.opened} times, {s.store.breaker.refused} calls not sent
              </dd>
            </>
          )}
        </dl>
        {!s.store.connected && (
          <p>
            Rules decide by their <code>on_store_error</code>. <code>penstock doctor</code> looks for the cause.
          </p>
        )}
      </section>
      <section class="card">
        <h2>
          Rules{' '}
          {s.rules.refused ? (
            <Badge kind="denied">newer ones refused</Badge>
          ) : s.rules.error ? (
            <Badge kind="shadow">stale</Badge>
          ) : (
            <Badge kind="allowed">current</Badge>
          )}
        </h2>
        <dl>
          <dt>From</dt>
          <dd>{s.rules.origin}</dd>
          <dt>Version</dt>
          <dd>
            {s.rules.version}, {s.rules.rules} rules, since {instant(s.rules.since)}
          </dd>
          <dt>Checksum</dt>
          <dd>
            <code>{s.rules.checksum.slice(0, 16)}</code>
          </dd>
          {s.rules.from_copy && (
            <>
              <dt>Note</dt>
              <dd>from the copy on disk</dd>
            </>
          )}
          {s.rules.refused && (
            <>
              <dt>Refused</dt>
              <dd class="lines">{s.rules.refused}</dd>
            </>
          )}
          {s.rules.error && (
            <>
              <dt>Error</dt>
              <dd class="lines">{s.rules.error}</dd>
            </>
          )}
        </dl>
      </section>
      {s.upstreams && s.upstreams.length > 0 && (
        <section class="card">
          <h2>Upstreams</h2>
          <dl>
            {s.upstreams.map((u) => (
              <Fragment key={u.url}>
                <dt>
                  <code>{u.url}</code>
                </dt>
                <dd>
                  {u.up ? <Badge kind="allowed">up</Badge> : <Badge kind="denied">down</Badge>}
                  {u.failures > 0 && ` ${u.failures} failures in a row`}
                </dd>
              </Fragment>
            ))}
          </dl>
        </section>
      )}
    </div>
  )
}
