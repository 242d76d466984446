// Package gateway is a reverse proxy that asks the limiter before it forwards a request.
//
//	screen    refuse what no rule needs to see: bad paths, queries and headers, oversized bodies
//	limit     httplimit: decide, deny or hold
//	forward   send it to a healthy server of the route, and return the response
//
// The server gets exactly what the limiter saw: path, query and headers are first normalised, and forwarded in that
// form. Headers about a client's origin are trusted only if they come from trusted proxies.
//
// The package is separate from httplimit, which applications embed: they need no upstreams, health checks or
// certificates.
package gateway
