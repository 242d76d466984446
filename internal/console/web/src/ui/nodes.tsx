import { visible } from '../attributes'
import { count, duration, instant } from '../format'
import type { Node } from '../types'
import { Badge } from './badge'
import { num, Table } from './table'

export const nodeName = (n: Node) => visible(n.about?.name ?? n.id.slice(0, 8))

// Nodes lists the nodes that share the limits. On a phone the least important columns are left out.
export function Nodes({ list }: { list: Node[] }) {
  return (
    <Table
      name="Nodes"
      class="nodes"
      columns={[
        'Node',
        'Quality',
        'Rules',
        num('Requests/s'),
        { name: 'Denied/s', class: 'num aside' },
        { name: 'Up for', class: 'aside' },
        { name: 'Version', class: 'aside' },
      ]}
    >
      {list.map((n) => (
        <tr key={n.id} class={n.silent ? 'off' : ''}>
          <td title={n.id}>
            {nodeName(n)} {n.self && <Badge kind="plain">this one</Badge>}
          </td>
          <td>
            <Quality of={n} />
          </td>
          {n.about ? (
            <>
              <td>
                {n.about.rules_version > 0 ? (
                  `v${n.about.rules_version}`
                ) : (
                  <code>{n.about.rules_checksum.slice(0, 7)}</code>
                )}{' '}
                <RulesMark of={n.about.rules} />
              </td>
              <td class="num">{count(n.about.calls_per_second)}</td>
              <td class="num aside">{count(n.about.denied_per_second)}</td>
              <td class="aside" title={`since ${instant(n.about.started)}`}>
                {duration(Math.max(0, Date.now() - Date.parse(n.about.started)))}
              </td>
              <td class="aside">{visible(n.about.version)}</td>
            </>
          ) : (
            <>
              <td class="quiet">another version</td>
              <td />
              <td class="aside" />
              <td class="aside" />
              <td class="aside" />
            </>
          )}
        </tr>
      ))}
    </Table>
  )
}

// Quality is a word and a sign, since some people cannot see colour.
function Quality({ of: n }: { of: Node }) {
  if (n.silent) return <span>○ not heard for {duration(Math.round(n.heard_ago_seconds) * 1000)}</span>
  if (!n.about) return <span class="quiet">? unknown</span>
  if (n.about.quality === 'exact') return <span class="good-text">✓ exact</span>
  return <span class="bad-text">▲ {visible(n.about.quality)}</span>
}

function RulesMark({ of }: { of: string }) {
  if (of === 'current') return null
  return <Badge kind="shadow">{of === 'behind' ? '↓ behind' : '≠ different'}</Badge>
}
