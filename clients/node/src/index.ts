export { Client, InvalidRequest, NoReservation, type Options, PenstockError, ReservationClosed, Unavailable } from "./client.js";
export { DenyCache } from "./denycache.js";
export { fastifyLimit, limit, type LimitOptions } from "./middleware.js";
export { type Denial, denial, rateLimitHeaders } from "./response.js";
export type { Call, Limit, Report, Verdict } from "./types.gen.js";
