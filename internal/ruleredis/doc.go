// Package ruleredis carries the rules through Redis or Valkey, so that a node needs no database to learn them.
//
// The text is in one hash, pen:rules: its version, its checksum and itself, encoded by package rules. Publishing is one
// script that refuses to replace a newer version, so that a slow publisher does no harm, and then tells the channel of
// the same name. Nodes listen there, and read the hash every interval all the same: a message may be missed.
//
// A publisher needs these rights and no others:
//
//	ACL SETUSER publisher on >… resetkeys resetchannels ~pen:rules &pen:rules -@all +hello +ping +eval +hmget +hset +publish
//
// and a node that reads:
//
//	ACL SETUSER node on >… resetkeys resetchannels %R~pen:rules &pen:rules -@all +hello +ping +hmget +hstrlen +hget +subscribe +unsubscribe
//
// Behind Sentinel +role comes to both; on a cluster, +cluster|slots +cluster|shards +role.
//
// It is a package of its own because rules must not link a Redis client, and redisstore, which decides calls, has no
// use for rules.
package ruleredis
