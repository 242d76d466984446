import type { DenyCache } from "./denycache.js";
import type { Call, Report, Verdict } from "./types.gen.js";

/** Base class of all errors of this package. */
export class PenstockError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}
/** The service refused the request: it is malformed. Nothing was charged. */
export class InvalidRequest extends PenstockError {}
/** The service did not answer, or not with an answer of its own. */
export class Unavailable extends PenstockError {}
/** The reservation is unknown, or has expired. */
export class NoReservation extends PenstockError {}
/** The reservation was concluded in another way already. */
export class ReservationClosed extends PenstockError {}

export interface Options {
  /** Of one request, in milliseconds; default 500. */
  timeoutMs?: number;
  /** What becomes of a request that the service does not answer; default "allow". */
  onError?: "allow" | "deny";
  /** Answers repeated requests of denied clients without asking. */
  denyCache?: DenyCache;
}

const maxBatch = 1000;
const maxReply = 64 << 20;

/** A client of the decision API. A request is never sent twice: one whose answer was lost may have been charged. */
export class Client {
  private readonly base: string;
  private readonly timeoutMs: number;
  private readonly onError: "allow" | "deny";
  private readonly denyCache: DenyCache | undefined;

  constructor(url = "http://127.0.0.1:8090", options: Options = {}) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (!parsed || !["http:", "https:"].includes(parsed.protocol) || parsed.search || parsed.hash) {
      throw new TypeError("url is not one like http://penstock:8090");
    }
    this.base = url.replace(/\/+$/, "");
    this.timeoutMs = options.timeoutMs ?? 500;
    this.onError = options.onError ?? "allow";
    this.denyCache = options.denyCache;
    if (!(this.timeoutMs > 0)) throw new RangeError(`timeoutMs is ${this.timeoutMs}, not a positive number`);
    if (this.onError !== "allow" && this.onError !== "deny") throw new RangeError(`onError is ${this.onError}, not "allow" or "deny"`);
  }

  /** Decides a request, and charges it if it is allowed. */
  async check(call: Call): Promise<Verdict> {
    const key = this.denyCache && cacheKey(call);
    const denied = key && this.denyCache?.get(key);
    if (denied) return denied;
    const verdict = await this.decide("/v1/check", call);
    if (key) this.denyCache?.put(key, verdict);
    return verdict;
  }

  /** Decides calls, each by itself, in as few requests as the service takes. */
  async checkBatch(calls: Call[]): Promise<Verdict[]> {
    const verdicts: Verdict[] = [];
    for (let start = 0; start < calls.length; start += maxBatch) {
      const part = calls.slice(start, start + maxBatch);
      try {
        const { results } = (await this.ask("POST", "/v1/check/batch", { calls: part })) as { results?: unknown[] };
        if (!Array.isArray(results) || results.length !== part.length) throw new Unavailable(`the answer does not have ${part.length} results`);
        verdicts.push(...results.map(toVerdict));
      } catch (error) {
        verdicts.push(...part.map(() => this.without(error)));
      }
    }
    return verdicts;
  }

  /** Books a cost that is corrected later. Conclude verdict.reservation with settle or release. */
  reserve(call: Call & { ttl_ms?: number }): Promise<Verdict> {
    return this.decide("/v1/reserve", call);
  }

  /** Concludes a reservation with its true cost. After Unavailable it may be sent again: it takes effect once. */
  async settle(reservation: string, cost: number): Promise<Verdict> {
    return toVerdict(await this.ask("POST", `/v1/reservations/${encodeURIComponent(reservation)}/settle`, { cost }, true));
  }

  /** Keeps a reservation open for longer. */
  async renew(reservation: string, ttlMs?: number): Promise<Verdict> {
    return toVerdict(await this.ask("POST", `/v1/reservations/${encodeURIComponent(reservation)}/renew`, { ttl_ms: ttlMs }, true));
  }

  /** Concludes a reservation at no cost. */
  async release(reservation: string): Promise<Verdict> {
    return toVerdict(await this.ask("DELETE", `/v1/reservations/${encodeURIComponent(reservation)}`, undefined, true));
  }

  /**
   * Says how a request ended: rules with charge_if, refund_if or strike_if charge by it, and permits are released. Without
   * a status the charge stays. After Unavailable it may be sent again: it takes effect once.
   */
  async report(report: Report): Promise<Verdict> {
    return toVerdict(await this.ask("POST", "/v1/report", report, true));
  }

  private async decide(path: string, call: Call): Promise<Verdict> {
    try {
      return toVerdict(await this.ask("POST", path, call));
    } catch (error) {
      return this.without(error);
    }
  }

  /** The verdict on a call that the service did not decide. */
  private without(error: unknown): Verdict {
    if (!(error instanceof Unavailable)) throw error;
    const allowed = this.onError === "allow";
    return {
      allowed, rule: "", reason: "store_error", quality: allowed ? "open" : "closed", limit: 0, remaining: 0,
      retry_after_ms: 0, reset_after_ms: 0, delay_ms: 0, duplicate: false, limits: [], error: error.message,
    };
  }

  private async ask(method: string, path: string, body?: unknown, concluding = false): Promise<unknown> {
    let response: Response;
    let text: string;
    try {
      response = await fetch(this.base + path, {
        method, redirect: "manual", signal: AbortSignal.timeout(this.timeoutMs),
        headers: { Accept: "application/json", ...(body === undefined ? {} : { "Content-Type": "application/json" }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      text = await read(response);
    } catch (error) {
      if (error instanceof PenstockError) throw error;
      const cause = (error as Error).cause;
      throw new Unavailable(`${(error as Error).message}${cause instanceof Error ? `: ${cause.message}` : ""}`, { cause: error });
    }
    if (response.status === 200) return parse(text);
    throw refusal(response, text, concluding);
  }
}

async function read(response: Response): Promise<string> {
  if (!response.body) return "";
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const piece of response.body) {
    size += piece.byteLength;
    if (size > maxReply) throw new Unavailable(`the response has more than ${maxReply} bytes`);
    text += decoder.decode(piece, { stream: true });
  }
  return text + decoder.decode();
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Unavailable(`the response is not JSON: ${(error as Error).message}`);
  }
}

/** What an answer means that is not a verdict. Only a problem of the service's own blames the request. */
function refusal(response: Response, text: string, concluding: boolean): PenstockError {
  if (response.headers.get("content-type") !== "application/problem+json") return new Unavailable(`got status ${response.status}`);
  const problem = parse(text) as { detail?: string; title?: string; errors?: { at: string; message: string }[] };
  const detail = [problem.detail ?? problem.title, ...(problem.errors ?? []).map((e) => `${e.at}: ${e.message}`)].join("; ");
  if (response.status === 400 || response.status === 413) return new InvalidRequest(detail);
  if (concluding && response.status === 404) return new NoReservation(detail);
  if (concluding && response.status === 409) return new ReservationClosed(detail);
  return new Unavailable(`it answered ${response.status}: ${detail}`);
}

function toVerdict(data: unknown): Verdict {
  const verdict = data as Verdict;
  if (typeof verdict?.allowed !== "boolean" || !Array.isArray(verdict.limits)) throw new Unavailable("the answer is not a verdict");
  return verdict;
}

/** What the deny cache knows a call by; undefined: it is not cached. */
function cacheKey(call: Call): string | undefined {
  if (call.cost === 0 || call.id !== undefined || call.max_delay_ms) return undefined;
  const attributes = Object.entries(call.attributes).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify([call.domain ?? "default", call.cost ?? 1, attributes]);
}
