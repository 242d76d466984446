// Generated from docs/openapi.json by make generate. Do not edit.

export interface Limit {
  rule: string;
  algorithm: "fixed_window" | "sliding_window_log" | "sliding_window_counter" | "token_bucket" | "leaky_bucket" | "concurrency";
  limit: number;
  /** Of a calendar limit, the length of the current period; of a concurrency limit, its leases' time to live. */
  window_ms: number;
  /** This limit by itself lets the call pass. */
  allowed: boolean;
  remaining: number;
  /** 0 if allowed, null if waiting will not help. */
  retry_after_ms: number | null;
  /** When the caller is as if never seen. */
  reset_after_ms: number;
  /** May exceed the limit. */
  used: number;
  /** The limit's name in RateLimit headers: the rule's, or rule:1m if the rule has several. */
  policy: string;
  /** How much passes per window; the capacity of a bucket is limit. */
  count: number;
  /** Of a leaky bucket. */
  delay_ms?: number;
  /** The rule is only tried: it had no say. */
  shadow?: boolean;
  /** The rule has banned the caller. */
  banned?: boolean;
}

export interface Verdict {
  allowed: boolean;
  /** The one that decided, whose numbers follow: of the limits that deny the one with the longest wait, else the one
   * with the least left. Empty, and the numbers 0, if no limit had a say. */
  rule: string;
  reason: "ok" | "no_rule" | "over_limit" | "banned" | "deny_list" | "allow_list" | "duplicate" | "store_error" | "rule_error" | "blocked";
  /** What it was decided on: the shared state, permits taken of it earlier, what this node has counted by itself, or
   * nothing: by a failure policy that lets it pass or denies it. */
  quality: "exact" | "leased" | "local" | "open" | "closed";
  limit: number;
  remaining: number;
  /** 0 if allowed, null if waiting will not help. */
  retry_after_ms: number | null;
  /** When the caller is as if never seen. */
  reset_after_ms: number;
  /** How long the call is to be held before it goes on. */
  delay_ms: number;
  /** The request is a duplicate of an allowed one, and some rule charged nothing for it. It takes its own permits of
   * concurrency limits, or is denied. */
  duplicate: boolean;
  /** All that applied. */
  limits: Limit[];
  /** Names what this request reserved. Conclude it when the request is over. A duplicate reserves only permits of
   * concurrency limits. */
  reservation?: string;
  /** How long `reservation` stays open unless it is renewed: of several rules, the shortest. */
  reserved_for_ms?: number;
  /** Of a duplicate, allowed or denied: names what the original request reserved. The original concludes it and may
   * still be running. A client that lost the reply to the original takes over from it: it releases `reservation`, if
   * there is one, which is only a second permit, and runs and concludes the request under this name. Everyone else
   * leaves it alone. */
  original_reservation?: string;
  /** How long the caller is banned or blocked. */
  banned_for_ms?: number;
  rules_version?: number;
  /** In a batch: why this call could not be decided. */
  error?: string;
}

export interface Call {
  /** Whose rules are meant. */
  domain?: string;
  /** What is known of the request: path, method, ip, host, and whatever else rules ask for. Lengths are in bytes. */
  attributes: Record<string, string>;
  /** How much it takes. 0 is a peek: it is told what would be decided, and charges nothing. */
  cost?: number;
  /** What the caller calls this request: a repeat with the same id is recognised by rules that ask for it, and
   * charged once. */
  id?: string;
  /** How long the caller can hold the call for a leaky bucket. One that would have to wait longer is denied. */
  max_delay_ms?: number;
}

export interface Report {
  /** From a verdict, or from the header X-Penstock-Reservation of forward-auth. */
  reservation?: string;
  /** The request_id that was given to forward-auth, at the node that decided. */
  request_id?: string;
  /** The HTTP status. Without it, or with 499, it is not known how the request ended: the charge stays. */
  status?: number;
  /** The headers of the response that rules read. */
  headers?: Record<string, string>;
  /** How long it took until the response began. */
  duration_ms?: number;
  /** The length of the body, for rules that charge it. */
  bytes?: number;
}
