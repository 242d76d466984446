// Package storetest is the contract of a [penstock.Store] as a test suite: what every store must do,
// wherever its state lives. It is a separate package so that a store written elsewhere can be held to the
// same contract with one line:
//
//	func TestContract(t *testing.T) { storetest.Run(t, open) }
//
// A store must be [CompleteStore]: besides deciding, it must settle, ban, reset, inspect and charge late. A [Suite]
// that is Plain needs decisions only. The parts, each also a method of Suite:
//
//	Scenarios     examples with their expected numbers, in testdata/*.scenario
//	Edges         misuse: invalid input, ended contexts, hostile keys and ids, the largest ticket
//	Invariants    what each algorithm promises about any trace, checked by independent arithmetic
//	Guards        the same for bans, duplicates, reservations, permits and overdrafts
//	Promise       retry-after and reset-after are exact, to the microsecond
//	Exactly       of many concurrent clients, exactly as many pass as the limit allows
//	Linearizable  the answers to concurrent clients fit some order of their requests
//	Expiry        a counter whose limit is lowered is not forgotten before that limit allows
//	Twin          random traces, every field of every answer the same as the [Model]'s
//
// A failure of a random part names its seed. These environment variables control the size:
//
//	PENSTOCK_TEST_SEED        repeat a run, or try another (the default is always the same)
//	PENSTOCK_TEST_TWIN_STEPS  how many steps Twin plays
//	PENSTOCK_TEST_LONG=1      the sizes of a release: at least a hundred times the default, new seeds
//
// # Scenarios
//
// A scenario is a text file about one subject. Comments start with #. First come the limits that form one
// group, then those that are groups of their own:
//
//	limit <algorithm> <count>/<window or period> [burst N] [queue N] [refill interval]
//	      [count_denied] [overdraft N] [zone <name>] [ordinal N]
//	alone limit ...
//
// and the guards of the first group, each of which may be replaced later:
//
//	penalty after 3 within 10m bans 1m,5m,1h forgive 1d
//	dedup ttl 5m replays 1 budget 1/60s [beside <algorithm>]
//	reserve 10m
//
// then requests, at offsets from a day on which windows of 1 to 10 days start, or at RFC 3339 times. They
// may be in any order, because clocks step:
//
//	at 59s: 5 calls pass
//	at 60s: 1 call of 3 denied, retry after 60s, remaining 0
//	at 2024-03-31T00:00:00+01:00: 1 call passes, reset after 23h
//	at 1d: peek passes, used 0
//	at 0s: 1 call queueing passes, delay 15s
//
// Between count and verdict there may be "of N" (the cost), "overdrawing" (the cost must be recorded),
// "waiting up to <duration>" or "queueing" (for any time) for leaky buckets, "with nonce N" for permits and
// reservations, and "with id <word>" for duplicates. All requests of a line have the same verdict.
// Expectations apply to the last of them: "retry after", "retry never", "reset after", "used", "remaining",
// "delay", and with several limits "limit 2 used 3", "limit 2 passes", "limit 2 denies". Retry-after
// without a limit is the longest of all. The expectations for guards are "banned for <duration>", "not
// banned", "strikes N", "bans N", "repeated" and "not repeated". Between requests, "limit changes to ..."
// or "limit 2 changes to ..." gives a limit other numbers.
//
// Other operations:
//
//	at 5s: settle nonce 7 of 3 overage debt passes, used 3
//	at 5s: release nonce 7 again
//	at 5s: renew nonce 7 for 10m passes
//	at 5s: ban for 1h
//	at 5s: lift
//	at 5s: reset
//	at 5s: charge late 3 of 0s, 1 of 4s with nonce 9
//
// A settlement "passes", is repeated "again" without effect, or is "denied" for its overage; or its
// reservation is "closed" with other costs or "unknown". Without "overage", an overage is denied. A late
// charge was admitted at those instants, in that order, under every limit, by a node that could not reach
// the store.
package storetest
