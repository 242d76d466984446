// Package live serves the rules of an [Origin] and follows its changes.
//
// [Follow] reads the origin at an interval and whenever the origin reports a change, compiles what it reads and
// swaps the snapshot. Rules that do not compile are refused: the snapshot before them stays. A copy of the last good
// rules on disk lets a node start while its origin is unavailable.
//
// [Files] is the origin in the file system. Those in a database and in Redis are internal/ruledb and
// internal/ruleredis.
package live
