// Package survive tries to take the server down, or past its limits, from outside: too many
// clients, dead upstreams, SIGTERM under load, smuggled requests, forged headers, odd paths, slow
// clients, and garbage.
//
// It has only tests. They run the real program on free ports, before real upstreams, and look at it
// as an attacker and an operator do: over the network, and in /proc. It is separate from the tests
// of the gateway, which see inside, and runs on Linux only.
//
// PENSTOCK_LONG=1 makes the random corpora twenty times as large.
package survive
