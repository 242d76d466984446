// One copy of the code serves both kinds of modules, so that classes are the same in both.
export { Client, DenyCache, InvalidRequest, NoReservation, PenstockError, ReservationClosed, Unavailable, denial, fastifyLimit, limit, rateLimitHeaders } from "./dist/index.js";
