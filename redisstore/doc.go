// Package redisstore is a penstock.Store in Redis or Valkey: single server, Sentinel or Cluster.
//
// It is a separate package because only it talks to Redis. The scripts under lua/ mirror package algorithm
// and reach the same decisions to the last integer.
//
// The path of a ticket: [Store.Take] copies it into a call and puts the call into the lane of its slot (one
// lane for all where there are no slots). A lane has at most a few runs in flight. If it may start another,
// the call leaves at once with everything that is waiting, so a lone request does not wait. Otherwise the
// call leaves with the next run, together with everything that has arrived by then. A run is one EVALSHA
// that decides all its tickets, one after the other. It passes each limit once, and reads and writes each
// subject once. The script changes the state. The same Go code computes what a client is told (remaining,
// retry-after) from the returned states, for every store.
//
// A charge is never sent twice: if the reply was lost, it may have been taken.
package redisstore
