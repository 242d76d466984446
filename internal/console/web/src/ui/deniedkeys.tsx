import { attributes } from '../attributes'
import { count, percent } from '../format'
import type { RuleStats } from '../types'
import { Who } from './who'

type DeniedKey = { rule: string } & RuleStats['top'][number]

// DeniedKeys is a table of keys and how often each was denied.
export function DeniedKeys({ rows, withAllowed }: { rows: DeniedKey[]; withAllowed?: boolean }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>Client</th>
            <th>Rule</th>
            {withAllowed && <th class="num">Allowed</th>}
            <th class="num">Denied</th>
            <th class="num">Share</th>
          </tr>
        </thead>
        <tbody>
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
        </tbody>
      </table>
    </div>
  )
}
