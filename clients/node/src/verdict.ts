/** The result of one limit, as the decision API sends it. */
export interface Limit {
  rule: string;
  algorithm: "fixed_window" | "sliding_window_log" | "sliding_window_counter" | "token_bucket" | "leaky_bucket" | "concurrency";
  limit: number;
  window_ms: number;
  allowed: boolean;
  remaining: number;
  /** 0 if allowed, null if waiting does not help. */
  retry_after_ms: number | null;
  reset_after_ms: number;
  used: number;
  policy: string;
  count: number;
  delay_ms?: number;
  shadow?: boolean;
  banned?: boolean;
}

/** The result of a request over all rules, as the decision API sends it. */
export interface Verdict {
  allowed: boolean;
  rule: string;
  reason: "ok" | "no_rule" | "over_limit" | "banned" | "deny_list" | "allow_list" | "duplicate" | "store_error" | "rule_error" | "blocked";
  quality: "exact" | "leased" | "local" | "open" | "closed";
  limit: number;
  remaining: number;
  /** 0 if allowed, null if waiting does not help. */
  retry_after_ms: number | null;
  reset_after_ms: number;
  delay_ms: number;
  duplicate: boolean;
  limits: Limit[];
  reservation?: string;
  reserved_for_ms?: number;
  original_reservation?: string;
  banned_for_ms?: number;
  rules_version?: number;
  error?: string;
}

/** A request to decide: what is known of it, and what it costs. */
export interface Call {
  attributes: Record<string, string>;
  cost?: number;
  domain?: string;
  id?: string;
  max_delay_ms?: number;
}
