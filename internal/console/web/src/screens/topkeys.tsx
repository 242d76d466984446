import { attributes } from '../attributes'
import { count, percent } from '../format'
import type { RuleStats } from '../types'
import { Who } from '../ui/who'

export function TopKeys({ rules }: { rules: RuleStats[] }) {
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
