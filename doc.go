// Package penstock limits rates. [New] returns a [Limiter]: limits, a store, and a key to count by.
//
//	limiter, err := penstock.New(store, penstock.PerMinute(100))
//	d, err := limiter.Allow(ctx, userID) // d.Allowed, d.Remaining, d.RetryAfter
//
// Packages httplimit and grpclimit put a limiter before handlers. Package memstore keeps counters in this
// process, redisstore in Redis.
//
// A [Decider] answers whole requests, a [Concluder] closes what they reserved. A Limiter is both; so are
// the engine, which decides by rules, and clients of a remote Penstock.
//
// The package reads no clock and does no I/O. Package storage is the contract of stores, and package
// algorithm the arithmetic they decide with.
package penstock
