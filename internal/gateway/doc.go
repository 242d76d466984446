// Package gateway is Penstock in front of servers: a reverse proxy that asks before it forwards.
//
//	screen    what no rule needs to see: bad paths, queries and headers, bodies too large
//	limit     httplimit: decide, deny or hold
//	forward   to a server of the route that works, and its answer back
//
// What the limiter saw is what the server gets: path, query and headers are brought into their one
// form first, and forwarded in that form. What a client says about where it comes from is believed
// from trusted proxies only.
//
// It is separate from httplimit, which applications embed: they need no upstreams, health checks or
// certificates.
package gateway
