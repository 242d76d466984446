// Package rulediff compares rules: what changes for callers, and what was written.
//
// It is separate because the commands and the admin API show the same.
package rulediff
