// Package storage is the contract between Penstock and the stores that keep its counters.
//
//	Ticket{Groups{Subject, Charges}}      what one request asks
//	Store.Take(ctx, ticket, &outcome)     decided atomically, together or not at all
//	Outcome{Groups, Decisions}            what happened, with numbers a client can act on
//
// Optional abilities of a store are separate small interfaces: [Settler], [Banner], [Resetter], [Inspector],
// [Lister], [BatchStore], [LateCharger], [Follower]. Package storetest is the contract as a test suite, and
// package algorithm is the arithmetic that stores decide with.
package storage
