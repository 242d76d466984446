import { post } from '../api'
import { ToolForm, useTool } from '../ui/report'
import { AlgorithmInput, useFields } from '../ui/toolinput'

// The numbers of a plan. Shares are in percent.
const numbers = [
  { name: 'daily_users', label: 'Daily users', value: '500000000' },
  { name: 'monthly_users', label: 'Monthly users', value: '2000000000' },
  { name: 'requests_per_user', label: 'Requests of a user in a day', value: '100' },
  { name: 'request_types', label: 'Rules that requests are spread over', value: '50' },
  { name: 'request_bytes', label: 'Bytes of a request and its response', value: '1000' },
  { name: 'peak', label: 'Peak, as a multiple of the average', value: '3' },
  { name: 'limit', label: 'Limit', value: '100' },
  { name: 'window_ms', label: 'Window, in seconds', value: '60', scale: 1000 },
  { name: 'denied', label: 'Denied requests, in %', value: '0', scale: 0.01 },
  { name: 'leased', label: 'Requests under leases, in %', value: '0', scale: 0.01 },
  { name: 'target_cpu', label: 'CPU busy at most, in %', value: '60', scale: 0.01 },
  { name: 'node_cores', label: 'Cores of a node', value: '8' },
  { name: 'shard_memory', label: 'Memory of a Redis server, in GB', value: '32', scale: 1e9 },
  { name: 'replicas', label: 'Replicas of a Redis server', value: '1' },
  { name: 'price_gb_month', label: 'Price of a GB of Redis memory a month', value: '0' },
  { name: 'price_core_month', label: 'Price of a core a month', value: '0' },
  { name: 'price_gb_transferred', label: 'Price of a GB transferred', value: '0' },
]

const algorithms = [
  'sliding_window_counter',
  'sliding_window_log',
  'fixed_window',
  'token_bucket',
  'leaky_bucket',
] as const

// Plan estimates counters, memory, servers and network from a few numbers.
export function Plan() {
  const tool = useTool()
  const initial: Record<string, string> = Object.fromEntries(numbers.map((n) => [n.name, n.value]))
  const { values, field } = useFields<Record<string, string>>({ ...initial, algorithm: algorithms[0] as string })
  const body = () => ({
    ...Object.fromEntries(numbers.map((n) => [n.name, Number(values[n.name]) * (n.scale ?? 1)])),
    algorithm: values.algorithm as (typeof algorithms)[number],
  })
  return (
    <ToolForm tool={tool} name="plan" action="Plan" ask={(signal) => post('/v1/tools/plan', { body: body(), signal })}>
      <div class="form">
        {numbers.map((n) => (
          <label key={n.name}>
            {n.label} <input type="number" required min="0" step="any" {...field(n.name)} />
          </label>
        ))}
        <AlgorithmInput of={algorithms} field={field('algorithm')} />
      </div>
    </ToolForm>
  )
}
