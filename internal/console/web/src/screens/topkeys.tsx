import type { RuleStats } from '../types'
import { DeniedKeys } from '../ui/deniedkeys'

export function TopKeys({ rules }: { rules: RuleStats[] }) {
  const all = rules
    .flatMap((r) => r.top.map((k) => ({ rule: r.rule, ...k })))
    .filter((k) => k.denied > 0) // a shadow rule denies nobody
    .sort((a, b) => b.denied - a.denied)
  return (
    <section>
      <h2>Denied most</h2>
      {all.length === 0 ? (
        <p class="quiet">
          No denied requests. To see what a lower limit would deny, run a <a href="/tools">backtest</a>.
        </p>
      ) : (
        <DeniedKeys rows={all.slice(0, 10)} />
      )}
    </section>
  )
}
