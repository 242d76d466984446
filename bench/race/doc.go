// Package race shows what happens when many clients use a shared limit at the same instant, for each of the usual
// ways of keeping a sliding-window log in Redis: check then add, add then count, transactions, locks, optimistic
// retries and scripts.
//
// Nothing is simulated. Several independent clients talk to a real server, each through a proxy that adds a network
// delay. A barrier releases them together, and their answers are counted.
package race
