// Package race shows what happens when many clients use a shared limit at the same instant, for each of the usual
// ways of keeping a sliding-window log in Redis: check then add, add then count, transactions, locks, optimistic
// retries and scripts.
//
// Nothing is simulated. Several independent clients talk to a real server, each through a proxy that adds the
// configured network delay. A barrier releases them together, and their answers are counted.
//
// It is separate from the stores because it must not share their code: the ways under test are written command by
// command, as one would write them by hand, and a store is one more [Method] next to them.
package race
