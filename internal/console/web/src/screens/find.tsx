import { post } from '../api'
import { attributes, writeAttributes } from '../attributes'
import { count } from '../format'
import { query } from '../request'
import { Badge } from '../ui/badge'
import { Empty, Trouble, usePolled } from '../ui/load'
import { num, Table } from '../ui/table'
import { Key } from './key'

// Find shows the clients that a bare value names: an address, a user, a token. If there is one, it shows its counters.
export function Find({ value, rule }: { value: string; rule?: string }) {
  const found = usePolled(value, 5000, (signal) => post('/v1/keys/find', { body: { value }, signal }))
  const clients = found.data?.clients ?? []
  const [first] = clients
  if (found.error) return <Trouble error={found.error} again={found.again} />
  if (!found.data)
    return (
      <p class="quiet" role="status">
        Searching…
      </p>
    )
  if (!first)
    return (
      <Empty title="No client found with this value">
        <p>
          No recent request or counter has this value. To see the client anyway, name the attribute:{' '}
          <a href={`/keys${query({ q: writeAttributes({ ip: value }) })}`}>
            <code>ip={value}</code>
          </a>
        </p>
      </Empty>
    )
  if (clients.length === 1) return <Key text={writeAttributes(first.attributes)} rule={rule} />
  return (
    <Table name="Clients" columns={['Client', 'Rules', num('Recent requests'), num('Denied'), 'Status']}>
      {clients.map((c) => (
        <tr key={attributes(c.attributes)}>
          <td>
            <a href={`/keys${query({ q: writeAttributes(c.attributes) })}`}>
              <code>{attributes(c.attributes)}</code>
            </a>
          </td>
          <td>{c.rules.join(', ')}</td>
          <td class="num">{count(c.recent)}</td>
          <td class="num">{count(c.denied)}</td>
          <td>
            {c.block && <Badge kind="denied">blocked</Badge>}
            {c.banned_until && <Badge kind="denied">banned</Badge>}
          </td>
        </tr>
      ))}
    </Table>
  )
}
