// Package pgtest runs real PostgreSQL servers for tests and benchmarks. The promises of the rules database
// depend on what the server does, so nothing here imitates one.
//
// A server listens on a Unix socket in its own temporary directory, so there are no port conflicts and no
// access by others. It ends with the process that started it: by Close, or on Linux also when that process
// dies. PostgreSQL refuses to run as root, so root runs it as another user.
//
// It is a separate package because the tests of several packages use it, and the product must not.
package pgtest
