// Package live serves the rules of an [Origin] and follows its changes.
//
// [Follow] reads the origin at an interval and whenever the origin reports a change, compiles the text and swaps
// the snapshot. It rejects rules that do not compile and keeps the previous snapshot. A copy of the last good
// rules on disk lets a node start while its origin is unavailable.
//
// [Files] is the origin in the file system. The origins in a database and in Redis are internal/ruledb and
// internal/ruleredis.
package live
