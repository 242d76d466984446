// Package penstock limits rates. [New] returns a [Limiter]: limits, a store, and a key to count by.
//
//	limiter, err := penstock.New(store, penstock.PerMinute(100))
//	d, err := limiter.Allow(ctx, userID) // d.Allowed, d.Remaining, d.RetryAfter
//
// Packages httplimit and grpclimit put a limiter before handlers. Package memstore keeps counters in this
// process, redisstore in Redis.
//
// The rest of the package says what a rate-limit decision is, for stores, engines and whoever writes one:
// limits, instants, subjects, tickets, decisions, and the algorithms as pure integer code.
//
// It reads no clock and does no I/O; where state lives is the business of a [Store] (packages
// memstore and redisstore), and both decide with the code of this package or its Lua twin.
//
// The path of a call through this package:
//
//	Limit  --Compile-->  Meter            what an operator wrote, checked and frozen
//	Ticket{Groups{Subject, Charges}}      what one call asks
//	Store.Take(ctx, ticket, &outcome)     decided atomically, together or not at all
//	Outcome{Groups, Decisions}            what happened, with numbers a client can act on
//
// All arithmetic is on integers below 2^53, because Redis' Lua knows only doubles and both twins
// must agree to the last integer.
package penstock
