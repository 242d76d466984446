// Package redistest runs real Redis (or Valkey) servers for tests and benchmarks: one server, a cluster, or
// a master with a replica under Sentinel. The promises of a limiter depend on what the server does, so
// nothing here imitates one.
//
// Servers listen on free loopback ports, keep their files in a temporary directory and save nothing. They
// end with the process that started them: by Close, or on Linux also when that process dies.
//
// It is a separate package, with no dependency beyond the standard library, because the tests of several
// packages and the benchmark commands use it, and the product must not.
package redistest
