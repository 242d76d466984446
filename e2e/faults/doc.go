// Package faults breaks what Penstock stands on, under load, and counts what callers notice.
//
// It has only tests. They run the real program as several nodes beside real Redis servers, alone,
// under Sentinel and in a Cluster, send calls by a schedule that waits for nobody, inject one fault
// in the middle, end it, and judge every answer.
//
//	callers_test.go   who calls: some to whom every answer must be yes, some who ask for far too much
//	load_test.go      the schedule
//	judge_test.go     lost, errors, false denials, too many admitted, latencies, exact again
//	holding_test.go   goroutines, files and memory of nodes
//	report_test.go    the table
//	node_test.go      a process of the program
//	engine_test.go    the same parts put together in this process, for tests that spoil one of them
//	proxy_test.go     a link that can be slow, silent, lossy, or reset
//	redis_test.go cluster_test.go sentinel_test.go around_test.go   the faults
//	faults_test.go    runs them
//	sabotage_test.go  what the suite must be able to see
//
// What is asserted holds on any machine: nothing lost, no errors, nobody denied who is within the
// limit, no more admitted than the bound, exact in the end, and nothing left open. Latencies are printed and never
// asserted.
//
// A few faults run always. PENSTOCK_TEST_LONG=1 runs all, one after the other; PENSTOCK_TEST_FAULTS names
// a file for the table. make test-faults does both.
package faults
