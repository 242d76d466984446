import { useState } from 'preact/hooks'
import { post } from '../api'
import { ToolForm, useTool } from '../ui/report'
import { useFields } from '../ui/toolinput'

const models = {
  poisson: 'independent requests at a constant rate',
  bursty: 'bursts and pauses',
  diurnal: 'the rate follows the hour of the day',
  attack: 'one client sends as much as all others',
  retries: 'denied clients try again',
}

const algorithms = [
  'fixed_window',
  'sliding_window_log',
  'sliding_window_counter',
  'token_bucket',
  'leaky_bucket',
] as const
const sharings = { shared: 'in one store', leased: 'with leases', apart: 'each for itself' }

// Simulate compares limits on generated traffic with an exact count of the same stream.
export function Simulate() {
  const tool = useTool()
  const [chosen, setChosen] = useState<(typeof algorithms)[number][]>(algorithms.slice(0, 4))
  const { values: v, field } = useFields({
    model: 'bursty',
    requests: '100000',
    rate: '100',
    keys: '1000',
    limit: '100',
    window: '60',
    nodes: '1',
    sharing: 'shared',
    outage: '0',
    seed: '1',
  })
  const body = () => ({
    model: v.model as keyof typeof models,
    requests: Number(v.requests),
    requests_per_second: Number(v.rate),
    keys: Number(v.keys),
    limit: Number(v.limit),
    window_ms: Number(v.window) * 1000,
    nodes: Number(v.nodes),
    sharing: v.sharing as keyof typeof sharings,
    outage_ms: Number(v.outage) * 1000,
    seed: Number(v.seed),
    algorithms: chosen,
  })
  return (
    <ToolForm
      tool={tool}
      name="simulation"
      action="Simulate"
      ask={(signal) => post('/v1/tools/simulate', { body: body(), signal })}
    >
      <div class="form">
        <label>
          Traffic
          <select {...field('model')}>
            {Object.entries(models).map(([name, about]) => (
              <option key={name} value={name}>
                {name}: {about}
              </option>
            ))}
          </select>
        </label>
        <label>
          Requests <input type="number" required min="1" max="1000000" {...field('requests')} />
        </label>
        <label>
          Requests/s <input type="number" required min="0.001" step="any" {...field('rate')} />
        </label>
        <label>
          Clients <input type="number" required min="1" max="100000" {...field('keys')} />
        </label>
        <label>
          Limit <input type="number" required min="1" {...field('limit')} />
        </label>
        <label>
          Window, in seconds <input type="number" required min="0.001" step="any" {...field('window')} />
        </label>
        <label>
          Nodes <input type="number" required min="1" max="16" {...field('nodes')} />
        </label>
        <label>
          Nodes count
          <select {...field('sharing')}>
            {Object.entries(sharings).map(([name, about]) => (
              <option key={name} value={name}>
                {about}
              </option>
            ))}
          </select>
        </label>
        <label>
          Store outage, in seconds <input type="number" required min="0" step="any" {...field('outage')} />
        </label>
        <label>
          Seed <input type="number" required min="0" {...field('seed')} />
        </label>
      </div>
      <fieldset>
        <legend>Algorithms</legend>
        {algorithms.map((a) => (
          <label key={a} class="check">
            <input
              type="checkbox"
              checked={chosen.includes(a)}
              onChange={(e) =>
                setChosen(algorithms.filter((b) => (b === a ? e.currentTarget.checked : chosen.includes(b))))
              }
            />
            {a}
          </label>
        ))}
      </fieldset>
    </ToolForm>
  )
}
