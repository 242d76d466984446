// Compiled, not run: what users write has types.
import { Client, limit, type Verdict } from "penstock";

const client = new Client("http://penstock:8090", { onError: "deny" });
export const verdict: Promise<Verdict> = client.check({ attributes: { user: "u1" }, cost: 2 });
export const middleware = limit(client, { headers: { user: "x-user-id" } });
// @ts-expect-error: a cost is a number
export const wrong = client.check({ attributes: {}, cost: "2" });
