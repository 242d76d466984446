package redisstore

// StateFormat is the version of the fixed-size states that this package reads and writes: the first byte
// of every value at a subject's key. What else a subject owns has its format in the key's letter.
//
// A value of another format is an error for the tickets that need it, which wraps
// [penstock.ErrCorrupt], and is left as it is: a later Penstock may have written it. So a release that
// brings a new format must read both and, until its operator says that all nodes are of that release,
// write this one. docs/upgrade.md promises that.
const StateFormat = 1
