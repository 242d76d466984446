import express from "express";
import { Client, limit } from "penstock";

const app = express();
app.use(limit(new Client(process.env.SERVICE_URL, { timeoutMs: 60_000, onError: "deny" }), { headers: { user: "X-User" } }));
app.use((_, response) => response.send("ok"));
app.listen(process.env.PORT, "127.0.0.1");
