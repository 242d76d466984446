// Package survive tries to take the server down, or past its limits, from outside: too many clients, dead
// upstreams, SIGTERM under load, smuggled requests, forged headers and tokens, odd paths, slow clients, floods of
// HTTP/2 frames, held requests, hostile JSON, admin routes without the role, poisoned state in Redis, and
// garbage.
//
// It has only tests. They run the real program on free ports, in front of real upstreams, and observe it as an
// attacker and an operator do: over the network, and in /proc. It is separate from the tests of the gateway,
// which see its internals, and runs on Linux only.
//
// An attack has failed if the process lives, serves others, stays within its memory, and counts exactly.
// PENSTOCK_TEST_LONG=1 makes the random corpora twenty times as large, and pairs everything that is otherwise
// paired in part.
package survive
