// Generated from docs/openapi.json by make generate. Do not edit.

export interface Limit {
  rule: string;
  algorithm: "fixed_window" | "sliding_window_log" | "sliding_window_counter" | "token_bucket" | "leaky_bucket" | "concurrency";
  limit: number;
  /** For a calendar limit, the length of the current period; for a concurrency limit, the time to live of its
   * permits. */
  window_ms: number;
  /** Whether this limit alone allows the request. */
  allowed: boolean;
  remaining: number;
  /** 0 if allowed, null if waiting does not help. */
  retry_after_ms: number | null;
  /** Time until the client's whole limit is available again. */
  reset_after_ms: number;
  /** May exceed the limit. */
  used: number;
  /** The name of the limit in RateLimit headers: the rule name, or rule:1m if the rule has several limits. */
  policy: string;
  /** How much is allowed per window. For buckets, `limit` is the capacity. */
  count: number;
  /** How a token bucket is refilled. interval: all at once, at every multiple of the window. continuous if not
   * given: token by token. */
  refill?: "continuous" | "interval";
  /** The delay by a leaky bucket. */
  delay_ms?: number;
  /** The rule is in shadow mode and did not affect the verdict. */
  shadow?: boolean;
  /** The rule has banned the client. */
  banned?: boolean;
}

export interface Verdict {
  allowed: boolean;
  /** The rule that decided. The other fields describe its limit: of the limits that deny, the one with the longest
   * wait; otherwise the one with the least remaining. Empty, with all numbers 0, if no limit applied. */
  rule: string;
  reason: "ok" | "no_rule" | "over_limit" | "banned" | "deny_list" | "allow_list" | "duplicate" | "store_error" | "rule_error" | "blocked";
  /** What the verdict rests on. exact: the store; leased: quota taken ahead from the store; local: this node's own
   * counters; open, closed: no counters, because the fallback allows or denies. */
  quality: "exact" | "leased" | "local" | "open" | "closed";
  limit: number;
  remaining: number;
  /** 0 if allowed, null if waiting does not help. */
  retry_after_ms: number | null;
  /** Time until the client's whole limit is available again. */
  reset_after_ms: number;
  /** How long to delay the request before it proceeds. */
  delay_ms: number;
  /** The request is a duplicate of an allowed one, and at least one rule did not charge it. It still needs its own
   * permits of concurrency limits. */
  duplicate: boolean;
  /** All limits that applied. */
  limits: Limit[];
  /** Identifies what this request reserved. Settle or release it when the request has finished. A duplicate reserves
   * only permits of concurrency limits. */
  reservation?: string;
  /** How long `reservation` stays open unless it is renewed; with several rules, the shortest time. */
  reserved_for_ms?: number;
  /** For a duplicate, allowed or denied: the reservation of the original request, which may still be running and
   * settles it. Use it only if the response to the original was lost: release `reservation`, if present (it is only
   * a second permit), then run the request and settle this reservation instead. */
  original_reservation?: string;
  /** How long the client is banned or blocked. */
  banned_for_ms?: number;
  rules_version?: number;
  /** In a batch: why this request could not be decided. */
  error?: string;
}

export interface Call {
  /** The domain whose rules apply. */
  domain?: string;
  /** Attributes of the request: path, method, ip, host, and any others that rules use. Lengths are in bytes. */
  attributes: Record<string, string>;
  /** The cost of the request. 0 is a peek: it returns the decision and charges nothing. */
  cost?: number;
  /** The idempotency key. Rules with dedup charge requests with the same key once. */
  id?: string;
  /** The longest delay by a leaky bucket that the client accepts. If the request would wait longer, it is denied. */
  max_delay_ms?: number;
}

export interface Report {
  /** The reservation from a verdict, or from the X-Penstock-Reservation header of forward-auth. */
  reservation?: string;
  /** The request_id sent to forward-auth, on the node that decided the request. */
  request_id?: string;
  /** The HTTP status. If it is absent or 499, the outcome is unknown and the charge stays. */
  status?: number;
  /** Response headers that rules read. */
  headers?: Record<string, string>;
  /** Time until the response began. */
  duration_ms?: number;
  /** Length of the response body, for rules that charge by it. */
  bytes?: number;
}
