// Package trafficdb keeps the counts of requests by rule and minute for two days, in the rules database or in the
// node's own file, so that operators can see what happened last night.
//
// A node writes each minute once it is over, in the background. While the database fails, minutes wait in memory for
// up to an hour; decisions never wait. Nothing that is written names a client.
package trafficdb
