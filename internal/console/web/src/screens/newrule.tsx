import { useState } from 'preact/hooks'

const algorithms = ['sliding_window_counter', 'token_bucket', 'fixed_window', 'sliding_window_log', 'leaky_bucket', 'concurrency']

// NewRule makes the text of a rule from what people mostly want of one. Shadow mode is what it suggests: a new limit is
// first looked at.
export function NewRule({ add, cancel }: { add: (rule: string) => void; cancel: () => void }) {
  const [name, setName] = useState('')
  const [method, setMethod] = useState('')
  const [path, setPath] = useState('/{rest...}')
  const [key, setKey] = useState('ip')
  const [rate, setRate] = useState('100/1m')
  const [algorithm, setAlgorithm] = useState(algorithms[0]!)
  const [mode, setMode] = useState('shadow')
  const submit = (e: Event) => {
    e.preventDefault()
    const quote = (s: string) => (/^[\w./-]+$/.test(s) ? s : JSON.stringify(s))
    const lines = [`- name: ${quote(name)}`]
    if (method || path) {
      lines.push('  match:')
      if (method) lines.push(`    method: ${quote(method)}`)
      if (path) lines.push(`    path: ${quote(path)}`)
    }
    const keys = key.split(',').map((k) => k.trim()).filter(Boolean).map(quote)
    lines.push(`  key: [${keys.join(', ')}]`)
    lines.push('  limits:', algorithm === 'concurrency' ? `    - {concurrent: ${parseInt(rate, 10) || 1}}` : `    - {rate: ${quote(rate)}, algorithm: ${algorithm}}`)
    if (mode !== 'enforce') lines.push(`  mode: ${mode}`)
    add(lines.join('\n'))
  }
  return (
    <form class="card form" onSubmit={submit}>
      <label>Name <input required pattern="[A-Za-z0-9._\-]+" value={name} onInput={(e) => setName(e.currentTarget.value)} placeholder="search-per-user" /></label>
      <label>Method <input value={method} onInput={(e) => setMethod(e.currentTarget.value)} placeholder="any" /></label>
      <label>Path <input value={path} onInput={(e) => setPath(e.currentTarget.value)} /></label>
      <label>For each <input required value={key} onInput={(e) => setKey(e.currentTarget.value)} /></label>
      <label>{algorithm === 'concurrency' ? 'At the same time' : 'Limit'} <input required value={rate} onInput={(e) => setRate(e.currentTarget.value)} /></label>
      <label>Algorithm <select value={algorithm} onChange={(e) => setAlgorithm(e.currentTarget.value)}>{algorithms.map((a) => <option key={a}>{a}</option>)}</select></label>
      <label>Mode <select value={mode} onChange={(e) => setMode(e.currentTarget.value)}><option value="shadow">shadow: only look</option><option value="enforce">enforce</option></select></label>
      <div class="row"><button type="submit" class="primary">Put it into the document</button><button type="button" onClick={cancel}>Cancel</button></div>
    </form>
  )
}
