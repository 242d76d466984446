import type { Rule } from './document'

// RuleForm is the fields of the form for a new rule, as typed.
export interface RuleForm {
  name: string
  method: string
  path: string
  key: string
  limit: string
  algorithm: string
  mode: string
}

export const algorithms = [
  'sliding_window_counter',
  'token_bucket',
  'fixed_window',
  'sliding_window_log',
  'leaky_bucket',
  'concurrency',
]

// emptyForm suggests shadow mode: a new limit should be watched before it denies anything.
export const emptyForm: RuleForm = {
  name: '',
  method: '',
  path: '/{rest...}',
  key: 'ip',
  limit: '100/1m',
  algorithm: 'sliding_window_counter',
  mode: 'shadow',
}

// ruleFromForm returns the rule that a form describes. Fields left empty are left out.
export function ruleFromForm({ name, method, path, key, limit, algorithm, mode }: RuleForm): Rule {
  return {
    name: name.trim(),
    match: method || path ? { method: method || undefined, path: path || undefined } : undefined,
    key: key
      .split(',')
      .map((k) => k.trim())
      .filter(Boolean),
    limits: [
      // A permit that is never released, because its client crashed, ends after ttl.
      algorithm === 'concurrency'
        ? { concurrent: parseInt(limit, 10) || 1, ttl: '1m' }
        : { rate: limit.trim(), algorithm },
    ],
    mode: mode === 'enforce' ? undefined : mode,
  }
}
