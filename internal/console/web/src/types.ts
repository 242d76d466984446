// What the admin API answers: docs/admin-openapi.json says it in full.

export type Attributes = Record<string, string>

export interface Counts {
  allowed: number
  denied: number
  shadow: number
  degraded: number
  errors: number
}

export interface Stats {
  from: string
  to: string
  step_ms: number
  total: Counts
  series: Counts[]
  rules: RuleStats[]
  latency: { p50_us: number; p99_us: number; p999_us: number }
}

export interface RuleStats {
  rule: string
  total: Counts
  series: Counts[] | null
  distinct_keys: number
  top: { key: Attributes; allowed: number; denied: number }[]
}

export interface LimitState {
  rule: string
  policy: string
  algorithm: string
  limit: number
  count: number
  window_ms: number
  allowed: boolean
  used: number
  remaining: number
  retry_after_ms: number | null
  reset_after_ms: number | null
  shadow?: boolean
  banned?: boolean
}

export interface Verdict {
  at: string
  domain: string
  attributes: Attributes
  cost: number
  id: boolean
  allowed: boolean
  duplicate: boolean
  reason: string
  quality: string
  rule: string
  retry_after_ms: number | null
  limits: LimitState[]
  keys: { rule: string; key: Attributes; result: string }[]
  shadow: string[]
  rules_version: number
  weight: number
}

export interface Node {
  id: string
  self: boolean
  silent: boolean
  heard_ago_seconds: number
  about: {
    name: string
    version: string
    started: string
    rules_version: number
    rules_checksum: string
    rules: 'current' | 'behind' | 'different'
    quality: string
    calls_per_second: number
    denied_per_second: number
  } | null
}

export interface Nodes {
  nodes: Node[]
}

export interface Status {
  node: string
  build: { version: string; commit: string; go: string }
  started: string
  uptime_seconds: number
  ready: boolean
  not_ready?: string
  addresses: Record<string, string>
  store: {
    kind: string
    connected: boolean
    error?: string
    breaker?: { state: string; since: string; opened: number; refused: number }
    nodes: number
  }
  rules: RulesStatus
  upstreams?: Upstream[]
}

export interface Upstream {
  url: string
  up: boolean
  failures: number
}

export interface RulesStatus {
  origin: string
  rules: number
  version: number
  checksum: string
  since: string
  from_copy: boolean
  refused?: string
  error?: string
}

export interface Problem {
  file?: string
  line?: number
  column?: number
  severity: string
  path?: string
  message: string
  text?: string
  hint?: string
}

export interface Change {
  op: 'add' | 'change' | 'remove'
  kind: string
  name?: string
  value?: string
  fields?: { field: string; from?: string; to?: string }[]
}

export interface RuleDiff {
  same: boolean
  changes: Change[] | null
  text?: string
}

export interface Version {
  version: number
  at: string
  author: string
  message: string
  restores?: number
  bytes: number
  document?: string
}

export interface LimitView {
  policy: string
  text: string
  algorithm: string
  limit: number
  count: number
  window_ms: number
}

export interface RuleView {
  name: string
  domain: string
  mode: string
  match: string
  key: string[]
  limits: LimitView[]
  overrides: { match: string; unlimited: boolean; limits: LimitView[]; own_counters: boolean; expires_at?: string }[]
  penalty: boolean
  on_store_error: string
  leased: boolean
  owner?: string
  expires_at?: string
  file: string
  line: number
  column: number
  terms: unknown
}

export interface RuleSet {
  kind: string
  origin: string
  editable: boolean
  reason?: string
  version?: Version
  checksum: string
  document: string
  files?: { name: string; document: string }[]
  served: RulesStatus
  rules: RuleView[]
  problems: Problem[] | null
}

export interface Preview {
  from: string
  to: string
  calls: number
  stands_for: number
  current: { allowed: number; denied: number; shadow: number }
  proposed: { allowed: number; denied: number; shadow: number }
  newly_denied: number
  newly_allowed: number
  rules: { rule: string; current: Preview['current'] | null; proposed: Preview['current'] | null }[]
  keys: { rule: string; key: Attributes; current_denied: number; proposed_denied: number }[]
  problems: Problem[] | null
}

export interface KeyState {
  rule: string
  mode: string
  key: Attributes
  subject: string
  override?: number
  unlimited?: boolean
  limits: LimitState[]
  other_counters?: { override?: number; limits: LimitState[] }[]
  can_ban: boolean
  banned_until?: string
  strikes: number
  bans: number
  reservations: { until: string; closed: boolean; cost: number }[]
  reserved: number
}

export interface Explained {
  list?: string
  entry?: number
  rules: {
    rule: string
    applies: boolean
    mode: string
    reason?: string
    why?: string
    key?: Attributes
    limits?: string[]
    unlimited?: boolean
    override?: number
    failures?: string[]
  }[]
}

export interface Session {
  role: 'viewer' | 'operator'
  session: boolean
  since?: string
  expires?: string
}
