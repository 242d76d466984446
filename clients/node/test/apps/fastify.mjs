import Fastify from "fastify";
import { Client, fastifyLimit } from "penstock";

const fastify = Fastify();
fastifyLimit(fastify, new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" }, responseHeaders: ["X-Login"] });
fastify.get("/*", async (request, reply) => {
  const told = request.headers["x-answer"] ?? "200";
  if (told === "failed") reply.header("X-Login", told);
  else reply.code(Number(told));
  return "ok";
});
await fastify.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
