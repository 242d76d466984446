import { useState } from 'preact/hooks'
import { words } from '../logfile'
import { ToolForm, useTool } from '../ui/report'
import { AlgorithmInput, type LogChoice, LogInput, postLog, recentRequests, useFields } from '../ui/toolinput'

const algorithms = ['sliding_window_counter', 'sliding_window_log', 'fixed_window', 'token_bucket'] as const

// Suggest finds the smallest limit that denies few requests or keys, and draws what other limits do.
export function Suggest() {
  const tool = useTool()
  const [log, setLog] = useState<LogChoice>(recentRequests)
  const { values: v, field } = useFields({
    key: 'ip',
    path: '',
    method: '',
    algorithm: algorithms[0] as string,
    window: '60',
    denied: '',
    keys: '1',
  })
  const share = (text: string) => (text === '' ? undefined : Number(text) / 100)
  const options = () => ({
    key: words(v.key),
    path: v.path || undefined,
    method: v.method || undefined,
    algorithm: v.algorithm as (typeof algorithms)[number],
    window_ms: Number(v.window) * 1000,
    max_denied: share(v.denied),
    max_keys: share(v.keys),
  })
  return (
    <ToolForm
      tool={tool}
      name="limit"
      action="Find a limit"
      ask={(signal) => postLog('/v1/tools/suggest', options(), log, signal)}
    >
      <LogInput log={log} set={setLog} />
      <div class="form">
        <label>
          For each <input required placeholder="ip" {...field('key')} />
        </label>
        <label>
          Path <input placeholder="any" {...field('path')} />
        </label>
        <label>
          Method <input placeholder="any" {...field('method')} />
        </label>
        <AlgorithmInput of={algorithms} field={field('algorithm')} />
        <label>
          Window, in seconds <input type="number" required min="0.001" step="any" {...field('window')} />
        </label>
        <label>
          Keys denied at most, in % <input type="number" min="0" max="99" step="any" {...field('keys')} />
        </label>
        <label>
          Requests denied at most, in % <input type="number" min="0" max="99" step="any" {...field('denied')} />
        </label>
      </div>
    </ToolForm>
  )
}
