// Package race shows what happens when many callers ask a shared limit at the
// same instant, for each of the usual ways of keeping a sliding-window log in
// Redis: check then add, add then count, transactions, locks, optimistic
// retries and scripts.
//
// Nothing is simulated. Several independent clients talk to a real server,
// each through a proxy that makes the network as slow as asked; callers are
// released by a barrier, and what each was told is counted.
//
// It is separate from the stores because it must not share their code: the
// ways under test are written out command by command, as one would write them
// by hand, and a store joins as one more [Way] next to them.
package race
