// Package ruledb keeps the rules in a database: SQLite in one file, or PostgreSQL where several nodes share it.
//
// Every change is a version: author, time, message and the whole document. A version, once saved, never changes; the
// database itself refuses. Going back is a new version with an old document. A change names the version it was made
// from, and is refused with a [Conflict] that shows what happened since if that is no longer the current one. So two
// editors never overwrite each other, and a change whose fate is unknown may simply be sent again: it is saved once.
//
// Save returns when the change is on disk: an acknowledged version survives the end of the process, of the server and,
// as far as the disk is honest, of the power.
//
// It is a package of its own because it is the only one that speaks SQL. It does not look into the documents: whether
// they compile is asked before they are saved.
package ruledb
