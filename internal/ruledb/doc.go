// Package ruledb keeps the rules in a database: SQLite in one file, or PostgreSQL if several nodes share it.
//
// Every change is a version: author, time, message and the whole document. A saved version never changes; the
// database itself prevents it. Rolling back adds a new version with an old document. A change names the version
// it is based on. If that is no longer the current one, the change is rejected with a [Conflict] that shows what
// happened since. So two editors never overwrite each other, and a change whose outcome is unknown can simply be
// sent again: it is saved once.
//
// Save returns when the change is on disk. An acknowledged version survives a crash of the process or the
// server and, if the disk honours fsync, a power failure.
//
// It is a separate package because it is the only one that uses SQL. It does not parse the documents: they are
// compiled before they are saved.
package ruledb
