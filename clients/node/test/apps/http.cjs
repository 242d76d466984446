const { createServer } = require("node:http");
const { Client, limit } = require("penstock");

const limited = limit(new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" }, responseHeaders: ["X-Login"] });
const answer = (request, response) => {
  const told = request.headers["x-answer"] ?? "200";
  if (told === "failed") response.setHeader("X-Login", told);
  else response.statusCode = Number(told);
  response.end("ok");
};
createServer((request, response) => limited(request, response, () => answer(request, response))).listen(process.env.PORT, "127.0.0.1");
