// Package ruleredis distributes the rules through Redis or Valkey, so that a node needs no database to load
// them.
//
// The text is in one hash, pen:rules, with its version and its checksum, encoded by package rules.
// Publishing is one script that refuses to replace a newer version, so that a slow publisher does no harm,
// and then notifies the channel of the same name. Nodes listen there and also read the hash every interval,
// because a message may be missed.
//
// A publisher needs these permissions and no others:
//
//	ACL SETUSER publisher on >… resetkeys resetchannels ~pen:rules &pen:rules -@all +hello +ping +eval +hmget +hset +publish
//
// and a node that reads:
//
//	ACL SETUSER node on >… resetkeys resetchannels %R~pen:rules &pen:rules -@all +hello +ping +hmget +hstrlen +hget +subscribe +unsubscribe
//
// With Sentinel both also need +role; on a cluster, +cluster|slots +cluster|shards +role.
//
// It is a separate package because rules must not link a Redis client, and redisstore, which decides
// requests, has no use for rules.
package ruleredis
