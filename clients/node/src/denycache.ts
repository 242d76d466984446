import type { Verdict } from "./types.gen.js";

/**
 * Keeps denials until they may be retried: a denial says when the same request passes at the earliest. Entries live for
 * maxAgeMs at most, as an operator may reset a key or change the rules in the meantime.
 */
export class DenyCache {
  private readonly entries = new Map<string, { stored: number; verdict: Verdict }>();

  constructor(
    private readonly size = 10_000,
    private readonly maxAgeMs = 5_000,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Returns the denial of a request, with what is left of its wait. */
  get(key: string): Verdict | undefined {
    const entry = this.entries.get(key);
    if (!entry) return undefined;
    const passed = this.now() - entry.stored;
    const wait = entry.verdict.retry_after_ms;
    if (passed >= this.maxAgeMs || (wait !== null && passed >= wait)) {
      this.entries.delete(key);
      return undefined;
    }
    const left = (ms: number | null) => (ms === null || ms === 0 ? ms : Math.max(1, ms - Math.trunc(passed)));
    return {
      ...entry.verdict,
      retry_after_ms: left(wait),
      limits: entry.verdict.limits.map((l) => ({ ...l, retry_after_ms: left(l.retry_after_ms) })),
    };
  }

  /** Keeps a denial by a limit or a ban. */
  put(key: string, verdict: Verdict): void {
    if (verdict.allowed || (verdict.reason !== "over_limit" && verdict.reason !== "banned")) return;
    if (verdict.quality !== "exact" && verdict.quality !== "leased") return;
    if (verdict.limits.some((l) => l.algorithm === "concurrency" && !l.allowed)) return; // a permit may be free at any moment
    this.entries.delete(key);
    this.entries.set(key, { stored: this.now(), verdict });
    for (const oldest of this.entries.keys()) {
      if (this.entries.size <= this.size) break;
      this.entries.delete(oldest);
    }
  }
}
