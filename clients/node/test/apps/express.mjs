import express from "express";
import { Client, limit } from "penstock";

const app = express();
app.use(limit(new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" }, responseHeaders: ["X-Login"] }));
app.use((request, response) => {
  const told = request.get("X-Answer") ?? "200";
  (told === "failed" ? response.set("X-Login", told) : response.status(Number(told))).send("ok");
});
app.listen(process.env.PORT, "127.0.0.1");
