// Package e2e tests the program that people run: the real binary in separate processes, with real Redis and
// PostgreSQL servers, over every API.
//
// Each test has nodes and servers of its own, so four tests run at a time. What must be alone is not parallel.
//
// It is separate because it belongs to no single part: each part has its own tests, and these cover only what
// appears when they are put together. It imports what clients import, and nothing of the server.
//
//	node_test.go      a process and how it is ended
//	upstream_test.go  the server behind gateways
//	doors_test.go     the APIs to ask it
//	exact_test.go     exactly the limit passes, wherever state lives
//	chat_test.go      what people try first: ab, one more, a double click
//	answer_test.go    headers and bodies byte for byte: testdata/*.txtar
//	shadow_test.go    rules in shadow mode
//	change_test.go    rules change under load
//	reserve_test.go   reservations and permits across nodes
//	leased_test.go    a stopping node returns its leases
//	upgrade_test.go   two versions on one Redis
//	drain_test.go     a rolling restart under load without errors
//	held_test.go      requests in flight for as long as a test wants
//	outage_test.go    a start without database and Redis, a stop under load
//	command_test.go   the command line against a running server
//
// PENSTOCK_TEST_LONG=1 repeats the exactness tests, with other algorithms too.
package e2e
