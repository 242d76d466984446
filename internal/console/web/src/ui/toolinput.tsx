import { useState } from 'preact/hooks'
import { post } from '../api'
import { logForm, maxLog, readFields, words } from '../logfile'
import type { Input } from '../request'

type Values = Record<string, string>

// useFields keeps the text of a form's fields. field returns the properties of an input.
export function useFields<T extends Values>(initial: T) {
  const [values, setValues] = useState(initial)
  const field = (name: keyof T) => ({
    value: values[name],
    onInput: (e: { currentTarget: HTMLInputElement | HTMLSelectElement }) =>
      setValues((now) => ({ ...now, [name]: e.currentTarget.value })),
  })
  return { values, field }
}

type Field = ReturnType<ReturnType<typeof useFields>['field']>

// AlgorithmInput chooses one of several algorithms.
export function AlgorithmInput({ of, field }: { of: readonly string[]; field: Field }) {
  return (
    <label>
      Algorithm
      <select {...field}>
        {of.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
    </label>
  )
}

export interface LogChoice {
  file: File | undefined
  format: string
  fields: string
  without: string
}

export const recentRequests: LogChoice = { file: undefined, format: '', fields: '', without: '' }

type LogTool = '/v1/tools/backtest' | '/v1/tools/suggest'

// postLog runs a tool on recent requests, or on a file.
export async function postLog<P extends LogTool>(
  path: P,
  options: Input<'post', P>['body'],
  { file, format, fields, without }: LogChoice,
  signal: AbortSignal,
) {
  if (!file) return post<LogTool>(path, { body: options, signal })
  const how = { format: format || undefined, fields: readFields(fields), without: words(without) }
  const form = await logForm({ ...options, ...how }, file)
  return post<LogTool>(path, { body: form as never, signal })
}

const formats = ['combined', 'caddy', 'envoy', 'haproxy', 'alb', 'cloudfront', 'replay', 'jsonl', 'csv']

// LogInput chooses recent requests or a file, and how to read the file.
export function LogInput({ log, set }: { log: LogChoice; set: (log: LogChoice) => void }) {
  const [upload, setUpload] = useState(log.file !== undefined)
  return (
    <>
      <fieldset>
        <legend>Requests</legend>
        <label class="check">
          <input
            type="radio"
            name="requests"
            checked={!upload}
            onChange={() => {
              setUpload(false)
              set(recentRequests)
            }}
          />
          Recent requests of the nodes
        </label>
        <label class="check">
          <input type="radio" name="requests" checked={upload} onChange={() => setUpload(true)} />
          An access log
        </label>
      </fieldset>
      {upload && (
        <div class="form">
          <label>
            Log file, up to {maxLog >> 20} MiB compressed
            <input type="file" required onChange={(e) => set({ ...log, file: e.currentTarget.files?.[0] })} />
          </label>
          <label>
            Format
            <select value={log.format} onInput={(e) => set({ ...log, format: e.currentTarget.value })}>
              <option value="">detect</option>
              {formats.map((f) => (
                <option key={f}>{f}</option>
              ))}
            </select>
          </label>
          <label>
            Fields
            <input
              placeholder="user=uid tenant=extra1"
              value={log.fields}
              onInput={(e) => set({ ...log, fields: e.currentTarget.value })}
            />
          </label>
          <label>
            Without
            <input
              placeholder="attributes the log does not have"
              value={log.without}
              onInput={(e) => set({ ...log, without: e.currentTarget.value })}
            />
          </label>
        </div>
      )}
    </>
  )
}
