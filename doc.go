// Package penstock is a rate limiter. [New] returns a [Limiter] that counts by key in a store.
//
//	limiter, err := penstock.New(store, penstock.PerMinute(100))
//	d, err := limiter.Allow(ctx, userID) // d.Allowed, d.Remaining, d.RetryAfter
//
// Packages httplimit and grpclimit put a limiter in front of handlers. Package memstore keeps counters in
// this process, redisstore in Redis.
//
// A [Decider] decides whole requests, a [Concluder] closes what they reserved. A Limiter is both. So are the
// engine, which decides by rules, and clients of a remote Penstock.
//
// The package reads no clock and does no I/O. Package storage is the contract for stores, and package
// algorithm is the arithmetic they decide with.
package penstock
