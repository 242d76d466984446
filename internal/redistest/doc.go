// Package redistest runs real Redis (or Valkey) servers for tests and benchmarks: one server, a cluster, or a master
// with a replica under Sentinel. What a limiter promises depends on what the server does, so nothing here imitates one.
//
// Servers listen on free loopback ports, keep their files in a temporary directory, save nothing, and end with
// whoever started them: by Close, or on Linux also when the starting process dies.
//
// It is a package of its own, with no dependency beyond the standard library, because several packages' tests and the
// benchmark commands use it, and the product must not.
package redistest
