import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createServer } from "node:http";
import { once } from "node:events";
import test from "node:test";
import * as penstock from "penstock";
import { responses } from "./conformance.mjs";

test("both kinds of modules have the same names and classes", () => {
  const common = createRequire(import.meta.url)("penstock");
  assert.deepEqual(Object.keys(common).sort(), Object.keys(penstock).sort());
  assert.equal(common.Client, penstock.Client);
});

for (const { name, verdict, status, headers, body } of responses()) {
  test(`response: ${name}`, () => {
    if (verdict.allowed) {
      assert.deepEqual(penstock.rateLimitHeaders(verdict), headers);
      return;
    }
    const got = penstock.denial(verdict);
    assert.equal(got.status, status);
    assert.deepEqual(got.headers, headers);
    assert.equal(got.body, `${JSON.stringify(body)}\n`);
  });
}

const denied = (fields) => ({ allowed: false, reason: "over_limit", quality: "exact", retry_after_ms: 3000, limits: [], ...fields });

test("the deny cache honours retry_after, and forgets", () => {
  let now = 1000;
  const cache = new penstock.DenyCache(2, 5000, () => now);
  cache.put("k", denied());
  now += 1000;
  assert.equal(cache.get("k").retry_after_ms, 2000);
  now += 2000;
  assert.equal(cache.get("k"), undefined);
  for (const retry_after_ms of [60_000, null]) {
    cache.put("k", denied({ retry_after_ms }));
    assert.ok(cache.get("k"));
    now += 5000;
    assert.equal(cache.get("k"), undefined);
  }
  const concurrency = { algorithm: "concurrency", allowed: false };
  for (const verdict of [{ ...denied(), allowed: true }, denied({ reason: "store_error" }), denied({ quality: "local" }), denied({ limits: [concurrency] })]) {
    cache.put("k", verdict);
    assert.equal(cache.get("k"), undefined);
  }
  for (const key of ["a", "b", "c"]) cache.put(key, denied());
  assert.deepEqual(["a", "b", "c"].map((key) => cache.get(key) !== undefined), [false, true, true]);
});

async function serve(t, handler) {
  const server = createServer(handler).listen(0, "127.0.0.1");
  t.after(() => server.closeAllConnections() ?? server.close());
  await once(server, "listening");
  return `http://127.0.0.1:${server.address().port}`;
}

test("without an answer the policy decides, and nothing is sent twice", async (t) => {
  let requests = 0;
  const answers = {
    page: (_, response) => response.end("hi"),
    other: (_, response) => response.end("{}"),
    moved: (_, response) => response.writeHead(307, { Location: "/elsewhere" }).end(),
    silent: () => {},
    down: (_, response) => response.writeHead(503).end(),
    reset: (request) => request.socket.destroy(),
  };
  for (const [name, answer] of Object.entries(answers)) {
    const url = await serve(t, (request, response) => { requests++; answer(request, response); });
    for (const onError of ["allow", "deny"]) {
      requests = 0;
      const client = new penstock.Client(url, { timeoutMs: name === "silent" ? 200 : 30_000, onError });
      const verdict = await client.check({ attributes: {} });
      assert.equal(verdict.allowed, onError === "allow", name);
      assert.equal(verdict.reason, "store_error");
      assert.ok(verdict.error);
      assert.equal(requests, 1, name);
      assert.deepEqual((await client.checkBatch([{ attributes: {} }, { attributes: {} }])).map((v) => v.allowed), [onError === "allow", onError === "allow"]);
      await assert.rejects(client.settle("r", 1), penstock.Unavailable);
      await assert.rejects(client.report({ reservation: "r", status: 200 }), penstock.Unavailable);
    }
  }
});

test("the middleware reports how a request ended", async (t) => {
  const answers = {
    "set": [(_, response) => { response.setHeader("X-Login", ["failed", "again"]).statusCode = 401; response.end("no"); }, { status: 401, headers: { "X-Login": "failed" }, bytes: 2 }],
    "writeHead": [(_, response) => { response.writeHead(401, { "x-login": "failed" }); response.write("é"); response.end(Buffer.from("!")); }, { status: 401, headers: { "X-Login": "failed" }, bytes: 3 }],
    "writeHead with a reason": [(_, response) => response.writeHead(403, "No", ["X-Login", "failed"]).end(), { status: 403, headers: { "X-Login": "failed" }, bytes: 0 }],
    "implicit": [(_, response) => response.end("ok"), { status: 200, headers: {}, bytes: 2 }],
    "gone": [(request) => request.socket.destroy(), {}],
  };
  for (const [name, [handler, want]] of Object.entries(answers)) {
    let reported;
    const over = new Promise((resolve) => { reported = resolve; });
    const client = {
      check: async () => ({ allowed: true, reservation: "r", delay_ms: 0, limits: [] }),
      report: async (report) => reported(report),
    };
    const limited = penstock.limit(client, { responseHeaders: ["X-Login"] });
    const url = await serve(t, (request, response) => limited(request, response, () => handler(request, response)));
    await fetch(url).then((response) => response.text(), () => undefined);
    const { duration_ms, ...report } = await over;
    assert.deepEqual(report, { reservation: "r", ...want }, name);
    assert.equal(typeof duration_ms, name === "gone" ? "undefined" : "number", name);
  }
});

test("settings are checked", () => {
  for (const url of ["penstock:8090", "ftp://penstock", "nothing", "http://penstock/?x=1"]) assert.throws(() => new penstock.Client(url), TypeError);
  assert.throws(() => new penstock.Client(undefined, { timeoutMs: 0 }), RangeError);
  assert.throws(() => new penstock.Client(undefined, { onError: "ignore" }), RangeError);
});
