import Fastify from "fastify";
import { Client, fastifyLimit } from "penstock";

const fastify = Fastify();
fastifyLimit(fastify, new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" } });
fastify.get("/*", async () => "ok");
await fastify.listen({ port: Number(process.env.PORT), host: "127.0.0.1" });
