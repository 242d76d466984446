package redisstore

// StateFormat is the version of the fixed-size states that this package reads and writes: the first byte of
// every value at a subject's key. Everything else a subject owns has its format in the key's letter.
//
// A value of another format is an error, wrapping [storage.ErrCorrupt], for the tickets that need it. The
// value is left unchanged, because a later Penstock may have written it. So a release with a new format
// must read both and, until its operator confirms that all nodes run that release, write this one.
// docs/how-to/upgrade.md promises that.
const StateFormat = 1
