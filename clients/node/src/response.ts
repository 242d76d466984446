import type { Limit, Verdict } from "./types.gen.js";

const maxListed = 32;
const maxInteger = 999_999_999_999_999;
const types = "https://iana.org/assignments/http-problem-types";

export interface Denial {
  status: number;
  headers: Record<string, string>;
  body: string;
}

/** The headers that tell a client of its limits, and when to try again if it is denied. */
export function rateLimitHeaders(verdict: Verdict): Record<string, string> {
  const listed = verdict.limits.filter((l) => !l.shadow).slice(0, maxListed);
  const headers: Record<string, string> = {};
  if (listed.length > 0) {
    headers["RateLimit"] = listed.map(state).join(", ");
    headers["RateLimit-Policy"] = listed.map(policy).join(", ");
  }
  const wait = waitMs(verdict);
  if (wait !== null) headers["Retry-After"] = String(seconds(wait));
  return headers;
}

/** The answer to a denied request: the same as Penstock's own gateway gives. */
export function denial(verdict: Verdict): Denial {
  return { status: statusOf(verdict), headers: { ...rateLimitHeaders(verdict), ...problemHeaders }, body: `${JSON.stringify(problem(verdict))}\n` };
}

/** The answer to a request that cannot be decided. */
export function refusal(detail: string): Denial {
  const body = { type: "about:blank", title: "Bad Request", status: 400, detail: `The request was rejected: ${detail}.`, error: "bad_request", message: "Bad Request." };
  return { status: 400, headers: { ...problemHeaders }, body: `${JSON.stringify(body)}\n` };
}

const problemHeaders = { "Cache-Control": "no-store", "Content-Type": "application/problem+json", "X-Content-Type-Options": "nosniff" };

function statusOf(verdict: Verdict): number {
  if (verdict.reason === "deny_list" || verdict.reason === "rule_error") return 403;
  return verdict.reason === "store_error" ? 503 : 429;
}

function problem(verdict: Verdict): object {
  const status = statusOf(verdict);
  if (status === 403) {
    const detail = verdict.reason === "rule_error" ? "A rule cannot be evaluated for this request." : "Access denied.";
    return { type: "about:blank", title: "Forbidden", status, detail, ...violated(verdict), error: "forbidden", message: "Access denied." };
  }
  const wait = waitMs(verdict);
  const advice = wait === null ? "the cost exceeds the limit." : `retry in ${seconds(wait)} s.`;
  const detail = `${cause(verdict)}; ${advice}`;
  const told = { retry_after_seconds: wait === null ? null : seconds(wait), retry_after_ms: wait };
  if (status === 503) {
    const message = "Service temporarily unavailable. Please try again.";
    return { type: `${types}#temporary-reduced-capacity`, title: "Temporary reduced capacity", status, detail, ...violated(verdict), error: "unavailable", message, ...told };
  }
  if (verdict.reason === "blocked") {
    const message = "Access is temporarily blocked.";
    return { type: `${types}#abnormal-usage-detected`, title: "Abnormal usage detected", status, detail, ...violated(verdict), error: "blocked", message, ...told };
  }
  const message = "Too many requests. Please slow down.";
  const [fragment, title] = verdict.reason === "banned" ? ["#abnormal-usage-detected", "Abnormal usage detected"] : ["#quota-exceeded", "Quota exceeded"];
  return { type: types + fragment, title, status, detail, ...violated(verdict), error: "rate_limited", message, ...told };
}

function violated(verdict: Verdict): object {
  const policies = verdict.limits.filter((l) => !l.shadow && !l.allowed).map((l) => l.policy);
  return policies.length > 0 ? { "violated-policies": policies } : {};
}

function cause(verdict: Verdict): string {
  if (verdict.reason === "store_error") return "The limits cannot be checked right now";
  if (verdict.reason === "blocked") return "Blocked by an operator";
  if (verdict.reason === "banned") return `Banned temporarily after too many denied requests (${verdict.rule})`;
  const limit = verdict.limits.find((l) => !l.shadow && !l.allowed && l.rule === verdict.rule && l.retry_after_ms === verdict.retry_after_ms);
  return limit ? `Limit of ${describe(limit)} reached` : "Limit reached";
}

function describe(l: Limit): string {
  const bucket = isBucket(l);
  const number = bucket && l.count > 0 ? l.count : l.limit;
  let text = `${number} request${number === 1 ? "" : "s"}`;
  if (l.algorithm === "concurrency") text += " at the same time";
  else if (!bucket || l.count > 0) text += ` per ${seconds(l.window_ms)} s`;
  if (l.algorithm === "leaky_bucket" && l.limit > 1) text += ` with a queue of ${l.limit - 1}`;
  else if (l.algorithm === "token_bucket" && l.count > 0 && l.limit !== l.count) text += ` with a burst of ${l.limit}`;
  return `${text} (${l.policy})`;
}

/** How long a denied client waits, a second if nobody knows; null if waiting does not help. */
function waitMs(verdict: Verdict): number | null {
  if (verdict.allowed || verdict.reason === "deny_list" || verdict.retry_after_ms === null) return null;
  return verdict.retry_after_ms > 0 ? verdict.retry_after_ms : 1000;
}

const isBucket = (l: Limit) => l.algorithm === "token_bucket" || l.algorithm === "leaky_bucket";
const seconds = (ms: number) => Math.max(1, Math.ceil(ms / 1000));
const integer = (n: number) => Math.min(Math.max(n, 0), maxInteger);

function policy(l: Limit): string {
  const text = `${quoted(l.policy)};q=${integer(l.limit)}`;
  if (l.algorithm === "concurrency") return `${text};qu="concurrent-requests"`;
  if (!isBucket(l) || l.limit === l.count) return `${text};w=${integer(seconds(l.window_ms))}`;
  if (l.count <= 0) return text;
  const window = (l.limit * (l.window_ms / 1000)) / l.count;
  return `${text};w=${Math.max(1, Math.ceil(Math.min(window - 1e-9, maxInteger)))}`;
}

function state(l: Limit): string {
  const text = `${quoted(l.policy)};r=${integer(l.remaining)}`;
  const wait = effectiveWindow(l);
  return wait === null ? text : `${text};t=${integer(Math.ceil(wait / 1000))}`;
}

/** For how long a client should make do with what remains. */
function effectiveWindow(l: Limit): number | null {
  if (!l.allowed) return l.retry_after_ms;
  if (l.algorithm === "concurrency" || l.reset_after_ms <= 0) return null;
  if (isBucket(l)) return nextUnit(l, l.count);
  const wait = Math.min(l.reset_after_ms, Math.max(l.window_ms, 0));
  // if all was used in this part of a counter, it fades only in the next
  return l.algorithm === "sliding_window_counter" ? Math.max(wait, nextUnit(l, Math.max(1, l.used))) : wait;
}

/** When more will be left, if count units come back in a window, singly or together. Debt is paid first. */
function nextUnit(l: Limit, count: number): number {
  const used = Math.max(1, l.used);
  if (count <= 0) return l.reset_after_ms / used;
  const first = Math.min(used, Math.max(1, used - l.limit + 1)); // units that must come back
  if (l.refill === "interval") {
    const later = Math.ceil(used / count) - Math.ceil(first / count); // windows
    return Math.max(0, l.reset_after_ms - later * Math.max(l.window_ms, 0));
  }
  const later = Math.floor(((used - first) * Math.max(l.window_ms, 0)) / count);
  return Math.max(0, l.reset_after_ms - later);
}

const quoted = (text: string) => `"${text.replace(/[^ -~]/g, "?").replace(/["\\]/g, "\\$&")}"`;
