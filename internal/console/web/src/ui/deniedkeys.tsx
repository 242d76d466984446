import { attributes } from '../attributes'
import { count, percent } from '../format'
import type { RuleStats } from '../types'
import { num, Table } from './table'
import { Who } from './who'

type DeniedKey = { rule: string } & RuleStats['top'][number]

// DeniedKeys is a table of keys and how often each was denied.
export function DeniedKeys({ rows, withAllowed }: { rows: DeniedKey[]; withAllowed?: boolean }) {
  return (
    <Table
      name="Denied clients"
      columns={['Client', 'Rule', ...(withAllowed ? [num('Allowed')] : []), num('Denied'), num('Share')]}
    >
      {rows.map((k) => (
        <tr key={k.rule + attributes(k.key)}>
          <td>
            <Who of={k.key} rule={k.rule} />
          </td>
          <td>{k.rule}</td>
          {withAllowed && <td class="num">{count(k.allowed)}</td>}
          <td class="num">{count(k.denied)}</td>
          <td class="num">{percent(k.denied, k.denied + k.allowed)}</td>
        </tr>
      ))}
    </Table>
  )
}
