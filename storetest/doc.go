// Package storetest is the contract of a [penstock.Store] as a suite: what every store has to do,
// wherever its state lives. It is separate so that a store written elsewhere is held to the same
// contract by one line:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//
// A store has to be [Able]: to settle, ban, reset, inspect and charge late beside deciding. A [Suite] that is
// Plain asks for decisions only. The parts, each also a method of Suite:
//
//	Scenarios     stories with their expected numbers, in testdata/*.scenario
//	Edges         misuse: invalid input, ended contexts, hostile keys and ids, the largest ticket
//	Invariants    what each algorithm promises about any trace, judged by other arithmetic
//	Guards        the same of bans, repeats, reservations, leases and overdrafts
//	Promise       retry-after and reset-after are kept, to the microsecond
//	Exactly       of many callers at once exactly as many pass as the limit allows
//	Linearizable  what concurrent callers were told fits some order of their calls
//	Expiry        a counter whose limit is lowered is not forgotten before that limit allows
//	Twin          random traces, every field of every answer the same as the [Model]'s
//
// A failure of a random part names its seed. These environment variables steer the size:
//
//	PENSTOCK_TEST_SEED        repeat a run, or try another (the default is always the same)
//	PENSTOCK_TEST_TWIN_STEPS  how many steps Twin plays
//	PENSTOCK_TEST_LONG=1      the sizes of a release: a hundred times the default, new seeds
//
// # Scenarios
//
// A scenario is a text file of one subject. Comments start with #. First come the limits, all in
// one group, then those that are groups of their own:
//
//	limit <algorithm> <count>/<window or period> [burst N] [queue N] [refill interval]
//	      [count_denied] [overdraft N] [zone <name>] [ordinal N]
//	alone limit ...
//
// and the guards of the first group, each of which may be given anew later:
//
//	penalty after 3 within 10m bans 1m,5m,1h forgive 1d
//	dedup ttl 5m replays 1 budget 1/60s [beside <algorithm>]
//	reserve 10m
//
// then calls, at offsets from a day on which windows of 1 to 10 days start, or at RFC 3339 times,
// in any order, as clocks step:
//
//	at 59s: 5 calls pass
//	at 60s: 1 call of 3 denied, retry after 60s, remaining 0
//	at 2024-03-31T00:00:00+01:00: 1 call passes, reset after 23h
//	at 1d: peek passes, used 0
//	at 0s: 1 call queueing passes, delay 15s
//
// Between count and verdict may stand "of N" (the cost), "overdrawing" (the cost must be recorded),
// "waiting up to <duration>" or "queueing" (for any time) for leaky buckets, "with nonce N" for
// leases and reservations, and "with id <word>" for repeats. All calls of a line have the same
// verdict; expectations are about the last of them: "retry after", "retry never", "reset after",
// "used", "remaining", "delay", and with several limits "limit 2 used 3", "limit 2 passes",
// "limit 2 denies". Retry-after without a limit is the longest of them all. Of the guards one
// expects "banned for <duration>", "not banned", "strikes N", "bans N", "repeated" and "not
// repeated". Between calls "limit changes to ..." or "limit 2 changes to ..." gives a limit other
// numbers.
//
// Around the calls,
//
//	at 5s: settle nonce 7 of 3 overage debt passes, used 3
//	at 5s: release nonce 7 again
//	at 5s: renew nonce 7 for 10m passes
//	at 5s: ban for 1h
//	at 5s: lift
//	at 5s: reset
//	at 5s: charge late 3 of 0s, 1 of 4s with nonce 9
//
// A settlement "passes", is done "again" in vain, is "denied" for its overage, or its reservation is
// "closed" in another way or "unknown". Without "overage" it is to be denied. What is charged late was
// admitted at those instants, in that order, under every limit, by a node that could not ask.
package storetest
