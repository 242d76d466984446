// Package faults breaks what Penstock depends on, under load, and counts what clients notice.
//
// It has only tests. They run the real program as several nodes with real Redis servers, alone, under Sentinel
// and in a Cluster, send requests on a fixed schedule (open loop), inject one fault in the middle, end it, and
// check every answer.
//
//	callers_test.go   the clients: some that must always be allowed, some that send far too much
//	load_test.go      the schedule
//	judge_test.go     lost, errors, false denials, too many admitted, latencies, exact again
//	holding_test.go   goroutines, files and memory of nodes
//	report_test.go    the table
//	node_test.go      a process of the program
//	engine_test.go    the same parts assembled in this process, for tests that sabotage one of them
//	proxy_test.go     a link that can be slow, silent, lossy, or reset
//	redis_test.go cluster_test.go sentinel_test.go around_test.go   the faults
//	faults_test.go    runs them
//	sabotage_test.go  faults that the suite must be able to detect
//
// The assertions hold on any machine: nothing lost, no errors, no client denied within its limit, no more
// admitted than the bound, exact in the end, and nothing left open. Latencies are printed and never asserted.
//
// A few faults always run. PENSTOCK_TEST_LONG=1 runs all, one after the other; PENSTOCK_TEST_FAULTS names a file
// for the table. make test-faults does both.
package faults
