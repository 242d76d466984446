// Package httplimit puts a [penstock.Decider] before an [net/http.Handler].
//
// A [Reader] makes calls of requests, a [Writer] tells clients what was decided, and a [Limiter]
// is the middleware of both. The gateway and the decision API read and write with the same two:
// nobody else writes rate-limit headers or the bodies of denials.
//
// It is separate from the engine so that an application that asks a remote Penstock links no rules:
// it imports the root package and the standard library.
package httplimit
