import type { RuleStats } from '../types'
import { DeniedKeys } from '../ui/deniedkeys'

export function TopKeys({ rules }: { rules: RuleStats[] }) {
  // Rules in shadow mode never deny, so they have no denied clients.
  const all = rules
    .filter((r) => r.total.denied > 0)
    .flatMap((r) => r.top.map((k) => ({ rule: r.rule, ...k })))
    .sort((a, b) => b.denied - a.denied)
  return (
    <section>
      <h2>Denied most</h2>
      {all.length === 0 ? <p class="quiet">Nobody was denied.</p> : <DeniedKeys rows={all.slice(0, 10)} />}
    </section>
  )
}
