import type { IncomingMessage, ServerResponse } from "node:http";
import { type Client, InvalidRequest } from "./client.js";
import { type Denial, denial, rateLimitHeaders, refusal } from "./response.js";
import type { Verdict } from "./types.gen.js";

export interface LimitOptions<Request = IncomingMessage> {
  /** Attributes that come from headers: {user: "x-user-id"}. A header that is sent twice is refused. */
  headers?: Record<string, string>;
  /** Further attributes; one of the same name replaces ours. */
  attributes?: (request: Request) => Record<string, string> | Promise<Record<string, string>>;
  cost?: number;
  domain?: string;
  /** How long a leaky bucket may hold a request; default 0. */
  maxDelayMs?: number;
  /** The response headers that rules read: they are reported, with status, duration and size, when the response is over. */
  responseHeaders?: string[];
}

type Incoming = IncomingMessage & { originalUrl?: string; ip?: string };

/**
 * Middleware for Express, and for plain http: limit(client)(request, response, next). The service is told path, method,
 * host and ip. The ip is the peer's, or Express's request.ip, which "trust proxy" makes the client's.
 */
export function limit(client: Client, options: LimitOptions<any> = {}) {
  return (request: Incoming, response: ServerResponse, next: (error?: unknown) => void): void => {
    admit(client, options, request, request, request.ip).then(async (outcome) => {
      if ("denied" in outcome) return answer(request, response, outcome.denied);
      for (const [name, value] of Object.entries(rateLimitHeaders(outcome.verdict))) response.setHeader(name, value);
      (request as { penstock?: Verdict }).penstock = outcome.verdict;
      const { reservation, delay_ms } = outcome.verdict;
      if (delay_ms > 0) await new Promise((resolve) => setTimeout(resolve, delay_ms));
      if (reservation) reportWhenOver(client, reservation, options.responseHeaders ?? [], request, response);
      if (!response.destroyed) next();
    }).catch(next);
  };
}

/** The parts of Fastify that the plugin uses. */
interface FastifyLike {
  addHook(name: "onRequest", hook: (request: any, reply: any) => Promise<unknown>): unknown;
}

/** A plugin for Fastify: fastifyLimit(fastify, client). Call it before routes are added. */
export function fastifyLimit(fastify: FastifyLike, client: Client, options: LimitOptions<any> = {}): void {
  fastify.addHook("onRequest", async (request, reply) => {
    const outcome = await admit(client, options, request.raw, request, request.ip);
    if ("denied" in outcome) {
      return reply.code(outcome.denied.status).headers(outcome.denied.headers).send(outcome.denied.body);
    }
    reply.headers(rateLimitHeaders(outcome.verdict));
    request.penstock = outcome.verdict;
    const { reservation, delay_ms } = outcome.verdict;
    if (delay_ms > 0) await new Promise((resolve) => setTimeout(resolve, delay_ms));
    if (reservation) reportWhenOver(client, reservation, options.responseHeaders ?? [], request.raw, reply.raw);
    return undefined;
  });
}

async function admit(
  client: Client, options: LimitOptions<any>, raw: Incoming, request: unknown, ip: string | undefined,
): Promise<{ verdict: Verdict } | { denied: Denial }> {
  try {
    const attributes = { ...describe(raw, options.headers ?? {}, ip), ...(await options.attributes?.(request)) };
    const verdict = await client.check({
      attributes, cost: options.cost ?? 1, domain: options.domain ?? "default", ...(options.maxDelayMs ? { max_delay_ms: options.maxDelayMs } : {}),
    });
    return verdict.allowed ? { verdict } : { denied: denial(verdict) };
  } catch (error) {
    if (error instanceof InvalidRequest) return { denied: refusal(error.message) };
    throw error;
  }
}

function describe(request: Incoming, headers: Record<string, string>, ip: string | undefined): Record<string, string> {
  const url = request.originalUrl ?? request.url ?? "/";
  const attributes: Record<string, string> = { path: url.replace(/[?#].*$/s, ""), method: request.method ?? "GET" };
  const address = ip ?? request.socket.remoteAddress;
  if (address) attributes["ip"] = address.replace(/^::ffff:(?=\d+\.)/, "");
  const host = request.headers.host;
  if (host) attributes["host"] = host.startsWith("[") ? host.slice(1).replace(/\].*$/, "") : host.replace(/:.*$/, "");
  for (const [attribute, name] of Object.entries(headers)) {
    const values = request.headersDistinct[name.toLowerCase()] ?? [];
    if (values.length > 1) throw new InvalidRequest(`header ${name} was sent ${values.length} times`);
    if (values[0] !== undefined) attributes[attribute] = values[0];
  }
  return attributes;
}

function answer(request: IncomingMessage, response: ServerResponse, denied: Denial): void {
  response.writeHead(denied.status, { ...denied.headers, "Content-Length": Buffer.byteLength(denied.body) });
  response.end(request.method === "HEAD" ? undefined : denied.body);
}

/**
 * Reports how the request ended, when it has. If that fails, the charge stays, and a permit expires by itself. If the client
 * disconnects before the response begins, it is not known how the request ended.
 */
function reportWhenOver(client: Client, reservation: string, names: string[], request: IncomingMessage, response: ServerResponse): void {
  const started = performance.now();
  let duration_ms = 0;
  let bytes = 0;
  let sent: Record<string, unknown> = {}; // by writeHead, which getHeader does not know of
  intercept(response, "writeHead", (_status, ...rest) => {
    duration_ms = Math.trunc(performance.now() - started);
    sent = headersOf(typeof rest[0] === "string" ? rest[1] : rest[0]);
  });
  const count = (chunk: unknown, encoding: unknown): void => {
    if (request.method === "HEAD") return;
    if (typeof chunk === "string") bytes += Buffer.byteLength(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
    else if (chunk instanceof Uint8Array) bytes += chunk.byteLength;
  };
  intercept(response, "write", count);
  intercept(response, "end", count);
  const report = (): void => {
    const values = names.map((name) => [name, first(sent[name.toLowerCase()] ?? response.getHeader(name))]);
    const headers = Object.fromEntries(values.filter(([, value]) => value !== ""));
    const outcome = response.headersSent ? { status: response.statusCode, headers, duration_ms, bytes } : {};
    client.report({ reservation, ...outcome }).catch(() => undefined);
  };
  if (response.destroyed) report();
  else response.once("close", report);
}

/** Calls see with the arguments of a method before the method itself. */
function intercept(response: any, name: "writeHead" | "write" | "end", see: (...args: unknown[]) => void): void {
  const original = response[name];
  response[name] = function (this: unknown, ...args: unknown[]) {
    see(...args);
    return original.apply(this, args);
  };
}

/** The headers that are given to writeHead, an object or an array of names and values, by their names in lower case. */
function headersOf(given: unknown): Record<string, unknown> {
  const all: Record<string, unknown> = {};
  const flat = Array.isArray(given) ? given.flat() : Object.entries(given ?? {}).flat(1);
  for (let i = 0; i + 1 < flat.length; i += 2) all[String(flat[i]).toLowerCase()] ??= flat[i + 1];
  return all;
}

/** The first value of a header; "" if there is none. */
function first(value: unknown): string {
  return String((Array.isArray(value) ? value[0] : value) ?? "");
}
