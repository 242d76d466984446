const { createServer } = require("node:http");
const { Client, limit } = require("penstock");

const limited = limit(new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" } });
createServer((request, response) => limited(request, response, () => response.end("ok"))).listen(process.env.PORT, "127.0.0.1");
