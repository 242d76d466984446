// Package latency measures how long a call waits for a decision on Redis when calls arrive on a
// schedule, and what a slower network makes of one round trip and of four.
//
// It is separate from package redis because its load is an open one: the next call does not wait
// for the last, so a server that stalls is seen by all the calls it keeps waiting, not by one.
package latency
