// Package httplimit limits the requests to a [net/http.Handler].
//
//	http.ListenAndServe(":8080", httplimit.Limit(limiter, httplimit.ByIP())(handler))
//
// [Limit] is for a [penstock.Limiter], [New] for any [penstock.Decider]: an engine with rules, or a client
// of a remote Penstock.
//
// A [Reader] converts HTTP requests, a [Writer] tells clients what was decided, and a [Limiter] is the
// middleware that uses both. The gateway and the decision API use the same two: no other code writes
// rate-limit headers or the bodies of denials.
//
// It is separate from the engine so that an application that asks a remote Penstock does not link the rules:
// it imports only the root package and the standard library.
package httplimit
