// The types of the admin API. They are generated from docs/admin-openapi.json; this file only names the parts that the
// console passes around.
import type {
  Bans,
  Explanation,
  Game,
  KeyStates,
  Nodes,
  Played,
  Session,
  Stats,
  TenantView,
  Tokens,
  Users,
} from './schema.gen'

export type {
  Attention,
  Attributes,
  Audit,
  Block,
  Blocked,
  Counts,
  Demo,
  Diff as RuleDiff,
  Entitlement,
  Event as Verdict,
  Explanation,
  History,
  KeyStates,
  Keys,
  LimitState,
  Nodes,
  Number as LimitNumber,
  Played,
  Preview,
  Problem,
  RuleProblem,
  RuleSet,
  RuleView,
  Session,
  Stats,
  Status,
  TenantView,
  ToolReport,
  Version,
} from './schema.gen'

export type Role = Session['role']
export type User = Users['users'][number]
export type Token = Tokens['tokens'][number]
export type Ban = Bans['bans'][number]
export type RuleStats = Stats['rules'][number]
export type Node = Nodes['nodes'][number]
export type KeyState = KeyStates['keys'][number]
export type ExplainedRule = Explanation['rules'][number]
export type Arrival = Game['arrivals'][number]
export type PlayedLane = Played['lanes'][number]
export type TenantLimit = TenantView['limits'][number]
