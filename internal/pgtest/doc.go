// Package pgtest runs real PostgreSQL servers for tests and benchmarks. What the rules database promises depends on
// what the server does, so nothing here imitates one.
//
// A server listens on a Unix socket in a temporary directory of its own: there is no port to fight over, and nobody
// else may enter. It ends with whoever started it: by Close, or on Linux also when the starting process dies.
// PostgreSQL refuses to run as root, so root runs it as another user.
//
// It is a package of its own because several packages' tests use it, and the product must not.
package pgtest
