// Package redisstore is a penstock.Store in Redis or Valkey: single, behind Sentinel, or Cluster.
//
// It is separate because it alone speaks to Redis. The scripts under lua/ are the twins of the
// root package's algorithms, file by file, and decide to the last integer what those decide.
//
// The path of a ticket: [Store.Take] copies it into a call and puts the call into the lane of
// its slot (one lane for all where there are no slots). A lane has a few runs in flight at most.
// If one is free, it leaves at once with what is waiting, and a lone caller waits for nobody;
// if none is, the call leaves with the next run, together with everything that arrived
// meanwhile. A run is one EVALSHA that decides all its tickets, one after the other, with each
// limit passed and each subject read and written once. The script moves the state; what a
// client is told (remaining, retry-after) is worked out from the states it returns, by the same
// Go code for every store.
//
// A charge is never sent twice: where the reply was lost, it may have been taken.
package redisstore
