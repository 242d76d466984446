// Package storage is the contract between Penstock and the stores that keep its counters.
//
//	Ticket{Groups{Subject, Charges}}      what one request asks
//	Store.Take(ctx, ticket, &outcome)     decided atomically, together or not at all
//	Outcome{Groups, Decisions}            what happened, with numbers a client can act on
//
// What a store can do beside deciding is said by further small interfaces: [Settler], [Banner],
// [Resetter], [Inspector], [Lister], [BatchStore], [LateCharger], [Follower]. Package storetest is the
// contract as a suite, package algorithm the arithmetic that stores decide with.
package storage
