// Package e2e tests the program that people run: the real binary in processes of its own, with real
// Redis and PostgreSQL servers beside it, asked at every door.
//
// It is separate as it belongs to no part: each has tests of its own, and here is only what shows
// when they are put together. It imports what clients import, and nothing of the server.
//
//	node_test.go      a process and how it is ended
//	upstream_test.go  the server behind gateways
//	doors_test.go     the ways to ask it
//	exact_test.go     exactly the limit passes, wherever state lives
//	chat_test.go      what people try first: ab, one more, a double click
//	answer_test.go    headers and bodies byte for byte: testdata/*.txtar
//	shadow_test.go    rules that are only tried
//	change_test.go    rules change under load
//	reserve_test.go   reservations and leases across nodes
//	leased_test.go    permits that were taken ahead are given back at the end
//	upgrade_test.go   two versions on one Redis
//	drain_test.go     a rolling restart under load that nobody notices
//	held_test.go      calls that are under way for as long as a test wants
//	outage_test.go    a start without database and Redis, an end under load
//	command_test.go   the command line against a running server
//
// PENSTOCK_TEST_LONG=1 repeats the exactness tests, with other algorithms too.
package e2e
