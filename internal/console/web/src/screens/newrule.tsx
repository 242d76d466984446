import { useState } from 'preact/hooks'
import type { Rule } from '../document'
import { algorithms, emptyForm, type RuleForm, ruleFromForm } from '../ruleform'

// NewRule is a form for the common kinds of rules.
export function NewRule({ add, cancel }: { add: (rule: Rule) => void; cancel: () => void }) {
  const [form, setForm] = useState(emptyForm)
  const field = (name: keyof RuleForm) => ({
    value: form[name],
    onInput: (e: { currentTarget: HTMLInputElement | HTMLSelectElement }) =>
      setForm({ ...form, [name]: e.currentTarget.value }),
  })
  const submit = (e: Event) => {
    e.preventDefault()
    add(ruleFromForm(form))
  }
  return (
    <form class="card form" onSubmit={submit}>
      <label>
        Name <input required pattern="[A-Za-z0-9._\-]+" placeholder="search-per-user" {...field('name')} />
      </label>
      <label>
        Method <input placeholder="any" {...field('method')} />
      </label>
      <label>
        Path <input {...field('path')} />
      </label>
      <label>
        For each <input required {...field('key')} />
      </label>
      <label>
        {form.algorithm === 'concurrency' ? 'At the same time' : 'Limit'} <input required {...field('limit')} />
      </label>
      <label>
        Algorithm{' '}
        <select {...field('algorithm')}>
          {algorithms.map((a) => (
            <option key={a}>{a}</option>
          ))}
        </select>
      </label>
      <label>
        Mode{' '}
        <select {...field('mode')}>
          <option value="shadow">shadow: report only</option>
          <option value="enforce">enforce</option>
        </select>
      </label>
      <div class="row">
        <button type="submit" class="primary">
          Insert
        </button>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
    </form>
  )
}
